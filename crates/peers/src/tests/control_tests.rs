//! Control links: grants that are counted on every core, nodes that are silent, fences and their answers.

use super::rig::{Rig, node, tls};
use crate::LinkSecurity;
use base::{BlockNo, ComponentId, Duration, Epoch, Incarnation, Lane, ObjectId, OwnerId, Seq};
use format::peer::{Fence, Release};
use object::grant::{GrantCell, Verdict};
use object::owner::{BlockRange, Fenced, LaneDoubt, Progress, Reach};
use object::owners::{ControlDoor, ControlEvent};
use std::sync::Arc;

fn object() -> ObjectId {
    ObjectId::from_bytes([3; 16])
}
fn component() -> ComponentId {
    ComponentId::from_bytes([4; 16])
}
fn owner(n: usize) -> OwnerId {
    OwnerId { node: node(n), incarnation: Incarnation(1) }
}

impl Rig {
    /// Node 0 owns an object that node 1 has a copy of.
    fn owns(&mut self) -> Arc<GrantCell> {
        let clock = self.world.rt(self.hosts[0], 0).boot_clock();
        let (owner_half, granter_half) = (self.half(0, 0), self.half(1, 0));
        granter_half.borrow_mut().peers.control().unwrap().granter.component(object(), component(), Some((Epoch(4), owner(0))));
        owner_half.borrow_mut().peers.control().unwrap().counter.own(object(), Epoch(4), &[node(1)], clock).unwrap()
    }
    fn may_answer(&self, core: usize, cell: &GrantCell) -> bool {
        cell.may_answer(self.world.rt(self.hosts[0], core).boot_clock())
    }
    fn events(&self, n: usize) -> Vec<ControlEvent> {
        let half = self.half(n, 0);
        let mut half = half.borrow_mut();
        let control = half.peers.control().unwrap();
        std::iter::from_fn(|| control.pop_event()).collect()
    }
    /// Lets time pass until node 0 may answer reads of the object.
    fn granted(&mut self, cell: &Arc<GrantCell>) {
        let (rt, cell) = (self.world.rt(self.hosts[0], 0), Arc::clone(cell));
        assert!(self.world.run_until(Duration::from_secs(3), || cell.may_answer(rt.boot_clock())), "granted");
    }
    fn ms(&mut self, ms: u64) {
        self.world.run_for(Duration::from_millis(ms));
    }
}

#[test]
fn grants_are_counted_on_every_core_while_the_control_link_is_there() {
    for (seed, security) in [tls(), LinkSecurity::Plain].into_iter().enumerate() {
        let mut rig = Rig::started(seed as u64 + 1, [3, 2], security);
        let cell = rig.owns();
        rig.granted(&cell);
        rig.ms(3000);
        assert!((0..3).all(|core| rig.may_answer(core, &cell)));
        rig.world.cut_both(rig.hosts[0], rig.hosts[1]);
        rig.ms(650);
        assert!((0..3).all(|core| rig.may_answer(core, &cell)), "a grant outlives a short silence");
        rig.ms(160);
        assert!((0..3).all(|core| !rig.may_answer(core, &cell)), "and no more than 0.8 s");
        rig.world.heal_both(rig.hosts[0], rig.hosts[1]);
        rig.granted(&cell);
        rig.half(0, 0).borrow_mut().peers.control().unwrap().counter.disown(object());
        assert!((0..3).all(|core| !rig.may_answer(core, &cell)));
    }
}

#[test]
fn no_read_is_answered_once_another_epoch_may_be_accepted_whatever_the_rates_of_the_clocks() {
    for (seed, rates) in [[-100, -100], [-100, 100], [100, -100], [100, 100], [0, 0]].into_iter().enumerate() {
        for cut in [0, 35, 70] {
            let mut rig = Rig::started(seed as u64, [1, 1], LinkSecurity::Plain);
            (0..2).for_each(|n| rig.world.clock_rate(rig.hosts[n], rates[n]));
            let cell = rig.owns();
            rig.granted(&cell);
            rig.ms(2000 + cut);
            rig.world.cut_both(rig.hosts[0], rig.hosts[1]);
            let (mut last_answer, mut accepted) = (0, None);
            for ms in 0..2000 {
                rig.ms(1);
                if rig.may_answer(0, &cell) {
                    last_answer = ms;
                }
                let clock = rig.world.rt(rig.hosts[1], 0).boot_clock();
                let half = rig.half(1, 0);
                let verdict = half.borrow_mut().peers.control().unwrap().granter.fence(object(), component(), Epoch(5), owner(1), clock);
                if verdict == Verdict::Accept && accepted.is_none() {
                    accepted = Some(ms);
                }
            }
            let accepted = accepted.expect("the grant runs out");
            assert!(last_answer < accepted && last_answer > 500 && accepted < 1120, "{rates:?}: {last_answer} ms, {accepted} ms");
        }
    }
}

