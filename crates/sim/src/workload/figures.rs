//! Figures: what clients have had of a volume within the limits of its volume, and what the host says that it has done.
//!
//! Invariant: only what clients saw with their own eyes is held against the host: answers with success, and what was sent at all.
//! Never: judges a host by what it was asked while its limits changed.

use super::had::{Had, Moved};
use super::kept::{Flight, Workload};
use crate::node_types::{CoreSnapshot, NodeStats};
use crate::plan::OpKind;
use crate::trace::Place;
use dataplane::VolumeLimits;

/// How far a volume that was quiet may run ahead of its limits, in nanoseconds, as `docs/user-guide.md` states it.
const BURST_NS: u64 = 100_000_000;
/// The unit of the IOPS limit, in bytes.
const UNIT_BYTES: u64 = 32 << 10;
/// A command that is refused when it comes is answered within this time, in nanoseconds.
const REFUSAL_NS: u64 = 1_000_000;
/// What a command may take beside waiting for its turn, where nothing disturbs, in nanoseconds.
const WAIT_MAX_NS: u64 = 1_500_000_000;
/// While nothing disturbs, a command is answered within this, in nanoseconds.
pub const CALM_LATENCY_MAX_NS: u64 = 3_000_000_000;

fn class_of(kind: OpKind) -> Option<usize> {
    match kind {
        OpKind::Read | OpKind::Compare | OpKind::Verify => Some(0),
        OpKind::Write | OpKind::WriteFua | OpKind::Swap => Some(1),
        _ => None,
    }
}

impl Workload {
    /// The limits of a volume are these on every core; `fresh` when the host has started.
    pub(super) fn limits_are(&mut self, volume: usize, limits: VolumeLimits, fresh: bool, now: u64) {
        let ahead = self.ahead(volume);
        let had = &mut self.volumes[volume].had;
        if fresh || had.limits != limits {
            *had = Had { since: now, ..Had::new(limits) };
            had.turn_max_ns = had.turn_ns(ahead);
        }
    }
    /// A command was refused for how its volume is served: if it waited for its turn, it has used its share.
    pub(super) fn may_waste_share(&mut self, flight: &Flight, now: u64) {
        if now < flight.sent + REFUSAL_NS {
            return; // refused when it came
        }
        let (units, bytes) = (self.units_of(flight.kind, flight.place), self.bytes_of(flight.place));
        let had = &mut self.volumes[flight.place.volume].had;
        had.share_until_ns = had.share_until_ns.max(now) + had.turn_ns((units, bytes));
    }
    /// The host starts, and has done nothing yet.
    pub(super) fn counts_begin(&mut self) {
        self.moved = Moved::default();
    }

