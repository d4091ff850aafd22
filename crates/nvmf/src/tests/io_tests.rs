//! I/O commands beyond reads and writes: Compare and Write as one, Verify, Write Uncorrectable, Copy, Abort.

use super::client::{Client, Pdu, with_capsule, with_transport};
use super::session_tests::{Bench, all_clients, pattern, rw};
use crate::limits::{COPY_BYTES_MAX, COPY_RANGE_BYTES_MAX, COPY_RANGES_MAX};
use crate::session::Aborted;
use base::WriteProtect;
use format::nvme::io::{BlockRange, CopyCommand, CopyRange, DatasetManagement, DsmRange};
use format::nvme::{Fuse, IoOpcode, Sqe, Status, StatusCode};
use object::{ATOMIC_BYTES_MAX, IoError};

const FAILED: StatusCode = StatusCode::ABORTED_FAILED_FUSED;
const MISSING: StatusCode = StatusCode::ABORTED_MISSING_FUSED;
const OK: StatusCode = StatusCode::SUCCESS;

fn bench() -> Bench {
    Bench::io_queue(Client::new(true, true, 0), 16)
}

/// The halves, with identifiers 1 and 2.
fn halves(nsid: u32, slba: u64, blocks: u32) -> (Sqe, Sqe) {
    let first = Sqe { cid: 1, fuse: Fuse::First, ..rw(IoOpcode::Compare, nsid, slba, blocks) };
    (first, Sqe { cid: 2, fuse: Fuse::Second, ..rw(IoOpcode::Write, nsid, slba, blocks) })
}

impl Bench {
    fn capsule(&mut self, sqe: Sqe, data: &[u8]) {
        let bytes = self.client.capsule(sqe, data);
        self.feed(&bytes);
    }
    /// What comes next must be a response: identifier and status.
    fn response(&mut self) -> (u16, Status) {
        match self.next() {
            Some(Pdu::Response(cqe)) => (cqe.cid, cqe.status),
            other => panic!("{other:?}"),
        }
    }
    fn codes(&mut self, expected: &[(u16, StatusCode)]) {
        for (cid, code) in expected {
            let (got, status) = self.response();
            assert_eq!((got, status.code), (*cid, *code));
        }
        assert!(self.next().is_none());
    }
    fn r2t(&mut self, cid: u16) -> format::nvme_tcp::R2t {
        match self.next() {
            Some(Pdu::R2t(r2t)) if r2t.cccid == cid => r2t,
            other => panic!("{other:?}"),
        }
    }
    fn send_data(&mut self, r2t: &format::nvme_tcp::R2t, data: &[u8]) {
        let bytes = self.client.h2c_data(r2t, data, 3000);
        self.feed(&bytes);
    }
    fn read(&mut self, nsid: u32, slba: u64, blocks: u32) -> Vec<u8> {
        let len = blocks * if nsid == 1 { 512 } else { 4096 };
        let (status, data) = self.execute(with_transport(rw(IoOpcode::Read, nsid, slba, blocks), len), &[]);
        assert!(status.is_success());
        data
    }
    fn is_clean(&mut self) {
        assert_eq!((self.session.held(), self.session.outstanding(), self.session.running()), (0, 0, 0));
    }
}

