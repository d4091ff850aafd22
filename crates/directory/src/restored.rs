//! A directory that was made from a backup: that is noticed, and its objects are marked, before anything is done by what they say.
//!
//! Owns: [`note_store`]. Invariants: the record of the store is that of the store that answers only when all objects are marked; who is slower than others
//! marks nothing that was marked before. Never: says which copies are right (`cluster::confirmed`).

use crate::record::{ObjectRecord, StoreRecord};
use crate::{Directory, DirectoryError, Revision, TRANSACTION_CHANGES_MAX, Transaction, Typed, change};
use base::hooks::{self, SeededFault};

/// Objects that are marked with one change.
const MARKED_AT_ONCE: usize = TRANSACTION_CHANGES_MAX / 2;

/// Before anything else at each start of a node: if the store of the directory is another one than its records say, they came from a backup. Says how many
/// objects were marked. `commit` commits, and finds out what became of a lost answer ([`crate::commit_known`]).
pub fn note_store(
    directory: &(impl Directory + ?Sized),
    mut commit: impl FnMut(Transaction) -> Result<Revision, DirectoryError>,
) -> Result<usize, DirectoryError> {
    let number = directory.store()?;
    let (now, mut marked) = (StoreRecord::of(number), 0);
    while number != 0 && !hooks::seeded(SeededFault::RestoreUnnoticed) {
        let decide = || {
            let Some(mut known) = directory.find::<StoreRecord>(StoreRecord::ID)? else {
                return Ok((Transaction::new().create(&now), 0));
            };
            if known.value == now {
                return Ok((Transaction::new(), 0));
            }
            let mut objects = directory.all::<ObjectRecord>()?;
            objects.retain_mut(|object| cluster::mark_restored(&mut object.value));
            objects.truncate(MARKED_AT_ONCE);
            if objects.is_empty() {
                known.value = now.clone();
                return Ok((Transaction::new().update(&known), 0));
            }
            let marks = objects.iter().fold(Transaction::new().expect(&known), Transaction::update);
            Ok((marks, objects.len()))
        };
        let (_, count) = change(decide, &mut commit)?;
        marked += count;
        if count == 0 {
            break;
        }
    }
    Ok(marked)
}

#[cfg(test)]
#[path = "restored_tests.rs"]
mod tests;
