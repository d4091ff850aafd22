//! Deliberate bugs, to prove that the tests would find them. Owns: the list. Never: does anything outside of tests.

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// The tail moves on without a checkpoint (breaks I2).
    EarlyTail,
    /// Batches are acknowledged while they are still in the volatile cache of the device.
    VolatileBatch,
    /// Recovery takes the last batch without looking at its data.
    TornBatchTaken,
    /// Recovery does not replay trims (breaks I4).
    ForgottenTrim,
    /// Recovery does not replay what was declared uncorrectable.
    ForgottenMark,
}

#[cfg(test)]
thread_local! {
    pub(crate) static PLANTED: core::cell::Cell<Option<Bug>> = const { core::cell::Cell::new(None) };
}

/// Whether this bug is planted.
#[cfg(test)]
pub(crate) fn is(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}
/// Never.
#[cfg(not(test))]
#[inline]
pub(crate) const fn is(_: Bug) -> bool {
    false
}
