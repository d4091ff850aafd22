//! Requests for copies over one link, by hand.

use super::limits::{COPY_BYTES_MAX, COPY_OPS_MAX};
use super::*;
use crate::io::Data;
use base::unit::{BLOCK_BYTES, IO_BYTES_MAX};
use base::{BlockNo, ClusterId, ComponentId, Epoch, Order, Seq, crc32c};
use format::peer::{Ack, Change, ChangeVerb, CopyOutcome, CopyRead, HEADER_BYTES, LinkClass, RequestId, Versions, WINDOW_BYTES_MIN};
use rt::Buf;

const AT: Instant = Instant(1_000_000_000);
const WINDOW: Window = Window { ops: 4, bytes: WINDOW_BYTES_MIN };

/// An open link of this version: owner and holder.
fn open(version: u8) -> (Link, Link) {
    let hello = Hello {
        cluster: ClusterId::from_bytes([9; 16]),
        from: NodeId::from_bytes([1; 16]),
        to: NodeId::from_bytes([2; 16]),
        incarnation: Incarnation(3),
        clock: AT,
        versions: Versions::OURS,
        class: LinkClass::Foreground,
        lane: 0,
        lanes: 1,
        window: WINDOW,
    };
    let mut a = Link::dial(AT, hello, SessionNo(6), Held::default(), Incarnation(8), Protection::Plain);
    let mut b = Link::accept(AT, Protection::Plain);
    pass(&mut a, &mut b);
    b.admit(AT, &Welcome { from: hello.to, incarnation: Incarnation(8), version, window: WINDOW, left: Held::default() });
    pass(&mut b, &mut a);
    drop((events(&mut a), events(&mut b)));
    (a, b)
}
fn output(link: &mut Link) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(list) = link.take_output() {
        list.slices(0).for_each(|part| out.extend_from_slice(part));
        link.sent(list);
    }
    out
}
fn pass(from: &mut Link, to: &mut Link) {
    let bytes = output(from);
    to.receive(AT, &bytes);
}
fn events(link: &mut Link) -> Vec<LinkEvent> {
    std::iter::from_fn(|| link.pop_event()).collect()
}
fn data(bytes: usize, value: u8) -> Data {
    let mut buf = Buf::alloc(bytes);
    buf.fill(value);
    let crcs = buf.chunks(BLOCK_BYTES).map(crc32c).collect();
    Data { buf, crcs }
}
fn write(counter: u64, blocks: u32) -> CopyAsk {
    let order = Order { epoch: Epoch(2), period_start: Epoch(1), seq: Seq { term: Epoch(1), counter }, mark: Seq::default() };
    let (request, component, block) = (RequestId::default(), ComponentId::from_bytes([4; 16]), BlockNo(0));
    let change = Change { request, component, order, resync: false, checksum: true, verb: ChangeVerb::Write, block, blocks, source: None };
    CopyAsk::Change { change: Box::new(change), data: Some(data(blocks as usize * BLOCK_BYTES, counter as u8)) }
}
fn read(blocks: u32) -> CopyAsk {
    let (request, component, block) = (RequestId::default(), ComponentId::from_bytes([4; 16]), BlockNo(0));
    CopyAsk::Read(CopyRead { request, component, epoch: Epoch(2), period_start: Epoch(1), block, blocks, run: false })
}
fn asked(link: &mut Link) -> Vec<(ServedId, CopyAsk)> {
    let of = |event| if let LinkEvent::CopyAsked(id, ask) = event { (id, ask) } else { panic!("{event:?}") };
    events(link).into_iter().map(of).collect()
}
fn answered(link: &mut Link) -> Vec<(u64, CopyAnswer)> {
    let of = |event| if let LinkEvent::CopyAnswered(token, answer) = event { (token, answer) } else { panic!("{event:?}") };
    events(link).into_iter().map(of).collect()
}

#[test]
fn a_change_and_a_read_go_there_and_their_answers_back_with_data_and_checksums_as_they_were() {
    let (mut a, mut b) = open(2);
    a.ask_copy(71, write(1, 3));
    a.ask_copy(72, read(2));
    pass(&mut a, &mut b);
    let mut came = asked(&mut b);
    let (read_id, CopyAsk::Read(read)) = came.pop().unwrap() else { panic!("a read") };
    let (write_id, CopyAsk::Change { change, data: Some(written) }) = came.pop().unwrap() else { panic!("a write") };
    assert!(change.order.seq.counter == 1 && written.buf[..] == data(3 * BLOCK_BYTES, 1).buf[..] && written.crcs.len() == 3);
    assert_eq!(read.blocks, 2);
    let mut back = data(2 * BLOCK_BYTES, 9);
    back.crcs[1] = crc32c(&back.buf[BLOCK_BYTES..]);
    b.answer_copy(read_id, CopyAnswer { data: Some(back), ..CopyOutcome::Done.into() });
    b.answer_copy(write_id, CopyOutcome::StaleEpoch(Epoch(9)).into());
    pass(&mut b, &mut a);
    let back = answered(&mut a);
    assert_eq!(
        (back[0].0, back[0].1.outcome, back[1].0, back[1].1.outcome),
        (72, CopyOutcome::Done, 71, CopyOutcome::StaleEpoch(Epoch(9)))
    );
    assert!(back[0].1.data.as_ref().is_some_and(|d| d.buf.iter().all(|b| *b == 9) && d.crcs.len() == 2));
    assert!(a.is_idle() && b.is_idle());
}

