//! What is built parses to the same; what was changed is refused; any bytes may come.

use super::*;
use crate::bytes;
use base::unit::{BLOCK_BYTES, CHUNK_BLOCKS, IO_BYTES_MAX, PIECE_BYTES, VOLUME_BYTES_MAX};
use base::{
    BlockNo, ClusterId, ComponentId, Epoch, HostId, Instant, IoVerb, NodeId, Order, Seq, SourceContent, SourceRun, VolumeId, crc32c,
};
use proptest::prelude::*;

const MESSAGE_BYTES_MAX: usize = HEADER_BYTES + BODY_BYTES_MAX;
const ENVELOPE: Envelope = Envelope { session: SessionNo(7), version: 1, totals: Totals { ops: 300, bytes: 1 << 40 } };

fn written(write: impl FnOnce(&mut [u8]) -> usize) -> Vec<u8> {
    let mut out = vec![0xEE; MESSAGE_BYTES_MAX];
    let n = write(&mut out);
    out.truncate(n);
    out
}

/// Header and body of a message.
fn read(message: &[u8]) -> Result<(Header, &[u8]), PeerError> {
    let (head, body) = message.split_first_chunk::<HEADER_BYTES>().ok_or(PeerError::Length)?;
    let header = Header::parse(head)?;
    header.check_body(body)?;
    Ok((header, body))
}

fn hello() -> Hello {
    Hello {
        cluster: ClusterId::from_bytes([1; 16]),
        from: NodeId::from_bytes([2; 16]),
        to: NodeId::from_bytes([3; 16]),
        incarnation: Incarnation(4),
        clock: Instant(5),
        versions: Versions { oldest: 1, newest: 2 },
        class: LinkClass::Background,
        lane: 6,
        lanes: 8,
        window: Window { ops: 9, bytes: WINDOW_BYTES_MIN },
    }
}

fn answer() -> HelloAnswer {
    let window = Window { ops: 1, bytes: WINDOW_BYTES_MAX };
    HelloAnswer { from: NodeId::from_bytes([2; 16]), incarnation: Incarnation(4), clock: Instant(5), version: 1, window }
}

fn forward(verb: IoVerb, offset: u64, len: u64) -> Forward {
    let source = (verb == IoVerb::Copy).then(|| (VolumeId::from_bytes([8; 16]), 512));
    Forward {
        request: RequestId::new(3, 4),
        volume: VolumeId::from_bytes([5; 16]),
        revision: Revision(6),
        stamp: Instant(7),
        issuer: Issuer { host: HostId::from_bytes([9; 16]), controller: 10 },
        verb,
        offset,
        len,
        source,
    }
}

/// Segments of so many bytes: with a checksum for each block where there are only whole ones.
fn segments<'a>(data_bytes: [u32; SEGMENTS_MAX], sums: &'a [u32]) -> Vec<Segment<'a>> {
    let whole = |bytes: u32| match bytes as usize % BLOCK_BYTES {
        0 => SegmentSums::Blocks(&sums[..bytes as usize / BLOCK_BYTES]),
        _ => SegmentSums::Whole(bytes),
    };
    data_bytes.iter().filter(|bytes| **bytes > 0).map(|bytes| Segment { bytes: *bytes, sums: whole(*bytes) }).collect()
}

fn sums() -> Vec<u32> {
    (0..257).map(|n| n * 7 + 1).collect()
}

#[test]
fn the_greeting_reads_back() {
    let message = written(|out| hello().write(&ENVELOPE, out));
    let (header, body) = read(&message).unwrap();
    assert_eq!((header.kind, header.envelope.version, header.envelope.session), (MessageKind::Hello, GREETING_VERSION, SessionNo(7)));
    assert_eq!(Hello::parse(body), Ok(hello()));
    let message = written(|out| answer().write(&ENVELOPE, out));
    assert_eq!(HelloAnswer::parse(read(&message).unwrap().1), Ok(answer()));
    for reason in RefusalReason::ALL {
        let refusal = Refusal { reason, detail: 77 };
        let message = written(|out| refusal.write(&ENVELOPE, out));
        assert_eq!(Refusal::parse(read(&message).unwrap().1), Ok(refusal));
    }
}