#[test]
fn a_compare_and_write_is_one_operation_with_two_answers_however_its_data_comes() {
    for client in all_clients() {
        let mut b = Bench::io_queue(client, 16);
        let (old, new) = (vec![0; 8192], pattern(8192, 7));
        for (way, (nsid, slba, blocks)) in [(0, (1, 3, 16)), (1, (2, 8, 2)), (2, (1, 4000, 16)), (3, (2, 300, 2))] {
            for (compare, write, expected) in
                [(&old, &new, (OK, OK)), (&old, &old, (StatusCode::COMPARE_FAILURE, FAILED)), (&new, &old, (OK, OK))]
            {
                let (first, second) = halves(nsid, slba, blocks);
                match way {
                    0 => {
                        b.capsule(with_capsule(first, 8192), compare);
                        b.capsule(with_capsule(second, 8192), write);
                    }
                    1 => {
                        // Nothing is asked for before the second half is there; the data of the first comes after all of the second.
                        b.capsule(with_transport(first, 8192), &[]);
                        assert!(b.next().is_none());
                        b.capsule(with_capsule(second, 8192), write);
                        let r2t = b.r2t(1);
                        b.send_data(&r2t, compare);
                    }
                    2 => {
                        b.capsule(with_capsule(first, 8192), compare);
                        b.capsule(with_transport(second, 8192), &[]);
                        let r2t = b.r2t(2);
                        b.send_data(&r2t, write);
                    }
                    _ => {
                        b.capsule(with_transport(first, 8192), &[]);
                        b.capsule(with_transport(second, 8192), &[]);
                        let (r2t_first, r2t_second) = (b.r2t(1), b.r2t(2));
                        b.send_data(&r2t_second, write);
                        assert!(b.next().is_none());
                        b.send_data(&r2t_first, compare);
                    }
                }
                b.codes(&[(1, expected.0), (2, expected.1)]);
                let holds = if expected.0 == OK { write } else { &new };
                assert!(b.read(nsid, slba, blocks) == *holds, "way {way}");
            }
        }
        b.is_clean();
    }
}

#[test]
fn a_half_without_the_other_is_aborted_and_may_be_retried() {
    let sector = [0; 512];
    let (first, second) = halves(1, 0, 1);
    let (first, second) = (with_capsule(first, 512), with_capsule(second, 512));
    let plain = Sqe { cid: 3, ..with_capsule(rw(IoOpcode::Write, 1, 9, 1), 512) };
    let mut b = bench();
    // A second half alone, also after a plain command.
    b.capsule(second, &sector);
    let (cid, status) = b.response();
    assert_eq!((cid, status), (2, Status::retry(MISSING)), "no Do Not Retry");
    b.capsule(plain, &sector);
    b.capsule(second, &sector);
    b.codes(&[(3, OK), (2, MISSING)]);
    // A first half, and then something else: that runs.
    b.capsule(first, &sector);
    assert!(b.next().is_none());
    b.capsule(plain, &sector);
    b.codes(&[(1, MISSING), (3, OK)]);
    b.capsule(second, &sector);
    b.codes(&[(2, MISSING)]);
    // Two first halves: the later one counts. By R2T nothing was asked for.
    b.capsule(Sqe { cid: 8, ..with_transport(first, 512) }, &[]);
    b.capsule(first, &sector);
    b.capsule(second, &sector);
    b.codes(&[(8, MISSING), (1, OK), (2, OK)]);
    b.is_clean();
    // The connection ends in between: nothing is written.
    let before = b.memory.requests;
    b.capsule(first, &[0; 512]);
    b.end();
    b.settle();
    assert_eq!((b.memory.requests, b.session.held(), b.session.outstanding()), (before, 0, 0));
}

