//! The peer link: its messages (`format::peer`), and one link as a state machine (`object::link`) whose other end keeps no rule.

use crate::input::{Choices, mode, stretched};
use base::{ClusterId, Duration, HostId, Instant, IoVerb, NodeId, VolumeId, crc32c};
use format::peer::{
    Ack, BODY_BYTES_MAX, Cancel, Change, Control, CopyData, CopyOutcome, CopyRead, DATA_BYTES_MAX, Done, Envelope, Forward,
    GREETING_BYTES_MAX, Goodbye, GoodbyeReason, HEADER_BYTES, HELLO_ANSWER_BYTES, HELLO_BYTES, Header, Hello, HelloAnswer, Incarnation,
    Issuer, LinkClass, List, Listed, MessageKind, Outcome, REFUSAL_BYTES, Refusal, RefusalReason, RequestId, Revision, SEGMENTS_MAX,
    Segment, SegmentSums, SessionNo, Sums, Tick, Totals, Versions, WINDOW_BYTES_MIN, Window,
};
use object::link::{ForwardError, ForwardOp, ForwardRequest, Held, Link, LinkEvent, Protection, ServedId, Welcome};
use object::{Data, DataVec, IoOp, extents};
use rt::Buf;
use std::collections::{BTreeMap, BTreeSet};

/// Where a header has its magic number, its checksum, the length of the body and the checksum of that.
const MAGIC: &[u8; 4] = b"BSLp";
const CRC: usize = 4;
const BODY_BYTES: usize = 12;
const BODY_CRC: usize = 48;

/// A mode byte, a header and a body. Bit 0: header and body get their checksums, and the header its magic number and the body's length.
pub fn message(data: &[u8]) {
    let (mode, rest) = mode(data);
    let (head, body) = rest.split_at(rest.len().min(HEADER_BYTES));
    let mut head: [u8; HEADER_BYTES] = stretched(head, HEADER_BYTES).try_into().expect("it was stretched");
    if mode & 1 != 0 {
        head[..4].copy_from_slice(MAGIC);
        head[BODY_BYTES..BODY_BYTES + 4].copy_from_slice(&(body.len() as u32).to_le_bytes());
        head[BODY_CRC..BODY_CRC + 4].copy_from_slice(&crc32c(body).to_le_bytes());
        crate::input::seal(&mut head, CRC);
    }
    let Ok(header) = Header::parse(&head) else { return };
    let [first, second] = header.data_bytes.map(|n| n as usize);
    assert!(header.body_bytes as usize <= BODY_BYTES_MAX && first + second <= DATA_BYTES_MAX && (first > 0 || second == 0));
    if header.check_body(body).is_err() {
        return;
    }
    let mut out = vec![0xEE; HEADER_BYTES + BODY_BYTES_MAX];
    let Some((written, known)) = again(&header, body, &mut out) else { return };
    // A body of a later release may be longer; the rest is written as it came.
    assert_eq!(out[HEADER_BYTES..written], body[..known]);
    if known == body.len() {
        assert_eq!(out[..HEADER_BYTES], head);
    }
}

