//! A queue with two namespaces, one of them on a volume with limits: what the limit holds back keeps nothing that the other needs, and all finish.

use super::client::{Client, Pdu, with_capsule, with_transport};
use super::session_tests::{Bench, pattern, rw, without_memory};
use crate::limits::COPY_STEP_BYTES;
use crate::session::Aborted;
#[cfg(feature = "hooks")]
use base::hooks::{self, SeededFault};
use format::nvme::fabrics::disconnect_sqe;
use format::nvme::io::{BlockRange, CopyCommand, CopyRange};
use format::nvme::{Cqe, Fuse, IoOpcode, Sqe, StatusCode};
use format::nvme_tcp::R2t;
use object::{IoOp, IoRequest, VolumeRef};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

const MIB: u32 = 1 << 20;
/// The volume with limits is that of namespace 1.
const LIMITED: VolumeRef = VolumeRef(0);

/// The queue, the limit, and a host that sends all that it is asked for.
struct Rig {
    b: Bench,
    /// The volume holds requests back. Hosts' commands may be judged by another view than this for a moment.
    limits: bool,
    held: VecDeque<IoRequest>,
    /// Requests that the limit has counted.
    counted: u32,
    answers: BTreeMap<u16, Cqe>,
    /// The host sends the data that it is asked for, at once.
    sends: bool,
    /// What it has not sent.
    unsent: Vec<R2t>,
}

impl Rig {
    fn new(entries: u16) -> Rig {
        Rig::on(Bench::io_queue(Client::new(false, false, 0), entries))
    }
    fn on(mut b: Bench) -> Rig {
        b.hold = true;
        let mut rig = Rig { b, limits: false, held: VecDeque::new(), counted: 0, answers: BTreeMap::new(), sends: true, unsent: vec![] };
        rig.limit(true);
        rig
    }
    /// The volume has limits from now on, or none any more.
    fn limit(&mut self, on: bool) {
        self.b.change_view(|view| view.volumes[0].as_mut().unwrap().limited = on);
        self.limits = on;
        if !on {
            while self.turn() {}
        }
    }
    fn send(&mut self, sqe: Sqe, data: &[u8]) {
        let capsule = self.b.client.capsule(sqe, data);
        self.b.feed(&capsule);
        self.settle();
    }
    fn read(&mut self, cid: u16, nsid: u32, bytes: u32) {
        self.send(read(cid, nsid, bytes), &[]);
    }
    fn write(&mut self, cid: u16, nsid: u32, bytes: u32) {
        self.send(with_transport(of(IoOpcode::Write, cid, nsid, bytes), bytes), &[]);
    }
    fn send_data(&mut self, r2t: &R2t) {
        let data = self.b.client.h2c_data(r2t, &vec![0; r2t.bytes as usize], 200_000);
        self.b.feed(&data);
    }
    /// Everybody does what no limit holds back.
    fn settle(&mut self) {
        loop {
            let requests = self.b.take_requests();
            let mut moved = !requests.is_empty();
            for request in requests {
                let counts = self.limits && request.volume == LIMITED && !request.counted;
                match request.op {
                    IoOp::Turn { requests, .. } if counts => self.counted += requests,
                    IoOp::Read { .. } | IoOp::Write { .. } | IoOp::CompareWrite { .. } | IoOp::Verify { .. } if counts => self.counted += 1,
                    _ => {
                        self.b.answer(request);
                        continue;
                    }
                }
                self.held.push_back(request);
            }
            while let Some(pdu) = self.b.next() {
                moved = true;
                match pdu {
                    Pdu::R2t(r2t) if self.sends => self.send_data(&r2t),
                    Pdu::R2t(r2t) => self.unsent.push(r2t),
                    Pdu::Data(..) => {}
                    Pdu::Response(cqe) => assert!(self.answers.insert(cqe.cid, cqe).is_none(), "{} was answered twice", cqe.cid),
                    other => panic!("{other:?}"),
                }
            }
            if !moved {
                return;
            }
        }
    }
    /// The limit lets the first of what it holds back begin; whether there was one.
    fn turn(&mut self) -> bool {
        let Some(request) = self.held.pop_front() else { return false };
        match self.b.may_begin(request.token) {
            true => self.b.answer(request),
            false => self.b.withdraw(request.token),
        }
        self.settle();
        true
    }
    fn has_succeeded(&self, cid: u16) -> bool {
        self.answers.get(&cid).is_some_and(|cqe| cqe.status.is_success())
    }
    /// The limit lets everything begin: `commands` are answered then, all of them well.
    fn all_finish(&mut self, commands: usize) {
        while self.turn() {}
        assert_eq!(self.answers.len(), commands);
        assert!(self.answers.values().all(|cqe| cqe.status.is_success()), "{:?}", self.answers);
        self.is_clean();
    }
    fn is_clean(&self) {
        let s = &self.b.session;
        assert_eq!((s.held(), s.running(), s.outstanding()), (0, 0, 0));
    }
}

