//! What can be wrong with what somebody wants measured, in words of an administrator.

use std::path::PathBuf;

/// Why the lab did not do something. Nothing was harmed, unless the text says so.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A workload, profile or job that makes no sense; says where and why.
    #[error("{place}: {problem}")]
    Workload {
        /// File and key, or profile and key.
        place: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A disk that must not or cannot be used.
    #[error("{disk}: {problem}")]
    Disk {
        /// As the user named it.
        disk: String,
        /// Why not, and what to do.
        problem: String,
    },
    /// An engine failed in mid-run; what was measured until then is kept.
    #[error("{engine}: {problem}")]
    Engine {
        /// Its name.
        engine: &'static str,
        /// What happened.
        problem: String,
    },
    /// A results folder or a file in it.
    #[error("{}: {problem}", path.display())]
    Results {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file that would be written is there already.
    #[error("{}: is there already and is not written over; name another file, or remove it", path.display())]
    Exists {
        /// Which.
        path: PathBuf,
    },
    /// What was read is not what was written; the run ended with it, and what was measured until then is kept.
    #[error("{engine}: {problem}")]
    WrongData {
        /// Name of the engine.
        engine: &'static str,
        /// Where, what was expected, what was found.
        problem: String,
    },
    /// Operations of a run failed; all that was measured is kept.
    #[error("{failed} operations failed, {ended} ended well; the verdict and the report say in which cases")]
    Failed {
        /// Operations that failed.
        failed: u64,
        /// Operations that ended well.
        ended: u64,
    },
    /// More operations failed than the user allows; what was measured until then is kept.
    #[error("{failed} operations failed, and at most {most} may (--errors-max){}{why}", if why.is_empty() { "" } else { ": " })]
    TooManyFailed {
        /// Operations that failed, warm-up included.
        failed: u64,
        /// Operations that may.
        most: u64,
        /// What is known of it; may be empty.
        why: String,
    },
    /// The user ended the run; what was measured until then is kept.
    #[error("stopped")]
    Stopped,
}
