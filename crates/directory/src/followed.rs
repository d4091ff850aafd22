//! A copy of the directory, brought up to date by a watch.
//!
//! Owns: [`Followed`].
//! Invariant: a watch that has lost its place begins anew from a snapshot.
//! Never: takes what its user wrote for what is there: that comes back through the watch.

use crate::{Directory, DirectoryError, Revision, View, Watch};
use base::hooks::{self, SeededFault};
use std::time::{Duration, Instant};

/// How often a watch is begun anew for one look at the records.
const WATCHES_MAX: u32 = 3;
/// How long a watch may lag before a snapshot is taken in its place.
const LAG_MAX: Duration = Duration::from_secs(2);

/// The copy, and the watch behind it. `T`: a time of the user's clock.
pub struct Followed<T = Instant> {
    view: View,
    watch: Option<Box<dyn Watch>>,
    /// When it was as the directory was.
    as_of: Option<T>,
}

impl<T> Default for Followed<T> {
    fn default() -> Self {
        Self { view: View::default(), watch: None, as_of: None }
    }
}

impl<T: Copy + Ord> Followed<T> {
    /// The copy.
    pub const fn view(&self) -> &View {
        &self.view
    }
    /// When it was last as the directory was; `None`: never.
    pub const fn as_of(&self) -> Option<T> {
        self.as_of
    }

    /// Brings it up to what the directory is now.
    pub fn look(&mut self, directory: &(impl Directory + ?Sized), now: T) -> Result<(), DirectoryError> {
        let upto = directory.revision()?;
        self.reaches(directory, upto, now)
    }
    /// Brings it up to what the directory was at `now`, or after: up to `upto`, which it has answered.
    pub fn reaches(&mut self, directory: &(impl Directory + ?Sized), upto: Revision, now: T) -> Result<(), DirectoryError> {
        self.catch_up(directory, upto)?;
        self.as_of = Some(self.as_of.map_or(now, |as_of| as_of.max(now)));
        Ok(())
    }

    /// Brings it up to `upto`, at least.
    fn catch_up(&mut self, directory: &(impl Directory + ?Sized), upto: Revision) -> Result<(), DirectoryError> {
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