#[test]
fn halves_that_do_not_fit_are_refused_together() {
    let sector = [0; 512];
    let capsule = |sqe: Sqe| with_capsule(sqe, 512);
    let (first, second) = halves(1, 0, 1);
    let blocks = (ATOMIC_BYTES_MAX / 512) as u32 + 1;
    let (long, long_second) = halves(1, 0, blocks);
    let (across, across_second) = halves(1, 2047, 2);
    let (end, end_second) = halves(1, 8192, 1);
    let (locked, locked_second) = halves(3, 0, 1);
    let invalid = StatusCode::INVALID_FIELD;
    let exceeded = StatusCode::ATOMIC_WRITE_UNIT_EXCEEDED;
    let cases = [
        ("another range", capsule(first), capsule(halves(1, 1, 1).1), (invalid, invalid)),
        ("another namespace", with_capsule(halves(2, 0, 1).0, 4096), capsule(second), (invalid, invalid)),
        ("another first", capsule(Sqe { opcode: IoOpcode::Write.byte(), ..first }), capsule(second), (invalid, FAILED)),
        ("another second", capsule(first), capsule(Sqe { opcode: IoOpcode::Compare.byte(), ..second }), (FAILED, invalid)),
        ("too long", with_transport(long, blocks * 512), with_transport(long_second, blocks * 512), (exceeded, FAILED)),
        ("across a piece", with_transport(across, 1024), with_transport(across_second, 1024), (exceeded, FAILED)),
        ("past the end", capsule(end), capsule(end_second), (StatusCode::LBA_OUT_OF_RANGE, FAILED)),
        ("wrong length", with_transport(first, 1024), capsule(second), (StatusCode::DATA_SGL_LENGTH_INVALID, FAILED)),
        ("wrong length of the second", capsule(first), with_transport(second, 1024), (FAILED, StatusCode::DATA_SGL_LENGTH_INVALID)),
        ("write protected", capsule(locked), capsule(locked_second), (FAILED, StatusCode::NAMESPACE_WRITE_PROTECTED)),
        ("reserved", capsule(Sqe { fuse: Fuse::Reserved, ..first }), capsule(second), (invalid, MISSING)),
    ];
    for (what, first, second, (a, b)) in cases {
        let mut bench = bench();
        for sqe in [first, second] {
            let in_capsule = sqe.sgl.0[15] == 1;
            let data = vec![0; if in_capsule { sqe.sgl.len() as usize } else { 0 }];
            bench.capsule(sqe, &data);
        }
        let got = [bench.response(), bench.response()];
        let expected = [(1, a), (2, b)];
        assert_eq!(got.map(|(cid, s)| (cid, s.code)), expected, "{what}");
        for (_, status) in got {
            assert_eq!(status.dnr, !matches!(status.code, FAILED | MISSING), "{what}");
        }
        assert_eq!(bench.memory.requests, 0, "{what}");
        assert_eq!(bench.status(with_transport(rw(IoOpcode::Read, 1, 0, 1), 512), &[]), OK);
        bench.is_clean();
    }
    let mut b = bench();
    let flush = Sqe { fuse: Fuse::First, ..rw(IoOpcode::Flush, 1, 0, 1) };
    assert_eq!(b.status(flush, &[]), invalid);
    // On the admin queue nothing is fused.
    let mut b = Bench::new(Client::new(false, false, 0));
    let (ic, connect) = (b.client.ic_req(), b.client.connect(0, 0xFFFF, 32, 0, super::NQN, super::HOST));
    b.feed(&ic);
    b.feed(&connect);
    b.next();
    b.next();
    let identify = Sqe { opcode: 6, fuse: Fuse::First, ..with_transport(rw(IoOpcode::Read, 1, 0, 1), 4096) };
    assert_eq!(b.status(identify, &[]), invalid);
    b.capsule(capsule(first), &sector);
    assert_eq!(b.response().1.code, invalid);
}

#[test]
fn a_failing_volume_fails_the_half_it_concerns() {
    for (e, a, b) in [
        (IoError::NoSpace, OK, StatusCode::CAPACITY_EXCEEDED),
        (IoError::Media { offset: 0 }, StatusCode::UNRECOVERED_READ_ERROR, FAILED),
        (IoError::Closing, StatusCode::NAMESPACE_NOT_READY, FAILED),
    ] {
        let mut bench = bench();
        bench.memory.fail = Some(e);
        let (first, second) = halves(1, 0, 1);
        bench.capsule(with_capsule(first, 512), &[0; 512]);
        bench.capsule(with_capsule(second, 512), &[1; 512]);
        bench.codes(&[(1, a), (2, b)]);
        bench.is_clean();
    }
}

