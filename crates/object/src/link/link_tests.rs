//! One link, by hand: what goes over it, what it refuses, and when it closes.

use super::limits::{SILENCE_MAX, STAMP_AGE_MAX, WAITING_MAX};
use super::*;
use crate::io::{CompareWrite, Data, IoError, IoOp};
use base::unit::{BLOCK_BYTES, IO_BYTES_MAX, PIECE_BYTES};
use base::{ClusterId, Duration, HostId, IoVerb, VolumeId};
use format::peer::{
    Cancel, Done, Forward, HEADER_BYTES, Issuer, LinkClass, MessageKind, Outcome, PeerError, RequestId, Revision, Totals, Versions,
    WINDOW_BYTES_MIN,
};
use rt::Buf;

const WINDOW: Window = Window { ops: 4, bytes: WINDOW_BYTES_MIN };
const REVISION: Revision = Revision(5);

fn at(ms: u64) -> Instant {
    Instant(1_000_000_000) + Duration::from_millis(ms)
}

fn node(n: u8) -> NodeId {
    NodeId::from_bytes([n; 16])
}

fn hello() -> Hello {
    Hello {
        cluster: ClusterId::from_bytes([9; 16]),
        from: node(1),
        to: node(2),
        incarnation: Incarnation(3),
        clock: at(0),
        versions: Versions::OURS,
        class: LinkClass::Foreground,
        lane: 0,
        lanes: 1,
        window: WINDOW,
    }
}

fn welcome() -> Welcome {
    Welcome { from: node(2), incarnation: Incarnation(8), version: 1, window: WINDOW, left: Held::default() }
}

/// Everything that one end has to send.
fn output(link: &mut Link) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(list) = link.take_output() {
        list.slices(0).for_each(|part| out.extend_from_slice(part));
        link.sent(list);
    }
    out
}

fn pass(from: &mut Link, to: &mut Link, now: Instant) {
    let bytes = output(from);
    to.receive(now, &bytes);
}

fn events(link: &mut Link) -> Vec<LinkEvent> {
    std::iter::from_fn(|| link.pop_event()).collect()
}

fn greeting() -> (Link, Link) {
    let dialer = Link::dial(at(0), hello(), SessionNo(6), Held::default(), Incarnation(8), Protection::Plain);
    (dialer, Link::accept(at(0), Protection::Plain))
}

/// An open link: requester and owner.
fn open() -> (Link, Link) {
    opened(Protection::Plain)
}

fn opened(protection: Protection) -> (Link, Link) {
    let (mut a, mut b) = greeting();
    (a.protection, b.protection) = (protection, protection);
    pass(&mut a, &mut b, at(0));
    assert!(matches!(events(&mut b)[..], [LinkEvent::Greeted(h, session)] if h == hello() && session.no == SessionNo(6)));
    b.admit(at(0), &welcome());
    pass(&mut b, &mut a, at(0));
    for link in [&mut a, &mut b] {
        assert!(matches!(events(link)[..], [LinkEvent::Opened { version: 1, .. }]) && link.is_open() && link.is_idle());
    }
    (a, b)
}

fn request(link: &Link, token: u64, op: ForwardOp) -> ForwardRequest {
    let issuer = Issuer { host: HostId::from_bytes([7; 16]), controller: 3 };
    ForwardRequest { token, volume: VolumeId::from_bytes([token as u8; 16]), revision: REVISION, stamp: link.stamp().unwrap(), issuer, op }
}

fn read(offset: u64, len: u32) -> ForwardOp {
    ForwardOp::Io(IoOp::Read { offset, len })
}

fn data(lens: &[usize], value: u8) -> DataVec {
    let one = |len: &usize| {
        let mut buf = Buf::alloc(*len);
        buf.fill(value);
        let crcs = if len.is_multiple_of(BLOCK_BYTES) { buf.chunks(BLOCK_BYTES).map(base::crc32c).collect() } else { Default::default() };
        Data { buf, crcs }
    };
    lens.iter().map(one).collect()
}

