//! The corpus, replayed: what fuzzers found interesting or wrong once is tried in every build. Needs no fuzzer.

use fuzz::TARGETS;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Files and bytes of the corpus of one target, and bytes of all.
const FILES_MAX: usize = 200;
const BYTES_MAX: u64 = 200 << 10;
const ALL_BYTES_MAX: u64 = 2 << 20;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn names(path: &Path, ending: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    entries.filter_map(|e| e.expect("a folder's entry").file_name().to_str().and_then(|n| n.strip_suffix(ending)).map(Into::into)).collect()
}

#[test]
fn every_target_has_a_program_and_a_corpus() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).into()).collect();
    assert_eq!(targets.len(), TARGETS.len(), "no name twice");
    assert_eq!(names(&folder("fuzz_targets"), ".rs"), targets);
    assert_eq!(names(&folder("corpus"), ""), targets);
    let manifest = fs::read_to_string(folder("Cargo.toml")).expect("the manifest");
    assert_eq!(manifest.matches("[[bin]]").count(), targets.len());
    for name in &targets {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
    }
}

#[test]
fn the_corpus_is_small() {
    let mut all = 0;
    for (name, _) in TARGETS {
        let dir = folder("corpus").join(name);
        let sizes: Vec<u64> =
            names(&dir, "").iter().map(|f| fs::metadata(dir.join(f)).unwrap_or_else(|e| panic!("{name}/{f}: {e}")).len()).collect();
        let bytes: u64 = sizes.iter().sum();
        assert!(!sizes.is_empty() && sizes.len() <= FILES_MAX && bytes <= BYTES_MAX, "{name}: {} files, {bytes} bytes", sizes.len());
        all += bytes;
    }
    assert!(all <= ALL_BYTES_MAX, "{all} bytes in all");
}

#[test]
fn every_input_of_the_corpus_still_holds() {
    for (name, run) in TARGETS {
        let dir = folder("corpus").join(name);
        run(&[]);
        for file in names(&dir, "") {
            // Shown when it fails: which input it was.
            println!("{name}/{file}");
            run(&fs::read(dir.join(&file)).unwrap_or_else(|e| panic!("{name}/{file}: {e}")));
        }
    }
}
