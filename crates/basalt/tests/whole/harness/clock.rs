//! A clock of a program's own, which can be stepped: what it takes for the time of day, not what it measures time with.
//!
//! By libfaketime, which a program that is linked dynamically finds its clock in.
//!
//! Never: changes the machine's clock.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program's file says how far its clock is off.
pub struct OwnClock {
    library: PathBuf,
    file: PathBuf,
}

impl OwnClock {
    /// `None` where there is no libfaketime, which is printed.
    pub fn at(file: PathBuf) -> Option<Self> {
        let folders = fs::read_dir("/usr/lib").ok()?.filter_map(Result::ok);
        let library = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1")).find(|library| library.exists());
        if library.is_none() {
            println!("no libfaketime here: no clock is stepped");
        }
        let clock = Self { library: library?, file };
        clock.is_off_by(0);
        Some(clock)
    }
    /// Gives it to a program that is about to start.
    pub fn give(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("FAKETIME_TIMESTAMP_FILE", &self.file);
        command.envs([("FAKETIME_CACHE_DURATION", "1"), ("DONT_FAKE_MONOTONIC", "1"), ("FAKETIME_DONT_RESET", "1"), ("NO_FAKE_STAT", "1")]);
    }
    /// Steps it, to so many seconds before or after the true time. Noticed within a second.
    pub fn is_off_by(&self, seconds: i64) {
        // At once: a program never reads half of it.
        let next = self.file.with_extension("next");
        fs::write(&next, format!("{seconds:+}\n")).and_then(|()| fs::rename(&next, Path::new(&self.file))).expect("it is written");
    }
}
