//! Writes that are whole or absent: those of at most NAWUN / NAWUPF blocks within a piece (NABSN, NABSPF), as Identify Namespace states them.
//!
//! The model looks at each block alone; here the blocks of one such write are tied together. When one of them shows the write it has
//! happened, so all of them do; when one shows something older, and the write cannot come any more, it never happened.
//!
//! Never: ties what a damaged or lying device may tear.

use super::kept::{Flight, Workload};
use crate::faults::Class;
use crate::model::{Candidate, Cell};
use crate::plan::OpKind;
use crate::trace::Place;

/// The stated units: bytes of a write, and the boundary that it must not cross.
const ATOMIC_BYTES: u64 = 256 << 10;
const BOUNDARY_BYTES: u64 = 1 << 20;

impl Workload {
    /// A write is sent: if it must be whole, that is kept in mind until it is decided.
    pub(super) fn tie(&mut self, op: u64, kind: OpKind, place: Place) {
        let v = &self.volumes[place.volume];
        let lba = u64::from(v.namespace.lba_bytes);
        let (from, len) = ((v.first_block + place.block) * lba, place.blocks * lba);
        let within = len <= ATOMIC_BYTES && from / BOUNDARY_BYTES == (from + len - 1) / BOUNDARY_BYTES;
        let writes = matches!(kind, OpKind::Write | OpKind::WriteFua | OpKind::Swap);
        if writes && within && place.blocks > 1 && self.plan.class <= Class::Errors {
            self.tied.insert(op, place);
        }
    }
    /// It was answered, or refused: each of its blocks is known.
    pub(super) fn untie(&mut self, op: u64) {
        self.tied.remove(&op);
    }
    /// A block that a command sent at `since` has read held `value`: what that says of the other blocks of the writes that touch it.
    pub(super) fn tell_the_tied(&mut self, volume: usize, block: u64, value: u64, since: u64, now: u64) {
        if self.tied.is_empty() {
            return;
        }
        let candidates = self.volumes[volume].cells[block as usize].candidates();
        let Some(shown) = candidates.iter().rfind(|c| c.value == value).copied() else { return };
        let of_same_value = candidates.iter().filter(|c| c.value == value).count();
        let is_tied = |c: &&Candidate| self.tied.contains_key(&c.change);
        // What is older than the write that did not come, whichever of several that brought the value it was.
        let newest = candidates.iter().filter(|c| c.value == value).map(|c| c.settled).max().unwrap_or(0);
        let absent: Vec<u64> =
            candidates.iter().filter(is_tied).filter(|c| c.settled < since && newest < c.sent).map(|c| c.change).collect();
        let happened = Some(shown.change).filter(|change| of_same_value == 1 && self.tied.contains_key(change));
        for op in absent {
            self.each_tied(op, |cell| cell.refused(op));
        }
        if let Some(op) = happened {
            self.each_tied(op, |cell| cell.done(op, now));
        }
    }
    fn each_tied(&mut self, op: u64, f: impl Fn(&mut Cell)) {
        let Some(place) = self.tied.remove(&op) else { return };
        self.volumes[place.volume].cells[place.block as usize..][..place.blocks as usize].iter_mut().for_each(f);
    }
    /// The blocks of one read show each tied write either everywhere or nowhere.
    pub(super) fn check_whole(&mut self, op: u64, flight: &Flight, values: &[Option<u64>]) {
        let place = flight.place;
        let cells = &self.volumes[place.volume].cells[place.block as usize..][..values.len()];
        let change_of = |at: usize| values[at].and_then(|v| cells[at].candidates().iter().rfind(|c| c.value == v && v != 0).copied());
        for (at, _) in values.iter().enumerate().skip(1) {
            for (shows, lacks) in [(at - 1, at), (at, at - 1)] {
                let Some(write) = change_of(shows).filter(|c| self.tied.contains_key(&c.change)) else { continue };
                let tied = self.tied[&write.change];
                let (Some(older), true) = (values[lacks], tied.touches(place.volume, place.block + lacks as u64)) else { continue };
                let before = cells[lacks].candidates().iter().filter(|c| c.value == older).all(|c| c.settled < write.sent);
                if older != write.value && before {
                    let block = place.block + lacks as u64;
                    let text =
                        format!("#{op} found write #{} of {} blocks in part only: block {block} shows {older}", write.change, tied.blocks);
                    return self.fail(text, Some((place.volume, block)));
                }
            }
        }
    }
}