#[test]
fn runs_and_lists_come_back_as_they_were_asked_for() {
    use base::{SourceContent, SourceRun};
    use format::peer::List;
    use store::{CopyChunk, CopyList};
    let (mut a, mut b) = open(2);
    let run_of = |blocks| {
        let CopyAsk::Read(read) = read(blocks) else { unreachable!() };
        CopyAsk::Read(CopyRead { run: true, ..read })
    };
    let list = |from, most| {
        let (request, component) = (RequestId::default(), ComponentId::from_bytes([4; 16]));
        CopyAsk::List(List { request, component, from, most, epoch: Epoch(3), accepted: Epoch(3) })
    };
    (1..=2).for_each(|token| a.ask_copy(token, run_of(9)));
    (3..=5).for_each(|token| a.ask_copy(token, list(100, 7)));
    pass(&mut a, &mut b);
    let came = asked(&mut b);
    assert!(matches!(came[3].1, CopyAsk::List(List { from: 100, most: 7, accepted: Epoch(3), .. })));
    let found = |content, blocks| Some(SourceRun { content, blocks, chunk: Some((Epoch(2), 0x8001)) });
    let chunk = |chunk, there| CopyChunk { chunk, there, own_doubt: 5 };
    let chunks = vec![chunk(100, Some((Epoch(3), 7))), chunk(104, None)];
    let said = [
        CopyAnswer { data: Some(data(2 * BLOCK_BYTES, 3)), run: found(SourceContent::Data, 2), ..CopyOutcome::Done.into() },
        CopyAnswer { run: found(SourceContent::Nothing, 9), ..CopyOutcome::Done.into() },
        CopyAnswer { list: Some(CopyList { chunks: chunks.clone(), next: Some(105) }), ..CopyOutcome::Done.into() },
        CopyAnswer { list: Some(CopyList { chunks: vec![], next: None }), ..CopyOutcome::Done.into() },
        CopyOutcome::Closing.into(),
    ];
    came.into_iter().zip(said).for_each(|((id, _), answer)| b.answer_copy(id, answer));
    pass(&mut b, &mut a);
    let back = answered(&mut a);
    assert!(back[0].1.run == found(SourceContent::Data, 2) && back[0].1.data.as_ref().is_some_and(|d| d.crcs.len() == 2));
    assert!(back[1].1.run == found(SourceContent::Nothing, 9) && back[1].1.data.is_none());
    assert_eq!(back[2].1.list, Some(CopyList { chunks, next: Some(105) }));
    assert_eq!(back[3].1.list, Some(CopyList { chunks: vec![], next: None }));
    assert!(back[4].1.list.is_none() && back[4].1.outcome == CopyOutcome::Closing);
    assert!(a.is_idle() && b.is_idle());

    // More than was asked for, what was not, and chunks out of their bounds.
    let wrong: [(CopyAsk, CopyAnswer); 2] = [
        (list(100, 1), CopyAnswer { list: Some(CopyList { chunks: vec![chunk(100, None); 2], next: None }), ..CopyOutcome::Done.into() }),
        (list(100, 7), CopyAnswer { list: Some(CopyList { chunks: vec![chunk(99, None)], next: None }), ..CopyOutcome::Done.into() }),
    ];
    for (ask, answer) in wrong {
        let (mut a, mut b) = open(2);
        a.ask_copy(1, ask);
        pass(&mut a, &mut b);
        let (id, _) = asked(&mut b).pop().unwrap();
        b.answer_copy(id, answer);
        pass(&mut b, &mut a);
        assert!(matches!(a.close_reason(), Some(CloseReason::Fault(LinkFault::Answer | LinkFault::Message(_)))));
    }
}

