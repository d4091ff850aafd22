//! What ends because time passed, in a simulated world: when exactly, what a core that could not look gives back, what is counted.

use super::client::{Client, Pdu, with_capsule};
use super::world_tests::Rig;
use super::{HOST, NQN};
use crate::limits::{AUDIT_REFUSALS_A_TICK, DISCOVERY_IDLE_MAX, HANDSHAKE_MAX, LINGER_MAX, PDU_MAX, TICK};
use crate::{Options, TargetStats};
use base::{Duration, Instant};
use format::nvme::admin::plain_sqe;
use format::nvme::fabrics::{DISCOVERY_NQN, PropertyAccess};
use format::nvme::io::BlockRange;
use format::nvme::property::{self, Config};
use format::nvme::{AdminOpcode, IoOpcode};
use frontend::AuditKind;

fn plain() -> Client {
    Client::new(false, false, 0)
}

fn now(rig: &Rig) -> Instant {
    rig.world.rt(rig.server, 0).now()
}

fn sum(rig: &Rig, of: impl Fn(&TargetStats) -> u64) -> u64 {
    rig.servers.borrow().iter().map(|s| of(&s.borrow().target.stats())).sum()
}

/// How long it takes until each of these is closed.
fn ends(rig: &mut Rig, all: &[usize], limit: Duration) -> Vec<Option<Duration>> {
    let (begun, mut ends) = (now(rig), vec![None; all.len()]);
    while now(rig).since(begun) < limit && ends.contains(&None) {
        rig.world.run_for(Duration::from_millis(100));
        for (end, at) in ends.iter_mut().zip(all) {
            if end.is_none() && rig.is_closed(*at, Duration::from_millis(1)) {
                *end = Some(now(rig).since(begun));
            }
        }
    }
    ends
}

/// A discovery controller that is enabled.
fn discovery(rig: &mut Rig, kato_ms: u32) -> usize {
    let at = rig.open(rig.discovery, plain());
    assert!(rig.connect(at, 0, 0, kato_ms, DISCOVERY_NQN, HOST).status.is_success());
    let cc = Config { en: true, ..Config::default() }.bits();
    assert!(rig.execute(at, PropertyAccess::set_sqe(0, property::CC, false, cc.into()), &[]).0.status.is_success());
    at
}

#[test]
fn whoever_a_core_could_not_look_at_has_that_much_longer() {
    for stopped in [0, 6, 200].map(Duration::from_secs) {
        let mut rig = Rig::new(60);
        let idle = discovery(&mut rig, 0);
        let (half, _) = rig.admin(plain(), 0);
        rig.send(half, |c| c.capsule(plain_sqe(AdminOpcode::KeepAlive, 0), &[])[..40].to_vec());
        let silent = rig.open(rig.io, plain());
        let (kept, _) = rig.admin(plain(), 8000);
        assert!(rig.execute(kept, plain_sqe(AdminOpcode::KeepAlive, 0), &[]).0.status.is_success());
        let busy = rig.servers.borrow().iter().filter(|s| s.borrow().target.stats().connections_open > 0).count() as u64;
        assert_eq!(sum(&rig, |s| s.late_ticks), 0);
        if stopped > Duration::from_secs(0) {
            rig.stop(true);
            rig.world.run_for(stopped);
            rig.stop(false);
        }
        let all = [kept, silent, half, idle];
        let limits = [Duration::from_secs(8), HANDSHAKE_MAX, PDU_MAX, DISCOVERY_IDLE_MAX];
        for ((end, limit), what) in
            ends(&mut rig, &all, DISCOVERY_IDLE_MAX * 2).into_iter().zip(limits).zip(["keep-alive", "handshake", "half a PDU", "discovery"])
        {
            let end = end.expect(what);
            assert!(end + TICK * 2 >= limit && end <= limit + TICK * 4, "{what} ended {end:?} after a stop of {stopped:?}");
        }
        assert_eq!(sum(&rig, |s| s.late_ticks), if stopped > Duration::from_secs(0) { busy } else { 0 });
        assert_eq!((sum(&rig, |s| s.timeouts), sum(&rig, |s| s.keep_alive_expired)), (3, 1));
    }
}