#[test]
fn a_half_with_a_wrong_data_digest_fails_both_and_writes_nothing() {
    for wrong in [1, 2] {
        let mut b = bench();
        let (first, second) = halves(1, 0, 1);
        for (cid, sqe) in [(1, first), (2, second)] {
            let mut bytes = b.client.capsule(with_capsule(sqe, 512), &[0; 512]);
            if cid == wrong {
                *bytes.last_mut().unwrap() ^= 1;
            }
            b.feed(&bytes);
        }
        let transient = StatusCode::TRANSIENT_TRANSPORT_ERROR;
        b.codes(&if wrong == 1 { [(1, transient), (2, FAILED)] } else { [(1, FAILED), (2, transient)] });
        assert_eq!(b.memory.requests, 0);
        b.is_clean();
    }
}

#[test]
fn verify_and_write_uncorrectable_meet() {
    let mut b = bench();
    let verify = |nsid, slba, blocks| Sqe { sgl: Default::default(), ..rw(IoOpcode::Verify, nsid, slba, blocks) };
    let spoil = |nsid, slba, blocks| Sqe { sgl: Default::default(), ..rw(IoOpcode::WriteUncorrectable, nsid, slba, blocks) };
    assert_eq!(b.status(verify(2, 0, 1024), &[]), OK);
    assert_eq!(b.status(verify(2, 1, 1024), &[]), StatusCode::LBA_OUT_OF_RANGE);
    assert_eq!(b.status(spoil(2, 5, 2), &[]), OK);
    assert_eq!(b.status(verify(2, 0, 5), &[]), OK);
    assert_eq!(b.status(verify(2, 0, 6), &[]), StatusCode::UNRECOVERED_READ_ERROR);
    // 512-byte blocks: whole blocks of 4 KiB only.
    assert_eq!(b.status(spoil(1, 8, 16), &[]), OK);
    for (slba, blocks) in [(8, 1), (1, 8), (8, 15)] {
        assert_eq!(b.status(spoil(1, slba, blocks), &[]), StatusCode::INVALID_FIELD);
    }
    assert_eq!(b.status(spoil(2, 1023, 2), &[]), StatusCode::LBA_OUT_OF_RANGE);
    assert_eq!(b.memory.lost, [5 * 4096..7 * 4096, 4096..3 * 4096]);
    b.is_clean();
}

fn copy(nsid: u32, sdlba: u64, ranges: &[(u64, u32)]) -> (Sqe, Vec<u8>) {
    let list = ranges.iter().flat_map(|(slba, blocks)| CopyRange { slba: *slba, nlb: (blocks - 1) as u16 }.to_bytes()).collect();
    (CopyCommand { sdlba, nr: (ranges.len() - 1) as u8, desfmt: 0, dtype: 0 }.sqe(9, nsid), list)
}

#[test]
fn ranges_are_copied_in_order_whatever_their_alignment() {
    let mut b = bench();
    let data = pattern(1 << 20, 5);
    assert_eq!(b.status(with_transport(rw(IoOpcode::Write, 1, 0, 2048), 1 << 20), &data), OK);
    let source = |from: usize, blocks: usize| data[from * 512..(from + blocks) * 512].to_vec();
    // Across pieces, aligned to blocks of 4 KiB or not, longer than one step.
    for (to, ranges) in
        [(4096, vec![(0, 8)]), (4097, vec![(3, 5), (100, 16), (0, 1)]), (2049, vec![(1, 1500)]), (6141, vec![(8, 9), (16, 8)])]
    {
        for transport in [false, true] {
            let (sqe, list) = copy(1, to, &ranges);
            let len = list.len() as u32;
            let sqe = if transport { with_transport(sqe, len) } else { with_capsule(sqe, len) };
            assert_eq!(b.status(sqe, &list), OK);
            let expected: Vec<u8> = ranges.iter().flat_map(|(from, n)| source(*from as usize, *n as usize)).collect();
            assert!(b.read(1, to, (expected.len() / 512) as u32) == expected, "to {to}");
        }
    }
    b.is_clean();
}

