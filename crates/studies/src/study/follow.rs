//! Whoever follows a study.

use lab::LabError;
use lab::engine::Watch;
use lab::results::Measured;
use lab::results::folder::Folder;

/// Whoever follows a study.
pub trait Follow: Watch {
    /// The folder is made.
    fn folder(&mut self, folder: &Folder);
    /// Something begins, in words.
    fn begins(&mut self, what: &str);
    /// A case has been measured.
    fn case(&mut self, measured: &Measured) -> Result<(), LabError>;
}