fn forwarded(link: &mut Link) -> Forwarded {
    match events(link).pop() {
        Some(LinkEvent::Forwarded(forwarded)) => forwarded,
        other => panic!("{other:?} is no request"),
    }
}

fn answered(link: &mut Link) -> Answered {
    match events(link).pop() {
        Some(LinkEvent::Answered(answered)) => answered,
        other => panic!("{other:?} is no answer"),
    }
}

/// Shared or not, as it is shown.
fn shown(op: &ForwardOp) -> String {
    format!("{op:?}").replace(" of 4096 bytes", "").replace(" bytes, shared", "")
}

/// A message by hand, as of the requester.
fn by_hand(link: &mut Link, write: impl FnOnce(&Envelope, &mut [u8]) -> usize) -> Vec<u8> {
    let envelope = link.phase.session_mut().unwrap().envelope();
    let mut out = vec![0; 4096];
    let n = write(&envelope, &mut out);
    out.truncate(n);
    out
}

fn fault(link: &Link) -> Option<LinkFault> {
    if let Some(CloseReason::Fault(fault)) = link.close_reason() { Some(fault) } else { None }
}

#[test]
fn every_verb_goes_to_the_owner_and_back() {
    let (mut a, mut b) = open();
    let both = |len| {
        let mut two = data(&[len, len], 3).into_iter();
        Box::new(CompareWrite { compare: two.next().unwrap(), data: two.next().unwrap() })
    };
    let (offset, len) = (PIECE_BYTES - 4096, 8192);
    let ops = [
        read(offset, len as u32),
        ForwardOp::Io(IoOp::Verify { offset, len }),
        ForwardOp::Compare { offset: 512, data: data(&[1536], 1) },
        ForwardOp::Io(IoOp::Write { offset, data: data(&[4096, 4096], 2) }),
        ForwardOp::Io(IoOp::CompareWrite { offset: 0, both: both(4096) }),
        ForwardOp::Copy { offset, len: 1 << 40, source: VolumeId::from_bytes([4; 16]), source_offset: 1 << 30 },
        ForwardOp::Io(IoOp::Zero { offset, len }),
        ForwardOp::Io(IoOp::Trim { offset, len: 1 << 40 }),
        ForwardOp::Io(IoOp::Uncorrectable { offset, len }),
        ForwardOp::Io(IoOp::Flush),
    ];
    let verbs: Vec<IoVerb> = ops.iter().map(ForwardOp::verb).collect();
    assert_eq!(verbs, IoVerb::ALL);
    for (token, op) in ops.into_iter().enumerate() {
        let request = request(&a, token as u64, op);
        a.submit(request);
        pass(&mut a, &mut b, at(1));
        let came = forwarded(&mut b);
        let sent = a.phase.session().unwrap().pending.get(came.id.request).expect("it is under way");
        assert_eq!(shown(&came.op), shown(&sent.request.op), "what comes is what was sent, with checksums and lengths");
        assert_eq!((came.op.verb(), came.revision, came.issuer.controller), (verbs[token], REVISION, 3));
        assert_eq!(came.volume, VolumeId::from_bytes([token as u8; 16]));
        b.may_begin(came.id, at(2), REVISION).unwrap();
        let (result, back) = match token {
            0 => (Ok(()), data(&[4096, 4096], 9)),
            2 => (Err(ForwardError::Miscompare { offset: 777 }), DataVec::new()),
            3 => (Err(ForwardError::Io(IoError::Media { offset: 4096 })), DataVec::new()),
            _ => (Ok(()), DataVec::new()),
        };
        b.answer(came.id, result, back);
        pass(&mut b, &mut a, at(2));
        let answer = answered(&mut a);
        assert_eq!((answer.request.token, answer.result), (token as u64, result));
        assert_eq!(answer.data.iter().flat_map(|d| d.buf.iter()).all(|b| *b == 9), token == 0 || answer.data.is_empty());
        assert_eq!(answer.data.len(), if token == 0 { 2 } else { 0 });
    }
    assert!(a.is_idle() && b.is_idle());
}