#[test]
fn a_copy_beyond_a_limit_changes_nothing_and_says_why() {
    let mut b = bench();
    let size = StatusCode::COMMAND_SIZE_LIMIT_EXCEEDED;
    let range = StatusCode::LBA_OUT_OF_RANGE;
    let long = (COPY_RANGE_BYTES_MAX / 4096) as u32;
    let cases = [
        (0, vec![(0, long + 1)], size),
        (0, vec![(0, 1); COPY_RANGES_MAX + 1], size),
        (0, vec![(1024, 1)], range),
        (0, vec![(0, 1), (1020, 5)], range),
        (1020, vec![(0, 5)], range),
        (1024, vec![(0, 1)], range),
        (u64::MAX, vec![(0, 1)], range),
        (0, vec![(u64::MAX, 2)], range),
    ];
    for (to, ranges, code) in cases {
        let (sqe, list) = copy(2, to, &ranges);
        assert_eq!(b.status(with_transport(sqe, list.len() as u32), &list), code, "{to} {ranges:?}");
    }
    let (sqe, list) = copy(2, 0, &[(5, 1)]);
    for (sqe, code) in [
        (Sqe { cdw12: sqe.cdw12 | 1 << 8, ..sqe }, StatusCode::INVALID_FIELD),
        (Sqe { cdw12: sqe.cdw12 | 1 << 20, ..sqe }, StatusCode::INVALID_FIELD),
        (Sqe { cdw12: sqe.cdw12 | 1, ..sqe }, StatusCode::DATA_SGL_LENGTH_INVALID),
        (Sqe { nsid: 3, ..sqe }, StatusCode::NAMESPACE_WRITE_PROTECTED),
    ] {
        assert_eq!(b.status(with_capsule(sqe, 32), &list), code);
    }
    assert_eq!(b.memory.requests, 0);
    // The sum of all ranges, on a volume that is large enough.
    let big = (COPY_BYTES_MAX / COPY_RANGE_BYTES_MAX) as usize;
    b.change_view(|view| view.volumes[1].as_mut().unwrap().bytes = 1 << 40);
    let (sqe, list) = copy(2, 1 << 20, &vec![(0, long); big + 1]);
    assert_eq!(b.status(with_transport(sqe, list.len() as u32), &list), size);
    assert_eq!(b.memory.requests, 0);
    b.is_clean();
}

#[test]
fn a_copy_that_fails_tells_at_which_range_and_leaves_the_rest_alone() {
    let mut b = bench();
    assert_eq!(b.status(with_transport(rw(IoOpcode::Write, 2, 0, 8), 32768), &pattern(32768, 1)), OK);
    let (sqe, list) = copy(2, 100, &[(0, 2), (2, 2), (4, 2)]);
    b.memory.fail_at = Some((b.memory.requests + 3, IoError::Media { offset: 0 })); // The read of the second range.
    b.capsule(with_capsule(sqe, 96), &list);
    let Some(Pdu::Response(cqe)) = b.next() else { panic!("an answer") };
    assert_eq!((cqe.status.code, cqe.result), (StatusCode::UNRECOVERED_READ_ERROR, 1));
    assert_eq!(b.read(2, 102, 4), vec![0; 4 * 4096]);
    assert_eq!(b.read(2, 100, 2), pattern(32768, 1)[..8192]);
    b.memory.fail_at = Some((b.memory.requests + 2, IoError::NoSpace)); // The write of the first.
    b.capsule(with_capsule(sqe, 96), &list);
    let Some(Pdu::Response(cqe)) = b.next() else { panic!("an answer") };
    assert_eq!((cqe.status.code, cqe.result), (StatusCode::CAPACITY_EXCEEDED, 0));
    b.is_clean();
}