/// A body that parses, written again; the bytes of the message, and of the body as this release knows it.
fn again(header: &Header, body: &[u8], out: &mut [u8]) -> Option<(usize, usize)> {
    let envelope = &header.envelope;
    let written = match header.kind {
        MessageKind::Hello => Hello::parse(body).ok()?.write(envelope, out),
        MessageKind::HelloAnswer => HelloAnswer::parse(body).ok()?.write(envelope, out),
        MessageKind::Refusal => {
            let refusal = Refusal::parse(body).ok().filter(|refusal| refusal.reason != RefusalReason::Later)?;
            refusal.write(envelope, out)
        }
        MessageKind::Tick => Tick::parse(body).ok()?.write(envelope, out),
        MessageKind::Goodbye => Goodbye::parse(body).ok()?.write(envelope, out),
        MessageKind::Cancel => Cancel::parse(body).ok()?.write(envelope, out),
        MessageKind::Forward => {
            let (forward, sums) = Forward::parse(body, header.data_bytes).ok()?;
            assert!(forward.cost() <= DATA_BYTES_MAX as u64 && forward.data_bytes() == header.data_bytes);
            with_segments(header.data_bytes, &sums, |segments| forward.write(envelope, segments, out))
        }
        MessageKind::Done => {
            let (done, sums) = Done::parse(body, header.data_bytes).ok()?;
            assert!(done.outcome == Outcome::Done || header.data_bytes == [0; SEGMENTS_MAX]);
            with_segments(header.data_bytes, &sums, |segments| done.write(envelope, segments, out))
        }
        MessageKind::Change => {
            let (change, sums) = Change::parse(body, header.data_bytes).ok()?;
            assert!(change.order.mark < change.order.seq && [change.data_bytes(), 0] == header.data_bytes);
            change.write(envelope, &sums.of(0).collect::<Vec<_>>(), out)
        }
        MessageKind::Ack => Ack::parse(body).ok()?.write(envelope, out),
        MessageKind::CopyRead => CopyRead::parse(body).ok()?.write(envelope, out),
        MessageKind::CopyData => {
            let (data, sums) = CopyData::parse(body, header.data_bytes).ok()?;
            data.write(envelope, &sums.of(0).collect::<Vec<_>>(), out)
        }
        MessageKind::List => List::parse(body).ok()?.write(envelope, out),
        MessageKind::Listed => {
            let (listed, sums) = Listed::parse(body, header.data_bytes).ok()?;
            listed.write(envelope, sums.of(0).next().unwrap_or(0), out)
        }
        MessageKind::Heartbeat
        | MessageKind::Grant
        | MessageKind::Release
        | MessageKind::Fence
        | MessageKind::Fenced
        | MessageKind::BadBlock
        | MessageKind::CopyFails
        | MessageKind::Load => Control::parse(header.kind, body).ok()?.write(envelope, out),
    };
    let known = match header.kind {
        MessageKind::Hello => HELLO_BYTES,
        MessageKind::HelloAnswer => HELLO_ANSWER_BYTES,
        MessageKind::Refusal => REFUSAL_BYTES,
        _ => body.len(),
    };
    assert!(known <= body.len() && (known == body.len() || body.len() <= GREETING_BYTES_MAX));
    Some((written, known))
}

fn with_segments(data_bytes: [u32; SEGMENTS_MAX], sums: &Sums<'_>, write: impl FnOnce(&[Segment<'_>]) -> usize) -> usize {
    let lists: Vec<Vec<u32>> = (0..SEGMENTS_MAX).map(|n| sums.of(n).collect()).collect();
    let segment = |n: usize| Segment {
        bytes: data_bytes[n],
        sums: if sums.is_by_block(n) { SegmentSums::Blocks(&lists[n]) } else { SegmentSums::Whole(lists[n][0]) },
    };
    let segments: Vec<Segment<'_>> = (0..SEGMENTS_MAX).filter(|n| data_bytes[*n] > 0).map(segment).collect();
    write(&segments)
}

const WINDOW: Window = Window { ops: 4, bytes: WINDOW_BYTES_MIN };
const SESSION: SessionNo = SessionNo(3);

/// One link, and what is known of its requests.
struct Ends {
    link: Link,
    now: Instant,
    /// What the other end has let this one send, at most.
    totals: Totals,
    serial: u64,
    submitted: BTreeSet<u64>,
    answered: BTreeSet<u64>,
    /// Requests of the other end, and whether they have begun.
    served: BTreeMap<ServedId, (bool, u32)>,
    closed: bool,
}

/// A link that is open, and choices: messages that are right or nearly, raw bytes, cut anywhere; requests, answers, time.
pub fn link(data: &[u8]) {
    let buffers = rt::buffers_outstanding();
    let mut choices = Choices::new(data);
    let mut ends = Ends::open(&mut choices);
    while !choices.is_empty() && !ends.closed {
        ends.step(&mut choices);
        ends.look();
    }
    ends.link.close(object::link::CloseReason::Lost);
    ends.look();
    assert!(ends.closed, "a link that closes says so");
    assert_eq!(ends.answered, ends.submitted, "every request is answered");
    drop(ends);
    assert_eq!(rt::buffers_outstanding(), buffers, "buffers leak");
}