#[test]
fn checksums_of_blocks_are_passed_on_as_they_are_both_ways() {
    let (mut a, mut b) = opened(Protection::Tls);
    let marked = |sums: [u32; 2]| {
        let mut list = data(&[8192], 1);
        list[0].crcs = sums.into_iter().collect();
        list
    };
    let write = request(&a, 1, ForwardOp::Io(IoOp::Write { offset: 0, data: marked([11, 12]) }));
    a.submit(write);
    a.submit(request(&a, 2, read(0, 8192)));
    pass(&mut a, &mut b, at(1));
    let mut came = events(&mut b).into_iter().map(|e| if let LinkEvent::Forwarded(f) = e { f } else { panic!("{e:?}") });
    let (write, read) = (came.next().unwrap(), came.next().unwrap());
    let ForwardOp::Io(IoOp::Write { data, .. }) = &write.op else { panic!("{write:?}") };
    assert_eq!(data[0].crcs[..], [11, 12], "no checksum is computed anew");
    b.may_begin(read.id, at(1), REVISION).unwrap();
    b.answer(read.id, Ok(()), marked([21, 22]));
    pass(&mut b, &mut a, at(1));
    assert_eq!(answered(&mut a).data[0].crcs[..], [21, 22]);
    // On a plain link the same is a fault.
    let (mut a, mut b) = open();
    let write = request(&a, 1, ForwardOp::Io(IoOp::Write { offset: 0, data: marked([11, 12]) }));
    a.submit(write);
    pass(&mut a, &mut b, at(1));
    assert_eq!(fault(&b), Some(LinkFault::Data));
}

#[test]
fn many_messages_go_in_one_send_and_much_data_lands_where_it_stays() {
    let (mut a, mut b) = open();
    let big = ForwardOp::Io(IoOp::Write { offset: PIECE_BYTES - 65_536, data: data(&[65_536, 65_536], 5) });
    for (token, op) in [read(0, 512), big, read(512, 512)].into_iter().enumerate() {
        a.submit(request(&a, token as u64, op));
    }
    let list = a.take_output().expect("one send");
    assert!(a.take_output().is_none());
    // Header and body of three requests, and the data of the second from where it lies.
    assert_eq!(list.segments(), 4);
    let bytes: Vec<u8> = list.slices(0).flatten().copied().collect();
    a.sent(list);
    let (mut rest, mut landed) = (&bytes[..], 0);
    while !rest.is_empty() {
        match b.land() {
            Some((mut buf, room)) => {
                assert!(buf.as_ptr().addr().is_multiple_of(rt::BUF_ALIGN) && buf.len() == 65_536);
                let n = room.len().min(20_000).min(rest.len());
                buf[room.start..room.start + n].copy_from_slice(&rest[..n]);
                b.landed(at(1), buf, n);
                (rest, landed) = (&rest[n..], landed + n);
            }
            None => {
                let n = rest.len().min(100);
                b.receive(at(1), &rest[..n]);
                rest = &rest[n..];
            }
        }
    }
    assert!(landed > 100_000, "{landed}");
    let came: Vec<_> = events(&mut b);
    assert!(matches!(&came[1], LinkEvent::Forwarded(Forwarded { op: ForwardOp::Io(IoOp::Write { data, .. }), .. })
        if data.len() == 2 && data.iter().all(|d| d.buf.iter().all(|b| *b == 5) && d.crcs.len() == 16)));
    assert_eq!(came.len(), 3);
}

