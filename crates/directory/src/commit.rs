//! Committing when answers can be lost, and deciding again when somebody else was faster.
//!
//! ```text
//!  Attempt:  Fresh ──unknown──► InDoubt ──nonce found──► done
//!              │                  │  ▲
//!              │ answered         │  └─ the same transaction again: its nonce makes that harmless
//!              ▼                  ▼
//!            done        too many attempts: Unknown
//! ```
//!
//! Invariants: an unknown outcome is never taken for a failure: either the nonce is found, or the same transaction is tried again until the
//! directory has said what became of it; the number of attempts is bounded.
//! Never: waits by itself: the caller says how.

use crate::{Directory, DirectoryError, Nonce, Revision, Transaction};
use base::hooks::{self, SeededFault};

/// How often a transaction whose outcome is not known is tried again and looked for.
pub const UNKNOWN_ATTEMPTS_MAX: u32 = 16;
/// How often a change is decided on anew because somebody else was faster.
pub const CONFLICT_ATTEMPTS_MAX: u32 = 8;

/// One transaction on its way. For callers that cannot wait: call [`Attempt::step`] until it gives a result.
#[derive(Debug)]
pub struct Attempt {
    transaction: Transaction,
    nonce: Nonce,
    in_doubt: bool,
    tried: u32,
}

impl Attempt {
    /// Of a transaction; `nonce` must be new.
    pub fn new(transaction: Transaction, nonce: Nonce) -> Self {
        Self { transaction: transaction.with_nonce(nonce), nonce, in_doubt: false, tried: 0 }
    }

    /// Tries once. `None`: not known yet, call again, later.
    pub fn step(&mut self, directory: &(impl Directory + ?Sized)) -> Option<Result<Revision, DirectoryError>> {
        self.tried += 1;
        if self.in_doubt && hooks::seeded(SeededFault::NonceForgotten) {
            self.transaction.nonce = None;
        } else if self.in_doubt
            && let Ok(Some(revision)) = directory.outcome(self.nonce)
        {
            return Some(Ok(revision));
        }
        match directory.commit(&self.transaction) {
            Err(DirectoryError::Unknown { .. }) if hooks::seeded(SeededFault::UnknownTakenForFailure) => {
                Some(Err(DirectoryError::Unavailable))
            }
            Err(DirectoryError::Unknown { cause }) => self.doubt(cause),
            // What came before may have happened, so that this one could not be tried says nothing of it.
            Err(error @ (DirectoryError::Unavailable | DirectoryError::Storage { .. }))
                if self.in_doubt && !hooks::seeded(SeededFault::DoubtForgotten) =>
            {
                self.doubt(error.to_string())
            }
            known => Some(known),
        }
    }

    fn doubt(&mut self, cause: String) -> Option<Result<Revision, DirectoryError>> {
        self.in_doubt = true;
        (self.tried >= UNKNOWN_ATTEMPTS_MAX).then_some(Err(DirectoryError::Unknown { cause }))
    }
}

/// Commits a transaction, and finds out what became of it when its answer is lost. `pause` waits between attempts; it gets their number.
///
/// Errors: [`DirectoryError::Unknown`] only after [`UNKNOWN_ATTEMPTS_MAX`] attempts: nothing may depend on it either way.
pub fn commit_known(
    directory: &(impl Directory + ?Sized),
    transaction: Transaction,
    nonce: Nonce,
    mut pause: impl FnMut(u32),
) -> Result<Revision, DirectoryError> {
    let mut attempt = Attempt::new(transaction, nonce);
    loop {
        match attempt.step(directory) {
            Some(result) => return result,
            None => pause(attempt.tried),
        }
    }
}

/// Reads, decides and commits, and does all of it again when somebody else was faster, at most [`CONFLICT_ATTEMPTS_MAX`] times.
pub fn change<T, E: From<DirectoryError>>(
    mut decide: impl FnMut() -> Result<(Transaction, T), E>,
    mut commit: impl FnMut(Transaction) -> Result<Revision, DirectoryError>,
) -> Result<(Revision, T), E> {
    let mut tried = 1;
    loop {
        let (transaction, value) = decide()?;
        match commit(transaction) {
            Ok(revision) => return Ok((revision, value)),
            Err(DirectoryError::Conflict { .. }) if tried < CONFLICT_ATTEMPTS_MAX => tried += 1,
            Err(error) => return Err(error.into()),
        }
    }
}