#[test]
fn a_node_of_the_release_before_is_sent_nothing_and_sends_nothing() {
    let (mut a, mut b) = open(1);
    assert!(!a.knows_copies() && !b.knows_copies());
    a.ask_copy(1, write(1, 1));
    assert!(output(&mut a).is_empty());
    let mut out = vec![0; HEADER_BYTES + 64];
    let envelope = Envelope { session: SessionNo(6), version: 1, totals: Default::default() };
    let CopyAsk::Read(read) = read(1) else { unreachable!() };
    let n = CopyRead { request: RequestId::new(1, 0), ..read }.write(&envelope, &mut out);
    b.receive(AT, &out[..n]);
    assert_eq!(b.close_reason(), Some(CloseReason::Fault(LinkFault::Version)));
}

#[test]
fn so_much_is_under_way_and_the_rest_waits_in_its_order() {
    for (blocks, most) in [(1, COPY_OPS_MAX as u64), (256, COPY_BYTES_MAX / IO_BYTES_MAX as u64)] {
        let (mut a, mut b) = open(2);
        (1..=most + 3).for_each(|counter| a.ask_copy(counter, write(counter, blocks)));
        let mut next = 1;
        loop {
            pass(&mut a, &mut b);
            let came = asked(&mut b);
            if came.is_empty() {
                break;
            }
            assert!(came.len() as u64 <= most);
            for (id, ask) in came {
                assert!(matches!(ask, CopyAsk::Change { change, .. } if change.order.seq.counter == next));
                next += 1;
                b.answer_copy(id, CopyOutcome::Done.into());
            }
            pass(&mut b, &mut a);
            answered(&mut a);
        }
        assert!(next == most + 4 && a.is_idle());
    }
}

#[test]
fn what_no_holder_answers_and_no_owner_asks_closes_the_link() {
    let totals = format::peer::Totals { ops: WINDOW.ops.into(), bytes: WINDOW.bytes };
    let envelope = Envelope { session: SessionNo(6), version: 2, totals };
    let mut out = vec![0; HEADER_BYTES + 256];
    // An answer to nothing; to another number; of another life; to a read.
    let ack = |request, incarnation, counter| Ack {
        request: RequestId::new(request, 0),
        incarnation: Incarnation(incarnation),
        seq: Seq { term: Epoch(1), counter },
        outcome: CopyOutcome::Done,
    };
    for (wrong, ask) in [(ack(2, 3, 1), write(1, 1)), (ack(1, 3, 2), write(1, 1)), (ack(1, 4, 1), write(1, 1)), (ack(1, 3, 1), read(1))] {
        let (mut a, _) = open(2);
        a.ask_copy(1, ask);
        let n = wrong.write(&envelope, &mut out);
        a.receive(AT, &out[..n]);
        assert_eq!(a.close_reason(), Some(CloseReason::Fault(LinkFault::Answer)), "{wrong:?}");
    }
    // A number twice, and more than may be.
    let (_, mut b) = open(2);
    let CopyAsk::Read(read) = read(1) else { unreachable!() };
    let mut ask = |b: &mut Link, serial| {
        let n = CopyRead { request: RequestId::new(serial, 0), ..read }.write(&envelope, &mut out);
        b.receive(AT, &out[..n]);
        b.close_reason()
    };
    (1..=COPY_OPS_MAX as u64).for_each(|serial| assert_eq!(ask(&mut b, serial), None));
    assert_eq!(ask(&mut b, COPY_OPS_MAX as u64 + 1), Some(CloseReason::Fault(LinkFault::Credits)));
    let (_, mut b) = open(2);
    assert_eq!((ask(&mut b, 1), ask(&mut b, 1)), (None, Some(CloseReason::Fault(LinkFault::Request))));
}

#[test]
fn a_link_that_ends_says_nothing_of_what_was_asked_and_one_that_drains_waits_for_it() {
    let (mut a, mut b) = open(2);
    a.ask_copy(1, write(1, 1));
    pass(&mut a, &mut b);
    let (id, _) = asked(&mut b).pop().unwrap();
    a.drain();
    a.ask_copy(2, write(2, 1));
    pass(&mut a, &mut b);
    pass(&mut b, &mut a);
    assert!(!a.is_closed() && !b.is_closed());
    let (second, _) = asked(&mut b).pop().unwrap();
    b.answer_copy(id, CopyOutcome::Done.into());
    b.answer_copy(second, CopyOutcome::Done.into());
    pass(&mut b, &mut a);
    assert!(matches!(
        events(&mut a)[..],
        [LinkEvent::CopyAnswered(1, _), LinkEvent::CopyAnswered(2, _), LinkEvent::Closed(CloseReason::Drained)]
    ));

    let (mut a, _) = open(2);
    a.ask_copy(1, write(1, 1));
    a.close(CloseReason::Lost);
    assert!(matches!(events(&mut a)[..], [LinkEvent::Closed(CloseReason::Lost)]));
}