#[test]
fn a_greeting_of_a_later_release_is_longer_and_is_read() {
    let mut body = written(|out| hello().write(&ENVELOPE, out)).split_off(HEADER_BYTES);
    body.extend([0xAB; GREETING_BYTES_MAX - HELLO_BYTES]);
    let mut message = [vec![0; HEADER_BYTES], body.clone()].concat();
    Header::seal(MessageKind::Hello, &ENVELOPE, [0; 2], body.len(), &mut message);
    assert_eq!(Hello::parse(read(&message).unwrap().1), Ok(hello()));
    let mut refusal = written(|out| Refusal { reason: RefusalReason::NotNow, detail: 0 }.write(&ENVELOPE, out)).split_off(HEADER_BYTES);
    refusal[0] = 99;
    assert_eq!(Refusal::parse(&refusal).unwrap().reason, RefusalReason::Later);
}

#[test]
fn wrong_values_of_a_greeting_are_refused() {
    let body = written(|out| hello().write(&ENVELOPE, out)).split_off(HEADER_BYTES);
    // versions, class, lane at or above lanes, no lanes, reserved bytes
    for (at, value) in [(68, 0), (68, 3), (70, 3), (71, 8), (72, 0), (72, LANES_MAX + 1), (73, 1), (127, 1)] {
        let mut bad = body.clone();
        bad[at] = value;
        assert!(Hello::parse(&bad).is_err(), "{at}");
    }
    for window in [Window { ops: 0, ..hello().window }, Window { ops: WINDOW_OPS_MAX + 1, ..hello().window }] {
        let bad = written(|out| Hello { window, ..hello() }.write(&ENVELOPE, out));
        assert_eq!(Hello::parse(&bad[HEADER_BYTES..]), Err(PeerError::Value { field: "operations" }));
    }
    for bytes in [WINDOW_BYTES_MIN - 1, WINDOW_BYTES_MAX + 1] {
        let bad = written(|out| HelloAnswer { window: Window { ops: 1, bytes }, ..answer() }.write(&ENVELOPE, out));
        assert_eq!(HelloAnswer::parse(&bad[HEADER_BYTES..]), Err(PeerError::Value { field: "bytes" }));
    }
}

#[test]
fn neighbouring_releases_have_a_version_in_common() {
    let release = |oldest, newest| Versions { oldest, newest };
    assert_eq!(release(1, 2).common(release(2, 3)), Some(2));
    assert_eq!(release(2, 3).common(release(1, 2)), Some(2));
    assert_eq!(release(1, 3).common(release(1, 2)), Some(2));
    assert_eq!(release(1, 1).common(release(2, 3)), None);
    assert_eq!(release(2, 3).common(release(1, 1)), None);
    assert!(Versions::OURS.has(Versions::OURS.common(Versions::OURS).unwrap()));
}

#[test]
fn short_messages_read_back() {
    let tick = Tick { clock: Instant(u64::MAX) };
    assert_eq!(Tick::parse(read(&written(|out| tick.write(&ENVELOPE, out))).unwrap().1), Ok(tick));
    let cancel = Cancel { request: RequestId::new(9, 65_535) };
    assert_eq!(Cancel::parse(read(&written(|out| cancel.write(&ENVELOPE, out))).unwrap().1), Ok(cancel));
    assert_eq!((cancel.request.serial(), cancel.request.slot()), (9, 65_535));
    for (n, reason) in GoodbyeReason::ALL.into_iter().enumerate() {
        assert_eq!(reason as usize, n);
        assert_eq!(Goodbye::parse(read(&written(|out| Goodbye { reason }.write(&ENVELOPE, out))).unwrap().1), Ok(Goodbye { reason }));
    }
    assert!(Goodbye::parse(&[4, 0, 0, 0, 0, 0, 0, 0]).is_err() && Goodbye::parse(&[0, 0, 0, 0, 0, 0, 0, 1]).is_err());
}

