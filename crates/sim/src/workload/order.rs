//! What a client is given to do, and what it says came of it.
//!
//! Invariant: neither depends on the client's protocol; statuses are those of NVMe, which a client of another protocol says for its own.

use base::HostId;
use cluster::reservation::{ReservationType, State};
use format::nvme::{Status, StatusCode};
use initiator::io::{Io, Namespace};
use initiator::reservation::Reservation;

/// A copy failed by one of the volumes that it reads or writes: SCSI does not say how. Vendor specific in NVMe, so that nothing else has it.
pub const COPY_FAILED: StatusCode = StatusCode(0x7C0);

/// A command, or two that are one.
#[derive(Debug)]
pub struct Order {
    /// Its number, which comes back with each [`Answer`].
    pub op: u64,
    /// On which volume.
    pub volume: usize,
    /// Where.
    pub ns: Namespace,
    /// What.
    pub what: What,
}

/// What is to be done.
#[derive(Debug)]
pub enum What {
    /// A command of the blocks.
    Io(Io),
    /// Compare and Write as one, at a byte.
    Swap {
        /// Where.
        offset: u64,
        /// What has to be there.
        expected: Vec<u8>,
        /// What comes there.
        data: Vec<u8>,
    },
    /// A command on the reservation.
    Reserve(Reservation),
    /// The unit is taken whole, or given back: of SCSI only.
    Unit {
        /// Taken.
        take: bool,
    },
    /// A report of the reservation.
    Report,
}

/// What came of a command.
#[derive(Debug)]
pub struct Answer {
    /// From the order.
    pub op: u64,
    /// Which part of it: 0, or 1 for the comparison of [`What::Swap`].
    pub part: usize,
    /// How it went.
    pub status: Status,
    /// What was read.
    pub data: Vec<u8>,
    /// What was reported of a reservation.
    pub report: Option<Reported>,
}

impl Answer {
    /// Without a report.
    pub fn new(op: u64, part: usize, status: Status, data: Vec<u8>) -> Answer {
        Answer { op, part, status, data, report: None }
    }
}

/// A reservation as a host is shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// How often registrations have changed.
    pub generation: u32,
    /// The type of the reservation, as in NVMe; 0 when there is none.
    pub rtype: u8,
    /// Whether it outlasts a loss of power, where that is reported with the rest.
    pub ptpl: Option<bool>,
    /// Who is registered, with which key, and holds it. `None`: one whose identity the protocol does not show.
    pub registrants: Vec<(Option<HostId>, u64, bool)>,
}

impl Reported {
    /// Whether it shows this.
    pub fn is(&self, state: &State) -> bool {
        let mut left: Vec<(HostId, u64, bool)> = state.registrants().iter().map(|(h, key)| (*h, *key, state.is_holder(*h))).collect();
        // Those that are named first: the others may be any.
        let (named, unnamed): (Vec<_>, Vec<_>) = self.registrants.iter().partition(|(host, ..)| host.is_some());
        let all_there = named.into_iter().chain(unnamed).all(|(host, key, holds)| {
            let found = left.iter().position(|(h, k, held)| host.is_none_or(|host| host == *h) && *k == key && *held == holds);
            found.map(|at| left.remove(at)).is_some()
        });
        all_there
            && left.is_empty()
            && self.generation == state.generation()
            && self.rtype == state.rtype().map_or(0, ReservationType::byte)
            && self.ptpl.is_none_or(|ptpl| ptpl == state.ptpl())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::reservation::Command;

    #[test]
    fn a_report_is_of_a_state_when_everybody_in_it_is_found_once() {
        let hosts = [1, 2].map(|n| HostId::from_bytes([n; 16]));
        let mut state = State::default();
        for (host, nrkey) in hosts.into_iter().zip([7, 8]) {
            state.execute(host, &Command::Register { nrkey, ptpl: None }).unwrap();
        }
        state.execute(hosts[1], &Command::Acquire { crkey: 8, rtype: ReservationType::ExclusiveAccess }).unwrap();
        let (generation, rtype) = (state.generation(), ReservationType::ExclusiveAccess.byte());
        let report = |registrants| Reported { generation, rtype, ptpl: None, registrants };
        // The unnamed one comes first, and fits both but for its key.
        assert!(report(vec![(None, 7, false), (Some(hosts[1]), 8, true)]).is(&state));
        assert!(report(vec![(None, 8, true), (None, 7, false)]).is(&state));
        for wrong in [
            vec![(None, 7, false)],
            vec![(None, 7, false), (None, 7, false)],
            vec![(None, 7, true), (None, 8, true)],
            vec![(Some(hosts[0]), 8, true), (None, 7, false)],
        ] {
            assert!(!report(wrong.clone()).is(&state), "{wrong:?}");
        }
        assert!(!Reported { ptpl: Some(true), ..report(vec![(None, 8, true), (None, 7, false)]) }.is(&state));
    }
}
