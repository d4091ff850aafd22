//! What goes over control links: heartbeats and grants, released objects, fences and their answers (`docs/grants.md`).
//!
//! Invariants: a body has at most as many entries as its kind may; what names a lane or a range of blocks names one that can be.
//! Never: judges an epoch.

use super::error::{PeerError, check, reserved};
use super::header::{Envelope, HEADER_BYTES, Header, MessageKind};
use super::sizes::{
    BAD_BLOCK_BYTES, BEAT_BYTES, BEAT_ENTRY_BYTES, COPY_FAILS_BYTES, DOUBT_BYTES, FENCE_BYTES, FENCED_BYTES, LOAD_BYTES, RELEASE_BYTES,
};
pub use super::sizes::{BEAT_ENTRIES_MAX, DOUBT_ENTRIES_MAX};
use crate::bytes::*;
use base::unit::{BLOCK_BYTES, VOLUME_BYTES_MAX};
use base::{BlockNo, ComponentId, Epoch, Instant, Lane, NodeId, ObjectId, Seq};

layout!(beat: 16 bytes { 0: CLOCK[8], 8: FLAGS[1], 9: RESERVED[7] });
layout!(beat_entry: 24 bytes { 0: OBJECT[16], 16: EPOCH[4], 20: STATE[1], 21: RESERVED[3] });
layout!(release: 40 bytes { 0: OBJECT[16], 16: NEXT[16], 32: EPOCH[4], 36: RESERVED[4] });
layout!(fence: 48 bytes { 0: OBJECT[16], 16: COMPONENT[16], 32: EPOCH[4], 36: PERIOD_START[4], 40: FLAGS[1], 41: RESERVED[7] });
layout!(fenced: 40 bytes { 0: COMPONENT[16], 16: EPOCH[4], 20: PROGRESS_TO[4], 24: PROGRESS_BELOW[8], 32: FLAGS[1], 33: RESERVED[7] });
layout!(bad_block: 32 bytes { 0: COMPONENT[16], 16: BLOCK[8], 24: RESERVED[8] });
layout!(copy_fails: 24 bytes { 0: COMPONENT[16], 16: EPOCH[4], 20: RESERVED[4] });
layout!(load: 8 bytes { 0: WEIGHT[4], 4: RESERVED[4] });
layout!(doubt: 16 bytes { 0: LANE[1], 1: WHAT[1], 2: RESERVED[2], 4: SMALL[4], 8: LARGE[8] });

const _: () = assert!(beat::BYTES == BEAT_BYTES && beat_entry::BYTES == BEAT_ENTRY_BYTES && release::BYTES == RELEASE_BYTES);
const _: () = assert!(fence::BYTES == FENCE_BYTES && fenced::BYTES == FENCED_BYTES && doubt::BYTES == DOUBT_BYTES);
const _: () = assert!(bad_block::BYTES == BAD_BLOCK_BYTES && copy_fails::BYTES == COPY_FAILS_BYTES && load::BYTES == LOAD_BYTES);

/// More parts follow; the clock says nothing yet.
const MORE: u8 = 1;
/// Of Fence and Fenced: the copy is out of sync.
const RESYNC: u8 = 2;

/// A message of a control link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// See [`Heartbeat`].
    Heartbeat(Heartbeat),
    /// See [`Grant`].
    Grant(Grant),
    /// See [`Release`].
    Release(Release),
    /// See [`Fence`].
    Fence(Fence),
    /// See [`FencedPart`].
    Fenced(FencedPart),
    /// See [`BadBlock`].
    BadBlock(BadBlock),
    /// See [`CopyFails`].
    CopyFails(CopyFails),
    /// See [`Load`].
    Load(Load),
}

/// Asks for a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The sender's clock. `None`: more parts follow before it.
    pub clock: Option<Instant>,
    /// Objects that the sender owns (true) or does not own any more, as far as it has not said so on this link.
    pub claims: Vec<(ObjectId, bool)>,
}

