//! What a copy knows, as records of the log, and back: so that the log can be given up behind them.
//!
//! Owns: which records stand for what, and which are due.
//! Invariants: a note is made while no batch is in flight and before anything else of its batch, so it says exactly what the log before it
//! says. The note of a component comes before those of its lanes, and counts once they are there: so whoever replays the log meets it first.
//! Never: writes.

use super::{Replica, ReplicaLane};
use base::hooks::{self, SeededFault};
use base::lane::Lane;
use base::{Order, Seq};
use format::disk::copies::{Accept, CopySync, Doubt, LaneNote, OwnDoubt, Progressed};
use format::disk::log::{Record, RecordKind};

/// Records of one note, at most: those of a lane.
pub(crate) const NOTE_RECORDS_MAX: usize = 1 + super::LISTED_MAX + super::OWN_DOUBT_MAX;

impl Replica {
    /// The segment from which on the log is needed for what is known here; `None`: it is not.
    pub fn oldest_note(&self) -> Option<u64> {
        let lanes = self.lanes.iter().filter_map(|lane| lane.noted);
        lanes.chain(self.noted).min()
    }
    /// Appends the notes that are due before the log up to segment `before` may be given up, as long as there is room for them in `out`:
    /// each whole or not at all. Of shard `shard`, in batch `lsn`. False: there are more.
    pub fn notes(&self, component: u32, (shard, lsn): (u8, u64), before: u64, out: &mut Vec<Record>) -> bool {
        let due = |noted: Option<u64>| noted.is_some_and(|segment| segment < before);
        if due(self.noted) && self.noted_next.is_none() {
            if out.len() + 2 > NOTE_RECORDS_MAX {
                return false;
            }
            let sync = if self.resyncing { CopySync::NotedOutOfSync } else { CopySync::NotedInSync };
            let accept = Accept { epoch: self.durable, period_start: self.period_start, by: self.by, sync };
            out.push(accept.record(component, lsn));
            out.push(Progressed { progress: self.progress }.record(component, lsn));
        }
        let anew = due(self.noted) && self.noted_next.is_none() && !hooks::seeded(SeededFault::LanesNotNotedAnew);
        for (i, lane) in self.lanes.iter().enumerate().filter(|(_, lane)| due(lane.noted) || lane.behind || anew && lane.noted.is_some()) {
            let own_doubt = lane.own_doubt_ranges();
            if out.len() + 1 + lane.log.len() + own_doubt.len() > NOTE_RECORDS_MAX {
                return false;
            }
            let Some(no) = Lane::new(i as u8 * self.step + shard) else { continue };
            out.push(LaneNote { lane: no, mark: lane.mark }.record(component, lsn));
            let order = |seq: Seq| Order { epoch: self.durable, period_start: self.period_start, seq, mark: lane.mark };
            let doubt = lane.durable().filter(|entry| entry.seq > lane.mark && !hooks::seeded(SeededFault::DoubtNotNoted));
            out.extend(doubt.map(|entry| Doubt { range: entry.range, order: order(entry.seq) }.record(component, lsn)));
            out.extend(own_doubt.into_iter().map(|range| OwnDoubt { range }.record(component, lsn)));
        }
        true
    }
    /// A record of a note is durable, in this segment.
    pub fn noted(&mut self, record: &Record, segment: u64) {
        match record.kind {
            RecordKind::Accept => {
                self.noted_next = Some(segment);
                for lane in &mut self.lanes {
                    lane.behind = lane.noted.is_some() && !hooks::seeded(SeededFault::LanesNotNotedAnew);
                }
            }
            RecordKind::Lane => {
                if let Ok(note) = LaneNote::of(record) {
                    let lane = self.lane(note.lane);
                    (lane.noted, lane.behind) = (Some(segment), false);
                }
            }
            _ => {}
        }
        if self.lanes.iter().all(|lane| !lane.behind) {
            self.noted = self.noted_next.take().or(self.noted);
        }
    }

    /// Replay: what a record says that is neither a change nor an epoch.
    pub fn replay_note(&mut self, record: &Record, segment: u64) {
        match record.kind {
            RecordKind::Lane => {
                if let Ok(note) = LaneNote::of(record) {
                    self.lane(note.lane).begins_anew(note.mark, segment);
                }
            }
            RecordKind::Doubt => {
                if let Ok(doubt) = Doubt::of(record) {
                    let lane = self.lane(Lane::of(doubt.range.first));
                    let known = lane.log.iter().any(|entry| entry.seq == doubt.order.seq);
                    if !known && doubt.order.seq > lane.mark && !hooks::seeded(SeededFault::DoubtNotReplayed) {
                        lane.add(doubt.order.seq, doubt.range);
                    }
                }
            }
            RecordKind::OwnDoubt => {
                if let Ok(own) = OwnDoubt::of(record) {
                    self.lane(Lane::of(own.range.first)).add_own_doubt(own.range);
                }
            }
            RecordKind::Progress => {
                if let Ok(Progressed { progress }) = Progressed::of(record) {
                    self.progress = progress;
                }
            }
            _ => {}
        }
    }
}

impl ReplicaLane {
    /// All that the log before says of the lane is in what follows.
    fn begins_anew(&mut self, mark: Seq, segment: u64) {
        self.take_mark(mark);
        self.own_doubt.clear();
        self.noted.get_or_insert(segment);
    }
}
