//! Places that would not do are refused before anything is made there; nothing is left behind, whatever happens.

use super::*;
use crate::study::cache_tier::tests::Quiet;
use lab::workload::{Access, Skew};
use std::cell::Cell;

fn names(dir: &Path) -> Vec<String> {
    fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

/// Beside this test's program: a place for temporary files may be in memory.
fn on_a_drive() -> tempfile::TempDir {
    tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap()
}

fn real(dir: &Path) -> Real {
    Real { dir: dir.into(), bytes: 1 << 30 }
}

#[test]
fn a_place_that_is_no_directory_in_memory_or_full_is_refused_untouched() {
    let dir = on_a_drive();
    let says = |real: Real, bytes| real.check(bytes).unwrap_err().to_string();
    assert!(says(real(&dir.path().join("nowhere")), 1).contains("existing directory"));
    let file = dir.path().join("file");
    fs::write(&file, "mine").unwrap();
    assert!(says(real(&file), 1).contains("not a directory"));
    let error = says(real(dir.path()), u64::MAX / 2);
    assert!(error.contains("are free") && error.contains("--size"), "{error}");
    if Path::new("/dev/shm").is_dir() {
        assert!(says(real(Path::new("/dev/shm")), 1).contains("in memory"));
    }
    assert_eq!((names(dir.path()), fs::read(&file).unwrap()), (vec!["file".to_owned()], b"mine".to_vec()));
}

/// Follows until it was asked so often whether to stop.
struct Until(Cell<u32>);
impl Watch for Until {
    fn second(&mut self, _: &Second) {}
    fn progress(&mut self, _: &str, _: u64, _: u64) {}
    fn stopped(&self) -> bool {
        self.0.set(self.0.get().saturating_sub(1));
        self.0.get() == 0
    }
}
impl Follow for Until {
    fn folder(&mut self, _: &lab::results::folder::Folder) {}
    fn begins(&mut self, _: &str) {}
    fn case(&mut self, _: &Measured) -> Result<(), LabError> {
        Ok(())
    }
}

#[test]
fn two_cuts_are_filled_and_measured_without_a_name_in_the_directory() {
    let dir = on_a_drive();
    fs::write(dir.path().join("file"), "mine").unwrap();
    let sizes = Sizes { cache: 128 << 20, capacity: 256 << 20, volumes: 2, volume: 16 << 20 };
    let cuts = [Cut { groups: 1, capacity: 1, shards: 2 }, Cut { groups: 2, capacity: 2, shards: 1 }];
    let mut site = Site::start(&real(dir.path()), &cuts, sizes).unwrap();
    assert_eq!(names(dir.path()), ["file"], "files have lost their names and their directory is gone");
    let load = Workload::simple("mixed", 4096, 0.5, Access::Random { skew: Skew::Uniform }, 2);
    let job = Job { workload: load.clone(), warm_up: Duration::from_millis(20), measure: Duration::from_millis(200), seed: 1 };
    for fixture in 0..cuts.len() {
        site.prepare(fixture, &load, &mut Quiet).unwrap();
        let measured = site.visit(fixture, std::slice::from_ref(&job), &mut Quiet).unwrap().remove(0);
        assert!(measured.reads.operations > 0 && measured.writes.operations > 0 && measured.total().errors == 0);
        assert!(site.figures().unwrap().0 <= EMPTY_FILL, "the write buffer is empty after a visit");
    }
    let [destaged, ..] = site.figures().unwrap().1;
    assert!(destaged >= 3 * (16 << 20), "{destaged} bytes: volumes of both were moved to capacity");
    let stopped = site.visit(0, std::slice::from_ref(&job), &mut Until(Cell::new(1)));
    assert!(matches!(stopped, Err(LabError::Stopped)));
    drop(site);
    assert_eq!(names(dir.path()), ["file"]);
}