/// The answer to a Heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The clock of the heartbeat. `None`: more parts follow before it.
    pub clock: Option<Instant>,
    /// Objects whose state has changed since it was said last on this link.
    pub objects: Vec<(ObjectId, GrantState)>,
}

/// For which epochs of an object a grant is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantState {
    /// For all.
    Given,
    /// For none: the granter waits to accept this epoch of another owner, or takes the object over.
    Waits(Epoch),
    /// For none below this: the granter has accepted it.
    Accepted(Epoch),
}

/// The sender answers nothing more of the object in epochs up to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// Which object.
    pub object: ObjectId,
    /// Up to which epoch.
    pub epoch: Epoch,
    /// Who is to own it.
    pub next: NodeId,
}

/// The owner of a new epoch makes itself known to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Which object.
    pub object: ObjectId,
    /// Which copy of it.
    pub component: ComponentId,
    /// The epoch.
    pub epoch: Epoch,
    /// Since when the object is not in sync on all copies.
    pub period_start: Epoch,
    /// The copy is out of sync, and is to join.
    pub resync: bool,
}

/// A copy of the sender has lost a block: the owner is to write it again from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadBlock {
    /// Which copy.
    pub component: ComponentId,
    /// Which block, in the object's address space.
    pub block: BlockNo,
}

/// The answer to a Fence of a copy that cannot accept the epoch: its device has failed or makes no progress, or too much is in doubt in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyFails {
    /// Which copy.
    pub component: ComponentId,
    /// The epoch of the Fence.
    pub epoch: Epoch,
}

/// How much the sender has to do for the objects that it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// 1 for each object, and 1 more for so many requests a second (`object::owners`); [`Load::ENDS`].
    pub weight: u32,
}

impl Load {
    /// The sender is about to end: owners do without its copies from now on, and nothing is handed over to it, until it opens a link anew.
    pub const ENDS: Load = Load { weight: u32::MAX };
}

/// What a lane of a copy says when it is fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoubtEntry {
    /// Its mark.
    Mark(Lane, Seq),
    /// Blocks in doubt: the first, and how many.
    Range(Lane, BlockNo, u32),
}

/// A part of a copy's answer to Fence. Parts of one answer follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FencedPart {
    /// Which copy.
    pub component: ComponentId,
    /// The epoch of the Fence.
    pub epoch: Epoch,
    /// Of a copy that is out of sync: chunks below this one are complete, up to this epoch.
    pub resync: Option<(u64, Epoch)>,
    /// More parts follow.
    pub more: bool,
    /// What is in doubt.
    pub doubt: Vec<DoubtEntry>,
}

impl Control {
    /// Reads a body that its header has checked.
    pub fn parse(kind: MessageKind, b: &[u8]) -> Result<Control, PeerError> {
        match kind {
            MessageKind::Heartbeat => Heartbeat::parse(b).map(Control::Heartbeat),
            MessageKind::Grant => Grant::parse(b).map(Control::Grant),
            MessageKind::Release => Release::parse(b).map(Control::Release),
            MessageKind::Fence => Fence::parse(b).map(Control::Fence),
            MessageKind::Fenced => FencedPart::parse(b).map(Control::Fenced),
            MessageKind::BadBlock => BadBlock::parse(b).map(Control::BadBlock),
            MessageKind::CopyFails => CopyFails::parse(b).map(Control::CopyFails),
            MessageKind::Load => Load::parse(b).map(Control::Load),
            other => Err(PeerError::Kind(other as u8)),
        }
    }
    /// What it is.
    pub const fn kind(&self) -> MessageKind {
        match self {
            Control::Heartbeat(_) => MessageKind::Heartbeat,
            Control::Grant(_) => MessageKind::Grant,
            Control::Release(_) => MessageKind::Release,
            Control::Fence(_) => MessageKind::Fence,
            Control::Fenced(_) => MessageKind::Fenced,
            Control::BadBlock(_) => MessageKind::BadBlock,
            Control::CopyFails(_) => MessageKind::CopyFails,
            Control::Load(_) => MessageKind::Load,
        }
    }
    /// The whole message into `out`; its bytes.
    ///
    /// # Panics
    /// When it has more entries than it may.
    pub fn write(&self, envelope: &Envelope, out: &mut [u8]) -> usize {
        let b = &mut out[HEADER_BYTES..];
        let bytes = match self {
            Control::Heartbeat(heartbeat) => heartbeat.put(b),
            Control::Grant(grant) => grant.put(b),
            Control::Release(release) => release.put(b),
            Control::Fence(fence) => fence.put(b),
            Control::Fenced(part) => part.put(b),
            Control::BadBlock(bad) => bad.put(b),
            Control::CopyFails(fails) => fails.put(b),
            Control::Load(load) => load.put(b),
        };
        Header::seal(self.kind(), envelope, [0; 2], bytes, out)
    }
}

