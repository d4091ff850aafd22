//! What a client is given to do, and what it says came of it.
//!
//! Invariant: neither depends on the client's protocol; statuses are those of NVMe, which a client of another protocol says for its own.

use format::nvme::Status;
use initiator::io::{Io, Namespace};
use initiator::reservation::Reservation;

/// A command, or two that are one.
#[derive(Debug)]
pub struct Order {
    /// Its number, which comes back with each [`Answer`].
    pub op: u64,
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
}