#[test]
fn what_is_beyond_the_credits_waits_in_order_and_what_is_beyond_that_is_refused() {
    let (mut a, mut b) = open();
    let all = WINDOW.ops as usize + WAITING_MAX + 1;
    for token in 0..all as u64 {
        a.submit(request(&a, token, read(0, 512)));
    }
    let refused = answered(&mut a);
    assert_eq!((refused.request.token, refused.result), (all as u64 - 1, Err(ForwardError::Busy)));
    let mut next = 0;
    while next + 1 < all as u64 {
        pass(&mut a, &mut b, at(1));
        let came: Vec<ServedId> =
            events(&mut b).iter().map(|e| if let LinkEvent::Forwarded(f) = e { f.id } else { panic!("{e:?}") }).collect();
        assert!(!came.is_empty() && came.len() <= WINDOW.ops as usize);
        for id in came {
            b.may_begin(id, at(1), REVISION).unwrap();
            b.answer(id, Ok(()), data(&[512], 1));
        }
        pass(&mut b, &mut a, at(1));
        for event in events(&mut a) {
            assert!(matches!(event, LinkEvent::Answered(answer) if answer.request.token == next));
            next += 1;
        }
    }
    assert!(a.is_idle() && b.is_idle());
    // Bytes count too: two reads of the largest size fill the window.
    (0..3).for_each(|token| a.submit(request(&a, token, read(0, IO_BYTES_MAX as u32))));
    pass(&mut a, &mut b, at(1));
    assert_eq!(events(&mut b).len(), 2);
}

#[test]
fn a_request_begins_only_while_it_is_fresh_wanted_and_judged_by_the_same_view() {
    let age = STAMP_AGE_MAX.as_millis() as u64;
    for (ms, revision, cancel, expected) in [
        (age, REVISION, false, Ok(())),
        (age + 1, REVISION, false, Err(NotBegun::TooOld)),
        (1, Revision(4), false, Err(NotBegun::Stale)),
        (1, Revision(6), false, Err(NotBegun::Stale)),
        (1, REVISION, true, Err(NotBegun::Cancelled)),
    ] {
        let (mut a, mut b) = open();
        a.submit(request(&a, 1, read(0, 512)));
        if cancel {
            a.cancel(1);
            a.cancel(1);
        }
        pass(&mut a, &mut b, at(1));
        let mut came = events(&mut b).into_iter();
        let Some(LinkEvent::Forwarded(request)) = came.next() else { panic!("no request") };
        let cancelled: Vec<_> = came.collect();
        assert!(if cancel { matches!(cancelled[..], [LinkEvent::Cancelled(id)] if id == request.id) } else { cancelled.is_empty() });
        assert_eq!(b.is_wanted(request.id), !cancel);
        assert_eq!(b.may_begin(request.id, at(ms), revision), expected);
        if let Err(why) = expected {
            pass(&mut b, &mut a, at(2));
            assert_eq!(answered(&mut a).result.err(), why.error());
            assert!(a.is_idle() && b.is_idle(), "the credit is back");
            assert_eq!(b.may_begin(request.id, at(1), REVISION), Err(NotBegun::LinkLost), "it is over");
        }
    }
}

#[test]
fn a_cancel_of_what_has_begun_makes_it_unwanted_and_it_is_answered_as_it_ends() {
    let (mut a, mut b) = open();
    a.submit(request(&a, 1, ForwardOp::Io(IoOp::Trim { offset: 0, len: 1 << 40 })));
    pass(&mut a, &mut b, at(1));
    let id = forwarded(&mut b).id;
    b.may_begin(id, at(1), REVISION).unwrap();
    a.cancel(1);
    pass(&mut a, &mut b, at(1));
    assert!(events(&mut b).is_empty() && !b.is_wanted(id));
    b.answer(id, Err(ForwardError::Io(IoError::Withdrawn)), DataVec::new());
    pass(&mut b, &mut a, at(1));
    assert_eq!(answered(&mut a).result, Err(ForwardError::Io(IoError::Withdrawn)));
}