/// The clock of a Heartbeat or Grant, and its entries.
fn parse_beat(b: &[u8]) -> Result<(Option<Instant>, impl Iterator<Item = &[u8; BEAT_ENTRY_BYTES]>), PeerError> {
    use beat::*;
    let (b, entries) = b.split_first_chunk::<BYTES>().ok_or(PeerError::Length)?;
    reserved(b, RESERVED, BYTES)?;
    check(b[FLAGS] & !MORE == 0, "flags")?;
    let more = b[FLAGS] & MORE != 0;
    check(!more || u64_at(b, CLOCK) == 0, "clock")?;
    let (entries, rest) = entries.as_chunks::<BEAT_ENTRY_BYTES>();
    if !rest.is_empty() || entries.len() > BEAT_ENTRIES_MAX {
        return Err(PeerError::Length);
    }
    Ok(((!more).then(|| Instant(u64_at(b, CLOCK))), entries.iter()))
}

fn put_beat(b: &mut [u8], clock: Option<Instant>, entries: impl ExactSizeIterator<Item = (ObjectId, Epoch, u8)>) -> usize {
    use beat_entry::*;
    assert!(entries.len() <= BEAT_ENTRIES_MAX, "as many entries as one message has");
    let bytes = BEAT_BYTES + entries.len() * BYTES;
    b[..bytes].fill(0);
    put_u64(b, beat::CLOCK, clock.map_or(0, |clock| clock.0));
    b[beat::FLAGS] = if clock.is_none() { MORE } else { 0 };
    for (at, (object, epoch, state)) in entries.enumerate() {
        let b = &mut b[BEAT_BYTES + at * BYTES..];
        put(b, OBJECT, object.as_bytes());
        put_u32(b, EPOCH, epoch.0);
        b[STATE] = state;
    }
    bytes
}

impl Heartbeat {
    fn parse(b: &[u8]) -> Result<Heartbeat, PeerError> {
        let (clock, entries) = parse_beat(b)?;
        let claim = |b: &[u8; BEAT_ENTRY_BYTES]| {
            reserved(b, beat_entry::EPOCH, beat_entry::STATE)?;
            reserved(b, beat_entry::RESERVED, beat_entry::BYTES)?;
            check(b[beat_entry::STATE] <= 1, "state")?;
            Ok((ObjectId::from_bytes(array_at(b, beat_entry::OBJECT)), b[beat_entry::STATE] == 1))
        };
        Ok(Heartbeat { clock, claims: entries.map(claim).collect::<Result<_, _>>()? })
    }
    fn put(&self, b: &mut [u8]) -> usize {
        put_beat(b, self.clock, self.claims.iter().map(|(object, owned)| (*object, Epoch(0), u8::from(*owned))))
    }
}

