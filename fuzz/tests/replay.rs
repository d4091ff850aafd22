//! The corpus, replayed: what fuzzers found interesting or wrong once is tried in every build. Needs no fuzzer.
//!
//! The corpus of a target is one archive, `corpus/TARGET.tar.zst`, which the system's `tar` and `zstd` unpack into the build folder.
//! An archive that cannot be unpacked fails the test.

use fuzz::TARGETS;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files and bytes of the corpus of one target, unpacked, and bytes of all.
const FILES_MAX: usize = 200;
const BYTES_MAX: u64 = 200 << 10;
const ALL_BYTES_MAX: u64 = 2 << 20;
/// Bytes of all archives.
const ARCHIVES_BYTES_MAX: u64 = 256 << 10;
const ENDING: &str = ".tar.zst";

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn archive(target: &str) -> PathBuf {
    folder("corpus").join(format!("{target}{ENDING}"))
}

fn names(path: &Path, ending: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    entries.filter_map(|e| e.expect("a folder's entry").file_name().to_str().and_then(|n| n.strip_suffix(ending)).map(Into::into)).collect()
}

/// What `tar` says of an archive; fails the test when it cannot do it.
fn tar(target: &str, what: &[&str]) -> String {
    let file = archive(target);
    let done = Command::new("tar").env("LC_ALL", "C").env("TZ", "UTC").arg("--zstd").arg("-f").arg(&file).args(what).output();
    let done = done.unwrap_or_else(|e| panic!("tar cannot be run ({e}): scripts/setup test installs what is needed"));
    let (file, why) = (file.display(), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{file} cannot be unpacked (scripts/setup test installs tar and zstd): {why}");
    String::from_utf8(done.stdout).expect("names are ASCII")
}

/// Unpacks the corpus of a target into a folder of its own, which goes with the value.
fn unpack(target: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the build folder takes a folder");
    tar(target, &["-x", "-C", dir.path().to_str().expect("a path in UTF-8")]);
    dir
}

#[test]
fn every_target_has_a_program_and_a_corpus() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).into()).collect();
    assert_eq!(targets.len(), TARGETS.len(), "no name twice");
    assert_eq!(names(&folder("fuzz_targets"), ".rs"), targets);
    assert_eq!(names(&folder("corpus"), ENDING), targets);
    assert_eq!(names(&folder("corpus"), "").len(), targets.len(), "inputs are kept in archives only: scripts/fuzz add");
    let manifest = fs::read_to_string(folder("Cargo.toml")).expect("the manifest");
    assert_eq!(manifest.matches("[[bin]]").count(), targets.len());
    for name in &targets {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
    }
}

#[test]
fn the_corpus_is_small() {
    let (mut all, mut packed) = (0, 0);
    for (name, _) in TARGETS {
        let dir = unpack(name);
        let size = |f: &String| fs::metadata(dir.path().join(f)).unwrap_or_else(|e| panic!("{name}/{f}: {e}")).len();
        let sizes: Vec<u64> = names(dir.path(), "").iter().map(size).collect();
        let bytes: u64 = sizes.iter().sum();
        assert!(!sizes.is_empty() && sizes.len() <= FILES_MAX && bytes <= BYTES_MAX, "{name}: {} files, {bytes} bytes", sizes.len());
        all += bytes;
        packed += fs::metadata(archive(name)).expect("an archive").len();
    }
    assert!(all <= ALL_BYTES_MAX, "{all} bytes in all");
    assert!(packed <= ARCHIVES_BYTES_MAX, "{packed} bytes of archives");
}

/// The same inputs give the same archive, so that a change of it shows a change of the corpus.
#[test]
fn archives_hold_nothing_of_who_made_them() {
    for (name, _) in TARGETS {
        let mut files = Vec::new();
        for line in tar(name, &["-tv", "--numeric-owner"]).lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [mode, owner, _, date, time, file] = words[..] else { panic!("{name}: {line}") };
            assert_eq!((mode, owner, date, time), ("-rw-r--r--", "0/0", "1970-01-01", "00:00"), "{name}: {line}");
            files.push(file.to_owned());
        }
        assert!(files.is_sorted(), "{name}: files in another order than that of their names");
    }
}

#[test]
fn every_input_of_the_corpus_still_holds() {
    for (name, run) in TARGETS {
        let dir = unpack(name);
        run(&[]);
        for file in names(dir.path(), "") {
            // Shown when it fails: which input it was (scripts/fuzz unpack).
            println!("{name}/{file}");
            run(&fs::read(dir.path().join(&file)).unwrap_or_else(|e| panic!("{name}/{file}: {e}")));
        }
    }
}