fn blocks(nsid: u32, bytes: u32) -> u32 {
    bytes / if nsid == 1 { 512 } else { 4096 }
}
fn of(op: IoOpcode, cid: u16, nsid: u32, bytes: u32) -> Sqe {
    Sqe { cid, ..rw(op, nsid, 0, blocks(nsid, bytes)) }
}
fn read(cid: u16, nsid: u32, bytes: u32) -> Sqe {
    with_transport(of(IoOpcode::Read, cid, nsid, bytes), bytes)
}
fn copy(cid: u16, nsid: u32, bytes: u32) -> (Sqe, [u8; 32]) {
    let command = CopyCommand { sdlba: u64::from(blocks(nsid, 2 * MIB)), nr: 0, desfmt: 0, dtype: 0 };
    let range = CopyRange { slba: 0, nlb: blocks(nsid, bytes) as u16 - 1 };
    (command.sqe(cid, nsid), range.to_bytes())
}
fn verify(cid: u16, nsid: u32, bytes: u32) -> Sqe {
    BlockRange::new(0, (blocks(nsid, bytes) - 1) as u16).sqe(IoOpcode::Verify, cid, nsid)
}

fn others_go_on() {
    let mut rig = Rig::new(64);
    for cid in 0..10 {
        rig.read(cid, 1, MIB);
        rig.write(100 + cid, 1, MIB);
        rig.send(verify(200 + cid, 1, 2 * MIB), &[]);
    }
    assert_eq!((rig.held.len(), rig.b.session.held()), (30, 0), "all wait for their turn, and have nothing");
    rig.read(1000, 2, MIB);
    rig.write(1001, 2, MIB);
    let (sqe, range) = copy(1002, 2, MIB);
    rig.send(with_capsule(sqe, 32), &range);
    assert!((1000..1003).all(|cid| rig.has_succeeded(cid)), "another volume does not wait for the limit of this one");
    rig.sends = false;
    assert!(rig.turn() && rig.turn());
    assert_eq!(rig.b.session.held(), MIB, "one was answered, and the data of one is asked for");
    rig.limits = false; // what is asked for now is not
    rig.b.end();
}

#[test]
fn what_a_limit_holds_back_keeps_no_memory_that_another_volume_needs() {
    others_go_on();
}

#[cfg(feature = "hooks")]
#[test]
fn memory_before_the_turn_is_noticed() {
    hooks::notices(SeededFault::MemoryBeforeTurn, others_go_on);
}

#[test]
fn every_command_that_a_limit_holds_back_is_counted_once_and_finishes() {
    all_are_counted_once();
}

#[cfg(feature = "hooks")]
#[test]
fn a_turn_that_is_not_kept_is_noticed() {
    hooks::notices(SeededFault::TurnNotKept, all_are_counted_once);
}