impl Grant {
    fn parse(b: &[u8]) -> Result<Grant, PeerError> {
        let (clock, entries) = parse_beat(b)?;
        let object = |b: &[u8; BEAT_ENTRY_BYTES]| {
            reserved(b, beat_entry::RESERVED, beat_entry::BYTES)?;
            let epoch = Epoch(u32_at(b, beat_entry::EPOCH));
            let state = match b[beat_entry::STATE] {
                0 if epoch == Epoch(0) => GrantState::Given,
                1 => GrantState::Waits(epoch),
                2 => GrantState::Accepted(epoch),
                _ => return Err(PeerError::Value { field: "state" }),
            };
            Ok((ObjectId::from_bytes(array_at(b, beat_entry::OBJECT)), state))
        };
        Ok(Grant { clock, objects: entries.map(object).collect::<Result<_, _>>()? })
    }
    fn put(&self, b: &mut [u8]) -> usize {
        let entry = |(object, state): &(ObjectId, GrantState)| match *state {
            GrantState::Given => (*object, Epoch(0), 0),
            GrantState::Waits(epoch) => (*object, epoch, 1),
            GrantState::Accepted(epoch) => (*object, epoch, 2),
        };
        put_beat(b, self.clock, self.objects.iter().map(entry))
    }
}

impl Release {
    fn parse(b: &[u8]) -> Result<Release, PeerError> {
        use release::*;
        let b = b.first_chunk::<BYTES>().ok_or(PeerError::Length)?;
        reserved(b, RESERVED, BYTES)?;
        let (object, next) = (ObjectId::from_bytes(array_at(b, OBJECT)), NodeId::from_bytes(array_at(b, NEXT)));
        Ok(Release { object, epoch: Epoch(u32_at(b, EPOCH)), next })
    }
    fn put(&self, b: &mut [u8]) -> usize {
        use release::*;
        b[..BYTES].fill(0);
        put(b, OBJECT, self.object.as_bytes());
        put(b, NEXT, self.next.as_bytes());
        put_u32(b, EPOCH, self.epoch.0);
        BYTES
    }
}

impl BadBlock {
    fn parse(b: &[u8]) -> Result<BadBlock, PeerError> {
        use bad_block::*;
        let b = b.first_chunk::<BYTES>().ok_or(PeerError::Length)?;
        reserved(b, RESERVED, BYTES)?;
        let block = u64_at(b, BLOCK);
        check(block < VOLUME_BYTES_MAX / BLOCK_BYTES as u64, "block")?;
        Ok(BadBlock { component: ComponentId::from_bytes(array_at(b, COMPONENT)), block: BlockNo(block) })
    }
    fn put(&self, b: &mut [u8]) -> usize {
        use bad_block::*;
        b[..BYTES].fill(0);
        put(b, COMPONENT, self.component.as_bytes());
        put_u64(b, BLOCK, self.block.0);
        BYTES
    }
}

impl CopyFails {
    fn parse(b: &[u8]) -> Result<CopyFails, PeerError> {
        use copy_fails::*;
        let b = b.first_chunk::<BYTES>().ok_or(PeerError::Length)?;
        reserved(b, RESERVED, BYTES)?;
        Ok(CopyFails { component: ComponentId::from_bytes(array_at(b, COMPONENT)), epoch: Epoch(u32_at(b, EPOCH)) })
    }
    fn put(&self, b: &mut [u8]) -> usize {
        use copy_fails::*;
        b[..BYTES].fill(0);
        put(b, COMPONENT, self.component.as_bytes());
        put_u32(b, EPOCH, self.epoch.0);
        BYTES
    }
}

impl Load {
    fn parse(b: &[u8]) -> Result<Load, PeerError> {
        use load::*;
        let b = b.first_chunk::<BYTES>().ok_or(PeerError::Length)?;
        reserved(b, RESERVED, BYTES)?;
        Ok(Load { weight: u32_at(b, WEIGHT) })
    }
    fn put(self, b: &mut [u8]) -> usize {
        use load::*;
        b[..BYTES].fill(0);
        put_u32(b, WEIGHT, self.weight);
        BYTES
    }
}

