//! One run of several nodes: what the plan says happens while clients work, then nothing happens any more and everything must be right.
//!
//! Owns: the order of things, and the checks at the end. Invariant: a run ends, whatever its seed, by its limits in virtual time. Never: prints.

use super::plan::{NodeEvent, NodesPlan};
use super::records::{name_of, node_called};
use super::world::{NodeHost, NodesLab};
use crate::history::{Failure, Report, caught};
use crate::workload::{HANDED_OVER_NS, Workload};
use base::unit::CHUNK_BYTES;
use base::{BLOCK_BYTES, CopyState, Duration, ResyncPace};
use cluster::record::ComponentRecord;

/// What the calm part may take, in virtual time.
const CALM_MAX: Duration = Duration::from_secs(120);

/// Within this links open again when nothing is in their way, and no node is about to report one as closed.
const LINKS_SETTLE: Duration = Duration::from_secs(3);

/// Within this the session of a node that has died has ended, the others say that they are up, and one of them leads.
const KNOWN_MAX: Duration = Duration::from_secs(15);

/// Within this a node takes over what it owned in an earlier life, or another one does.
const OWNED_MAX: Duration = Duration::from_secs(5);
/// Within this it serves that, when all copies are in sync.
const FENCED_MAX: Duration = Duration::from_secs(2);
/// Within this the copies of all volumes are in sync when nothing disturbs; one that has failed waits the longest.
const IN_SYNC_MAX: Duration = Duration::from_secs(300);
/// Within this a volume is handed over to the node that is to own it.
const HAND_OVER_MAX: Duration = Duration::from_secs(30);
/// Within this a volume has its new layout, when there is room.
const MOVED_MAX: Duration = Duration::from_secs(30);
/// How often that is looked at.
const STEP: Duration = Duration::from_millis(50);

/// Plays a seed.
pub fn run(seed: u64, whole_trace: bool) -> Result<Report, Failure> {
    let plan = NodesPlan::draw(seed);
    run_plan(&plan, whole_trace)
}

/// Plays a plan.
pub fn run_plan(plan: &NodesPlan, whole_trace: bool) -> Result<Report, Failure> {
    caught(plan.base.tiny, || play(plan, whole_trace, None))
}

/// Who looks at the nodes of a run, in the part in which something may disturb.
pub struct Watch<'a> {
    /// How often.
    pub every: Duration,
    /// What it does then.
    pub look: &'a mut dyn FnMut(&mut NodesLab),
}

/// The same, and looks at the nodes meanwhile.
pub fn run_watched(plan: &NodesPlan, watch: Watch<'_>) -> Result<Report, Failure> {
    caught(plan.base.tiny, || play(plan, false, Some(watch)))
}

fn play(plan: &NodesPlan, whole_trace: bool, watch: Option<Watch<'_>>) -> Result<Report, Failure> {
    let lab = NodesLab::new(plan).map_err(|e| Failure { what: format!("healthy nodes could not be set up: {e}") })?;
    let mut run = Run { lab, plan, watch, report: Report::default() };
    run.lab.workload.borrow_mut().trace.whole = whole_trace;
    let result = run.parts();
    let workload = run.lab.workload.borrow();
    run.report.counts = workload.counts.clone();
    run.report.virtual_ns = run.lab.world.now().0;
    run.report.hash = run.lab.world.trace_hash();
    let wrong = match (&workload.wrong, result) {
        (Some(what), _) => Some(what.clone()),
        (None, Err(what)) => Some(format!("{what}\nthe last events:\n{}", workload.trace.tell(None))),
        (None, Ok(())) => None,
    };
    drop(workload);
    wrong.map_or(Ok(run.report), |what| Err(Failure { what }))
}

struct Run<'a, 'w> {
    lab: NodesLab,
    plan: &'a NodesPlan,
    watch: Option<Watch<'w>>,
    report: Report,
}

impl Run<'_, '_> {
    fn workload<R>(&self, f: impl FnOnce(&mut Workload) -> R) -> R {
        f(&mut self.lab.workload.borrow_mut())
    }

