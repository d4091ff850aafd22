//! Faults that are aimed: they wait for a write of a certain kind, fail it or let it pass, and may bring the host's death soon after.
//!
//! A disk does not know what bytes mean; here the writes are looked at as they pass.
//!
//! Owns: what can be aimed at ([`Target`]), how it is known, and what has been hit.
//! Invariant: one hit for each fault; a life ends with at most one death.
//! Never: touches the world; `lab` brings the death.

use format::disk::log::{BatchHeader, SEGMENT_HEADER_BLOCKS, SegmentHeader, SummaryPeek};
use format::disk::superblock::looks_like_superblock;
use format::disk::{FormatTag, PageHeader, PageKind};
use rt::DeviceError;
use rt::sim::{Rng, SimWrite};
use std::cell::Cell;
use std::rc::Rc;

/// What a write brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The first write of a segment of the log.
    SegmentStart,
    /// A batch that lies behind another.
    Batch,
    /// A batch that names another oldest segment than the ones before.
    Tail,
    /// The summary of a segment.
    Summary,
    /// A page of a table.
    Page,
    /// The head of a table.
    Head,
    /// Blocks on their way to capacity.
    Data,
    /// A superblock.
    Superblock,
    /// A flush.
    Flush,
}

impl Target {
    /// One that there may be on a device (0 is the cache).
    pub fn draw(rng: &mut Rng, device: usize) -> Target {
        if device == 0 {
            [Target::SegmentStart, Target::SegmentStart, Target::Batch, Target::Tail, Target::Tail, Target::Summary][rng.below(6) as usize]
        } else {
            [Target::Page, Target::Page, Target::Head, Target::Data, Target::Flush][rng.below(5) as usize]
        }
    }
}

/// When the host dies after a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// So many nanoseconds later.
    pub after_ns: u64,
    /// Its power goes, or only its process.
    pub power: bool,
}

/// What an aimed fault has hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The write failed.
    pub failed: bool,
    /// What follows.
    pub death: Option<Death>,
}

/// What was hit and not yet looked at; shared by the watchers of all disks.
pub type Hits = Rc<Cell<Option<Hit>>>;

/// A fault that waits for its write.
#[derive(Debug)]
pub struct Aim {
    /// The format of the group.
    pub tag: FormatTag,
    /// What it waits for.
    pub target: Target,
    /// The first of these that is hit, from 1.
    pub nth: u32,
    /// So many writes fail, from the one that is hit on.
    pub fails: u32,
    /// Only those of its kind.
    pub alike: bool,
    /// With this.
    pub error: DeviceError,
    /// And then.
    pub death: Option<Death>,
    /// Where a hit is noted.
    pub hits: Hits,
    /// The oldest segment that the batches of each shard have named so far.
    pub tails: [u64; 16],
}

impl Aim {
    /// Looks at a write: whether it may pass.
    pub fn look(&mut self, write: &SimWrite<'_>) -> Result<(), DeviceError> {
        let is_target = (self.nth > 0 || self.alike) && self.is_target(write);
        if self.nth > 0 && is_target {
            self.nth -= 1;
            if self.nth == 0 {
                self.hits.set(Some(Hit { failed: self.fails > 0, death: self.death }));
            }
        }
        if self.nth > 0 || self.fails == 0 || self.alike && !is_target {
            return Ok(());
        }
        self.fails -= 1;
        Err(self.error)
    }

    fn is_target(&mut self, write: &SimWrite<'_>) -> bool {
        let SimWrite::Write { first, last, .. } = *write else { return self.target == Target::Flush };
        let fresh = SegmentHeader::parse(first, self.tag).is_ok();
        let batch = first.get(if fresh { SEGMENT_HEADER_BLOCKS as usize * base::BLOCK_BYTES } else { 0 }..).unwrap_or_default();
        match self.target {
            Target::SegmentStart => fresh,
            Target::Batch => !fresh && BatchHeader::parse(batch, self.tag).is_ok(),
            Target::Tail => BatchHeader::parse(batch, self.tag).is_ok_and(|view| {
                let named = &mut self.tails[usize::from(view.header.shard) % 16];
                let before = core::mem::replace(named, view.header.tail_seq);
                before != 0 && before < view.header.tail_seq
            }),
            Target::Summary => SummaryPeek::parse(last, self.tag).is_ok(),
            Target::Page => self.page(first).is_some_and(|kind| matches!(kind, PageKind::Chunk | PageKind::Component)),
            Target::Head => self.page(first).is_some_and(|kind| matches!(kind, PageKind::ChunkHead | PageKind::ComponentHead)),
            Target::Data => self.page(first).is_none() && !looks_like_superblock(first),
            Target::Superblock => looks_like_superblock(first),
            Target::Flush => false,
        }
    }

    fn page(&self, first: &[u8]) -> Option<PageKind> {
        PageHeader::parse(first, self.tag).ok().map(|header| header.address.kind)
    }
}