impl Fence {
    fn parse(b: &[u8]) -> Result<Fence, PeerError> {
        use fence::*;
        let b = b.first_chunk::<BYTES>().ok_or(PeerError::Length)?;
        reserved(b, RESERVED, BYTES)?;
        check(b[FLAGS] & !RESYNC == 0, "flags")?;
        Ok(Fence {
            object: ObjectId::from_bytes(array_at(b, OBJECT)),
            component: ComponentId::from_bytes(array_at(b, COMPONENT)),
            epoch: Epoch(u32_at(b, EPOCH)),
            period_start: Epoch(u32_at(b, PERIOD_START)),
            resync: b[FLAGS] & RESYNC != 0,
        })
    }
    fn put(&self, b: &mut [u8]) -> usize {
        use fence::*;
        b[..BYTES].fill(0);
        put(b, OBJECT, self.object.as_bytes());
        put(b, COMPONENT, self.component.as_bytes());
        put_u32(b, EPOCH, self.epoch.0);
        put_u32(b, PERIOD_START, self.period_start.0);
        b[FLAGS] = if self.resync { RESYNC } else { 0 };
        BYTES
    }
}

impl DoubtEntry {
    fn parse(b: &[u8; DOUBT_BYTES]) -> Result<DoubtEntry, PeerError> {
        use doubt::*;
        reserved(b, RESERVED, SMALL)?;
        let lane = Lane::new(b[LANE]).ok_or(PeerError::Value { field: "lane" })?;
        let (small, large) = (u32_at(b, SMALL), u64_at(b, LARGE));
        match b[WHAT] {
            0 => Ok(DoubtEntry::Mark(lane, Seq { term: Epoch(small), counter: large })),
            1 => {
                let end = large.checked_add(small.into());
                check(small > 0 && end.is_some_and(|end| end <= VOLUME_BYTES_MAX / BLOCK_BYTES as u64), "range")?;
                Ok(DoubtEntry::Range(lane, BlockNo(large), small))
            }
            _ => Err(PeerError::Value { field: "what" }),
        }
    }
    fn put(&self, b: &mut [u8]) {
        use doubt::*;
        b[..BYTES].fill(0);
        let (lane, what, small, large) = match *self {
            DoubtEntry::Mark(lane, Seq { term, counter }) => (lane, 0, term.0, counter),
            DoubtEntry::Range(lane, first, blocks) => (lane, 1, blocks, first.0),
        };
        (b[LANE], b[WHAT]) = (lane.index() as u8, what);
        put_u32(b, SMALL, small);
        put_u64(b, LARGE, large);
    }
}