fn all_are_counted_once() {
    for (client, in_capsule) in [(false, false), (true, true)].into_iter().flat_map(|d| [true, false].map(|c| (d, c))) {
        let mut rig = Rig::on(Bench::io_queue(Client::new(client.0, client.1, 0), 64));
        for cid in 0..8 {
            rig.read(cid, 1, MIB);
            rig.write(10 + cid, 1, 64 << 10);
            rig.send(with_transport(of(IoOpcode::Compare, 20 + cid, 1, 8192), 8192), &[]);
            rig.send(verify(30 + cid, 1, 4096), &[]);
            let write = of(IoOpcode::Write, 40 + cid, 1, 8192);
            let (sqe, data) = if in_capsule { (with_capsule(write, 8192), vec![0; 8192]) } else { (with_transport(write, 8192), vec![]) };
            rig.send(sqe, &data);
        }
        assert_eq!(rig.answers.len(), 0);
        rig.all_finish(40);
        assert_eq!(rig.counted, 40);
    }
}

#[test]
fn what_no_limit_counts_does_not_wait_for_a_turn() {
    let mut rig = Rig::new(64);
    (0..20).for_each(|cid| rig.read(cid, 1, MIB));
    rig.send(format::nvme::io::flush_sqe(100, 1), &[]);
    rig.send(of(IoOpcode::WriteZeroes, 101, 1, MIB), &[]);
    let range = format::nvme::io::DsmRange { attributes: 0, blocks: 8, slba: 0 }.to_bytes();
    let dsm = format::nvme::io::DatasetManagement { nr: 0, idr: false, idw: false, ad: true };
    rig.send(with_capsule(dsm.sqe(102, 1), 16), &range);
    assert!((100..103).all(|cid| rig.has_succeeded(cid)));
    rig.all_finish(23);
}

fn capsules_do_not_fill() {
    let mut rig = Rig::new(1024);
    // 10 MiB: more than a queue may hold, and more than comes in capsules before a connection is not read any more.
    let data = pattern(16 << 10, 1);
    for cid in 0..640 {
        rig.send(with_capsule(of(IoOpcode::Write, cid, 1, 16 << 10), 16 << 10), &data);
        assert!(rig.b.session.wants_bytes(), "{cid}: others come on this connection");
    }
    rig.read(1000, 2, MIB);
    rig.write(1001, 2, MIB);
    rig.send(with_capsule(of(IoOpcode::Write, 1002, 2, 16 << 10), 16 << 10), &data);
    assert!((1000..1003).all(|cid| rig.has_succeeded(cid)));
    rig.all_finish(643);
}

#[test]
fn data_in_capsules_that_a_limit_holds_back_keeps_nobody_from_memory_or_from_being_read() {
    capsules_do_not_fill();
}

#[cfg(feature = "hooks")]
#[test]
fn capsules_of_a_limited_volume_that_fill_the_queue_are_noticed() {
    hooks::notices(SeededFault::LimitedCapsulesFill, capsules_do_not_fill);
}

#[test]
fn a_host_without_memory_left_is_not_read_while_a_limit_holds_capsules_back_and_one_of_its_other_commands_goes_on() {
    let (b, _other) = without_memory();
    let mut rig = Rig::on(b);
    rig.send(with_capsule(of(IoOpcode::Write, 1, 1, 8192), 8192), &[0; 8192]);
    assert!(!rig.b.session.wants_bytes(), "its quota is what bounds it");
    // What was on its way is taken all the same.
    rig.read(2, 2, MIB);
    assert!(rig.has_succeeded(2));
    rig.all_finish(2);
    assert!(rig.b.session.wants_bytes());
}

/// The memory that a Copy waits for between two steps comes back with data that is still to come on its own connection.
#[test]
fn a_copy_that_waits_for_memory_does_not_keep_the_connection_from_being_read() {
    waiting_copy_is_read();
}

#[cfg(feature = "hooks")]
#[test]
fn a_copy_that_waits_and_keeps_the_connection_from_being_read_is_noticed() {
    hooks::notices(SeededFault::WaitingCopyAwaited, waiting_copy_is_read);
}