#[test]
fn a_link_that_closes_answers_what_was_sent_and_what_was_not_apart() {
    let (mut a, mut b) = open();
    (0..6).for_each(|token| a.submit(request(&a, token, read(0, 512))));
    pass(&mut a, &mut b, at(1));
    let ids: Vec<ServedId> = events(&mut b).iter().map(|e| if let LinkEvent::Forwarded(f) = e { f.id } else { panic!("{e:?}") }).collect();
    b.may_begin(ids[0], at(1), REVISION).unwrap();
    a.close(CloseReason::Lost);
    b.close(CloseReason::Lost);
    let results: Vec<_> = events(&mut a).iter().map(|e| if let LinkEvent::Answered(a) = e { a.result } else { Ok(()) }).collect();
    let (lost, unsent) = (Err(ForwardError::LinkLost), Err(ForwardError::Unsent));
    assert_eq!(results, [lost, lost, lost, lost, unsent, unsent, Ok(())], "and the last event is that it is closed");
    assert!(!b.is_wanted(ids[0]));
    for id in &ids[1..] {
        assert_eq!(b.may_begin(*id, at(1), REVISION), Err(NotBegun::LinkLost));
    }
    assert_eq!(b.left().map(|(id, held)| (id, held.ops)).collect::<Vec<_>>(), [(ids[0], 1)], "what has begun is under way");
    b.answer(ids[0], Ok(()), data(&[512], 1));
    events(&mut b);
    assert!(b.left().next().is_none() && b.is_done() && a.is_done());
    a.submit(ForwardRequest { stamp: Stamp { incarnation: Incarnation(8), clock: at(0) }, ..request(&open().0, 9, read(0, 512)) });
    assert_eq!(answered(&mut a).result, unsent);
}

#[test]
fn a_stamp_of_another_life_of_the_owner_or_a_late_one_is_not_even_sent() {
    let (mut a, mut b) = open();
    let sound = a.stamp().unwrap();
    assert_eq!(sound, Stamp { incarnation: Incarnation(8), clock: at(0) });
    a.submit(ForwardRequest { stamp: Stamp { incarnation: Incarnation(7), ..sound }, ..request(&a, 1, read(0, 512)) });
    assert_eq!(answered(&mut a).result, Err(ForwardError::TooOld));
    let late = STAMP_AGE_MAX + Duration::from_millis(1);
    a.poll(at(0) + late / 2);
    b.receive(at(0), &output(&mut a));
    b.poll(at(0) + late);
    pass(&mut b, &mut a, at(0) + late);
    assert_eq!(a.stamp().unwrap().clock, at(0) + late);
    a.submit(ForwardRequest { stamp: sound, ..request(&a, 2, read(0, 512)) });
    assert_eq!(answered(&mut a).result, Err(ForwardError::TooOld));
    assert!(a.take_output().is_none());
}

#[test]
fn each_end_says_its_clock_often_enough_and_silence_closes() {
    let (mut a, mut b) = open();
    let mut said = at(0);
    for ms in (0..3000).step_by(7) {
        let now = at(ms);
        a.poll(now);
        b.poll(now);
        pass(&mut a, &mut b, now);
        pass(&mut b, &mut a, now);
        let clock = a.stamp().unwrap().clock;
        assert!(now.since(clock) <= Duration::from_millis(100) && clock >= said);
        said = clock;
    }
    let heard = a.heard_at;
    a.poll(heard + SILENCE_MAX - Duration::from_millis(1));
    assert!(a.is_open());
    a.poll(heard + SILENCE_MAX);
    assert_eq!(a.close_reason(), Some(CloseReason::Silence));
    b.receive(at(2997), &output(&mut a));
    assert_eq!(b.close_reason(), Some(CloseReason::Ended(GoodbyeReason::Silence)));
    let (mut a, mut b) = greeting();
    a.poll(a.deadline().unwrap());
    b.poll(b.deadline().unwrap());
    assert_eq!([a.close_reason(), b.close_reason()], [Some(CloseReason::NoGreeting); 2]);
}