impl FencedPart {
    fn parse(b: &[u8]) -> Result<FencedPart, PeerError> {
        use fenced::*;
        let (b, entries) = b.split_first_chunk::<BYTES>().ok_or(PeerError::Length)?;
        reserved(b, RESERVED, BYTES)?;
        let flags = b[FLAGS];
        check(flags & !(MORE | RESYNC) == 0, "flags")?;
        let (below, to) = (u64_at(b, PROGRESS_BELOW), Epoch(u32_at(b, PROGRESS_TO)));
        check(flags & RESYNC != 0 || (below, to) == (0, Epoch(0)), "progress")?;
        let (entries, rest) = entries.as_chunks::<DOUBT_BYTES>();
        if !rest.is_empty() || entries.len() > DOUBT_ENTRIES_MAX {
            return Err(PeerError::Length);
        }
        Ok(FencedPart {
            component: ComponentId::from_bytes(array_at(b, COMPONENT)),
            epoch: Epoch(u32_at(b, EPOCH)),
            resync: (flags & RESYNC != 0).then_some((below, to)),
            more: flags & MORE != 0,
            doubt: entries.iter().map(DoubtEntry::parse).collect::<Result<_, _>>()?,
        })
    }
    fn put(&self, b: &mut [u8]) -> usize {
        use fenced::*;
        assert!(self.doubt.len() <= DOUBT_ENTRIES_MAX, "as many entries as one message has");
        b[..BYTES].fill(0);
        put(b, COMPONENT, self.component.as_bytes());
        put_u32(b, EPOCH, self.epoch.0);
        let (below, to) = self.resync.unwrap_or_default();
        put_u32(b, PROGRESS_TO, to.0);
        put_u64(b, PROGRESS_BELOW, below);
        b[FLAGS] = if self.more { MORE } else { 0 } | if self.resync.is_some() { RESYNC } else { 0 };
        let (_, entries) = b.split_at_mut(BYTES);
        for (entry, b) in self.doubt.iter().zip(entries.chunks_exact_mut(DOUBT_BYTES)) {
            entry.put(b);
        }
        BYTES + self.doubt.len() * DOUBT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::{BODY_BYTES_MAX, SessionNo, Totals};
    use proptest::prelude::*;

    const ENVELOPE: Envelope = Envelope { session: SessionNo(7), version: 1, totals: Totals { ops: 1, bytes: 2 } };

    fn object() -> impl Strategy<Value = ObjectId> {
        any::<[u8; 16]>().prop_map(ObjectId::from_bytes)
    }
    fn clock() -> impl Strategy<Value = Option<Instant>> {
        prop::option::of(any::<u64>().prop_map(Instant))
    }
    fn entry() -> impl Strategy<Value = DoubtEntry> {
        let lane = (0u8..16).prop_map(|n| Lane::new(n).unwrap());
        (lane, any::<bool>(), any::<u32>(), any::<u64>()).prop_map(|(lane, mark, small, large)| match mark {
            true => DoubtEntry::Mark(lane, Seq { term: Epoch(small), counter: large }),
            false => DoubtEntry::Range(lane, BlockNo(large >> 32), small % 4096 + 1),
        })
    }
    fn control() -> impl Strategy<Value = Control> {
        let heartbeat = (clock(), prop::collection::vec((object(), any::<bool>()), 0..=BEAT_ENTRIES_MAX));
        let heartbeat = heartbeat.prop_map(|(clock, claims)| Control::Heartbeat(Heartbeat { clock, claims }));
        let grant = (clock(), prop::collection::vec((object(), 0..3, any::<u32>()), 0..=BEAT_ENTRIES_MAX)).prop_map(|(clock, objects)| {
            let state = |state, epoch| match state {
                0 => GrantState::Given,
                1 => GrantState::Waits(epoch),
                _ => GrantState::Accepted(epoch),
            };
            Control::Grant(Grant { clock, objects: objects.into_iter().map(|(o, s, epoch)| (o, state(s, Epoch(epoch)))).collect() })
        });
        let fenced = (any::<[u8; 16]>(), any::<u32>(), prop::option::of((any::<u64>(), any::<u32>())), any::<bool>());
        let fenced =
            (fenced, prop::collection::vec(entry(), 0..=DOUBT_ENTRIES_MAX)).prop_map(|((component, epoch, resync, more), doubt)| {
                let resync = resync.map(|(below, to)| (below, Epoch(to)));
                Control::Fenced(FencedPart { component: ComponentId::from_bytes(component), epoch: Epoch(epoch), resync, more, doubt })
            });
        let small =
            (object(), any::<[u8; 16]>(), any::<[u32; 2]>(), any::<[bool; 2]>()).prop_map(|(object, component, e, [fence, resync])| {
                match fence {
                    true => {
                        let (component, epoch, period_start) = (ComponentId::from_bytes(component), Epoch(e[0]), Epoch(e[1]));
                        Control::Fence(Fence { object, component, epoch, period_start, resync })
                    }
                    false => Control::Release(Release { object, epoch: Epoch(e[0]), next: NodeId::from_bytes(component) }),
                }
            });
        let bad = (any::<[u8; 16]>(), 0..VOLUME_BYTES_MAX / BLOCK_BYTES as u64).prop_map(|(component, block)| {
            Control::BadBlock(BadBlock { component: ComponentId::from_bytes(component), block: BlockNo(block) })
        });
        let fails = (any::<[u8; 16]>(), any::<u32>()).prop_map(|(component, epoch)| {
            Control::CopyFails(CopyFails { component: ComponentId::from_bytes(component), epoch: Epoch(epoch) })
        });
        let load = any::<u32>().prop_map(|weight| Control::Load(Load { weight }));
        prop_oneof![heartbeat, grant, fenced, small, bad, fails, load]
    }

    proptest! {
        #[test]
        fn messages_of_control_links_read_back(message in control()) {
            let mut out = vec![0xEE; HEADER_BYTES + BODY_BYTES_MAX];
            let bytes = message.write(&ENVELOPE, &mut out);
            let header = Header::parse(out.first_chunk().unwrap()).unwrap();
            let body = &out[HEADER_BYTES..bytes];
            header.check_body(body).unwrap();
            prop_assert_eq!(header.kind, message.kind());
            prop_assert_eq!(Control::parse(header.kind, body), Ok(message));
        }

        #[test]
        fn any_body_may_come(mut b in prop::collection::vec(any::<u8>(), 0..BODY_BYTES_MAX), zeroes: bool, kind in 0..MessageKind::ALL.len()) {
            if zeroes {
                b.iter_mut().for_each(|b| *b &= 3);
            }
            let kind = MessageKind::ALL[kind];
            if let Ok(message) = Control::parse(kind, &b) {
                let mut out = vec![0xEE; HEADER_BYTES + BODY_BYTES_MAX];
                let bytes = message.write(&ENVELOPE, &mut out);
                // Nothing is dropped but what follows a body of a fixed length, which its header refuses.
                prop_assert_eq!(&out[HEADER_BYTES..bytes], &b[..bytes - HEADER_BYTES]);
            }
        }
    }

    #[test]
    fn what_names_nothing_that_can_be_is_refused() {
        let part = |entry: DoubtEntry| {
            let component = ComponentId::from_bytes([1; 16]);
            let part = FencedPart { component, epoch: Epoch(1), resync: None, more: false, doubt: vec![entry] };
            let mut out = vec![0; HEADER_BYTES + BODY_BYTES_MAX];
            let bytes = Control::Fenced(part).write(&ENVELOPE, &mut out);
            out[HEADER_BYTES..bytes].to_vec()
        };
        let last = VOLUME_BYTES_MAX / BLOCK_BYTES as u64;
        let lane = Lane::new(3).unwrap();
        let parse = |b: &[u8]| Control::parse(MessageKind::Fenced, b);
        assert!(parse(&part(DoubtEntry::Range(lane, BlockNo(last - 2), 2))).is_ok());
        for (first, blocks) in [(last - 1, 2), (5, 0), (u64::MAX, 2)] {
            assert_eq!(parse(&part(DoubtEntry::Range(lane, BlockNo(first), blocks))), Err(PeerError::Value { field: "range" }));
        }
        // A lane, what it is, reserved; flags; progress without resync.
        for (at, value) in [(40, 16), (41, 2), (42, 1), (32, 4), (20, 1), (24, 1)] {
            let mut b = part(DoubtEntry::Range(lane, BlockNo(1), 2));
            b[at] = value;
            assert!(parse(&b).is_err(), "{at}");
        }
        let mut b = part(DoubtEntry::Range(lane, BlockNo(1), 2));
        b.push(0);
        assert_eq!(parse(&b), Err(PeerError::Length));
    }
}