    fn bytes_of(&self, flight_place: Place) -> u64 {
        flight_place.blocks * u64::from(self.volumes[flight_place.volume].namespace.lba_bytes)
    }
    /// A command is sent.
    pub(super) fn count_sent(&mut self, kind: OpKind, place: Place) {
        let bytes = self.bytes_of(place);
        match (class_of(kind), kind) {
            (Some(class), _) => self.moved.sent[class] += bytes,
            (None, OpKind::Copy) => self.moved.sent.iter_mut().for_each(|sent| *sent += bytes),
            _ => {}
        }
    }
    /// A command was done. More than its limits let through, a volume does not give.
    pub(super) fn count_done(&mut self, op: u64, flight: &Flight, now: u64) {
        let Some(class) = class_of(flight.kind) else { return };
        let bytes = self.bytes_of(flight.place);
        self.moved.answered[class] += bytes;
        self.moved.requests[class] += 1;
        let had = &mut self.volumes[flight.place.volume].had;
        if flight.sent < had.since {
            return;
        }
        let units = bytes.div_ceil(UNIT_BYTES).max(1);
        had.units += units;
        had.bytes += bytes;
        had.largest = (had.largest.0.max(units), had.largest.1.max(bytes));
        let most = |rate: u64, one: u64| (u128::from(rate) * u128::from(now - had.since + BURST_NS) / 1_000_000_000) as u64 + one + 1;
        let over = had.limits.iops_max.is_some_and(|rate| had.units > most(rate, had.largest.0))
            || had.limits.bytes_per_s_max.is_some_and(|rate| had.bytes > most(rate, had.largest.1));
        if over {
            let text = format!(
                "#{op}: volume {} gave more than its limits let through within {} us",
                flight.place.volume,
                (now - had.since) / 1000
            );
            let text = format!("{text}: {had:?}");
            self.fail(text, None);
        }
    }
    /// The figures of a host that has nothing under way, and whose clients kept their connections.
    pub fn check_counts(&mut self, stats: &NodeStats) {
        let sum = |of: &dyn Fn(&CoreSnapshot) -> u64| stats.cores.iter().map(of).sum::<u64>();
        let reads = (sum(&|c| c.router.read.bytes), sum(&|c| c.router.read.requests));
        let writes = (sum(&|c| c.router.write.bytes), sum(&|c| c.router.write.requests));
        for (class, (bytes, requests)) in [reads, writes].into_iter().enumerate() {
            let Moved { sent, answered, requests: done } = self.moved;
            if !(answered[class]..=sent[class]).contains(&bytes) || requests < done[class] {
                let name = ["reads", "writes"][class];
                let text = format!("the host reports {requests} {name} of {bytes} bytes; clients have sent {} bytes,", sent[class]);
                return self.fail(format!("{text} and {} commands of {} bytes were done", done[class], answered[class]), None);
            }
        }
    }
    /// Requests of the limits' unit that a command takes.
    fn units_of(&self, kind: OpKind, place: Place) -> u64 {
        let units = self.bytes_of(place).div_ceil(UNIT_BYTES).max(1);
        match (class_of(kind), kind) {
            (Some(_), _) => units,
            // It reads and writes, in steps that pieces cut.
            (None, OpKind::Copy) => 2 * units + 4,
            _ => 0,
        }
    }
    /// What is under way on a volume, in requests and bytes of its limits.
    fn ahead(&self, volume: usize) -> (u64, u64) {
        let flights = self.flights.values().filter(|f| f.place.volume == volume);
        flights.fold((0, 0), |(units, bytes), f| (units + self.units_of(f.kind, f.place), bytes + 2 * self.bytes_of(f.place)))
    }
    /// A command was sent, and waits for its turn behind all others of its volume.
    pub(super) fn count_ahead(&mut self, volume: usize) {
        if !self.undisturbed && self.quiet_since.is_none() {
            return;
        }
        let ahead = self.ahead(volume);
        let had = &mut self.volumes[volume].had;
        had.turn_max_ns = had.turn_max_ns.max(had.turn_ns(ahead));
    }
    /// Where nothing disturbs, a command waits for its turn within the limits that are in force and for little else, also when these have
    /// just changed. One that waits for buffers first finds others ahead of it that were sent later: so the longest turn counts, twice; for a Copy
    /// at each of its steps, which are a read and a write of each piece.
    fn has_waited_too_long(&self, flight: &Flight, now: u64) -> bool {
        let had = &self.volumes[flight.place.volume].had;
        let turns = if flight.kind == OpKind::Copy { 8 } else { 2 } * had.turn_max_ns;
        let from = had.since.max(flight.sent).max(had.share_until_ns);
        let late = self.undisturbed_since.is_some_and(|since| flight.kind != OpKind::Copy && now > from.max(since) + turns + WAIT_MAX_NS);
        let stuck = self.quiet_since.is_some_and(|since| flight.sent >= since && now > from + turns + CALM_LATENCY_MAX_NS);
        late || stuck
    }
    /// A command was answered: was it soon enough?
    pub(super) fn check_wait(&mut self, op: u64, flight: &Flight, now: u64) {
        if self.has_waited_too_long(flight, now) {
            let had = &self.volumes[flight.place.volume].had;
            let text = format!("#{op} was answered after {} ms, though nothing disturbed;", (now - flight.sent) / 1_000_000);
            let limits = format!("its turn came within {} ms with limits of {:?}", had.turn_max_ns / 1_000_000, had.limits);
            let text = format!("{text} {limits} since {} ms", (now - had.since) / 1_000_000);
            self.fail(text, None);
        }
    }
    /// Whether, where nothing disturbs, what is left to do is not being done.
    pub fn is_stuck(&self, now: u64) -> bool {
        self.quiet_since.is_some() && (self.flights.is_empty() || self.flights.values().any(|f| self.has_waited_too_long(f, now)))
    }
}
