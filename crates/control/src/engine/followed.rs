//! A copy of the directory, brought up to date by a watch.
//!
//! Invariant: a watch that has lost its place begins anew from a snapshot.
//! Never: takes what this node wrote for what is there: that comes back through the watch.

use base::hooks::{self, SeededFault};
use directory::{Directory, DirectoryError, Revision, View, Watch};
use std::time::{Duration, Instant};

/// How often a watch is begun anew for one look at the records.
const WATCHES_MAX: u32 = 3;
/// How long a watch may lag before a snapshot is taken in its place.
const LAG_MAX: Duration = Duration::from_secs(2);

/// The copy, and the watch behind it.
#[derive(Default)]
pub(super) struct Followed {
    pub(super) view: View,
    watch: Option<Box<dyn Watch>>,
    /// When it was as the directory was.
    as_of: Option<Instant>,
}

impl Followed {
    /// When it was last as the directory was; `None`: never.
    pub(super) fn as_of(&self) -> Option<Instant> {
        self.as_of
    }

    /// Brings it up to what the directory is now.
    pub(super) fn look(&mut self, directory: &dyn Directory) -> Result<(), DirectoryError> {
        let (asked, upto) = (Instant::now(), directory.revision()?);
        self.catch_up(directory, upto)?;
        self.as_of = Some(asked);
        Ok(())
    }

    /// Brings it up to `upto`, at least.
    fn catch_up(&mut self, directory: &dyn Directory, upto: Revision) -> Result<(), DirectoryError> {
        for _ in 0..WATCHES_MAX {
            if self.watch.is_none() {
                self.view = View::new(directory.snapshot()?);
                self.watch = Some(directory.watch(self.view.revision())?);
            }
            while let Some(watch) = self.watch.as_mut() {
                if self.view.revision() >= upto {
                    return Ok(());
                }
                match watch.wait(LAG_MAX) {
                    Ok(Some(changes)) => self.view.apply(changes),
                    Err(error) if error.ends_everything() => return Err(error),
                    Err(_) if hooks::seeded(SeededFault::WatchGapMissed) => {
                        self.view.skip_to(upto);
                        self.watch = Some(directory.watch(upto)?);
                    }
                    Ok(None) | Err(_) => self.watch = None,
                }
            }
        }
        Err(DirectoryError::Unavailable)
    }
}

#[cfg(test)]
#[path = "followed_tests.rs"]
mod tests;