#[test]
fn what_a_command_has_not_done_yet_is_judged_by_what_is_served_then() {
    // Commands of several requests, the namespace changes after some of them: what is done stays, the rest is not begun.
    let (sqe, list) = copy(2, 100, &[(0, 2), (2, 2), (4, 2)]);
    let ranges: Vec<u8> = (0..24u64).flat_map(|i| DsmRange { attributes: 0, blocks: 1, slba: 2 * i }.to_bytes()).collect();
    let dsm = DatasetManagement { nr: 23, idr: false, idw: false, ad: true }.sqe(9, 2);
    for (sqe, data, requests, under_way) in [(with_capsule(sqe, 96), &list, 6, 1), (with_capsule(dsm, 384), &ranges, 24, 16)] {
        for before in 0..=requests {
            for harmless in [true, false] {
                let mut b = bench();
                b.hold = true;
                b.capsule(sqe, data);
                for _ in 0..before {
                    assert!(b.answer_one());
                }
                b.change_view(|view| {
                    if !harmless {
                        view.volumes[1].as_mut().unwrap().write_protect = WriteProtect::Protected;
                    }
                });
                while b.answer_one() {}
                let Some(Pdu::Response(cqe)) = b.next() else { panic!("an answer") };
                // What had been handed out when the view changed is done.
                let done = if harmless { requests } else { (before + under_way).min(requests) };
                assert_eq!(b.memory.requests, done, "{before}");
                assert_eq!(cqe.status.code, if done == requests { OK } else { StatusCode::NAMESPACE_WRITE_PROTECTED }, "{before}");
                b.is_clean();
            }
        }
    }
}

#[test]
fn what_has_not_begun_is_aborted_and_what_runs_is_not() {
    let requested = StatusCode::ABORT_REQUESTED;
    let mut b = bench();
    assert_eq!(b.abort(1), Aborted::No, "there is none");
    // Asked for its data: answered at once; the data is thrown away when it comes, and the identifier is free meanwhile.
    let write = |cid| Sqe { cid, ..with_transport(rw(IoOpcode::Write, 1, 0, 8), 4096) };
    b.capsule(write(1), &[]);
    let r2t = b.r2t(1);
    assert_eq!(b.abort(1), Aborted::Yes);
    b.codes(&[(1, requested)]);
    assert_eq!((b.session.held(), b.abort(1)), (0, Aborted::No));
    b.capsule(write(1), &[]);
    let again = b.r2t(1);
    b.send_data(&r2t, &[7; 4096]);
    assert!(b.next().is_none(), "no second answer");
    b.send_data(&again, &[8; 4096]);
    b.codes(&[(1, OK)]);
    assert_eq!(b.read(1, 0, 8), vec![8; 4096]);
    // Aborted in the middle of its data, with and without a PDU begun.
    b.capsule(write(1), &[]);
    let r2t = b.r2t(1);
    let bytes = b.client.h2c_data(&r2t, &[9; 4096], 3000);
    let (now, later) = bytes.split_at(1000);
    b.feed(now);
    assert_eq!(b.abort(1), Aborted::Yes);
    b.feed(later);
    b.codes(&[(1, requested)]);
    assert_eq!(b.read(1, 0, 8), vec![8; 4096]);
    b.is_clean();
    // Running: not aborted.
    b.hold = true;
    b.capsule(Sqe { cid: 4, ..with_transport(rw(IoOpcode::Read, 1, 0, 1), 512) }, &[]);
    assert_eq!(b.abort(4), Aborted::No);
    // Waiting for buffers, behind reads that hold all there are.
    for cid in 10..22 {
        b.capsule(Sqe { cid, ..with_transport(rw(IoOpcode::Read, 1, 0, 2048), 1 << 20) }, &[]);
    }
    b.capsule(write(30), &[]);
    assert!(b.stats.waited_for_buffers > 0 && b.next().is_none());
    assert_eq!((b.abort(30), b.abort(21)), (Aborted::Yes, Aborted::Yes));
    b.codes(&[(30, requested), (21, requested)]);
    b.hold = false;
    b.settle();
    let mut done = Vec::new();
    while let Some(pdu) = b.next() {
        if let Pdu::Response(cqe) = pdu {
            assert!(cqe.status.is_success());
            done.push(cqe.cid);
        }
    }
    done.sort_unstable();
    let expected: Vec<u16> = [4].into_iter().chain(10..21).collect();
    assert!(done == expected || done.is_empty(), "{done:?}"); // Without flow control data says that all went well.
    b.is_clean();
}

