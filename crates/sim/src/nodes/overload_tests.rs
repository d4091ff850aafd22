//! Overload of several nodes: hosts write faster than any capacity takes it, for ten minutes, and every write buffer is full. Paced is not late.

use super::node::NodeFigures;
use super::plan::{NodeEvent, NodesPlan, plain_client, plain_node};
use super::run::{Watch, run_watched};
use super::world::NodesLab;
use crate::plan::{ClientPlan, OpKind, VolumePlan};
use base::{ComponentId, Duration, Epoch};
use dataplane::Completion;
use std::collections::BTreeSet;

/// For so long, in virtual time.
const OVERLOAD: Duration = Duration::from_secs(600);
/// How often nodes are looked at; hosts begin with the first look, and so many later the buffers are full.
const EVERY: Duration = Duration::from_secs(5);
const FILLING: usize = 6;
/// Writes are paced above this fill.
const HIGH: f64 = 0.4;
/// Bytes a second that the capacity of each node takes.
const CAPACITY: [u64; 3] = [400_000, 500_000, 700_000];
/// The nodes with copies of each volume, the owner first. Those with one copy fill the buffers of nodes that would wait for slower ones.
const VOLUMES: [&[usize]; 6] = [&[0, 1, 2], &[0, 1], &[2, 1], &[0], &[1], &[2]];
/// What the longest command takes: more than a copy that is late would be given, and less than the 30 s after which Linux gives up.
const LONGEST: std::ops::Range<Duration> = Duration::from_secs(1)..Duration::from_secs(15);

/// Three nodes with small buffers, whose capacity takes so many bytes a second; volumes, and a host for each that comes by way of the next node.
fn overload(capacity: [u64; 3], volumes: &[&[usize]], time: Duration) -> NodesPlan {
    let mut plan = NodesPlan { client_at: volumes.iter().map(|copies| (copies[0] + 1) % 3).collect(), ..NodesPlan::two(41) };
    let node = |bytes_per_s| {
        let mut node = plain_node(1);
        (node.shards, node.devices[0].0, node.devices[1].0, node.devices[1].1.bytes_per_s) = (1, 12, 160, bytes_per_s);
        node
    };
    plan.nodes = capacity.map(node).into();
    (plan.owners, plan.mirrored) = volumes.iter().map(|copies| (copies[0], copies[1..].to_vec())).unzip();
    let volume = |_| VolumePlan { blocks: 2_000, ..plan.base.volumes[0].clone() };
    plan.base.volumes = (0..volumes.len()).map(volume).collect();
    plan.base.clients = (0..volumes.len()).map(|volume| ClientPlan { depth: 4, volume: Some(volume), ..plain_client() }).collect();
    (plan.base.mix, plan.base.hot, plan.base.watermarks) = (vec![(OpKind::Write, 100)], 0, (HIGH / 2.0, HIGH));
    plan.end_ns = time.as_nanos() as u64;
    // Nothing disturbs, and it goes on until the end.
    (plan.ops, plan.events) = (0, vec![(plan.end_ns - 1, NodeEvent::Compact)]);
    plan
}

/// The write buffer of a node.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    fill: f64,
    /// Writes wait to enter it.
    holds_back: bool,
    /// How many have entered.
    writes: u64,
}

/// What looks at the nodes have found.
#[derive(Default)]
struct Looks {
    asked: Vec<Completion<NodeFigures>>,
    /// Each time: of each node, and the epoch of each volume.
    seen: Vec<(Vec<Buffer>, Vec<Epoch>)>,
    /// Copies that were called slow at any time.
    slow: BTreeSet<ComponentId>,
}

