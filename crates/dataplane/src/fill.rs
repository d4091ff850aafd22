//! The data of a volume goes to another place while hosts use it: core 0 copies it, piece by piece, and every core sees to it that what changes
//! meanwhile goes there too ([`object::fill`], `docs/moves.md`).
//!
//! ```text
//!  begin ─► the other place is emptied ─► a window of pieces (all cores) ─► those that hold anything: read, write ─► copied (all cores) ─► the next ─► whole
//!                                                                                                                      │ changed meanwhile
//!                                            again (all cores) ─► read, write ─► copied (all cores) ◄──────────────────┘
//!                                              ▲                                      │ the last time: while the volume is held
//!                                              └──────────────────────────────────────┘
//! ```
//!
//! Owns: [`Filler`], one for each volume that is copied; requests of the node's own that copy.
//! Invariants: a volume that is held is released, whatever comes of what it was held for; nothing is written to the other place in another term of
//! either owner than the fill began in; one task copies for a volume; what cannot be read is uncorrectable in the other place.
//! Never: decides by which place the volume goes.

use crate::{
    command::{CommandSender, Completion},
    controller::{CoreController, QUIET_POLL, done},
    core_state::Core,
    error::DataPlaneError,
    message::{Answer, Call},
};
use base::unit::{BLOCK_BYTES, CHUNK_BYTES, PIECE_BYTES};
use base::{Duration, Instant, ResyncPace, VolumeId};
use frontend::{Data, DataVec, FrontEnd, IoError, IoOp};
use object::router::{HOLDING_MAX, OWN_REQUESTS_MAX};
use object::{Fill, FillOrder, FillSays, VolumeRef};
use rt::Buf;
use rt::sync::oneshot;
use std::ops::Range;
use std::sync::Arc;

/// Pieces that are copied between two rounds over all cores.
const WINDOW_PIECES: u64 = 16;
/// Of these, so many at once.
const PIECES_AT_ONCE: usize = 4;
/// Pieces that were changed while they were copied so often are copied while the volume is held, [`PIECES_AT_ONCE`] of them at a time.
const TRIES_MAX: u32 = 4;
/// How long what is under way may take before a volume that is held is released again: so long hosts may wait, again and again while they have a request
/// under way that takes longer.
const QUIET_MAX: Duration = Duration::from_millis(300);
/// How often is looked whether it goes on, while it is paused or waits.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// At [`ResyncPace::Low`], between two windows, by how much longer than the first took.
const REST_LOW: u32 = 9;

/// How far a volume's other place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillState {
    /// So many bytes of the volume are there.
    Copying(u64),
    /// All are there, and what changes.
    Whole,
    /// It ended before that.
    Over(IoError),
}

/// A volume that is copied.
pub(crate) struct Filler {
    to: VolumeId,
    /// The place of the volume.
    at: VolumeRef,
    fill: Fill,
    bytes: u64,
    pace: ResyncPace,
    state: FillState,
}

impl<F: FrontEnd> CommandSender<F> {
    /// Has the data of a volume go to another one of the same size, which no host sees; both are this node's. Says how far it is: to be asked again and
    /// again. One that is over is said so once, and begins anew when it is asked for after that. `pace`: how fast beside hosts.
    pub fn fill(&self, from: VolumeId, to: VolumeId, pace: ResyncPace) -> Completion<FillState> {
        self.give(move |c| async move { Ok(c.fill(from, to, pace)) })
    }
    /// Holds a volume of which all is in its other place: no request of a host begins until [`CommandSender::end_fill`] or
    /// [`CommandSender::release`]. False: it is not so, or what is under way takes too long; then it is not held.
    pub fn hold_filled(&self, from: VolumeId) -> Completion<bool> {
        self.give(move |c| async move { Ok(c.hold_filled(from).await) })
    }
    /// Releases a volume that goes by the same place as before.
    pub fn release(&self, from: VolumeId) -> Completion<()> {
        self.give(move |c| async move {
            let at = c.core.borrow().fills.get(&from).map(|filler| filler.at);
            if let Some(at) = at {
                c.release(at).await;
            }
            Ok(())
        })
    }
    /// Nothing goes to the other place any more, and the volume is released, if it was held.
    pub fn end_fill(&self, from: VolumeId) -> Completion<()> {
        self.give(move |c| async move {
            let filler = c.core.borrow_mut().fills.remove(&from);
            if let Some(filler) = filler {
                let _ = c.order_fill(filler.fill.from, FillOrder::End).await;
                c.release(filler.at).await;
            }
            Ok(())
        })
    }
}