#[test]
fn a_header_bounds_what_follows() {
    let tick = written(|out| Tick { clock: Instant(1) }.write(&ENVELOPE, out));
    // A field changed under the right checksum.
    let changed = |at: usize, value: u32| {
        let mut b: [u8; HEADER_BYTES] = *tick.first_chunk().unwrap();
        bytes::put_u32(&mut b, at, value);
        let crc = bytes::crc_around(&b, 4);
        bytes::put_u32(&mut b, 4, crc);
        Header::parse(&b)
    };
    let kind = |kind: u32| kind | 1 << 8;
    assert!(changed(8, kind(4)).is_ok());
    assert_eq!(changed(0, 0), Err(PeerError::Magic));
    assert_eq!(changed(8, 4), Err(PeerError::Value { field: "version" }), "a version of the greeting");
    assert_eq!(changed(12, 9), Err(PeerError::Length));
    assert_eq!(changed(40, 512), Err(PeerError::Length), "data with a tick");
    assert_eq!(changed(52, 1), Err(PeerError::Reserved { at: 52 }));
    assert_eq!(changed(8, kind(4) | 1 << 16), Err(PeerError::Reserved { at: 10 }));
    assert_eq!(changed(8, kind(46)), Err(PeerError::Kind(46)));
    let forward = |body: u32, first: u32, second: u32| {
        let mut b = vec![0; HEADER_BYTES + body as usize];
        Header::seal(MessageKind::Forward, &ENVELOPE, [first, second], body as usize, &mut b);
        Header::parse(b.first_chunk().unwrap()).map(|header| header.data_bytes)
    };
    let most = IO_BYTES_MAX as u32;
    assert_eq!(forward(BODY_BYTES_MAX as u32, most, 0), Ok([most, 0]));
    assert_eq!(forward(BODY_BYTES_MAX as u32 + 4, most, 0), Err(PeerError::Length));
    assert_eq!(forward(128, most, 1), Err(PeerError::Length));
    assert_eq!(forward(128, u32::MAX, u32::MAX), Err(PeerError::Length));
    assert_eq!(forward(128, 0, 512), Err(PeerError::Length), "a second segment without a first");
}

#[test]
fn ranges_that_no_request_has_are_refused() {
    let body = |f: Forward| {
        // What `write` would not build: a sound request, changed.
        let mut b = written(|out| forward(f.verb, 0, if f.verb == IoVerb::Flush { 0 } else { 512 }).write(&ENVELOPE, &[], out))
            .split_off(HEADER_BYTES);
        bytes::put_u64(&mut b, 40, f.offset);
        bytes::put_u64(&mut b, 48, f.len);
        Forward::parse(&b, [0; 2]).map(|(f, _)| f)
    };
    for verb in [IoVerb::Read, IoVerb::Trim, IoVerb::Zero, IoVerb::Verify, IoVerb::Uncorrectable, IoVerb::Copy] {
        assert!(body(forward(verb, 512, 1024)).is_ok());
        for (offset, len) in [(1, 512), (0, 513), (0, 0), (VOLUME_BYTES_MAX, 512), (u64::MAX - 511, 512), (0, u64::MAX - 511)] {
            assert!(body(forward(verb, offset, len)).is_err(), "{verb:?} {offset} {len}");
        }
    }
    assert!(body(forward(IoVerb::Read, 0, IO_BYTES_MAX as u64 + 512)).is_err());
    assert!(body(forward(IoVerb::Trim, 0, VOLUME_BYTES_MAX)).is_ok());
    assert!(body(forward(IoVerb::Flush, 0, 0)).is_ok() && body(forward(IoVerb::Flush, 0, 512)).is_err());
}

#[test]
fn an_answer_has_data_or_a_detail_only_where_there_can_be_one() {
    for outcome in Outcome::ALL {
        let done = Done { request: RequestId::new(1, 0), outcome, detail: 4096 };
        let message = written(|out| done.write(&ENVELOPE, &[], out));
        let mut body = read(&message).unwrap().1.to_vec();
        let (read, _) = Done::parse(&body, [0; 2]).unwrap();
        assert_eq!((read.outcome, read.detail), (outcome, if matches!(outcome, Outcome::Media | Outcome::Miscompare) { 4096 } else { 0 }));
        body.extend([0; 4]);
        assert_eq!(Done::parse(&body, [512, 0]).is_ok(), outcome == Outcome::Done);
    }
    assert!(Outcome::TooOld.did_not_happen() && !Outcome::Closing.did_not_happen());
}

fn change(verb: ChangeVerb) -> Change {
    Change {
        request: RequestId::new(3, 4),
        component: ComponentId::from_bytes([5; 16]),
        order: Order {
            epoch: Epoch(9),
            period_start: Epoch(8),
            seq: Seq { term: Epoch(7), counter: 6 },
            mark: Seq { term: Epoch(7), counter: 5 },
        },
        resync: false,
        checksum: true,
        verb,
        block: BlockNo(256),
        blocks: 2,
        source: None,
    }
}

