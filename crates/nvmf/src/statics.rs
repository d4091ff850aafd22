//! Static controllers: IDs that a host asks for by number and finds again (base 2.0, 3.1.1 and 6.3).
//!
//! Owns: which host has which static ID, and where its controller lives while it is connected.
//! Invariants: an ID belongs to one host and subsystem until another needs it and no other is free; a controller that is connected is never
//! taken from its host.
//! Never: is looked at on the path of an I/O.

use crate::connect_request::{ConnectRequest, Refusal, busy, wrong_cntlid};
use crate::options::ControllerIds;
use format::nvme::fabrics::CNTLID_STATIC;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Who has an ID.
#[derive(Debug)]
struct Owner {
    subsystem: String,
    host_nqn: String,
    host_id: [u8; 16],
    /// The core of its admin queue, while it is connected.
    home: Option<usize>,
    /// When it was used last, as a count of connects.
    used: u64,
}

#[derive(Debug, Default)]
struct Book {
    owners: BTreeMap<u16, Owner>,
    connects: u64,
}

/// The static controllers of a server.
#[derive(Debug)]
pub(crate) struct Statics {
    ids: ControllerIds,
    book: Mutex<Book>,
}

impl Owner {
    fn is_of(&self, connect: &ConnectRequest) -> bool {
        self.subsystem == connect.subsystem && self.host_nqn == connect.host_nqn && self.host_id == connect.host_id
    }
}

impl Statics {
    pub(crate) fn new(ids: ControllerIds) -> Self {
        Self { ids, book: Mutex::default() }
    }
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The core of the controller with this ID, while it is connected.
    pub(crate) fn home(&self, cntlid: u16) -> Option<usize> {
        self.book().owners.get(&cntlid)?.home
    }
    /// Takes an ID for a controller whose admin queue is on `core`: the one that was asked for, or for FFFEh the one that the host had
    /// before, else one that is free.
    pub(crate) fn take(&self, connect: &ConnectRequest, core: usize) -> Result<u16, Refusal> {
        let book = &mut *self.book();
        let id = if connect.cntlid == CNTLID_STATIC { self.any(book, connect) } else { self.named(book, connect) }?;
        book.connects += 1;
        let owner = Owner {
            subsystem: connect.subsystem.clone(),
            host_nqn: connect.host_nqn.clone(),
            host_id: connect.host_id,
            home: Some(core),
            used: book.connects,
        };
        book.owners.insert(id, owner);
        Ok(id)
    }
    fn named(&self, book: &Book, connect: &ConnectRequest) -> Result<u16, Refusal> {
        if !self.ids.is_static(connect.cntlid) {
            return Err(wrong_cntlid());
        }
        match book.owners.get(&connect.cntlid) {
            None => Ok(connect.cntlid),
            Some(owner) if !owner.is_of(connect) => Err(wrong_cntlid()),
            Some(owner) if owner.home.is_some() => Err(busy("the static controller is connected")),
            Some(_) => Ok(connect.cntlid),
        }
    }
    fn any(&self, book: &Book, connect: &ConnectRequest) -> Result<u16, Refusal> {
        if self.ids.statics == 0 {
            return Err(wrong_cntlid());
        }
        let unused = || book.owners.iter().filter(|(_, o)| o.home.is_none());
        let mine = unused().filter(|(_, o)| o.is_of(connect)).max_by_key(|(_, o)| o.used).map(|(id, _)| *id);
        let free = || (self.ids.last_dynamic() + 1..=self.ids.last).find(|id| !book.owners.contains_key(id));
        let oldest = || unused().min_by_key(|(_, o)| o.used).map(|(id, _)| *id);
        mine.or_else(free).or_else(oldest).ok_or_else(|| busy("all static controllers are connected"))
    }
    /// The controller has ended; its host finds the ID again.
    pub(crate) fn release(&self, cntlid: u16) {
        if let Some(owner) = self.book().owners.get_mut(&cntlid) {
            owner.home = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::nvme::StatusCode;
    use format::nvme::fabrics::Connect;

    fn connect(cntlid: u16, host: &str) -> ConnectRequest {
        let connect = Connect { recfmt: 0, qid: 0, sqsize: 31, cattr: 0, kato_ms: 0 };
        ConnectRequest { connect, cntlid, host_id: [1; 16], host_nqn: host.into(), subsystem: "s".into() }
    }
    fn code(r: Result<u16, Refusal>) -> (StatusCode, bool) {
        let status = r.unwrap_err().status;
        (status.code, status.dnr)
    }

    #[test]
    fn a_host_finds_its_controller_again_and_nobody_else_gets_it_while_there_are_others() {
        let s = Statics::new(ControllerIds::new(1, 128, 2).unwrap());
        let a = s.take(&connect(CNTLID_STATIC, "a"), 3).unwrap();
        assert_eq!((a, s.home(a)), (127, Some(3)));
        assert_eq!(code(s.take(&connect(127, "a"), 0)), (StatusCode::CONNECT_CONTROLLER_BUSY, false), "it is connected");
        assert_eq!(code(s.take(&connect(127, "b"), 0)), (StatusCode::CONNECT_INVALID_PARAMETERS, true), "it is another host's");
        assert_eq!(code(s.take(&connect(126, "b"), 0)), (StatusCode::CONNECT_INVALID_PARAMETERS, true), "it is dynamic");
        s.release(127);
        assert_eq!(s.home(127), None);
        assert_eq!(s.take(&connect(CNTLID_STATIC, "b"), 0), Ok(128));
        assert_eq!(s.take(&connect(CNTLID_STATIC, "a"), 0), Ok(127));
        assert_eq!(code(s.take(&connect(CNTLID_STATIC, "c"), 0)), (StatusCode::CONNECT_CONTROLLER_BUSY, false), "none is left");
        s.release(128);
        assert_eq!(s.take(&connect(CNTLID_STATIC, "c"), 0), Ok(128), "the one that was left longest ago");
        assert_eq!(code(s.take(&connect(128, "b"), 0)).0, StatusCode::CONNECT_INVALID_PARAMETERS);
    }

    #[test]
    fn without_static_ids_only_dynamic_controllers_can_be_asked_for() {
        let s = Statics::new(ControllerIds::new(1, 128, 0).unwrap());
        for cntlid in [CNTLID_STATIC, 1, 128] {
            assert_eq!(code(s.take(&connect(cntlid, "a"), 0)), (StatusCode::CONNECT_INVALID_PARAMETERS, true));
        }
    }
}