impl<F: FrontEnd> CoreController<F> {
    fn fill(&self, from: VolumeId, to: VolumeId, pace: ResyncPace) -> FillState {
        let core = &mut *self.core.borrow_mut();
        if let Some(filler) = core.fills.get_mut(&from) {
            filler.pace = pace;
            let state = if filler.to == to { filler.state } else { FillState::Over(IoError::NoVolume) };
            if let FillState::Over(_) = state {
                let ended = core.fills.remove(&from).expect("just seen").fill.from;
                let this = self.clone();
                self.rt.spawn(async move { drop(this.order_fill(ended, FillOrder::End).await) });
            }
            return state;
        }
        if core.copying.contains(&from) {
            // Its orders would be taken for those of this one.
            return FillState::Copying(0);
        }
        let served = |core: &Core<F>, volume| {
            let at = core.ledger.volumes.get(&volume).copied()?;
            Some((at, core.router.layout(at).cloned().filter(|layout| !layout.mirrors.is_empty())?))
        };
        let (Some((at, source)), Some((other, target))) = (served(core, from), served(core, to)) else {
            return FillState::Over(IoError::NotOwner);
        };
        if source.bytes != target.bytes {
            return FillState::Over(IoError::OutOfRange);
        }
        let fill = Fill { from: source.lanes, from_term: source.ownership.term, to: other, to_term: target.ownership.term };
        let state = FillState::Copying(0);
        core.fills.insert(from, Filler { to, at, fill, bytes: source.bytes, pace, state });
        core.copying.insert(from);
        let this = self.clone();
        self.rt.spawn(async move {
            let state = match this.copy_all(from, fill).await {
                Ok(()) => FillState::Whole,
                Err(error) => FillState::Over(error),
            };
            this.with_filler(from, fill, |filler| filler.state = state);
            this.core.borrow_mut().copying.remove(&from);
        });
        state
    }
    /// The filler of a volume, if it is still this one.
    fn with_filler<T>(&self, from: VolumeId, fill: Fill, then: impl FnOnce(&mut Filler) -> T) -> Option<T> {
        self.core.borrow_mut().fills.get_mut(&from).filter(|filler| filler.fill == fill).map(then)
    }
    /// Every core does it; gives the pieces that any of them names.
    async fn order_fill(&self, from: VolumeRef, order: FillOrder) -> Result<Vec<u64>, IoError> {
        self.named(Call::Fill { from, order }).await
    }
    /// The pieces of a window that may hold something.
    async fn holding(&self, volume: VolumeRef, window: Range<u64>) -> Result<Vec<u64>, IoError> {
        self.named(Call::Holding { volume, window }).await
    }
    /// The pieces that any core names, in order.
    async fn named(&self, call: Call<Arc<F::View>>) -> Result<Vec<u64>, IoError> {
        let mut named = Vec::new();
        for core in 0..self.rt.cores() {
            match self.call(core, call.clone()).await {
                Answer::OfFill(FillSays::Done(pieces)) => named.extend(pieces),
                Answer::OfFill(FillSays::Over(error)) => return Err(error),
                _ => return Err(IoError::Closing),
            }
        }
        named.sort_unstable();
        named.dedup();
        Ok(named)
    }

