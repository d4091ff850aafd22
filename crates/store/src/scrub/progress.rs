//! How far a pass of scrubbing has come.
//!
//! Owns: [`Scrub`]. Never: reads anything.

/// What is known of the pass.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scrub {
    pub running: bool,
    /// 0..=1.
    pub progress: f64,
    /// The block of the log that is being read.
    pub reads: Option<u32>,
}