#[test]
fn who_drains_finishes_what_was_sent_and_refuses_what_is_on_its_way() {
    let (mut a, mut b) = open();
    a.submit(request(&a, 1, read(0, 512)));
    pass(&mut a, &mut b, at(1));
    let first = forwarded(&mut b).id;
    b.may_begin(first, at(1), REVISION).unwrap();
    b.drain();
    a.submit(request(&a, 2, read(0, 512)));
    pass(&mut a, &mut b, at(1));
    assert!(events(&mut b).is_empty(), "not reported any more");
    pass(&mut b, &mut a, at(1));
    assert_eq!(answered(&mut a).result, Err(ForwardError::Draining));
    a.submit(ForwardRequest { stamp: Stamp { incarnation: Incarnation(8), clock: at(0) }, ..request(&a, 3, read(0, 512)) });
    assert_eq!(answered(&mut a).result, Err(ForwardError::Unsent));
    pass(&mut a, &mut b, at(1));
    assert!(!a.is_closed() && !b.is_closed());
    b.answer(first, Ok(()), data(&[512], 1));
    pass(&mut b, &mut a, at(1));
    assert!(matches!(events(&mut a)[..], [LinkEvent::Answered(_), LinkEvent::Closed(CloseReason::Drained)]));
    assert_eq!(b.close_reason(), Some(CloseReason::Drained));
}

#[test]
fn an_acceptor_that_is_another_node_or_an_older_life_is_not_believed() {
    for wrong in [Welcome { from: node(3), ..welcome() }, Welcome { incarnation: Incarnation(7), ..welcome() }] {
        let (mut a, mut b) = greeting();
        pass(&mut a, &mut b, at(0));
        b.admit(at(0), &wrong);
        pass(&mut b, &mut a, at(0));
        assert_eq!(a.close_reason(), Some(CloseReason::OtherNode));
    }
    let (mut a, mut b) = greeting();
    pass(&mut a, &mut b, at(0));
    b.admit(at(0), &Welcome { version: 3, ..welcome() });
    pass(&mut b, &mut a, at(0));
    assert_eq!(fault(&a), Some(LinkFault::Version));
}

#[test]
fn what_an_earlier_session_has_left_is_not_granted_until_it_is_over() {
    let (mut a, mut b) = greeting();
    pass(&mut a, &mut b, at(0));
    events(&mut b);
    b.admit(at(0), &Welcome { left: Held { ops: 3, bytes: 1024 }, ..welcome() });
    pass(&mut b, &mut a, at(0));
    events(&mut a);
    (0..2).for_each(|token| a.submit(request(&a, token, read(0, 512))));
    pass(&mut a, &mut b, at(0));
    assert_eq!(events(&mut b).len(), 2, "opened, and one request");
    b.left_ended(Held { ops: 2, bytes: 512 });
    pass(&mut b, &mut a, at(0));
    pass(&mut a, &mut b, at(0));
    assert_eq!(events(&mut b).len(), 1, "half a window is said at once");
}

