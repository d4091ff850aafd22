//! A volume whose data goes to another place while hosts use it: that place gets what is there, and every change from then on (`docs/moves.md`).
//!
//! ```text
//!  a piece:  untouched ─► is copied ─► is there
//!                │            │            └ a change goes to the other place too, before it is answered and before it lets its range go
//!                │            └ a change is noted: the piece is copied once more
//!                └ a change is found when the piece is copied
//! ```
//!
//! Owns: [`Fills`], what one core knows of it.
//! Invariants: what was answered of a piece that is there is in both places; overlapping changes come to both in one order; a host does not hear that
//! the other place has failed: that ends the fill.
//! Never: copies anything; decides when the volume goes by the other place.

use crate::copies::COPIED;
use crate::io::{Data, IoError, VolumeRef};
use crate::lanes::{Blocks, Lanes, Stage};
use crate::part::PartOp;
use crate::range_lock::Range as BlocksOf;
use base::Epoch;
use base::hooks::{self, SeededFault};
use base::unit::PIECE_BLOCKS;
use format::peer::ChangeVerb;
use rt::Rt;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use store::OpKind;

/// A volume, and the place that gets its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The place of the volume's lanes ([`VolumeLayout::lanes`](crate::VolumeLayout::lanes)).
    pub from: VolumeRef,
    /// The term of its owner.
    pub from_term: Epoch,
    /// What gets the data: a volume that no host sees.
    pub to: VolumeRef,
    /// The term of its owner.
    pub to_term: Epoch,
}

/// What a core is to do of a fill. Every core gets each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FillOrder {
    /// It begins. Nothing is there.
    Begin(Fill),
    /// These pieces, which follow on all before them, are copied from now on.
    Window(Range<u64>),
    /// They were copied.
    WindowCopied,
    /// These pieces, which were changed meanwhile, are copied again.
    Again(Vec<u64>),
    /// They were.
    AgainCopied(Vec<u64>),
    /// Nothing: whether it goes on is asked.
    Ask,
    /// It is over.
    End,
}

/// What a core says to a [`FillOrder`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FillSays {
    /// It is so. These of the pieces that were copied were changed meanwhile: they are to be copied once more.
    Done(Vec<u64>),
    /// There is no such fill any more: the other place has failed, or the node's term is over.
    Over(IoError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Untouched,
    Copied,
    There,
}

/// A fill, as a core sees it.
#[derive(Debug)]
struct Filling {
    fill: Fill,
    /// Pieces that are copied for the first time. Those below are there, but for what is copied again.
    window: Range<u64>,
    /// Those of them that were changed meanwhile.
    changed: BTreeSet<u64>,
    /// Pieces that are, or are to be, copied again: whether they were changed meanwhile.
    again: BTreeMap<u64, bool>,
    /// Why it is over.
    over: Option<IoError>,
}

impl Filling {
    fn piece(&self, range: &BlocksOf) -> Piece {
        let piece = range.block / PIECE_BLOCKS;
        match () {
            () if self.window.contains(&piece) || self.again.contains_key(&piece) => Piece::Copied,
            () if piece < self.window.start => Piece::There,
            () => Piece::Untouched,
        }
    }
    /// A piece that is copied was changed.
    fn changed(&mut self, piece: u64) {
        match self.again.get_mut(&piece) {
            Some(changed) => *changed = true,
            None => drop(self.changed.insert(piece)),
        }
    }
}

/// A change that has ended where its volume lies, on its way to the other place.
#[derive(Debug)]
pub(crate) struct Follow {
    pub(crate) id: u32,
    pub(crate) serial: u32,
    pub(crate) fill: Fill,
    pub(crate) range: BlocksOf,
    pub(crate) verb: ChangeVerb,
    pub(crate) data: Option<Data>,
}

/// Of one core: the volumes whose data goes to another place.
#[derive(Debug, Default)]
pub(crate) struct Fills {
    /// By the place of their lanes.
    fills: BTreeMap<VolumeRef, Filling>,
    /// The data of changes that the store has, by part.
    kept: BTreeMap<u32, Data>,
    out: VecDeque<Follow>,
}

impl Fills {
    /// A change has ended in this term of the owner. Whether it is to go to the other place; if so, where.
    fn ended(&mut self, volume: VolumeRef, term: Epoch, range: &BlocksOf, result: Result<(), IoError>) -> Option<Fill> {
        let filling = self.fills.get_mut(&volume).filter(|filling| filling.over.is_none())?;
        match filling.piece(range) {
            Piece::Untouched => None,
            _ if term != filling.fill.from_term => {
                filling.over = Some(IoError::NotOwner);
                None
            }
            Piece::Copied => {
                if !hooks::seeded(SeededFault::ChangeWhileCopiedForgotten) {
                    filling.changed(range.block / PIECE_BLOCKS);
                }
                None
            }
            Piece::There if hooks::seeded(SeededFault::ChangeNotFollowed) => None,
            Piece::There => match result {
                Ok(()) => Some(filling.fill),
                // Nothing was written.
                Err(IoError::Miscompare) => None,
                // What is there now is not known.
                Err(error) => {
                    filling.over = Some(error);
                    None
                }
            },
        }
    }
    /// The other place of a volume has failed.
    fn fails(&mut self, volume: VolumeRef, error: IoError) {
        if let Some(filling) = self.fills.get_mut(&volume) {
            filling.over.get_or_insert(error);
        }
    }
    fn is_used(&self) -> bool {
        !self.fills.is_empty() || !self.kept.is_empty() || !self.out.is_empty()
    }
}