fn waiting_copy_is_read() {
    let (b, _other) = without_memory();
    let mut rig = Rig::on(b);
    rig.sends = false;
    rig.write(1, 2, 64 << 10);
    let (sqe, range) = copy(2, 1, 8192);
    rig.send(with_capsule(sqe, 32), &range);
    assert!(rig.turn(), "the turn of the Copy has come; there is no memory for it");
    assert_eq!((rig.answers.len(), rig.unsent.len()), (0, 1));
    assert!(rig.b.session.wants_bytes(), "the data of the write would free some");
    rig.sends = true;
    let r2t = rig.unsent.remove(0);
    rig.send_data(&r2t);
    rig.settle();
    rig.all_finish(2);
}

#[test]
fn a_pair_waits_for_one_turn_and_nothing_of_it_is_asked_for_before() {
    for (first, second) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut rig = Rig::new(16);
        let half = |op, cid, fuse, capsule: bool| {
            let sqe = Sqe { fuse, ..of(op, cid, 1, 8192) };
            if capsule { (with_capsule(sqe, 8192), vec![0; 8192]) } else { (with_transport(sqe, 8192), vec![]) }
        };
        let (sqe, data) = half(IoOpcode::Compare, 1, Fuse::First, first);
        rig.send(sqe, &data);
        let (sqe, data) = half(IoOpcode::Write, 2, Fuse::Second, second);
        rig.send(sqe, &data);
        let capsules = u32::from(first) + u32::from(second);
        assert_eq!((rig.held.len(), rig.b.session.held()), (1, 8192 * capsules), "{first} {second}");
        rig.read(3, 2, MIB);
        assert!(rig.has_succeeded(3));
        rig.all_finish(3);
        assert_eq!(rig.counted, 1, "{first} {second}");
    }
}

#[test]
fn a_pair_whose_turn_does_not_come_is_answered_as_one() {
    for second in [false, true] {
        let mut rig = Rig::new(16);
        let half = |op, cid, fuse| Sqe { fuse, ..of(op, cid, 1, 8192) };
        rig.send(with_transport(half(IoOpcode::Compare, 1, Fuse::First), 8192), &[]);
        let write = half(IoOpcode::Write, 2, Fuse::Second);
        match second {
            true => rig.send(with_capsule(write, 8192), &[0; 8192]),
            false => rig.send(with_transport(write, 8192), &[]),
        }
        rig.b.change_view(|view| view.volumes[0].as_mut().unwrap().formatting = true);
        assert!(rig.turn());
        let codes: Vec<_> = rig.answers.values().map(|cqe| cqe.status.code).collect();
        // The second fails for the first, or for the same reason.
        let failed = if second { StatusCode::ABORTED_FAILED_FUSED } else { StatusCode::FORMAT_IN_PROGRESS };
        assert_eq!(codes, [StatusCode::FORMAT_IN_PROGRESS, failed], "{second}");
        rig.is_clean();
    }
}

#[test]
fn a_copy_has_no_buffers_between_its_steps_and_each_of_them_counts_twice() {
    let mut rig = Rig::new(64);
    for cid in 0..20 {
        let (sqe, range) = copy(cid, 1, MIB);
        rig.send(with_capsule(sqe, 32), &range);
    }
    assert_eq!((rig.held.len(), rig.b.session.held()), (20, 20 * 32));
    for turn in 1..=20 {
        assert!(rig.turn());
        assert_eq!((rig.held.len(), rig.b.session.held()), (20, 20 * 32), "the second step of {turn} waits");
    }
    rig.read(100, 2, MIB);
    assert!(rig.has_succeeded(100));
    rig.all_finish(21);
    assert_eq!(rig.counted, 20 * 2 * (MIB / COPY_STEP_BYTES as u32));
}

#[test]
fn a_copy_under_way_goes_by_a_limit_that_is_set_or_taken_away_at_its_next_step() {
    let mut rig = Rig::new(64);
    rig.limit(false);
    rig.b.hold = true;
    let (sqe, range) = copy(1, 1, MIB);
    let capsule = rig.b.client.capsule(with_capsule(sqe, 32), &range);
    rig.b.feed(&capsule);
    assert_eq!(rig.b.session.held(), 32 + COPY_STEP_BYTES as u32);
    rig.limit(true);
    // The step that has begun is not counted any more, its write is.
    rig.settle();
    while rig.held.front().is_some_and(|r| !matches!(r.op, IoOp::Turn { .. })) {
        rig.turn();
    }
    assert_eq!((rig.held.len(), rig.b.session.held()), (1, 32), "the next waits for its turn");
    rig.limit(false);
    rig.all_finish(1);
}