#[test]
fn a_node_that_is_silent_is_late_then_gone_and_a_new_link_is_reported() {
    let mut rig = Rig::started(5, [1, 1], tls());
    let reach = |events: Vec<ControlEvent>| -> Vec<ControlEvent> {
        events.into_iter().filter(|e| matches!(e, ControlEvent::Reach(..) | ControlEvent::Opened(..))).collect()
    };
    rig.events(0);
    rig.ms(1000);
    assert_eq!(reach(rig.events(0)), [ControlEvent::Opened(node(1), Incarnation(1)), ControlEvent::Reach(node(1), Reach::Up)]);
    rig.world.cut_both(rig.hosts[0], rig.hosts[1]);
    rig.ms(600);
    assert_eq!(reach(rig.events(0)), []);
    rig.ms(150);
    assert_eq!(reach(rig.events(0)), [ControlEvent::Reach(node(1), Reach::Late)]);
    rig.ms(500);
    assert_eq!(reach(rig.events(0)), [ControlEvent::Reach(node(1), Reach::Gone)]);
    rig.world.heal_both(rig.hosts[0], rig.hosts[1]);
    rig.ms(2500);
    assert_eq!(reach(rig.events(0)), [ControlEvent::Opened(node(1), Incarnation(1)), ControlEvent::Reach(node(1), Reach::Up)]);
}

/// The host of owners begins after the links: that a node answers, and what it has asked, was said once before, and is not said again.
#[test]
fn what_happens_before_somebody_takes_events_is_kept() {
    let mut rig = Rig::started(7, [1, 1], LinkSecurity::Plain);
    rig.ms(1000);
    let fence = Fence { object: object(), component: component(), epoch: Epoch(9), period_start: Epoch(2), resync: false };
    rig.half(1, 0).borrow_mut().peers.control().unwrap().fence(node(0), fence);
    rig.ms(2000);
    let expected =
        [ControlEvent::Opened(node(1), Incarnation(1)), ControlEvent::Reach(node(1), Reach::Up), ControlEvent::Fence(owner(1), fence)];
    assert_eq!(rig.events(0), expected);
}

#[test]
fn fences_their_answers_and_releases_go_over_control_links() {
    let mut rig = Rig::started(6, [1, 1], tls());
    (0..2).for_each(|n| drop(rig.events(n)));
    rig.ms(1000);
    (0..2).for_each(|n| drop(rig.events(n)));
    let fence = Fence { object: object(), component: component(), epoch: Epoch(9), period_start: Epoch(2), resync: true };
    rig.half(0, 0).borrow_mut().peers.control().unwrap().fence(node(1), fence);
    rig.half(0, 0).borrow_mut().peers.control().unwrap().release(node(1), Release { object: object(), epoch: Epoch(9), next: node(1) });
    rig.ms(300);
    assert_eq!(rig.events(1), [ControlEvent::Fence(owner(0), fence), ControlEvent::Released(node(0), object(), node(1))]);
    let lane = |n| {
        let doubt = (0..1024).map(|at| BlockRange { first: BlockNo(at * 3), blocks: 2 }).collect();
        LaneDoubt { lane: Lane::new(n).unwrap(), mark: Seq { term: Epoch(3), counter: 77 }, doubt }
    };
    let resync = Some(Progress { below: 5, to: Epoch(4) });
    let fenced = Fenced { from: component(), epoch: Epoch(9), lanes: (0..16).map(lane).collect(), resync };
    rig.half(1, 0).borrow_mut().peers.control().unwrap().fenced(node(0), &fenced);
    rig.ms(300);
    assert_eq!(rig.events(0), [ControlEvent::Fenced(node(1), fenced)]);
}

#[test]
fn who_has_accepted_a_higher_epoch_says_so() {
    let mut rig = Rig::started(7, [1, 1], LinkSecurity::Plain);
    let cell = rig.owns();
    rig.granted(&cell);
    rig.events(0);
    rig.half(1, 0).borrow_mut().peers.control().unwrap().granter.accepted(object(), component(), Epoch(5), owner(1));
    rig.ms(250);
    assert_eq!(rig.events(0), [ControlEvent::Outranked(object(), Epoch(5))]);
    assert!(!rig.may_answer(0, &cell));
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_of_control_links_are_noticed() {
    use base::hooks::{SeededFault, notices};
    notices(SeededFault::EarlyEventsDropped, what_happens_before_somebody_takes_events_is_kept);
    notices(SeededFault::GrantCountedShorter, no_read_is_answered_once_another_epoch_may_be_accepted_whatever_the_rates_of_the_clocks);
}