#[test]
fn a_discovery_controller_with_a_keep_alive_timeout_may_be_idle_for_as_long() {
    let mut rig = Rig::new(61);
    let (with, without) = (discovery(&mut rig, 300_000), discovery(&mut rig, 0));
    let ends = ends(&mut rig, &[with, without], Duration::from_secs(700));
    let (with, without) = (ends[0].unwrap(), ends[1].unwrap());
    assert!(without < DISCOVERY_IDLE_MAX + TICK * 4 && with >= Duration::from_secs(299), "{without:?} and {with:?}");
}

#[test]
fn who_was_terminated_is_closed_after_a_while_and_counts_as_no_timeout() {
    let mut rig = Rig::new(62);
    let (_, cntlid) = rig.admin(plain(), 0);
    let q = rig.io_queue(cntlid, 1, plain());
    rig.send(q, |_| vec![0xFF; 100]);
    assert!(matches!(rig.next(q), Pdu::Term(..)));
    let end = ends(&mut rig, &[q], Duration::from_secs(10))[0].expect("it does not stay");
    assert!(end + TICK >= LINGER_MAX && end <= LINGER_MAX + TICK * 2, "{end:?}");
    assert_eq!((sum(&rig, |s| s.timeouts), sum(&rig, |s| s.terminations.iter().sum())), (0, 1));
}

/// Commands in capsules beyond the memory of the host, which the volume does not answer, and the first bytes of one more.
fn hold_back(rig: &mut Rig, q: usize) {
    rig.hold(true);
    let write = |cid| with_capsule(BlockRange::new(8 * u64::from(cid), 7).sqe(IoOpcode::Write, cid, 1), 4096);
    rig.send(q, |c| {
        let mut out: Vec<u8> = (1..=2).flat_map(|cid| c.capsule(write(cid), &[1; 4096])).collect();
        out.extend(&c.capsule(write(3), &[1; 4096])[..100]);
        out
    });
    rig.world.run_for(Duration::from_millis(100));
}

#[test]
fn the_time_in_which_a_connection_is_not_read_does_not_count_for_its_pdu() {
    for held in [25, 100].map(Duration::from_secs) {
        let mut rig = Rig::with(63, Options { host_memory_bytes_max: 4096, ..Options::default() });
        let (_, cntlid) = rig.admin(plain(), 0);
        let q = rig.io_queue(cntlid, 1, plain());
        hold_back(&mut rig, q);
        assert!(!rig.is_closed(q, held), "it is not read, so it cannot send");
        rig.hold(false);
        for cid in 1..=2 {
            assert!(matches!(rig.next(q), Pdu::Response(cqe) if cqe.cid == cid && cqe.status.is_success()));
        }
        let end = ends(&mut rig, &[q], PDU_MAX * 3)[0].expect("half a PDU");
        assert!(end + TICK * 2 >= PDU_MAX && end <= PDU_MAX + TICK * 4, "{end:?} after {held:?}");
    }
}

#[test]
fn refusals_beyond_a_few_are_noted_as_their_number_and_once() {
    let mut rig = Rig::new(64);
    let at = rig.open(rig.io, plain());
    let refused = |rig: &mut Rig, n: u32| {
        (0..n).for_each(|_| assert!(!rig.connect(at, 0, 0, 0, NQN, "nqn.2026-11.io.basalt:nobody").status.is_success()));
        rig.world.run_for(TICK * 2);
        let audit: Vec<_> = {
            let servers = rig.servers.borrow();
            servers.iter().flat_map(|s| std::iter::from_fn(|| s.borrow_mut().target.pop_audit()).collect::<Vec<_>>()).collect()
        };
        assert!(audit.iter().all(|e| e.kind == AuditKind::Refused));
        let (single, sums): (Vec<_>, Vec<_>) = audit.into_iter().partition(|e| e.peer.is_some());
        let more: u32 = sums.iter().map(|e| e.detail.split(' ').next().unwrap().parse::<u32>().unwrap()).sum();
        (single.len() as u32, more)
    };
    let (single, more) = refused(&mut rig, AUDIT_REFUSALS_A_TICK * 4);
    assert!(single >= AUDIT_REFUSALS_A_TICK && more > 0, "{single} and {more}");
    assert_eq!(single + more, AUDIT_REFUSALS_A_TICK * 4, "each is noted or counted");
    assert_eq!(refused(&mut rig, 0), (0, 0), "once");
    assert_eq!(refused(&mut rig, 3), (3, 0), "the next are noted one by one again");
    assert_eq!(sum(&rig, |s| s.connects_refused), u64::from(AUDIT_REFUSALS_A_TICK) * 4 + 3);
}