#[test]
fn changes_that_no_owner_sends_are_refused() {
    let trim = change(ChangeVerb::Trim);
    let body = written(|out| trim.write(&ENVELOPE, &[], out)).split_off(HEADER_BYTES);
    assert_eq!(Change::parse(&body, [0; 2]).map(|(c, _)| c), Ok(trim));
    // Request, epoch below the term, period above the epoch, term, counter, mark at the number, blocks over the end of a piece or none, source
    // without its bit, what, bits, reserved.
    let wrong = [(0, 0, 8), (24, 6, 4), (28, 10, 4), (32, 0, 4), (40, 0, 8), (48, 6, 8), (64, 257, 4), (64, 0, 4), (68, 1, 4), (72, 1, 8)];
    for (at, value, len) in wrong.into_iter().chain([(84, 1, 1), (86, 0, 1), (86, 5, 1), (88, 8, 1), (127, 1, 1), (56, u64::MAX, 8)]) {
        let mut bad = body.clone();
        bad[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
        assert!(Change::parse(&bad, [0; 2]).is_err(), "{at} {value}");
    }
    assert_eq!(Change::parse(&body, [4096, 0]).err(), Some(PeerError::Length), "a trim with data");
    let write = written(|out| change(ChangeVerb::Write).write(&ENVELOPE, &[1, 2], out)).split_off(HEADER_BYTES);
    for lens in [[4096, 0], [8192, 4096], [0, 0]] {
        assert!(Change::parse(&write, lens).is_err(), "{lens:?}");
    }
    let mut whole = write[..CHANGE_BYTES + 4].to_vec();
    whole[87] = 0;
    assert_eq!(Change::parse(&whole, [8192, 0]).err(), Some(PeerError::Value { field: "flags" }), "one checksum over all");
}

#[test]
fn an_answer_of_a_copy_has_what_goes_with_its_outcome_and_nothing_else() {
    use CopyOutcome::*;
    let all =
        [Done, StaleEpoch(Epoch(7)), NoSpace, Media(BlockNo(7)), Uncorrectable(BlockNo(7)), Failed, NoComponent, Closing, NotOwner, Late];
    for outcome in all {
        let ack = Ack { request: RequestId(1 << 16), incarnation: Incarnation(2), seq: Seq { term: Epoch(3), counter: 4 }, outcome };
        let message = written(|out| ack.write(&ENVELOPE, out));
        let (header, body) = read(&message).unwrap();
        assert_eq!((header.kind, Ack::parse(body)), (MessageKind::Ack, Ok(ack)));
        for (at, has) in [(28, matches!(outcome, StaleEpoch(_))), (32, matches!(outcome, Media(_) | Uncorrectable(_)))] {
            let mut other = body.to_vec();
            other[at] ^= 1;
            assert_eq!(Ack::parse(&other).is_ok(), has, "{outcome:?} {at}");
        }
        let data = CopyData { request: RequestId(1 << 16), outcome, run: None };
        let crcs = if outcome == Done { &[1, 2][..] } else { &[] };
        let message = written(|out| data.write(&ENVELOPE, crcs, out));
        let (header, body) = read(&message).unwrap();
        let (again, sums) = CopyData::parse(body, header.data_bytes).unwrap();
        assert!(again == data && sums.of(0).eq(crcs.iter().copied()));
        assert!(outcome != Done || CopyData::parse(&body[..COPY_DATA_BYTES], [0; 2]).is_err(), "done without data");
    }
    assert!(Ack::parse(&[9; 48]).is_err());
}

fn any_change() -> impl Strategy<Value = Change> {
    let what = (prop::sample::select(&ChangeVerb::ALL[..]), any::<[bool; 3]>());
    let place = (0..VOLUME_BYTES_MAX / PIECE_BYTES, 0..256u64, 1..=256u32);
    (what, place, 1..u32::MAX, any::<[u32; 4]>(), any::<[u64; 4]>()).prop_map(|((verb, bits), (piece, block, blocks), epoch, n, m)| {
        let seq = Seq { term: Epoch(1 + n[0] % epoch), counter: m[0].max(1) };
        let mark = Seq { term: Epoch(n[1] % (seq.term.0 + 1)), counter: m[1] % seq.counter };
        let source = ChangeSource { epoch: Epoch(n[2]), mask: n[3] as u16, progress_below: m[2], progress_to: Epoch(n[1]) };
        Change {
            request: RequestId(m[3] | 1 << 16),
            order: Order { epoch: Epoch(epoch), period_start: Epoch(n[2] % epoch), seq, mark },
            resync: bits[0],
            checksum: bits[1],
            block: BlockNo(piece * 256 + block),
            blocks: blocks.min(256 - block as u32),
            source: bits[2].then_some(source),
            ..change(verb)
        }
    })
}

fn any_forward() -> impl Strategy<Value = Forward> {
    let verb = prop::sample::select(&IoVerb::ALL[..]);
    (verb, 0..VOLUME_BYTES_MAX / 512, 1..=IO_BYTES_MAX as u64 / 512, any::<[u64; 4]>()).prop_map(|(verb, offset, len, n)| {
        let (mut offset, mut len) = (offset * 512, len * 512);
        match verb {
            IoVerb::Flush => (offset, len) = (0, 0),
            IoVerb::CompareWrite => {
                len = len.min(IO_BYTES_MAX as u64 / 2);
                offset -= offset % PIECE_BYTES;
            }
            _ => {}
        }
        let offset = offset.min(VOLUME_BYTES_MAX - len);
        let source = (verb == IoVerb::Copy).then(|| (VolumeId::from_bytes([8; 16]), n[0] % (1 << 40) / 512 * 512));
        let issuer = Issuer { host: HostId::from_bytes([n[1] as u8; 16]), controller: n[1] as u16 };
        Forward {
            request: RequestId(n[2] | 1 << 16),
            revision: Revision(n[3]),
            stamp: Instant(n[0]),
            issuer,
            source,
            ..forward(verb, offset, len)
        }
    })
}

proptest! {
    #[test]
    fn requests_read_back(request in any_forward()) {
        let (all, lens) = (sums(), request.data_bytes());
        let parts = segments(lens, &all);
        let message = written(|out| request.write(&ENVELOPE, &parts, out));
        let (header, body) = read(&message).unwrap();
        prop_assert_eq!((header.envelope, header.data_bytes), (ENVELOPE, lens));
        let (again, read_sums) = Forward::parse(body, lens).unwrap();
        prop_assert_eq!(again, request);
        prop_assert!(request.cost() <= DATA_BYTES_MAX as u64);
        for (n, part) in parts.iter().enumerate() {
            let came: Vec<u32> = read_sums.of(n).collect();
            match part.sums {
                SegmentSums::Blocks(list) => prop_assert!(read_sums.is_by_block(n) && came == list),
                SegmentSums::Whole(sum) => prop_assert!(!read_sums.is_by_block(n) && came == [sum]),
            }
        }
    }

    #[test]
    fn changes_read_back(change in any_change()) {
        let all = sums();
        let crcs = if change.verb == ChangeVerb::Write { &all[..change.blocks as usize] } else { &[] };
        let message = written(|out| change.write(&ENVELOPE, crcs, out));
        let (header, body) = read(&message).unwrap();
        prop_assert_eq!((header.kind, header.data_bytes), (MessageKind::Change, [change.data_bytes(), 0]));
        let (again, came) = Change::parse(body, header.data_bytes).unwrap();
        prop_assert_eq!(again, change);
        prop_assert!(came.of(0).eq(crcs.iter().copied()));
        let Change { request, component, block, blocks, order, .. } = change;
        let run = change.resync;
        let asked = CopyRead { request, component, epoch: order.epoch, period_start: order.period_start, block, blocks, run };
        let message = written(|out| asked.write(&ENVELOPE, out));
        prop_assert_eq!(CopyRead::parse(read(&message).unwrap().1), Ok(asked));
        let (from, most) = (block.0 / CHUNK_BLOCKS, blocks.min(LIST_ENTRIES_MAX as u32));
        let list = List { request, component, from, most, epoch: order.epoch, accepted: order.period_start };
        let message = written(|out| list.write(&ENVELOPE, out));
        prop_assert_eq!(List::parse(read(&message).unwrap().1), Ok(list));
    }

    #[test]
    fn what_a_source_holds_reads_back(blocks in 1..=256u32, kind in 0..3usize, chunk in prop::option::of((1u32.., any::<u16>())), other in 0..32usize) {
        let content = [SourceContent::Data, SourceContent::Nothing, SourceContent::Uncorrectable][kind];
        let run = SourceRun { content, blocks, chunk: chunk.map(|(epoch, mask)| (Epoch(epoch), mask)) };
        let answer = CopyData { request: RequestId(1 << 16), outcome: CopyOutcome::Done, run: Some(run) };
        let crcs = vec![7; if kind == 0 { blocks as usize } else { 0 }];
        let message = written(|out| answer.write(&ENVELOPE, &crcs, out));
        let (header, body) = read(&message).unwrap();
        prop_assert_eq!(CopyData::parse(body, header.data_bytes).unwrap().0, answer);
        let mut changed = body.to_vec();
        changed[other] ^= 0x55;
        prop_assert!(CopyData::parse(&changed, header.data_bytes).map(|(again, _)| again) != Ok(answer));
    }

    #[test]
    fn lists_read_back(from in 0..1u64 << 20, chunks in prop::collection::btree_map(0..5000u64, (0..3u32, any::<u16>(), any::<u16>()), 0..40), more: bool) {
        let entry = |(chunk, (epoch, mask, own_doubt)): (&u64, &(u32, u16, u16))| {
            ListEntry { chunk: from + chunk, there: (*epoch > 0).then_some((Epoch(*epoch), *mask)), own_doubt: *own_doubt }
        };
        let entries: Vec<ListEntry> = chunks.iter().map(entry).collect();
        let mut data = vec![0; entries.len() * LIST_ENTRY_BYTES];
        data.chunks_mut(LIST_ENTRY_BYTES).zip(&entries).for_each(|(out, entry)| entry.put(out));
        let next = more.then_some(from + 5000);
        let listed = Listed { request: RequestId(1 << 16), outcome: CopyOutcome::Done, chunks: entries.len() as u32, next };
        let message = written(|out| listed.write(&ENVELOPE, crc32c(&data), out));
        let (header, body) = read(&message).unwrap();
        prop_assert_eq!(header.data_bytes, [data.len() as u32, 0]);
        prop_assert_eq!(Listed::parse(body, header.data_bytes).unwrap().0, listed);
        prop_assert_eq!(ListEntry::parse_all(&data, from, next), Ok(entries));
        if let Some((last, _)) = chunks.last_key_value() {
            prop_assert!(ListEntry::parse_all(&data, from + last + 1, next).is_err(), "before where it was asked");
            prop_assert!(ListEntry::parse_all(&data, from, Some(from + last)).is_err(), "behind where the rest begins");
        }
    }

    #[test]
    fn answers_read_back(request: u64, offset in 0..1u64 << 20, len in 1..=IO_BYTES_MAX as u32 / 512) {
        let all = sums();
        let lens = split(offset / 512 * 512, len * 512);
        let done = Done { request: RequestId(request), outcome: Outcome::Done, detail: 0 };
        let message = written(|out| done.write(&ENVELOPE, &segments(lens, &all), out));
        let (header, body) = read(&message).unwrap();
        prop_assert_eq!(header.data_bytes, lens);
        prop_assert_eq!(Done::parse(body, lens).unwrap().0, done);
    }

    #[test]
    fn any_changed_byte_is_noticed(at in 0..HEADER_BYTES + HELLO_BYTES, by in 1u8..) {
        let mut message = written(|out| hello().write(&ENVELOPE, out));
        message[at] ^= by;
        prop_assert!(read(&message).is_err());
    }

    #[test]
    fn any_bytes_may_come(b in prop::collection::vec(any::<u8>(), 0..600), lens: [u32; 2]) {
        if let Some(head) = b.first_chunk() {
            let _ = Header::parse(head);
        }
        let _ = (Hello::parse(&b), HelloAnswer::parse(&b), Refusal::parse(&b));
        let _ = (Tick::parse(&b), Goodbye::parse(&b), Cancel::parse(&b));
        let _ = (Forward::parse(&b, lens).is_ok(), Done::parse(&b, lens).is_ok());
        let _ = (Change::parse(&b, lens).is_ok(), CopyData::parse(&b, lens).is_ok(), CopyRead::parse(&b).is_ok(), Ack::parse(&b).is_ok());
        let _ = (List::parse(&b).is_ok(), Listed::parse(&b, lens).is_ok(), ListEntry::parse_all(&b, 3, Some(lens[0].into())).is_ok());
    }
}
