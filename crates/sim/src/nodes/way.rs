//! A node's way to the directory: it can be cut, in either direction, whatever the directory does.
//!
//! ```text
//!  Open                the directory answers, as its own faults let it
//!  Nothing arrives     reads are refused; a transaction never happens, and nobody says so
//!  No answer comes     reads are refused; a transaction happens, and nobody says so
//!  Left behind         as if nothing arrived, until the node starts anew: the directory was restored, and the node goes on
//! ```
//!
//! Owns: [`Way`]. Invariant: what did not get through is never answered as if it had, nor as if it had not. Never: changes what the directory does.

use directory::modelled::Modelled;
use directory::{Changes, Directory, DirectoryError, Entry, Key, Kind, Nonce, Revision, SessionId, Snapshot, Transaction, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::time::Duration;

/// What gets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// All.
    All,
    /// What the directory says gets lost.
    Requests,
    /// Nothing reaches it.
    Nothing,
}

/// See the module.
#[derive(Clone)]
pub struct Way {
    directory: Modelled,
    through: Arc<AtomicU8>,
    left_behind: Arc<AtomicBool>,
}

impl Way {
    /// One through which all gets.
    pub fn to(directory: Modelled) -> Way {
        Way { directory, through: Arc::default(), left_behind: Arc::default() }
    }
    /// What gets through from now on.
    pub fn set(&self, through: Through) {
        self.through.store(through as u8, Relaxed);
    }
    /// The node goes on while the directory is restored, or begins a life with the one that there is.
    pub fn leave_behind(&self, left: bool) {
        self.left_behind.store(left, Relaxed);
    }
    /// Whether the node is from before the directory was restored.
    pub fn is_left_behind(&self) -> bool {
        self.left_behind.load(Relaxed)
    }
    fn through(&self) -> Through {
        match self.through.load(Relaxed) {
            _ if self.is_left_behind() => Through::Nothing,
            0 => Through::All,
            1 => Through::Requests,
            _ => Through::Nothing,
        }
    }
    fn ask<T>(&self, what: impl FnOnce(&Modelled) -> Result<T, DirectoryError>) -> Result<T, DirectoryError> {
        match self.through() {
            Through::All => what(&self.directory),
            Through::Requests => what(&self.directory).and(Err(DirectoryError::Unavailable)),
            Through::Nothing => Err(DirectoryError::Unavailable),
        }
    }
}

impl Directory for Way {
    fn get(&self, key: &Key) -> Result<Option<Entry>, DirectoryError> {
        self.ask(|d| d.get(key))
    }
    fn list(&self, kind: Kind) -> Result<Vec<Entry>, DirectoryError> {
        self.ask(|d| d.list(kind))
    }
    fn snapshot(&self) -> Result<Snapshot, DirectoryError> {
        self.ask(Modelled::snapshot)
    }
    fn watch(&self, after: Revision) -> Result<Box<dyn Watch>, DirectoryError> {
        let of = self.ask(|d| d.watch(after))?;
        Ok(Box::new(WatchOnWay { of, way: self.clone() }))
    }
    fn commit(&self, transaction: &Transaction) -> Result<Revision, DirectoryError> {
        match self.through() {
            Through::All => return self.directory.commit(transaction),
            Through::Requests => drop(self.directory.commit(transaction)),
            Through::Nothing => transaction.check()?,
        }
        Err(DirectoryError::Unknown { cause: "the way to the directory is cut".into() })
    }
    fn outcome(&self, nonce: Nonce) -> Result<Option<Revision>, DirectoryError> {
        self.ask(|d| d.outcome(nonce))
    }
    fn revision(&self) -> Result<Revision, DirectoryError> {
        self.ask(Modelled::revision)
    }
    fn open_session(&self, ttl: Duration) -> Result<SessionId, DirectoryError> {
        self.ask(|d| d.open_session(ttl))
    }
    fn keep_alive(&self, session: SessionId) -> Result<(), DirectoryError> {
        self.ask(|d| d.keep_alive(session))
    }
    fn end_session(&self, session: SessionId) -> Result<(), DirectoryError> {
        self.ask(|d| d.end_session(session))
    }
    fn store(&self) -> Result<u64, DirectoryError> {
        self.ask(Modelled::store)
    }
    fn cluster(&self) -> base::ClusterId {
        self.directory.cluster()
    }
}

struct WatchOnWay {
    of: Box<dyn Watch>,
    way: Way,
}

impl Watch for WatchOnWay {
    fn poll(&mut self) -> Result<Option<Changes>, DirectoryError> {
        if self.way.through() == Through::All { self.of.poll() } else { Err(DirectoryError::Unavailable) }
    }
    fn wait(&mut self, _: Duration) -> Result<Option<Changes>, DirectoryError> {
        self.poll()
    }
    fn revision(&self) -> Revision {
        self.of.revision()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::record::NodeRecord;
    use directory::Typed;
    use directory::modelled::Faults;

    #[test]
    fn what_did_not_get_through_is_not_known() {
        let directory = Modelled::new(1, base::ClusterId::from_bytes([1; 16]), Faults::NONE);
        let way = Way::to(directory.clone());
        let add = |name: &str| way.commit(&Transaction::new().create(&NodeRecord::new(name.into(), "d".into(), 0)));
        let is_there = |name: &str| directory.find::<NodeRecord>(name).unwrap().is_some();
        let mut watch = way.watch(Revision(0)).unwrap();
        add("a").unwrap();
        assert!(watch.poll().unwrap().is_some());
        for (through, happens) in [(Through::Requests, true), (Through::Nothing, false)] {
            way.set(through);
            let name = format!("{through:?}");
            assert!(matches!(add(&name), Err(DirectoryError::Unknown { .. })));
            assert!(matches!(way.revision(), Err(DirectoryError::Unavailable)) && watch.poll().is_err());
            assert_eq!(is_there(&name), happens);
        }
        way.set(Through::All);
        assert!(way.find::<NodeRecord>("a").unwrap().is_some());
    }
}
