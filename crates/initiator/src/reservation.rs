//! Reservation commands of an I/O queue (NVMe base 2.0 sections 7.2 to 7.5).
//!
//! Never: knows the rules; a refusal of the controller is an error with its status.

use crate::error::{Error, Unsupported};
use crate::io::{COMMAND_TIMEOUT, IoQueue};
use crate::queue::{Payload, Request};
use format::nvme::reservation::{self as wire, Action, Key, Keys, RegisteredExtended, Report, ReportHead, parse_extended_report};
use format::nvme::{IoOpcode, Sqe};

/// Bytes asked for by a report: room for 63 registrants.
const REPORT_BYTES: usize = 4096;

/// A reservation command that changes something. Types are RTYPE of the standard, 1 to 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// Register `key`.
    Register {
        /// The new key.
        key: u64,
        /// CPTPL: 0 no change, 2 clear, 3 set.
        cptpl: u8,
    },
    /// Unregister; without a key it is ignored (IEKEY).
    Unregister {
        /// The current key.
        key: Option<u64>,
    },
    /// Replace the key; without an old one it is ignored (IEKEY).
    Replace {
        /// The current key.
        old: Option<u64>,
        /// The new key.
        new: u64,
    },
    /// Acquire.
    Acquire {
        /// The current key.
        key: u64,
        /// RTYPE.
        rtype: u8,
    },
    /// Preempt.
    Preempt {
        /// The current key.
        key: u64,
        /// The key to be preempted.
        other: u64,
        /// RTYPE.
        rtype: u8,
        /// Preempt and abort.
        abort: bool,
    },
    /// Release.
    Release {
        /// The current key.
        key: u64,
        /// RTYPE.
        rtype: u8,
    },
    /// Clear.
    Clear {
        /// The current key.
        key: u64,
    },
}

impl Reservation {
    /// The command and its data.
    pub fn request(&self, nsid: u32) -> (Sqe, Payload) {
        let keys = |crkey, other| Payload::Out(Keys { crkey, other }.to_bytes().to_vec());
        let key = |crkey| Payload::Out(Key { crkey }.to_bytes().to_vec());
        let none = Action::default();
        let (opcode, action, data) = match *self {
            Reservation::Register { key, cptpl } => {
                (IoOpcode::ReservationRegister, Action { action: wire::REGISTER, cptpl, ..none }, keys(0, key))
            }
            Reservation::Unregister { key } => {
                let action = Action { action: wire::UNREGISTER, iekey: key.is_none(), ..none };
                (IoOpcode::ReservationRegister, action, keys(key.unwrap_or(0), 0))
            }
            Reservation::Replace { old, new } => {
                let action = Action { action: wire::REPLACE, iekey: old.is_none(), ..none };
                (IoOpcode::ReservationRegister, action, keys(old.unwrap_or(0), new))
            }
            Reservation::Acquire { key, rtype } => {
                (IoOpcode::ReservationAcquire, Action { action: wire::ACQUIRE, rtype, ..none }, keys(key, 0))
            }
            Reservation::Preempt { key, other, rtype, abort } => {
                let action = if abort { wire::PREEMPT_AND_ABORT } else { wire::PREEMPT };
                (IoOpcode::ReservationAcquire, Action { action, rtype, ..none }, keys(key, other))
            }
            Reservation::Release { key: k, rtype } => {
                (IoOpcode::ReservationRelease, Action { action: wire::RELEASE, rtype, ..none }, key(k))
            }
            Reservation::Clear { key: k } => (IoOpcode::ReservationRelease, Action { action: wire::CLEAR, ..none }, key(k)),
        };
        (action.sqe(opcode, 0, nsid), data)
    }
}

impl IoQueue {
    /// Does a reservation command on the queue's namespace.
    pub fn reserve(&mut self, command: Reservation) -> Result<(), Error> {
        let (sqe, payload) = command.request(self.namespace().nsid);
        self.ask_namespace(sqe, payload, "Reservation command").map(drop)
    }
    /// Reservation Report, extended: the head, and the registrants.
    pub fn reservation_report(&mut self) -> Result<(ReportHead, Vec<RegisteredExtended>), Error> {
        let sqe = Report { numd: (REPORT_BYTES / 4 - 1) as u32, eds: true }.sqe(0, self.namespace().nsid);
        let bytes = self.ask_namespace(sqe, Payload::In(vec![0; REPORT_BYTES]), "Reservation Report")?;
        parse_extended_report(&bytes).ok_or(Error::Unsupported(Unsupported::ReportTooShort))
    }
    fn ask_namespace(&mut self, sqe: Sqe, payload: Payload, what: &'static str) -> Result<Vec<u8>, Error> {
        let done = self.connection().call(Request { sqe, payload, tag: u64::MAX }, COMMAND_TIMEOUT, what)?;
        let status = done.cqe.status;
        if status.is_success() { Ok(done.payload.into_bytes()) } else { Err(Error::Status { what, status }) }
    }
}