    fn parts(&mut self) -> Result<(), String> {
        self.all_reach_each_other()?;
        self.disturbed()?;
        if self.lab.workload.borrow().wrong.is_some() {
            return Ok(());
        }
        self.calm()
    }

    /// Every node serves, and can pass on requests to every other one.
    fn all_reach_each_other(&mut self) -> Result<(), String> {
        let others = self.plan.nodes.len() - 1;
        let ready = self.lab.run(CALM_MAX, |nodes, _| nodes.iter().all(|n| n.control.is_serving() && n.control.reaches() == others));
        if let Some(error) = self.lab.nodes.iter().find_map(|n| n.control.refused()) {
            return Err(format!("a node could not be brought into service: {error}"));
        }
        let reached: Vec<_> = self.lab.nodes.iter().map(|n| (n.control.is_serving(), n.control.reaches())).collect();
        if ready { Ok(()) } else { Err(format!("nodes do not reach each other, though nothing stands between them: {reached:?}")) }
    }

    fn disturbed(&mut self) -> Result<(), String> {
        let start = self.lab.world.now();
        let end = start + Duration::from_nanos(self.plan.end_ns);
        self.lab.directory_has_faults(true);
        let portions = self.plan.portions.max(1);
        let at = |n: u64| start + Duration::from_nanos(self.plan.end_ns * n / portions);
        let (mut portion, mut ops_left) = (0, self.plan.ops);
        let mut look = self.watch.as_ref().map_or(end, |watch| start + watch.every);
        let mut events = self.plan.events.iter().map(|(at, event)| (start + Duration::from_nanos(*at), event)).peekable();
        loop {
            let now = self.lab.world.now();
            while portion < portions && at(portion) <= now {
                let ops = ops_left.div_ceil(portions - portion);
                (portion, ops_left) = (portion + 1, ops_left - ops);
                self.workload(|w| w.ops_left += ops);
                self.lab.wake_clients();
            }
            let next = end.min(look).min(events.peek().map_or(end, |e| e.0)).min(self.lab.next_return().unwrap_or(end));
            let next = if portion < portions { next.min(at(portion)) } else { next };
            let more = events.peek().is_some() || portion < portions;
            if next > now {
                let idle = self.lab.run(next.since(now), |_, w| !more && w.nothing_left() && w.in_flight() == 0);
                if idle {
                    return Ok(());
                }
            }
            let now = self.lab.world.now();
            if let Some(watch) = self.watch.as_mut().filter(|_| now >= look) {
                (watch.look)(&mut self.lab);
                look = now + watch.every;
            }
            if now >= end {
                return Ok(());
            }
            self.lab.heal_due(false);
            while let Some((_, event)) = events.next_if(|e| e.0 <= now) {
                *self.report.faults.entry(format!("{event:?}").split([' ', '{']).next().unwrap_or_default().to_lowercase()).or_default() +=
                    1;
                self.lab.strike(event);
            }
        }
    }

    /// Everything is read, and nothing may fail any more.
    fn read_all(&mut self) -> Result<(), String> {
        let now = self.lab.world.now().0;
        self.workload(|w| {
            w.all_nodes_serve(now);
            w.unsteady = false;
            w.calm = true;
            w.verify_all();
        });
        self.lab.wake_clients();
        let read = self.lab.run(CALM_MAX, |_, w| w.nothing_left() && w.in_flight() == 0);
        if !read {
            return Err("not everything could be read in the calm".into());
        }
        self.hand_overs_are_shown()
    }

    /// What commands of the calm found between two owners has gone to another one.
    fn hand_overs_are_shown(&mut self) -> Result<(), String> {
        let unshown = |lab: &NodesLab| lab.workload.borrow_mut().paths().unshown();
        if unshown(&self.lab).is_none() || self.runs_until(Duration::from_nanos(HANDED_OVER_NS), |lab| unshown(lab).is_none()) {
            return Ok(());
        }
        let (volume, at) = unshown(&self.lab).expect("just seen");
        Err(format!("a command found volume {volume} between two owners at {at} ns, and its record names no other one"))
    }