impl<S: Blocks> Lanes<S> {
    /// Does what is to be done of a fill on this core. `from`: the place of the volume's lanes.
    pub fn fill(&mut self, from: VolumeRef, order: &FillOrder) -> FillSays {
        let fills = self.fills.get_or_insert_default();
        let says = match order {
            FillOrder::Begin(fill) => {
                let filling = Filling { fill: *fill, window: 0..0, changed: BTreeSet::new(), again: BTreeMap::new(), over: None };
                fills.fills.insert(from, filling);
                FillSays::Done(Vec::new())
            }
            FillOrder::End => {
                fills.fills.remove(&from);
                FillSays::Done(Vec::new())
            }
            _ => match fills.fills.get_mut(&from) {
                Some(Filling { over: Some(error), .. }) => FillSays::Over(*error),
                None => FillSays::Over(IoError::NoVolume),
                Some(filling) => FillSays::Done(filling.does(order)),
            },
        };
        if !fills.is_used() {
            self.fills = None;
        }
        says
    }
    /// The next change for another place.
    pub(crate) fn pop_follow(&mut self) -> Option<Follow> {
        self.fills.as_mut()?.out.pop_front()
    }
    /// The store takes the data of a change that may have to go to the other place.
    #[cold]
    #[inline(never)]
    pub(crate) fn keep_for_follow(&mut self, id: u32, kind: &mut OpKind) {
        let (Some(fills), OpKind::Write { buf, crcs, .. }) = (&mut self.fills, kind) else { return };
        let part = &self.parts[id as usize].part;
        if fills.fills.get(&part.volume).is_some_and(|filling| filling.piece(&part.range()) != Piece::Untouched) {
            fills.kept.insert(id, Data { buf: buf.share(), crcs: crcs.clone() });
        }
    }
    /// A change of a volume with one copy, here, has ended. Whether it goes to another place before it is answered.
    #[cold]
    #[inline(never)]
    pub(crate) fn follows(&mut self, id: u32, result: Result<(), IoError>) -> bool {
        let Some(fills) = &mut self.fills else { return false };
        let kept = fills.kept.remove(&id);
        let held = &self.parts[id as usize];
        let (part, range) = (&held.part, held.part.range());
        let verb = match part.op {
            // Blocks that are as they were: nothing was written.
            _ if held.stage != Stage::Running => return false,
            PartOp::Read | PartOp::Verify => return false,
            PartOp::Write(_) | PartOp::CompareWrite(_) => ChangeVerb::Write,
            PartOp::Zero => ChangeVerb::Zero,
            PartOp::Trim => ChangeVerb::Trim,
            PartOp::Uncorrectable => ChangeVerb::Uncorrectable,
        };
        let (volume, term) = (part.volume, part.ownership.term);
        let Some(fill) = fills.ended(volume, term, &range, result) else { return false };
        if verb == ChangeVerb::Write && kept.is_none() {
            // It came to the store before its piece was copied, and that should have waited for it.
            fills.fails(volume, IoError::Failed);
            return false;
        }
        fills.out.push_back(Follow { id, serial: 0, fill, range, verb, data: kept });
        true
    }
    /// The same of a volume with copies elsewhere.
    #[cold]
    #[inline(never)]
    pub(crate) fn follows_copied(&mut self, id: u32, result: Result<(), IoError>) -> bool {
        let (Some(fills), Some(copies)) = (&mut self.fills, &mut self.copies) else { return false };
        let Some((volume, term, serial, change)) = copies.change_of_request(id) else { return false };
        let Some(fill) = fills.ended(volume, term, &change.range(), result) else { return false };
        let (range, verb, data) = change.follows();
        fills.out.push_back(Follow { id, serial, fill, range, verb, data });
        true
    }
    /// A change has come to the other place of its volume, or has not: it ends. `token`: of its part and serial.
    #[cold]
    #[inline(never)]
    pub(crate) fn followed(&mut self, rt: &Rt, volume: VolumeRef, token: u64, result: Result<(), IoError>) {
        if let (Err(error), Some(fills)) = (result, &mut self.fills)
            && !hooks::seeded(SeededFault::FailedFollowForgotten)
        {
            fills.fails(volume, error);
        }
        let (id, serial) = (token as u32, (token >> 32) as u32);
        match id & COPIED == 0 {
            true => self.end(rt, id, Ok(()), None),
            false if self.copies.as_mut().is_some_and(|copies| copies.is_following(id, serial)) => self.end_copied(rt, id, Ok(()), None),
            // It was ended with the term.
            false => {}
        }
        rt.wake(rt.core());
    }
}

impl Filling {
    /// Gives the pieces that were copied and changed meanwhile.
    fn does(&mut self, order: &FillOrder) -> Vec<u64> {
        match order {
            FillOrder::Window(window) => {
                hooks::must(|| window.start == self.window.end && self.changed.is_empty(), "windows follow on each other");
                self.window = window.clone();
                Vec::new()
            }
            FillOrder::WindowCopied => {
                self.window = self.window.end..self.window.end;
                self.again.extend(self.changed.iter().map(|piece| (*piece, true)));
                std::mem::take(&mut self.changed).into_iter().collect()
            }
            FillOrder::Again(pieces) => {
                self.again.extend(pieces.iter().map(|piece| (*piece, false)));
                Vec::new()
            }
            FillOrder::AgainCopied(pieces) => {
                let (left, there): (Vec<u64>, Vec<u64>) = pieces.iter().partition(|piece| self.again.get(piece) == Some(&true));
                for piece in there {
                    self.again.remove(&piece);
                }
                left
            }
            FillOrder::Begin(_) | FillOrder::Ask | FillOrder::End => Vec::new(),
        }
    }
}