/// A node that breaks the rules ends the link, and is not given memory for it.
#[test]
fn what_breaks_the_protocol_closes_the_link() {
    let write = |n: u64, slot: u16, len: u64| {
        let (a, _) = open();
        let of = |op| request(&a, 1, op).to_wire(RequestId::new(n, slot));
        Forward { len, ..of(read(0, 512)) }
    };
    type Case<'a> = (&'a str, &'a dyn Fn(&mut Link) -> Vec<u8>, LinkFault);
    let cases: [Case<'_>; 9] = [
        ("bytes", &|_| vec![0; HEADER_BYTES], LinkFault::Message(PeerError::Magic)),
        ("a second Hello", &|a| by_hand(a, |e, out| hello().write(e, out)), LinkFault::Order(MessageKind::Hello)),
        (
            "another session",
            &|a| by_hand(a, |e, out| Tick { clock: at(1) }.write(&Envelope { session: SessionNo(5), ..*e }, out)),
            LinkFault::Session,
        ),
        ("another version", &|a| by_hand(a, |e, out| Tick { clock: at(1) }.write(&Envelope { version: 2, ..*e }, out)), LinkFault::Version),
        ("a clock that goes back", &|a| by_hand(a, |e, out| Tick { clock: Instant(1) }.write(e, out)), LinkFault::Clock),
        (
            "credits that go back",
            &|a| by_hand(a, |e, out| Tick { clock: at(1) }.write(&Envelope { totals: Totals::default(), ..*e }, out)),
            LinkFault::Credits,
        ),
        (
            "an answer to nothing",
            &|a| by_hand(a, |e, out| Done { request: RequestId::new(1, 0), outcome: Outcome::Done, detail: 0 }.write(e, &[], out)),
            LinkFault::Answer,
        ),
        ("a slot beyond the window", &|a| by_hand(a, |e, out| write(1, 4, 512).write(e, &[], out)), LinkFault::Request),
        (
            "more bytes than the window",
            &|a| (1..4).flat_map(|n| by_hand(a, |e, out| write(n, n as u16, IO_BYTES_MAX as u64).write(e, &[], out))).collect(),
            LinkFault::Credits,
        ),
    ];
    for (what, bytes, expected) in cases {
        let (mut a, mut b) = open();
        let bytes = bytes(&mut a);
        b.receive(at(1), &bytes);
        assert_eq!(fault(&b), Some(expected), "{what}");
        pass(&mut b, &mut a, at(1));
        assert_eq!(a.close_reason(), Some(CloseReason::Ended(GoodbyeReason::Fault)), "{what}");
    }
    // A number that was used.
    let (mut a, mut b) = open();
    let twice =
        [by_hand(&mut a, |e, out| write(1, 0, 512).write(e, &[], out)), by_hand(&mut a, |e, out| write(1, 1, 512).write(e, &[], out))]
            .concat();
    b.receive(at(1), &twice);
    assert_eq!(fault(&b), Some(LinkFault::Request));
    // An answer with more data than was asked for is refused before memory is taken.
    let (mut a, mut b) = open();
    a.submit(request(&a, 1, read(0, 512)));
    let mut seals = [0; 16384];
    let envelope = b.phase.session_mut().unwrap().envelope();
    let too_much = data(&[8192], 1);
    let n = Done { request: RequestId::new(1, 0), outcome: Outcome::Done, detail: 0 }.write(
        &envelope,
        &[request::segment(&too_much[0])],
        &mut seals,
    );
    let buffers = rt::buffers_outstanding();
    a.receive(at(1), &seals[..n]);
    assert_eq!(fault(&a), Some(LinkFault::Answer));
    assert!(rt::buffers_outstanding() <= buffers);
    // A cancel of nothing is nothing: its request may have been answered.
    let (mut a, mut b) = open();
    let cancel = by_hand(&mut a, |e, out| Cancel { request: RequestId::new(1, 0) }.write(e, out));
    b.receive(at(1), &cancel);
    assert!(b.is_open() && events(&mut b).is_empty());
}

#[test]
fn messages_of_control_links_go_over_those_and_nothing_else_does() {
    let (object, next) = (base::ObjectId::from_bytes([5; 16]), base::NodeId::from_bytes([6; 16]));
    let release = Control::Release(format::peer::Release { object, epoch: base::Epoch(7), next });
    let control = || {
        let (mut a, mut b) = open();
        for link in [&mut a, &mut b] {
            link.phase.session_mut().unwrap().class = LinkClass::Control;
        }
        (a, b)
    };
    let (mut a, mut b) = control();
    a.say(&release);
    assert!(a.may_say());
    pass(&mut a, &mut b, at(1));
    assert!(matches!(&events(&mut b)[..], [LinkEvent::Control(message)] if *message == release));
    // A request on a control link, and what belongs there on another one.
    let (mut a, mut b) = control();
    a.submit(request(&a, 1, read(0, 512)));
    pass(&mut a, &mut b, at(1));
    assert_eq!(fault(&b), Some(LinkFault::Order(MessageKind::Forward)));
    let (mut a, mut b) = open();
    let bytes = by_hand(&mut a, |e, out| release.write(e, out));
    b.receive(at(1), &bytes);
    assert_eq!(fault(&b), Some(LinkFault::Order(MessageKind::Release)));
    // When more than one send has gathered, what can wait does.
    let (mut a, _) = control();
    (0..10_000).find(|_| {
        a.say(&release);
        !a.may_say()
    });
    assert!(!a.may_say());
    output(&mut a);
    assert!(a.may_say());
}