    fn mirrored(&self) -> impl Iterator<Item = usize> {
        let has_owner = |volume: &usize| self.lab.object(*volume).owner.is_some() || self.lab.object(*volume).mirrors[0].len() > 1;
        (0..self.plan.owners.len()).filter(|volume| self.plan.is_mirrored(*volume)).filter(has_owner)
    }
    fn runs_until(&mut self, limit: Duration, holds: impl Fn(&NodesLab) -> bool) -> bool {
        let until = self.lab.world.now() + limit;
        while !holds(&self.lab) {
            if self.lab.world.now() >= until || self.lab.workload.borrow().wrong.is_some() {
                return false;
            }
            self.lab.run(STEP, |_, _| false);
        }
        true
    }
    /// Who owns a volume has taken it over in the life that it has.
    fn all_have_owners(&mut self) -> Result<(), String> {
        let volumes: Vec<usize> = self.mirrored().collect();
        if self.runs_until(OWNED_MAX, |lab| volumes.iter().all(|v| lab.is_owned(*v))) {
            return Ok(());
        }
        let not: Vec<_> = volumes.iter().filter(|v| !self.lab.is_owned(**v)).map(|v| self.lab.object(*v)).collect();
        Err(format!("volumes are not taken over, though nothing disturbs: {not:#?}"))
    }
    /// Volumes that are laid out anew have their new layouts in the end, or keep what they have where there is no room.
    fn moves_end(&mut self) -> Result<(), String> {
        self.runs_until(MOVED_MAX, |lab| lab.moves() == (vec![], false));
        let (moving, _) = self.lab.moves();
        for volume in moving {
            self.lab.strike(&NodeEvent::Layout { node: 0, volume, mirrors: None });
        }
        if self.runs_until(MOVED_MAX, |lab| lab.moves() == (vec![], false)) {
            return Ok(());
        }
        Err(format!("volumes are laid out anew without end: {:?}", self.lab.moves()))
    }
    /// Whether a node may have no room for all copies that it has: what is on it with what each stripe begins, and what the store takes.
    fn may_be_full(&self, node: usize) -> bool {
        let of_volume = |volume: usize| {
            let stripes = self.lab.object(volume).components().filter(|c| node_called(&c.node) == Some(node)).count() as u64;
            if stripes > 0 { self.plan.base.volumes[volume].blocks * BLOCK_BYTES as u64 + 4 * CHUNK_BYTES * stripes } else { 0 }
        };
        let bytes: u64 = (0..self.plan.owners.len()).map(of_volume).sum();
        bytes + bytes / 8 + (1 << 20) > self.plan.nodes[node].devices[1].0 << 20
    }
    /// Copies that have missed changes come back by themselves, where there is room for them.
    fn all_copies_are_in_sync(&mut self) -> Result<(), String> {
        let volumes: Vec<usize> = self.mirrored().collect();
        for volume in &volumes {
            self.lab.strike(&NodeEvent::Resync { node: 0, volume: *volume, pace: ResyncPace::Normal });
        }
        let small: Vec<bool> = (0..self.plan.nodes.len()).map(|node| self.may_be_full(node)).collect();
        let has_room = |c: &ComponentRecord| node_called(&c.node).is_none_or(|node| !small[node]);
        let is_there = |c: &ComponentRecord| c.is_used() && (c.state == CopyState::Active || !has_room(c));
        let in_sync = |lab: &NodesLab, volume: usize| lab.object(volume).components().all(is_there);
        // What did not drain in time is handed over later.
        let rests = |lab: &NodesLab, volume: usize| in_sync(lab, volume) && !lab.is_to_be_handed_over(volume);
        if self.runs_until(IN_SYNC_MAX, |lab| volumes.iter().all(|v| rests(lab, *v))) {
            // From the record to service: every copy has to accept the epoch.
            self.lab.run(FENCED_MAX, |_, _| false);
            return Ok(());
        }
        let out: Vec<_> = volumes.iter().filter(|v| !in_sync(&self.lab, **v)).map(|v| self.lab.object(*v)).collect();
        Err(format!("copies are not in sync again, though nothing disturbs: {out:#?}"))
    }
    /// An owner reads its own copy: so each node with one owns its volumes in turn, and everything is read again.
    fn read_every_copy(&mut self) -> Result<(), String> {
        let nodes = |volume| -> Vec<usize> {
            let object = self.lab.object(volume);
            let owns = |node: &String| object.components().all(|c| c.node != *node || c.state == CopyState::Active);
            object.mirrors[0].iter().filter(|c| owns(&c.node)).filter_map(|c| node_called(&c.node)).collect()
        };
        let of_each = self.mirrored().map(|volume| (volume, nodes(volume)));
        let volumes: Vec<(usize, Vec<usize>)> = of_each.filter(|(_, nodes)| !nodes.is_empty()).collect();
        for turn in 0..volumes.iter().map(|(_, nodes)| nodes.len()).max().unwrap_or(0) {
            self.workload(|w| w.unsteady = true);
            let wanted: Vec<(usize, usize)> = volumes.iter().map(|(volume, nodes)| (*volume, nodes[turn % nodes.len()])).collect();
            for (volume, node) in &wanted {
                self.lab.strike(&NodeEvent::Prefer { node: *node, volume: *volume, owner: Some(*node) });
            }
            let owns =
                |lab: &NodesLab, (volume, node): &(usize, usize)| lab.object(*volume).owner.is_some_and(|owner| owner == name_of(*node));
            if !self.runs_until(HAND_OVER_MAX, |lab| wanted.iter().all(|one| owns(lab, one))) {
                let objects: Vec<_> = wanted.iter().map(|(volume, node)| (node, self.lab.object(*volume))).collect();
                return Err(format!("volumes are not handed over to the nodes that are to own them: {objects:#?}"));
            }
            self.all_copies_are_in_sync()?;
            self.read_all()?;
        }
        Ok(())
    }

