//! A copy as the page describes it: what it accepts, remembers and answers. All of it is durable.

use super::judge::{Mask, Value};
use crate::owner::{BlockRange, LaneDoubt, Listed, ListedChunk, Progress};
use base::lane::Lane;
use base::{BlockNo, Epoch, Order, Seq};

/// Chunks of a mirror. Each is a lane.
pub const CHUNKS: usize = 2;
/// Blocks of a chunk.
pub const BLOCKS: usize = 2;
pub const ALL: Mask = (1 << BLOCKS) - 1;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkState {
    /// `None`: it is not there.
    pub there: Option<(Epoch, Mask)>,
    pub content: [Value; BLOCKS],
}

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Write(Value),
    /// The chunk goes. The value stands for that: values are written once.
    Trim(Value),
    /// The source's content; `free`: it has no such chunk.
    Agree {
        content: [Value; BLOCKS],
        free: bool,
    },
    Range {
        source: ChunkState,
        progress: Progress,
    },
}

#[derive(Clone, Debug, Default)]
struct LaneLog {
    mark: Seq,
    records: Vec<(Seq, Mask)>,
}

#[derive(Clone, Debug)]
pub struct Copy {
    pub accepted: Epoch,
    /// Whose epoch that is: which node.
    pub by: usize,
    pub chunks: [ChunkState; CHUNKS],
    lanes: [LaneLog; CHUNKS],
    pub resyncing: bool,
    own_doubt: [Mask; CHUNKS],
    progress: Progress,
}

