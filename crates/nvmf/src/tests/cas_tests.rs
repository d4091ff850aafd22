//! Locks and aborts across connections and cores: counters that several hosts' queues exchange in a simulated world, and Abort commands that
//! find their command on another core.

use super::client::{Client, Pdu, with_capsule, with_transport};
use super::world_tests::Rig;
use base::Duration;
use format::nvme::io::BlockRange;
use format::nvme::{AdminOpcode, Fuse, IoOpcode, Sqe, StatusCode};

/// A queue that adds one again and again: reads the counter, then exchanges it.
struct Adder {
    at: usize,
    capsules: bool,
    /// What it has read, in 512 bytes of a number.
    old: Vec<u8>,
    done: u32,
    lost: u32,
    compared: Option<StatusCode>,
}

const ROUNDS: u32 = 25;

fn number(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(64)
}

impl Adder {
    fn new_value(&self) -> Vec<u8> {
        number(u64::from_le_bytes(self.old[..8].try_into().unwrap()) + 1)
    }
    fn read(&mut self, rig: &mut Rig) {
        self.old.clear();
        let sqe = Sqe { cid: 1, ..with_transport(BlockRange::new(7, 0).sqe(IoOpcode::Read, 0, 1), 512) };
        rig.send(self.at, |c| c.capsule(sqe, &[]));
    }
    fn exchange(&mut self, rig: &mut Rig) {
        assert!(self.old == number(u64::from_le_bytes(self.old[..8].try_into().unwrap())), "half an exchange is seen");
        let new = self.new_value();
        for (cid, fuse, op, data) in [(2, Fuse::First, IoOpcode::Compare, &self.old), (3, Fuse::Second, IoOpcode::Write, &new)] {
            let sqe = Sqe { cid, fuse, ..BlockRange::new(7, 0).sqe(op, 0, 1) };
            let capsules = self.capsules;
            rig.send(
                self.at,
                |c| if capsules { c.capsule(with_capsule(sqe, 512), data) } else { c.capsule(with_transport(sqe, 512), &[]) },
            );
        }
    }
    /// Whether it has something more to do.
    fn on_pdu(&mut self, rig: &mut Rig, pdu: Pdu) -> bool {
        match pdu {
            Pdu::Data(_, bytes) => self.old.extend(bytes),
            Pdu::R2t(r2t) => {
                let data = if r2t.cccid == 2 { self.old.clone() } else { self.new_value() };
                rig.send(self.at, |c| c.h2c_data(&r2t, &data, 200));
            }
            Pdu::Response(cqe) => match (cqe.cid, cqe.status.code) {
                (1, StatusCode::SUCCESS) => self.exchange(rig),
                (2, code) => self.compared = Some(code),
                (3, code) => {
                    match (self.compared.take().expect("the first half is answered first"), code) {
                        (StatusCode::SUCCESS, StatusCode::SUCCESS) => self.done += 1,
                        (StatusCode::COMPARE_FAILURE, StatusCode::ABORTED_FAILED_FUSED) => self.lost += 1,
                        other => panic!("{other:?}"),
                    }
                    if self.done == ROUNDS {
                        return false;
                    }
                    self.read(rig);
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
        true
    }
}

#[test]
fn counters_exchanged_by_queues_on_several_cores_never_lose_an_increment() {
    let mut lost = 0;
    for seed in 0..6 {
        let mut rig = Rig::new(100 + seed);
        let mut adders = Vec::new();
        for n in 0..6u16 {
            let client = || Client::new(n.is_multiple_of(2), n.is_multiple_of(3), 0);
            let (_, cntlid) = rig.admin(client(), 0);
            let at = rig.io_queue(cntlid, 1, client());
            adders.push(Adder { at, capsules: n < 3, old: vec![], done: 0, lost: 0, compared: None });
        }
        adders.iter_mut().for_each(|a| a.read(&mut rig));
        let mut busy: Vec<usize> = (0..adders.len()).collect();
        let mut turns = 0;
        while !busy.is_empty() {
            turns += 1;
            assert!(turns < 1_000_000, "it comes to an end");
            busy.retain(|n| {
                let adder = &mut adders[*n];
                match rig.try_next(adder.at, Duration::from_micros(3)) {
                    Some(pdu) => adder.on_pdu(&mut rig, pdu),
                    None => true,
                }
            });
        }
        let read = with_transport(BlockRange::new(7, 0).sqe(IoOpcode::Read, 0, 1), 512);
        let (_, got) = rig.execute(adders[0].at, read, &[]);
        assert_eq!(got, number(u64::from(ROUNDS) * adders.len() as u64), "seed {seed}");
        lost += adders.iter().map(|a| a.lost).sum::<u32>();
    }
    assert!(lost > 50, "they must meet: {lost}");
}

#[test]
fn an_abort_finds_its_command_on_whatever_core() {
    let mut rig = Rig::new(7);
    let client = || Client::new(true, true, 0);
    let (admin, cntlid) = rig.admin(client(), 0);
    let abort =
        |sqid: u16, cid: u16| Sqe { opcode: AdminOpcode::Abort.byte(), cdw10: u32::from(sqid) | u32::from(cid) << 16, ..Sqe::default() };
    for qid in 1..=4 {
        let at = rig.io_queue(cntlid, qid, client());
        let write = Sqe { cid: 77, ..with_transport(BlockRange::new(0, 7).sqe(IoOpcode::Write, 0, 1), 4096) };
        rig.send(at, |c| c.capsule(write, &[]));
        let Pdu::R2t(r2t) = rig.next(at) else { panic!("asked for its data") };
        let (cqe, _) = rig.execute(admin, abort(qid, 77), &[]);
        assert_eq!((cqe.status.code, cqe.result), (StatusCode::SUCCESS, 0));
        assert!(matches!(rig.next(at), Pdu::Response(c) if c.cid == 77 && c.status.code == StatusCode::ABORT_REQUESTED));
        assert_eq!(rig.execute(admin, abort(qid, 77), &[]).0.result, 1, "it is gone");
        // Its data comes late, to be thrown away; the queue serves on.
        rig.send(at, |c| c.h2c_data(&r2t, &[9; 4096], 1000));
        let read = with_transport(BlockRange::new(0, 7).sqe(IoOpcode::Read, 0, 1), 4096);
        assert_eq!(rig.execute(at, read, &[]).1, vec![0; 4096]);
    }
    for _ in 0..=2 * crate::limits::ABORT_MAX {
        let (cqe, _) = rig.execute(admin, abort(9, 77), &[]);
        assert_eq!((cqe.status.code, cqe.result), (StatusCode::SUCCESS, 1), "no such queue, and nothing of it stays under way");
    }
    // An event request: aborted, and its place is free.
    for _ in 0..6 {
        let request = Sqe { opcode: AdminOpcode::AsyncEventRequest.byte(), cid: 500, ..Sqe::default() };
        rig.send(admin, |c| c.capsule(request, &[]));
        rig.send(admin, |c| c.capsule(Sqe { cid: 501, ..abort(0, 500) }, &[]));
        assert!(matches!(rig.next(admin), Pdu::Response(c) if c.cid == 500 && c.status.code == StatusCode::ABORT_REQUESTED));
        assert!(matches!(rig.next(admin), Pdu::Response(c) if c.cid == 501 && c.status.is_success() && c.result == 0));
    }
}