    /// Nothing disturbs any more: all that is under way ends, all is read, through every node that a client is connected to.
    fn calm(&mut self) -> Result<(), String> {
        self.lab.heal_due(true);
        self.lab.directory_has_faults(false);
        self.workload(|w| w.ops_left = 0);
        if !self.lab.run(CALM_MAX, |_, w| w.in_flight() == 0) {
            return Err("commands were not answered, though nothing disturbs any more".into());
        }
        if self.lab.workload.borrow().wrong.is_some() {
            return Ok(());
        }
        let until = self.lab.world.now() + CALM_MAX;
        while !self.lab.is_calm() && self.lab.world.now() < until {
            self.lab.run(Duration::from_millis(50), |_, _| false);
        }
        // Links that were cut open again, after a delay that has grown; until then a node may still be about to say that one is closed.
        self.lab.run(LINKS_SETTLE, |_, _| false);
        self.all_reach_each_other()?;
        let newest = self.lab.newest();
        if !self.lab.run(CALM_MAX, |nodes, _| nodes.iter().all(|n| n.control.is_idle(newest))) {
            let states: Vec<String> = self.lab.nodes.iter().map(|n| n.control.state()).collect();
            return Err(format!("a node does not serve what the directory says, which is {newest:?}: {states:#?}"));
        }
        let known = |nodes: &[NodeHost]| {
            let lives: Vec<_> = nodes.iter().map(|n| n.control.life()).collect();
            nodes.iter().all(|n| n.control.is_known(&lives))
        };
        if !self.lab.run(KNOWN_MAX, |nodes, _| known(nodes)) {
            return Err("the directory does not say that all nodes are up, and that one of them leads".into());
        }
        self.all_have_owners()?;
        self.moves_end()?;
        self.all_copies_are_in_sync()?;
        self.read_all()?;
        self.read_every_copy()?;
        self.workload(|w| w.ops_left = 200);
        self.lab.wake_clients();
        if !self.lab.run(CALM_MAX, |_, w| w.nothing_left() && w.in_flight() == 0) {
            return Err("commands of the calm were not answered".into());
        }
        self.hand_overs_are_shown()?;
        self.lab.end();
        self.lab.world.run_for(Duration::from_secs(1));
        match self.lab.world.open_connection_ends() {
            0 => Ok(()),
            n => Err(format!("{n} ends of connections are open after all programs have ended")),
        }
    }
}
