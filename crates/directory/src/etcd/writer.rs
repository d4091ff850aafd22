//! The fence of a writer: what was sent and given up does not happen later.
//!
//! ```text
//!            unknown outcome                     written anew
//!  Clear ───────────────────► InDoubt ─────────────────────────► Clear (another revision)
//!    ▲ found moved, value ours  │ found moved, value of another      │
//!    └──────────────────────────┴──────────────► Superseded ◄────────┘
//! ```
//!
//! Invariants: each transaction compares the fence's revision; after an unknown outcome no transaction is sent before the fence has been written
//! anew: whatever was under way has happened by then, or never will.
//! Never: writes over the fence of another incarnation, but when the daemon starts.

use super::core::{Core, Until};
use super::layout::LAYOUT;
use super::request::{Fence, get, put, ranges};
use crate::DirectoryError;
use ::etcd::message::{Compare, CompareTarget, KeyValue, Target, TxnRequest};
use std::sync::Mutex;

/// One start of a daemon: 16 random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incarnation(pub [u8; 16]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FenceState {
    /// Nothing is under way that nobody waits for.
    Clear { revision: i64 },
    /// Something may be.
    InDoubt { revision: i64 },
    /// Another incarnation writes.
    Superseded,
}

/// See the head of this file.
pub(super) struct Writer {
    pub name: String,
    key: Vec<u8>,
    incarnation: Incarnation,
    state: Mutex<FenceState>,
    /// Held while the fence is written.
    renewing: tokio::sync::Mutex<()>,
}

fn value_is(key: Vec<u8>, value: Vec<u8>) -> Compare {
    Compare { result: 0, target: CompareTarget::Value.into(), key, with: Some(Target::Value(value)) }
}

impl Writer {
    pub fn new(name: String, key: Vec<u8>, incarnation: Incarnation) -> Self {
        let state = Mutex::new(FenceState::InDoubt { revision: 0 });
        Self { name, key, incarnation, state, renewing: tokio::sync::Mutex::new(()) }
    }
    fn state(&self) -> FenceState {
        *self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
    fn set(&self, state: FenceState) {
        *self.state.lock().unwrap_or_else(|e| e.into_inner()) = state;
    }

    /// The outcome of a transaction is not known.
    pub fn doubt(&self) {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        if let FenceState::Clear { revision } = *state {
            *state = FenceState::InDoubt { revision };
        }
    }

    /// What the next transaction goes under. Writes the fence anew where that is due.
    pub async fn fence(&self, core: &Core, until: Until) -> Result<Fence, DirectoryError> {
        let _one = self.renewing.lock().await;
        match self.state() {
            FenceState::Clear { revision } => Ok(Fence { key: self.key.clone(), revision }),
            FenceState::Superseded => Err(self.superseded()),
            FenceState::InDoubt { .. } => {
                let unchanged = value_is(self.key.clone(), self.incarnation.0.to_vec());
                self.write(core, vec![unchanged], until).await
            }
        }
    }

    /// The start of a daemon: takes over from the incarnation before.
    pub async fn take_over(&self, core: &Core, until: Until) -> Result<(), DirectoryError> {
        let there = value_is(core.layout.marker.clone(), LAYOUT.to_vec());
        self.write(core, vec![there], until).await.map(drop)
    }

    async fn write(&self, core: &Core, compare: Vec<Compare>, until: Until) -> Result<Fence, DirectoryError> {
        let request = TxnRequest {
            compare,
            success: vec![put(self.key.clone(), self.incarnation.0.to_vec(), 0)],
            failure: vec![get(self.key.clone())],
        };
        let before = core.seen_revision();
        // Writing the same again is harmless, so a lost answer is tried again: it stands at its latest revision.
        let answer = core.client.read(&request, until).await.map_err(|e| core.error_of_read(e))?;
        let revision = core.observe(before, answer.header.as_ref())?;
        if answer.succeeded {
            self.set(FenceState::Clear { revision });
            return Ok(Fence { key: self.key.clone(), revision });
        }
        let found = ranges(answer).next().and_then(|r| r.kvs.into_iter().next());
        Err(self.moved(core, found).err().unwrap_or(DirectoryError::Unavailable))
    }

    /// A transaction, or the fence's own, found the fence as it was not expected.
    pub fn moved(&self, core: &Core, found: Option<KeyValue>) -> Result<(), DirectoryError> {
        match found {
            None => Err(DirectoryError::Foreign { wanted: core.cluster, found: Vec::new() }),
            Some(kv) if kv.value != self.incarnation.0 => {
                self.set(FenceState::Superseded);
                Err(self.superseded())
            }
            Some(kv) => {
                // By another call of this daemon, or by a renewal whose answer was lost: whatever is in doubt stays so.
                let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
                match &mut *state {
                    FenceState::Clear { revision } | FenceState::InDoubt { revision } => *revision = (*revision).max(kv.mod_revision),
                    FenceState::Superseded => {}
                }
                Ok(())
            }
        }
    }

    fn superseded(&self) -> DirectoryError {
        DirectoryError::Superseded { writer: self.name.clone() }
    }
}