#[test]
fn commands_that_wait_for_memory_wait_for_their_turn_when_a_limit_is_set() {
    let mut rig = Rig::new(64);
    rig.limit(false);
    rig.sends = false;
    for cid in 0..20 {
        rig.write(cid, 1, MIB);
    }
    let asked = rig.b.session.held();
    assert!(rig.b.stats.waited_for_buffers > 0);
    rig.limit(true);
    let session = rig.b.session.outstanding();
    assert_eq!((session, rig.held.len()), (20, 0));
    // What had been asked for comes, and is held back with what it holds; the others hold nothing.
    for cid in 0..asked / MIB {
        assert_eq!(rig.b.abort(cid as u16), Aborted::Yes);
    }
    rig.settle();
    assert_eq!((rig.held.len(), rig.b.session.held()), (20 - (asked / MIB) as usize, 0));
    rig.read(100, 2, MIB);
    assert!(rig.has_succeeded(100));
    rig.limit(false);
    rig.b.end();
}

#[test]
fn a_command_whose_connection_disconnects_or_whose_rights_end_comes_to_nothing_at_its_turn() {
    let mut rig = Rig::new(64);
    rig.read(1, 1, MIB);
    rig.write(2, 1, MIB);
    assert_eq!(rig.b.abort(1), Aborted::No, "the volume has it");
    let preempted = format::nvme::Status::dnr(StatusCode::ABORTED_PREEMPT);
    rig.b.session.abort_on(LIMITED, preempted);
    assert_eq!(rig.b.session.under_way_on(LIMITED).count(), 0, "nothing has begun");
    while rig.turn() {}
    assert!(rig.answers.len() == 2 && rig.answers.values().all(|cqe| cqe.status == preempted), "{:?}", rig.answers);
    rig.is_clean();
    rig.read(3, 1, MIB);
    rig.b.end();
    let late = rig.held.pop_front().unwrap();
    assert!(!rig.b.may_begin(late.token));
    rig.b.withdraw(late.token);
    rig.is_clean();
}

/// What happens on the queue.
#[derive(Clone, Debug)]
enum Event {
    /// A command on this namespace, of so many KiB: kind, data in its capsule where that is possible.
    Command { kind: u8, nsid: u32, kib: u32, capsule: bool },
    /// The limit lets so many begin.
    Turns(usize),
    /// The volume has a limit, or none.
    Limit(bool),
    /// One of the commands that came last is aborted.
    Abort(u16),
}

fn events(limit_changes: bool) -> impl Strategy<Value = Vec<Event>> {
    let sizes = prop_oneof![Just(4u32), Just(8), Just(16), Just(64), Just(256), Just(1024)];
    let command =
        (0u8..6, 1u32..3, sizes, any::<bool>()).prop_map(|(kind, nsid, kib, capsule)| Event::Command { kind, nsid, kib, capsule });
    let rest = prop_oneof![
        3 => (0usize..4).prop_map(Event::Turns),
        1 => (0u16..20).prop_map(Event::Abort),
        1 => any::<bool>().prop_map(move |on| if limit_changes { Event::Limit(on) } else { Event::Turns(1) }),
    ];
    proptest::collection::vec(prop_oneof![4 => command, 1 => rest], 1..80)
}