impl Ends {
    fn open(choices: &mut Choices<'_>) -> Ends {
        let hello = Hello {
            cluster: ClusterId::from_bytes([1; 16]),
            from: NodeId::from_bytes([2; 16]),
            to: NodeId::from_bytes([3; 16]),
            incarnation: Incarnation(4),
            clock: Instant(0),
            versions: Versions::OURS,
            class: LinkClass::Foreground,
            lane: 0,
            lanes: 1,
            window: WINDOW,
        };
        let now = Instant(1 << 40);
        let totals = Totals { ops: WINDOW.ops.into(), bytes: WINDOW.bytes };
        let envelope = Envelope { session: SESSION, version: 0, totals };
        let mut out = vec![0; HEADER_BYTES + BODY_BYTES_MAX];
        let protection = choices.of(&[Protection::Plain, Protection::Tls]);
        let link = if choices.any::<bool>() {
            let mut link = Link::dial(now, hello, SESSION, Held::default(), Incarnation(5), protection);
            let answer = HelloAnswer { from: hello.to, incarnation: Incarnation(5), clock: Instant(0), version: 1, window: WINDOW };
            let n = answer.write(&envelope, &mut out);
            link.receive(now, &out[..n]);
            link
        } else {
            let mut link = Link::accept(now, protection);
            let n = hello.write(&envelope, &mut out);
            link.receive(now, &out[..n]);
            link.admit(now, &Welcome { from: hello.to, incarnation: Incarnation(5), version: 1, window: WINDOW, left: Held::default() });
            link
        };
        let (submitted, answered) = (BTreeSet::new(), BTreeSet::new());
        Ends { link, now, totals, serial: 0, submitted, answered, served: BTreeMap::new(), closed: false }
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        match choices.below(12) {
            0..=4 => self.message(choices),
            5 => self.link.receive(self.now, choices.bytes(200)),
            6 => self.submit(choices),
            7 => self.link.cancel(u64::from(choices.below(8))),
            8 => {
                self.now += Duration::from_millis(u64::from(choices.below(120)));
                self.link.poll(self.now);
            }
            9 => self.begin(choices),
            10 => self.answer(choices),
            _ if choices.once_in(8) => self.link.drain(),
            _ => {
                while let Some(list) = self.link.take_output() {
                    self.link.sent(list);
                }
            }
        }
    }
    /// A message that is right, or nearly.
    fn message(&mut self, choices: &mut Choices<'_>) {
        if choices.once_in(4) {
            self.totals.ops += u64::from(choices.below(3));
            self.totals.bytes += u64::from(choices.below(1 << 20));
        }
        let session = if choices.once_in(30) { SessionNo(choices.any()) } else { SESSION };
        let envelope = Envelope { session, version: if choices.once_in(30) { choices.any() } else { 1 }, totals: self.totals };
        let mut out = vec![0; HEADER_BYTES + BODY_BYTES_MAX];
        let request = RequestId::new(1 + u64::from(choices.below(8)), choices.below(5) as u16);
        let (n, data) = match choices.below(5) {
            0 => (Tick { clock: Instant(self.now.0.wrapping_add_signed(choices.any::<i16>().into())) }.write(&envelope, &mut out), 0),
            1 => (Cancel { request }.write(&envelope, &mut out), 0),
            2 if choices.once_in(4) => (Goodbye { reason: choices.of(&GoodbyeReason::ALL) }.write(&envelope, &mut out), 0),
            2 | 3 => {
                self.serial += 1;
                let slot = if choices.once_in(10) { choices.any() } else { (self.serial % 4) as u16 };
                let verb = choices.of(&[IoVerb::Read, IoVerb::Write, IoVerb::Trim, IoVerb::Flush, IoVerb::Compare]);
                let len = if verb == IoVerb::Flush { 0 } else { 512 * (1 + u64::from(choices.below(20))) };
                let forward = Forward {
                    request: RequestId::new(self.serial, slot),
                    volume: VolumeId::from_bytes([5; 16]),
                    revision: Revision(choices.below(2).into()),
                    stamp: Instant(self.now.0.wrapping_add_signed(choices.any::<i32>().into())),
                    issuer: Issuer { host: HostId::from_bytes([6; 16]), controller: 7 },
                    verb,
                    offset: 0,
                    len,
                    source: None,
                };
                let data = forward.data_bytes()[0];
                let segments = [Segment { bytes: data, sums: SegmentSums::Whole(crc32c(&vec![0; data as usize])) }];
                (forward.write(&envelope, &segments[..usize::from(data > 0)], &mut out), data as usize)
            }
            _ => {
                let (outcome, data) = (choices.of(&Outcome::ALL), 512 * choices.below(4));
                let data = if outcome == Outcome::Done { data } else { 0 };
                let segments = [Segment { bytes: data, sums: SegmentSums::Whole(crc32c(&vec![0; data as usize])) }];
                let done = Done { request, outcome, detail: 0 };
                (done.write(&envelope, &segments[..usize::from(data > 0)], &mut out), data as usize)
            }
        };
        out.truncate(n);
        out.resize(n + data, 0);
        if choices.once_in(20) {
            let at = choices.below(out.len() as u32) as usize;
            out[at] ^= choices.any::<u8>();
        }
        let (first, rest) = out.split_at(choices.below(out.len() as u32 + 1) as usize);
        self.link.receive(self.now, first);
        self.link.receive(self.now, rest);
    }
    fn submit(&mut self, choices: &mut Choices<'_>) {
        let Some(stamp) = self.link.stamp() else { return };
        let token = self.submitted.len() as u64;
        self.submitted.insert(token);
        let (offset, len) = (512 * u64::from(choices.below(4096)), 512 * (1 + choices.below(8)));
        let piece = |len: u32| Data { buf: Buf::zeroed(len as usize), crcs: Default::default() };
        let op = match choices.below(3) {
            0 => IoOp::Read { offset, len },
            1 => IoOp::Write { offset, data: extents(offset, len).iter().map(|e| piece(e.len)).collect() },
            _ => IoOp::Flush,
        };
        let issuer = Issuer { host: HostId::from_bytes([6; 16]), controller: 7 };
        let (volume, revision) = (VolumeId::from_bytes([5; 16]), Revision(1));
        self.link.submit(ForwardRequest { token, volume, revision, stamp, issuer, op: ForwardOp::Io(op) });
    }
    fn begin(&mut self, choices: &mut Choices<'_>) {
        let Some((&id, _)) = self.served.iter().filter(|(_, (begun, _))| !begun).nth(choices.below(4) as usize) else { return };
        match self.link.may_begin(id, self.now, Revision(1)) {
            Ok(()) => self.served.get_mut(&id).expect("seen above").0 = true,
            Err(_) => drop(self.served.remove(&id)),
        }
    }
    fn answer(&mut self, choices: &mut Choices<'_>) {
        let Some((&id, &(begun, reads))) = self.served.iter().nth(choices.below(4) as usize) else { return };
        self.served.remove(&id);
        if !begun {
            return self.link.answer(id, Err(ForwardError::Busy), DataVec::new());
        }
        let back = (reads > 0).then(|| Data { buf: Buf::zeroed(reads as usize), crcs: Default::default() });
        self.link.answer(id, Ok(()), back.into_iter().collect());
    }
    fn look(&mut self) {
        while let Some(event) = self.link.pop_event() {
            assert!(!self.closed, "{event:?} after the end");
            match event {
                LinkEvent::Forwarded(f) => {
                    let reads = if let ForwardOp::Io(IoOp::Read { len, .. }) = f.op { len } else { 0 };
                    assert!(self.served.insert(f.id, (false, reads)).is_none(), "a request comes once");
                }
                LinkEvent::Cancelled(id) => {
                    assert_eq!(self.served.remove(&id).map(|(begun, _)| begun), Some(false));
                    self.link.let_go(id);
                }
                LinkEvent::Answered(answered) => {
                    let token = answered.request.token;
                    assert!(self.submitted.contains(&token) && self.answered.insert(token), "a request is answered once");
                }
                LinkEvent::Closed(_) => self.closed = true,
                LinkEvent::CopyAsked(id, _) => self.link.answer_copy(id, CopyOutcome::Closing.into()),
                LinkEvent::CopyAnswered(..) => panic!("an answer to nothing"),
                LinkEvent::Opened { .. } | LinkEvent::Greeted(..) | LinkEvent::Control(_) => {}
            }
        }
        assert!(self.served.len() <= WINDOW.ops as usize, "more requests under way than the window");
    }
}