impl Copy {
    pub fn new(by: usize) -> Self {
        let chunk = ChunkState { there: Some((Epoch(1), 0)), content: [0; BLOCKS] };
        Self {
            accepted: Epoch(1),
            by,
            chunks: [chunk; CHUNKS],
            lanes: Default::default(),
            resyncing: false,
            own_doubt: [0; CHUNKS],
            progress: Progress::default(),
        }
    }
    pub fn doubt(&self, chunk: usize) -> Mask {
        let LaneLog { mark, records } = &self.lanes[chunk];
        records.iter().filter(|(seq, _)| seq > mark).fold(0, |mask, (_, m)| mask | m)
    }
    /// AcceptEpoch, Restamp. False: it is refused. Whether it may be accepted is the caller's question.
    pub fn accept(&mut self, epoch: Epoch, by: usize, period_start: Epoch) -> bool {
        if epoch <= self.accepted {
            return epoch == self.accepted;
        }
        (self.accepted, self.by) = (epoch, by);
        for chunk in 0..CHUNKS {
            self.touch(chunk, self.doubt(chunk), epoch, period_start, false);
        }
        true
    }
    fn touch(&mut self, chunk: usize, mask: Mask, epoch: Epoch, period_start: Epoch, makes: bool) {
        let there = &mut self.chunks[chunk].there;
        if mask == 0 {
            return;
        }
        match there {
            None if makes => *there = Some((epoch, Mask::MAX)),
            None => {}
            Some((e, m)) => {
                if *e < period_start {
                    *m = 0;
                }
                (*e, *m) = ((*e).max(epoch), *m | mask);
            }
        }
    }
    /// It hears that it is in sync.
    pub fn is_in_sync(&mut self) {
        (self.resyncing, self.own_doubt, self.progress) = (false, [0; CHUNKS], Progress::default());
    }
    /// Fence, after the epoch was accepted.
    pub fn fenced(&mut self, first: impl Fn(usize) -> BlockNo, resync: bool) -> (Vec<LaneDoubt>, Option<Progress>) {
        if resync {
            if !self.resyncing {
                (self.own_doubt, self.progress) = ([0; CHUNKS], Progress::default());
            }
            self.resyncing = true;
            for chunk in 0..CHUNKS {
                self.own_doubt[chunk] |= self.doubt(chunk);
            }
        } else {
            self.is_in_sync();
        }
        let range = |chunk: usize, b: usize| BlockRange { first: first(chunk).plus(b as u64), blocks: 1 };
        let ranges = |chunk| (0..BLOCKS).filter(|b| self.doubt(chunk) >> b & 1 == 1).map(|b| range(chunk, b)).collect();
        let lane = |chunk: usize| LaneDoubt { lane: lane(chunk), mark: self.lanes[chunk].mark, doubt: ranges(chunk) };
        ((0..CHUNKS).map(lane).collect(), resync.then_some(self.progress))
    }
    /// A change, after its epoch was accepted.
    pub fn change(&mut self, chunk: usize, order: &Order, mask: Mask, what: &What) {
        let log = &mut self.lanes[chunk];
        let seq = order.seq;
        if seq > log.mark && !log.records.iter().any(|(s, _)| *s == seq) {
            log.records.push((seq, mask));
            self.carry_out(chunk, order, mask, what);
        }
        let log = &mut self.lanes[chunk];
        log.mark = log.mark.max(order.mark);
        let mark = log.mark;
        log.records.retain(|(s, _)| *s > mark);
    }
    fn carry_out(&mut self, chunk: usize, order: &Order, mask: Mask, what: &What) {
        let values = match what {
            What::Write(value) | What::Trim(value) => [*value; BLOCKS],
            What::Agree { content, .. } => *content,
            What::Range { source, .. } => source.content,
        };
        for b in (0..BLOCKS).filter(|b| mask >> b & 1 == 1) {
            self.chunks[chunk].content[b] = values[b];
        }
        match what {
            What::Write(_) | What::Agree { free: false, .. } => self.touch(chunk, mask, order.epoch, order.period_start, true),
            What::Trim(_) | What::Agree { free: true, .. } => self.chunks[chunk].there = None,
            What::Range { source: ChunkState { there: None, .. }, progress } => {
                self.chunks[chunk].there = None;
                self.ranged(chunk, mask, *progress);
            }
            What::Range { source: ChunkState { there: Some((epoch, changed)), .. }, progress } => {
                let (mut e, mut m) = self.chunks[chunk].there.unwrap_or_default();
                if e < order.period_start {
                    m = 0;
                }
                (e, m) = (e.max(*epoch), m | changed);
                self.chunks[chunk].there = Some((e, m));
                self.ranged(chunk, mask, *progress);
            }
        }
    }
    fn ranged(&mut self, chunk: usize, mask: Mask, progress: Progress) {
        self.own_doubt[chunk] &= !mask;
        self.progress = progress;
    }
}

pub fn lane(chunk: usize) -> Lane {
    Lane::new(chunk as u8).expect("few chunks")
}

/// What a source has, as its piece of a list: with `there` and `own_doubt` still to come from the copy.
pub fn list(source: &Copy, from: u64, first: u64, epoch: Epoch, pieces_of: u64) -> Listed {
    let end = (from + pieces_of).min(first + CHUNKS as u64).max(from + 1);
    let entry = |chunk: u64| {
        let at = chunk.checked_sub(first).map(|c| c as usize).filter(|c| *c < CHUNKS);
        ListedChunk { chunk, source: at.and_then(|c| source.chunks[c].there), there: false, own_doubt: 0 }
    };
    let next = (end < first + CHUNKS as u64).then_some(end);
    Listed { from, epoch, chunks: (from..end).map(entry).collect(), next }
}

/// And what the copy has.
pub fn list_of_copy(copy: &Copy, first: u64, listed: &mut Listed) {
    for entry in &mut listed.chunks {
        if let Some(c) = entry.chunk.checked_sub(first).map(|c| c as usize).filter(|c| *c < CHUNKS) {
            (entry.there, entry.own_doubt) = (copy.chunks[c].there.is_some(), copy.own_doubt[c]);
        }
    }
    listed.chunks.retain(|c| c.source.is_some() || c.there || c.own_doubt != 0);
}