#[test]
fn halves_are_aborted_one_by_one() {
    let requested = StatusCode::ABORT_REQUESTED;
    let (first, second) = halves(1, 0, 1);
    let mut b = bench();
    // A first half that waits for its second.
    b.capsule(with_transport(first, 512), &[]);
    assert_eq!(b.abort(1), Aborted::Yes);
    b.codes(&[(1, requested)]);
    b.capsule(with_capsule(second, 512), &[0; 512]);
    b.codes(&[(2, FAILED)]);
    // Both are there, and data is still to come.
    for cid in [1, 2] {
        b.capsule(with_transport(first, 512), &[]);
        b.capsule(with_transport(second, 512), &[]);
        let (a, z) = (b.r2t(1), b.r2t(2));
        assert_eq!(b.abort(cid), Aborted::Yes);
        b.send_data(&a, &[0; 512]);
        assert!(b.next().is_none());
        b.send_data(&z, &[0; 512]);
        b.codes(&if cid == 1 { [(1, requested), (2, FAILED)] } else { [(1, FAILED), (2, requested)] });
    }
    assert_eq!(b.memory.requests, 0);
    b.is_clean();
}

#[test]
fn a_write_protected_namespace_refuses_every_change_and_nothing_else() {
    let protected = StatusCode::NAMESPACE_WRITE_PROTECTED;
    for state in [WriteProtect::Protected, WriteProtect::UntilRestart, WriteProtect::Permanent, WriteProtect::None] {
        let mut b = bench();
        b.change_view(|view| view.volumes[0].as_mut().unwrap().write_protect = state);
        let expected = if state == WriteProtect::None { OK } else { protected };
        let dsm = DatasetManagement { nr: 0, idr: false, idw: false, ad: true }.sqe(5, 1);
        let range = DsmRange { attributes: 0, blocks: 1, slba: 0 }.to_bytes();
        let (sqe, list) = copy(1, 0, &[(8, 1)]);
        let zero = BlockRange::new(0, 7);
        for (sqe, data) in [
            (with_capsule(rw(IoOpcode::Write, 1, 0, 1), 512), &[0; 512][..]),
            (with_transport(rw(IoOpcode::Write, 1, 0, 1), 512), &[0; 512]),
            (zero.sqe(IoOpcode::WriteZeroes, 4, 1), &[]),
            (zero.sqe(IoOpcode::WriteUncorrectable, 4, 1), &[]),
            (with_capsule(dsm, 16), &range),
            (with_capsule(sqe, 32), &list),
        ] {
            let (status, _) = b.execute(sqe, data);
            assert_eq!((status.code, status.dnr), (expected, expected != OK), "{sqe:?}");
        }
        b.memory.lost.clear();
        assert_eq!(b.status(with_transport(rw(IoOpcode::Read, 1, 0, 1), 512), &[]), OK);
        assert_eq!(b.status(with_capsule(rw(IoOpcode::Compare, 1, 0, 1), 512), &[0; 512]), OK);
        assert_eq!(b.status(zero.sqe(IoOpcode::Verify, 4, 1), &[]), OK);
        b.is_clean();
    }
}

#[test]
fn a_write_with_a_directive_is_refused() {
    let mut b = bench();
    let write = with_capsule(BlockRange { dtype: 1, ..BlockRange::new(0, 0) }.sqe(IoOpcode::Write, 4, 1), 512);
    assert_eq!(b.status(write, &[0; 512]), StatusCode::INVALID_FIELD);
}