    async fn copy_all(&self, from: VolumeId, fill: Fill) -> Result<(), IoError> {
        let Some((at, bytes)) = self.with_filler(from, fill, |filler| (filler.at, filler.bytes)) else { return Err(IoError::NoVolume) };
        self.order_fill(fill.from, FillOrder::Begin(fill)).await?;
        let pieces = bytes.div_ceil(PIECE_BYTES);
        self.empty(fill, bytes, pieces).await?;
        let (mut next, mut known, mut holding) = (0, 0, Vec::new());
        while next < pieces {
            let began = self.rt.now();
            if next >= known {
                known = (next + HOLDING_MAX).min(pieces);
                holding = self.holding(at, next..known).await?;
            }
            // What holds nothing goes by at once.
            let end = match holding.iter().find(|piece| **piece >= next) {
                Some(piece) if *piece > next => *piece,
                Some(_) => (next + WINDOW_PIECES).min(pieces),
                None => known,
            };
            self.copy_window(at, fill, bytes, next..end).await?;
            next = end;
            let copied = (next * PIECE_BYTES).min(bytes);
            self.with_filler(from, fill, |filler| filler.state = FillState::Copying(copied)).ok_or(IoError::NoVolume)?;
            self.rest(from, fill, began).await?;
        }
        Ok(())
    }
    /// What an earlier fill has left in the other place goes.
    async fn empty(&self, fill: Fill, bytes: u64, pieces: u64) -> Result<(), IoError> {
        let mut next = 0;
        while next < pieces {
            let end = (next + HOLDING_MAX).min(pieces);
            for piece in self.holding(fill.to, next..end).await? {
                let offset = piece * PIECE_BYTES;
                self.ask(fill.to, fill.to_term, IoOp::Trim { offset, len: PIECE_BYTES.min(bytes - offset) }).await?;
            }
            next = end;
        }
        Ok(())
    }
    /// Makes room for hosts.
    async fn rest(&self, from: VolumeId, fill: Fill, began: Instant) -> Result<(), IoError> {
        let took = self.rt.now().since(began);
        loop {
            let pace = self.with_filler(from, fill, |filler| filler.pace).ok_or(IoError::NoVolume)?;
            let rested = self.rt.now().since(began);
            let rest = match pace {
                ResyncPace::Paused => Duration::MAX,
                ResyncPace::Low => took * REST_LOW,
                ResyncPace::Normal => took,
                ResyncPace::High => Duration::ZERO,
            };
            let Some(left) = rest.checked_sub(rested.saturating_sub(took)).filter(|left| *left > Duration::ZERO) else { return Ok(()) };
            self.rt.sleep(left.min(LOOK_AGAIN)).await;
        }
    }
    async fn copy_window(&self, at: VolumeRef, fill: Fill, bytes: u64, window: Range<u64>) -> Result<(), IoError> {
        self.order_fill(fill.from, FillOrder::Window(window.clone())).await?;
        // Looked at after every core notes changes: what is missing because it changes just now is copied again.
        let holding = self.holding(at, window).await?;
        self.copy_pieces(at, fill, bytes, &holding, true).await?;
        let mut left = self.order_fill(fill.from, FillOrder::WindowCopied).await?;
        for _ in 1..TRIES_MAX {
            if left.is_empty() {
                return Ok(());
            }
            left = self.copy_again(at, fill, bytes, &left).await?;
        }
        for pieces in left.chunks(PIECES_AT_ONCE) {
            let mut pieces = pieces.to_vec();
            while !pieces.is_empty() {
                let quiet = self.hold(at).await;
                let copied = self.copy_again(at, fill, bytes, &pieces).await;
                self.release(at).await;
                pieces = copied?;
                if !quiet && !pieces.is_empty() {
                    self.rt.sleep(LOOK_AGAIN).await;
                }
            }
        }
        Ok(())
    }
    /// Copies pieces that were changed meanwhile, and says which of them were changed again.
    async fn copy_again(&self, at: VolumeRef, fill: Fill, bytes: u64, pieces: &[u64]) -> Result<Vec<u64>, IoError> {
        self.order_fill(fill.from, FillOrder::Again(pieces.to_vec())).await?;
        self.copy_pieces(at, fill, bytes, pieces, false).await?;
        self.order_fill(fill.from, FillOrder::AgainCopied(pieces.to_vec())).await
    }
    /// `first`: nothing of them is in the other place yet.
    async fn copy_pieces(&self, at: VolumeRef, fill: Fill, bytes: u64, pieces: &[u64], first: bool) -> Result<(), IoError> {
        for some in pieces.chunks(PIECES_AT_ONCE) {
            let mut receivers = Vec::new();
            for piece in some {
                let (sender, receiver) = oneshot();
                let (this, offset) = (self.clone(), piece * PIECE_BYTES);
                let len = PIECE_BYTES.min(bytes - offset);
                self.rt.spawn(async move {
                    let _ = sender.send(this.copy(at, fill, offset, len, first).await);
                });
                receivers.push(receiver);
            }
            let mut result = Ok(());
            for receiver in receivers {
                result = result.and(receiver.await.unwrap_or(Err(IoError::Closing)));
            }
            result?;
        }
        Ok(())
    }
    /// Copies a range within a piece. What cannot be read is looked at in smaller parts.
    async fn copy(&self, at: VolumeRef, fill: Fill, offset: u64, len: u64, first: bool) -> Result<(), IoError> {
        let mut parts = vec![(offset, len)];
        while let Some((offset, len)) = parts.pop() {
            let smaller = if len > CHUNK_BYTES { CHUNK_BYTES } else { BLOCK_BYTES as u64 };
            match self.ask(at, fill.from_term, IoOp::Read { offset, len: len as u32 }).await {
                Ok(data) => self.write(fill, offset, data, first).await?,
                Err(IoError::Media { .. }) if len > smaller => {
                    parts.extend((offset..offset + len).step_by(smaller as usize).map(|part| (part, smaller.min(offset + len - part))));
                }
                Err(IoError::Media { .. }) => drop(self.ask(fill.to, fill.to_term, IoOp::Uncorrectable { offset, len }).await?),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
    /// Writes what was read of a range within a piece: chunks of zeroes take no room.
    async fn write(&self, fill: Fill, offset: u64, data: DataVec, first: bool) -> Result<(), IoError> {
        let Some(Data { buf, crcs }) = data.into_iter().next() else { return Ok(()) };
        let chunk = CHUNK_BYTES as usize;
        let zero: Vec<bool> = buf.chunks(chunk).map(|part| part.iter().all(|byte| *byte == 0)).collect();
        if !zero.contains(&true) {
            return self
                .ask(fill.to, fill.to_term, IoOp::Write { offset, data: [Data { buf, crcs }].into_iter().collect() })
                .await
                .map(drop);
        }
        let mut from = 0;
        for run in zero.chunk_by(|a, b| a == b) {
            let (start, end) = (from * chunk, ((from + run.len()) * chunk).min(buf.len()));
            from += run.len();
            let (offset, len) = (offset + start as u64, (end - start) as u64);
            let op = match run[0] {
                true if first => continue,
                true => IoOp::Trim { offset, len },
                false => {
                    let crcs = crcs.iter().skip(start / BLOCK_BYTES).take((end - start) / BLOCK_BYTES).copied().collect();
                    IoOp::Write { offset, data: [Data { buf: Buf::copy_of(&buf[start..end]), crcs }].into_iter().collect() }
                }
            };
            self.ask(fill.to, fill.to_term, op).await?;
        }
        Ok(())
    }
    /// A request of the node's own.
    async fn ask(&self, volume: VolumeRef, term: base::Epoch, op: IoOp) -> Result<DataVec, IoError> {
        while self.core.borrow().own.len() >= OWN_REQUESTS_MAX {
            self.rt.sleep(QUIET_POLL).await;
        }
        let (sender, receiver) = oneshot();
        {
            let core = &mut *self.core.borrow_mut();
            let token = core.own.insert(sender);
            if let Err(error) = core.router.submit_own(&self.rt, token as u64, volume, term, op) {
                drop(core.own.remove(token));
                return Err(error);
            }
        }
        self.rt.wake(self.rt.core());
        receiver.await.unwrap_or(Err(IoError::Closing))
    }

    /// No request of a host to a volume begins any more. Whether nothing is under way by now.
    async fn hold(&self, at: VolumeRef) -> bool {
        let held = self.call_all(Call::Hold(at)).await;
        held.is_ok() && self.call_all(Call::Quiet(at)).await.is_ok()
    }
    async fn release(&self, at: VolumeRef) {
        for core in 0..self.rt.cores() {
            let _ = done(self.call(core, Call::Release(at)).await);
        }
    }
    async fn hold_filled(&self, from: VolumeId) -> bool {
        let filler = self.core.borrow().fills.get(&from).map(|filler| (filler.at, filler.fill, filler.state));
        let Some((at, fill, FillState::Whole)) = filler else { return false };
        let over = match self.hold(at).await {
            false => None,
            true => match self.order_fill(fill.from, FillOrder::Ask).await {
                Ok(_) if self.is_of_terms(at, fill) && self.with_filler(from, fill, |_| ()).is_some() => return true,
                Ok(_) => Some(IoError::NotOwner),
                Err(error) => Some(error),
            },
        };
        self.release(at).await;
        if let Some(error) = over {
            self.with_filler(from, fill, |filler| filler.state = FillState::Over(error));
        }
        false
    }
    /// Whether both places are this node's, in the terms in which the fill began.
    fn is_of_terms(&self, at: VolumeRef, fill: Fill) -> bool {
        let core = self.core.borrow();
        let is = |volume, term| core.router.layout(volume).is_some_and(|l| !l.mirrors.is_empty() && l.ownership.term == term);
        is(at, fill.from_term) && is(fill.to, fill.to_term)
    }
    /// Waits until no request of a host to a volume is under way on this core.
    pub(crate) async fn quiet(&self, volume: VolumeRef) -> Result<(), DataPlaneError> {
        let began = self.rt.now();
        while !self.core.borrow().router.is_quiet(volume) {
            if self.rt.now().since(began) > QUIET_MAX {
                return Err(DataPlaneError::Busy);
            }
            self.rt.sleep(QUIET_POLL).await;
        }
        Ok(())
    }
}