/// Plays events. With a limit that stays, nothing of namespace 2 waits for it; in the end everything is answered.
fn play(mut rig: Rig, events: &[Event], limit_stays: bool, disconnects: bool) {
    let mut sent: Vec<(u16, u32)> = Vec::new();
    let mut aborts = 0;
    for event in events {
        let cid = sent.len() as u16;
        match *event {
            Event::Command { .. } if rig.b.session.outstanding() + 3 > 32 || !rig.b.session.wants_bytes() => {}
            Event::Command { kind: 4, nsid, kib, capsule } => {
                let bytes = kib.min(256) << 10;
                let inside = capsule && kib <= 16;
                let halves = [(IoOpcode::Compare, Fuse::First), (IoOpcode::Write, Fuse::Second)];
                for (i, (op, fuse)) in halves.into_iter().enumerate() {
                    let sqe = Sqe { fuse, ..of(op, cid + i as u16, nsid, bytes) };
                    // One half in its capsule, the other not, at times.
                    let inside = inside && (i == 0 || kib != 8);
                    let data = vec![0; if inside { bytes as usize } else { 0 }];
                    let sqe = if inside { with_capsule(sqe, bytes) } else { with_transport(sqe, bytes) };
                    let capsule = rig.b.client.capsule(sqe, &data);
                    rig.b.feed(&capsule);
                    sent.push((cid + i as u16, nsid));
                }
                rig.settle();
            }
            Event::Command { kind, nsid, kib, capsule } => {
                let bytes = kib << 10;
                let (sqe, data) = match kind {
                    0 => (read(cid, nsid, bytes), vec![]),
                    1 => (verify(cid, nsid, bytes), vec![]),
                    2 => {
                        let (sqe, range) = copy(cid, nsid, bytes);
                        if capsule { (with_capsule(sqe, 32), range.to_vec()) } else { (with_transport(sqe, 32), vec![]) }
                    }
                    3 => (with_transport(of(IoOpcode::Compare, cid, nsid, bytes), bytes), vec![]),
                    _ if capsule && kib <= 16 => (with_capsule(of(IoOpcode::Write, cid, nsid, bytes), bytes), vec![0; bytes as usize]),
                    _ => (with_transport(of(IoOpcode::Write, cid, nsid, bytes), bytes), vec![]),
                };
                // A Copy of ranges that are not zeroes would need its data; here all is zeroes.
                rig.send(sqe, &data);
                sent.push((cid, nsid));
            }
            Event::Turns(count) => drop((0..count).map(|_| rig.turn()).collect::<Vec<_>>()),
            Event::Limit(on) => rig.limit(on),
            Event::Abort(back) => {
                let Some((cid, _)) = sent.iter().rev().nth(usize::from(back)) else { continue };
                aborts += usize::from(rig.b.abort(*cid) == Aborted::Yes);
                rig.settle();
            }
        }
        let waits = |(cid, nsid): &&(u16, u32)| *nsid == 2 && !rig.answers.contains_key(cid);
        if limit_stays {
            assert_eq!(sent.iter().find(waits), None, "it waits for the limit of another volume");
        }
    }
    if disconnects {
        rig.send(Sqe { cid: 999, ..disconnect_sqe(999) }, &[]);
        sent.push((999, 0));
        aborts += 64;
    }
    while rig.turn() {}
    assert_eq!(rig.answers.len(), sent.len(), "somebody waits for ever");
    let failed = rig.answers.values().filter(|cqe| !cqe.status.is_success()).count();
    assert!(failed <= 2 * aborts, "{failed} have failed, and {aborts} were aborted");
    rig.is_clean();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn nobody_waits_for_the_limit_of_another_volume_and_nobody_for_ever(events in events(false), tiny in any::<bool>()) {
        small(tiny);
        play(Rig::new(32), &events, true, false);
        small(false);
    }

    #[test]
    fn nobody_waits_for_ever_whatever_becomes_of_the_limit(events in events(true), tiny in any::<bool>(), no_memory in any::<bool>(),
        disconnects in any::<bool>()) {
        small(tiny);
        let (b, other) = without_memory();
        play(if no_memory { Rig::on(b) } else { Rig::new(32) }, &events, false, disconnects);
        drop(other);
        small(false);
    }
}

/// In builds with hooks: a queue may hold 64 KiB only.
fn small(_on: bool) {
    #[cfg(feature = "hooks")]
    hooks::set_tiny(_on);
}