impl Looks {
    /// Takes the figures that were asked for the last time, and asks again.
    fn look(&mut self, lab: &mut NodesLab) {
        let asked = std::mem::replace(&mut self.asked, lab.nodes.iter().map(|node| node.control.figures()).collect());
        if asked.is_empty() {
            lab.workload.borrow_mut().ops_left = u64::MAX;
            return lab.wake_clients();
        }
        let figures: Vec<_> = asked.into_iter().map(|asked| asked.try_take().expect("it is answered").expect("the node is up")).collect();
        let buffer = |node: &NodeFigures| {
            let stats = &node.shards().next().expect("it has a group").stats;
            Buffer { fill: stats.fill, holds_back: stats.admission_bytes_per_s.is_some() && stats.waiting > 0, writes: stats.writes }
        };
        let epochs = (0..lab.workload.borrow().volumes.len()).map(|volume| lab.object(volume).ownership.epoch);
        self.seen.push((figures.iter().map(buffer).collect(), epochs.collect()));
        self.slow.extend(figures.iter().flat_map(|node| &node.slow_copies));
    }
}

impl Looks {
    /// A copy leaves with a rise of the epoch.
    fn assert_nobody_leaves(&self) {
        assert!(self.seen.iter().all(|(_, epochs)| *epochs == self.seen[0].1), "{:?}", self.seen);
    }
}

#[test]
fn overload_evicts_nobody() {
    let mut looks = Looks::default();
    let watch = Watch { every: EVERY, look: &mut |lab| looks.look(lab) };
    let counts = run_watched(&overload(CAPACITY, &VOLUMES, OVERLOAD), watch).unwrap_or_else(|f| panic!("{}", f.what)).counts;
    println!("{counts:?}, slow: {:?}", looks.slow);
    let seen = &looks.seen[FILLING..];
    assert!(EVERY * seen.len() as u32 >= OVERLOAD * 9 / 10, "{} looks", seen.len());
    for node in 0..CAPACITY.len() {
        let of_node: Vec<Buffer> = seen.iter().map(|(buffers, _)| buffers[node]).collect();
        let least = of_node.iter().map(|buffer| buffer.fill).fold(1.0, f64::min);
        let full = of_node.iter().filter(|buffer| buffer.holds_back).count();
        let went_on = of_node.windows(2).map(|two| two[1].writes - two[0].writes).min();
        println!(
            "node {node}: fill {least:.2} at least, full in {full} of {} looks, {went_on:?} writes in between at least",
            of_node.len()
        );
        assert!(full * 100 >= of_node.len() * 98 && least > HIGH * 0.9, "node {node} is not full: {of_node:?}");
        assert!(went_on > Some(0), "node {node} stands still: {of_node:?}");
    }
    looks.assert_nobody_leaves();
    assert!(counts.statuses.is_empty() && counts.given_up == 0 && counts.connects == VOLUMES.len() as u64, "{counts:?}");
    let longest = Duration::from_nanos(counts.latency_max_ns);
    assert!(LONGEST.contains(&longest), "the longest command took {longest:?}");
}

/// One copy is ten times slower than the others, and its node's buffer is full: the others wait for it. It is reported, and stays.
#[test]
fn a_copy_ten_times_slower_holds_its_volume_back_and_is_reported() {
    let mut looks = Looks::default();
    let watch = Watch { every: EVERY, look: &mut |lab| looks.look(lab) };
    let plan = overload([8_000_000, 8_000_000, 800_000], &[&[0, 1, 2]], Duration::from_secs(60));
    let counts = run_watched(&plan, watch).unwrap_or_else(|f| panic!("{}", f.what)).counts;
    let full = |node: usize| looks.seen.iter().filter(|(buffers, _)| buffers[node].holds_back).count();
    println!("{counts:?}, slow: {:?}; full in {:?} of {} looks", looks.slow, [0, 1, 2].map(full), looks.seen.len());
    assert!(full(2) * 2 > looks.seen.len() && full(0) + full(1) == 0, "{:?}", looks.seen);
    // One of each of its two mirrors.
    assert!(looks.slow.len() == 2 && looks.slow.iter().all(|copy| copy.as_bytes()[0] == 3), "{:?}", looks.slow);
    looks.assert_nobody_leaves();
}
