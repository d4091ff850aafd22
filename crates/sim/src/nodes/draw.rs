//! How a plan of several nodes is drawn from a seed.
//!
//! Owns: [`draw`]. Invariant: a plan is a function of the seed; what stands alone in it is drawn from a stream of its own.
//! Never: knows the code under test.

use super::plan::{NodeEvent, NodePlan, NodesPlan, Outage};
use super::way::Through;
use crate::plan::{OpKind, Plan, transports};
use base::ResyncPace;
use dataplane::Balancing;
use directory::modelled::Faults;
use rt::sim::{Rng, SimDeviceOptions};
use std::time::Duration;

/// Clocks run faster or slower than the world's by so many thousandths at most: two of them differ by a tenth.
const CLOCK_PERMILLE_MAX: u64 = 47;

/// So long it takes until another node owns what a dead one did.
const TAKEOVER_NS: u64 = 2_500_000_000;

/// What a seed means.
pub(super) fn draw(seed: u64) -> NodesPlan {
    let mut plan = over_nvme(seed);
    transports(&mut Rng::new(seed ^ 0x7AA5_9047), &mut plan.base);
    plan.balancing = if seed.is_multiple_of(4) { Balancing::Hurried } else { Balancing::Usual };
    if seed % 5 == 3 {
        restores(&mut Rng::new(seed ^ 0xBAC0_4E57), &mut plan);
    }
    plan
}

/// Of every fifth seed: where volumes have copies on several nodes, the directory is made anew from a backup, once or twice. Nothing else that the
/// directory says is changed meanwhile but who owns what and which copies are in sync.
fn restores(rng: &mut Rng, plan: &mut NodesPlan) {
    if plan.mirrored.iter().all(Vec::is_empty) {
        return;
    }
    plan.base.mix.retain(|(kind, _)| !matches!(kind, OpKind::Reserve | OpKind::Report));
    let only_data = |event: &NodeEvent| !matches!(event, NodeEvent::Protect { .. } | NodeEvent::Copies { .. } | NodeEvent::Layout { .. });
    plan.events.retain(|(_, event)| only_data(event));
    plan.end_ns = plan.end_ns.max(8_000_000_000);
    plan.portions = plan.portions.max(100);
    let backup = rng.below(plan.end_ns / 2);
    plan.events.push((backup, NodeEvent::Backup));
    let mut from = backup;
    for _ in 0..1 + rng.below(2) {
        from += rng.below(plan.end_ns - from);
        let restore = NodeEvent::Restore {
            goes_on: rng.one_in(3).then(|| rng.below(plan.nodes.len() as u64) as usize),
            power: rng.one_in(2),
            for_ns: 1_000_000 + up_to_one_of(rng, [20_000_000, 500_000_000, 2_000_000_000]),
            each_ns: up_to_one_of(rng, [1_000_000, 300_000_000, 1_500_000_000]),
        };
        plan.events.push((from, restore));
    }
    plan.events.sort_by_key(|(at, _)| *at);
}

/// What it meant before hosts spoke iSCSI, too.
pub(super) fn over_nvme(seed: u64) -> NodesPlan {
    let mut plan = without_takeovers(seed);
    takeovers(&mut Rng::new(seed ^ 0x7A3E_0FE4), &mut plan);
    plan.events.sort_by_key(|(at, _)| *at);
    plan
}

/// What it meant before there were [`takeovers`].
pub(super) fn without_takeovers(seed: u64) -> NodesPlan {
    let rng = &mut Rng::new(seed ^ 0x0000_0DE5_5EED);
    let mut plan = NodesPlan { base: Plan::draw_for_nodes(rng, seed), ..NodesPlan::two(seed) };
    let nodes = 2 + rng.below(4) as usize;
    plan.nodes = (0..nodes).map(|_| node(rng)).collect();
    plan.mirrored = vec![Vec::new(); plan.base.volumes.len()];
    plan.owners = plan.base.volumes.iter().map(|_| rng.below(nodes as u64) as usize).collect();
    plan.client_at = plan.base.clients.iter().map(|_| rng.below(nodes as u64) as usize).collect();
    plan.end_ns = 20_000_000 + up_to_one_of(rng, [50_000_000, 500_000_000, 3_000_000_000]);
    plan.ops = 100 + rng.below(1_500);
    plan.portions = [1, 8, 40][rng.below(3) as usize];
    plan.events = (0..rng.below(9)).map(|_| (rng.below(plan.end_ns), event(rng, &plan))).collect();
    flap(rng, &mut plan);
    stop_and_reset(rng, &mut plan);
    clocks(&mut Rng::new(seed ^ 0xC10C), &mut plan);
    mirrors(&mut Rng::new(seed ^ 0x0312_2025), &mut plan);
    directory(&mut Rng::new(seed ^ 0xD14E_C704), &mut plan);
    layouts(&mut Rng::new(seed ^ 0x1A10_0275), &mut plan);
    plan.events.sort_by_key(|(at, _)| *at);
    plan
}

/// A node, and another one.
fn two_nodes(rng: &mut Rng, plan: &NodesPlan) -> (usize, usize) {
    let nodes = plan.nodes.len() as u64;
    let a = rng.below(nodes) as usize;
    (a, (a + 1 + rng.below(nodes - 1) as usize) % nodes as usize)
}

/// In one plan of five connections between nodes are reset again and again, so that much is with another node when its link is lost.
fn flap(rng: &mut Rng, plan: &mut NodesPlan) {
    if !rng.one_in(5) {
        return;
    }
    plan.base.mix.extend([(OpKind::Swap, 30), (OpKind::Write, 30)]);
    plan.base.hot = 1;
    plan.base.clients.iter_mut().for_each(|c| c.depth = c.depth.max(8));
    plan.ops += 1_000;
    for _ in 0..40 {
        let (a, b) = two_nodes(rng, plan);
        plan.events.push((rng.below(plan.end_ns), NodeEvent::Reset { a, b }));
    }
}

/// In one plan of five nodes are paused with much on its way to them, and their links are reset meanwhile: what they then read is old.
fn stop_and_reset(rng: &mut Rng, plan: &mut NodesPlan) {
    if !rng.one_in(5) {
        return;
    }
    plan.base.clients.iter_mut().for_each(|c| c.depth = c.depth.max(8));
    plan.portions = 40;
    plan.ops += 500;
    for _ in 0..3 {
        let ((a, b), at) = (two_nodes(rng, plan), rng.below(plan.end_ns));
        let for_ns = 1_000_000 * [2 + rng.below(100), 100 + rng.below(500), 450 + rng.below(400)][rng.below(3) as usize];
        plan.events.push((at, NodeEvent::Pause { node: b, core: None, for_ns }));
        if rng.one_in(2) {
            plan.events.push((at + rng.below(for_ns), NodeEvent::Reset { a, b }));
        }
    }
}

/// In half of the plans clocks run at rates of their own.
fn clocks(rng: &mut Rng, plan: &mut NodesPlan) {
    if rng.one_in(2) {
        return;
    }
    for node in &mut plan.nodes {
        node.clock_permille = rng.below(2 * CLOCK_PERMILLE_MAX + 1) as i32 - CLOCK_PERMILLE_MAX as i32;
    }
}

/// In two plans of three the directory has faults.
fn directory(rng: &mut Rng, plan: &mut NodesPlan) {
    if rng.one_in(3) {
        return;
    }
    let mut often = || [0, 0, 20, 150][rng.below(4) as usize];
    plan.directory = Faults {
        unavailable_permille: often(),
        lost_request_permille: often(),
        lost_answer_permille: often(),
        late_permille: often(),
        watch_cut_permille: often(),
        ..Faults::NONE
    };
    plan.directory.late_max = Duration::from_millis(1 + up_to_one_of(rng, [20, 500, 3_000]));
    plan.directory.watch_lag_max = Duration::from_millis(up_to_one_of(rng, [2, 100, 1_000]));
    plan.directory.election = Duration::from_millis(1 + up_to_one_of(rng, [20, 300, 1_500]));
    let end = plan.end_ns;
    for _ in 0..rng.below(4) {
        let for_ns = 1_000_000 + up_to_one_of(rng, [20_000_000, 400_000_000, 3_000_000_000]);
        let node = rng.below(plan.nodes.len() as u64) as usize;
        let event = match rng.below(8) {
            0..3 => NodeEvent::Unreached { node, through: if rng.one_in(2) { Through::Requests } else { Through::Nothing }, for_ns },
            3..6 => {
                let how = [Outage::NoMajority, Outage::Hangs, Outage::Election][rng.below(3) as usize];
                NodeEvent::Outage { how, for_ns }
            }
            6 => NodeEvent::Compact,
            _ => NodeEvent::ExpireSessions,
        };
        plan.events.push((rng.below(end), event));
    }
    // Rights and protection change while the directory does not do what it should.
    for _ in 0..rng.below(4) {
        let (node, volume) = (rng.below(plan.nodes.len() as u64) as usize, rng.below(plan.base.volumes.len() as u64) as usize);
        plan.events.push((rng.below(end), NodeEvent::Protect { node, volume, on: rng.one_in(2) }));
    }
}

/// In half of the plans volumes have copies on several nodes, and enough time passes for another one to take them over.
fn mirrors(rng: &mut Rng, plan: &mut NodesPlan) {
    if rng.one_in(2) {
        return;
    }
    let nodes = plan.nodes.len();
    for (owner, others) in plan.owners.iter().zip(&mut plan.mirrored) {
        if rng.one_in(4) {
            continue;
        }
        let from = rng.below(nodes as u64) as usize;
        let most = 1 + rng.below(2) as usize;
        others.extend((0..nodes).map(|n| (from + n) % nodes).filter(|n| n != owner).take(most));
    }
    if plan.mirrored.iter().all(Vec::is_empty) {
        return;
    }
    plan.end_ns = [plan.end_ns, 3_000_000_000, 12_000_000_000][rng.below(3) as usize].max(plan.end_ns);
    plan.portions = plan.portions.max([1, 40, 100][rng.below(3) as usize]);
    for _ in 0..rng.below(6) {
        let ((a, b), at) = (two_nodes(rng, plan), rng.below(plan.end_ns));
        let for_ns = 1_000_000 * (1 + up_to_one_of(rng, [500, 2_500, 6_000]));
        let event = match rng.below(9) {
            0..3 => NodeEvent::Restart { node: a, power: rng.one_in(2), for_ns },
            3 => NodeEvent::Pause { node: a, core: None, for_ns },
            4 | 5 => NodeEvent::Cut { from: a, to: b, both: rng.one_in(2), for_ns },
            6 => NodeEvent::Stall { node: a, for_ns },
            _ => {
                let volume = rng.below(plan.base.volumes.len() as u64) as usize;
                NodeEvent::Prefer { node: a, volume, owner: (!rng.one_in(4)).then_some(b) }
            }
        };
        plan.events.push((at, event));
    }
    if rng.one_in(3) {
        for _ in 0..1 + rng.below(3) {
            let (node, volume) = (rng.below(nodes as u64) as usize, rng.below(plan.owners.len() as u64) as usize);
            plan.events.push((rng.below(plan.end_ns), NodeEvent::Copies { node, volume, copies: 1 + rng.below(3) as usize }));
        }
    }
    if rng.one_in(3) {
        for _ in 0..1 + rng.below(4) {
            let (node, volume) = (rng.below(nodes as u64) as usize, rng.below(plan.owners.len() as u64) as usize);
            let pace = [ResyncPace::Paused, ResyncPace::Low, ResyncPace::Normal, ResyncPace::High][rng.below(4) as usize];
            plan.events.push((rng.below(plan.end_ns), NodeEvent::Resync { node, volume, pace }));
        }
    }
    match rng.below(4) {
        0 => owners_stand_still(rng, plan),
        1 => nodes_come_and_go(rng, plan),
        _ => {}
    }
}

/// In one plan of four volumes are laid out anew, and enough time passes for their data to come to the new place.
fn layouts(rng: &mut Rng, plan: &mut NodesPlan) {
    if !rng.one_in(4) {
        return;
    }
    plan.end_ns = plan.end_ns.max([1_500_000_000, 4_000_000_000, 9_000_000_000][rng.below(3) as usize]);
    plan.portions = plan.portions.max([40, 100][rng.below(2) as usize]);
    plan.ops += 500;
    for _ in 0..1 + rng.below(4) {
        let (node, volume) = (rng.below(plan.nodes.len() as u64) as usize, rng.below(plan.owners.len() as u64) as usize);
        let mirrors = (!rng.one_in(8)).then(|| 1 + rng.below(4) as usize);
        plan.events.push((rng.below(plan.end_ns * 3 / 4), NodeEvent::Layout { node, volume, mirrors }));
    }
}

/// In two plans of three every volume has copies on several nodes, of up to seven, and whoever may own it dies, stands still, does not reach the
/// directory or hands it over, again and again.
fn takeovers(rng: &mut Rng, plan: &mut NodesPlan) {
    if rng.one_in(3) {
        return;
    }
    for _ in 0..rng.below(3) {
        plan.nodes.push(node(rng));
    }
    let nodes = plan.nodes.len();
    for (owner, others) in plan.owners.iter().zip(&mut plan.mirrored) {
        let from = rng.below(nodes as u64) as usize;
        let more = (0..nodes).map(|n| (from + n) % nodes).find(|n| n != owner && !others.contains(n));
        others.extend(more.filter(|_| others.is_empty() || rng.one_in(4)));
    }
    let times = 3 + rng.below(5);
    for n in 0..times {
        let at = n * TAKEOVER_NS + rng.below(TAKEOVER_NS);
        let volume = rng.below(plan.owners.len() as u64) as usize;
        let copies = plan.copies(volume);
        let one = |rng: &mut Rng| copies[rng.below(copies.len() as u64) as usize];
        let (node, to) = (one(rng), one(rng));
        let for_ns = 700_000_000 + rng.below(3_000_000_000);
        let event = match rng.below(8) {
            0..4 => NodeEvent::Restart { node, power: rng.one_in(2), for_ns },
            4 => NodeEvent::Pause { node, core: None, for_ns },
            5 => NodeEvent::Unreached { node, through: if rng.one_in(2) { Through::Requests } else { Through::Nothing }, for_ns },
            _ => NodeEvent::Prefer { node, volume, owner: Some(to) },
        };
        plan.events.push((at, event));
        let at = at + rng.below(TAKEOVER_NS);
        plan.events.push((at, NodeEvent::Prefer { node: to, volume, owner: Some(one(rng)) }));
    }
    plan.end_ns = plan.end_ns.max(times * TAKEOVER_NS);
    plan.portions = plan.portions.max(100);
}

/// Nodes with copies stand still so long that others take over what they own, while all hosts use few blocks: who wakes knows nothing of that.
fn owners_stand_still(rng: &mut Rng, plan: &mut NodesPlan) {
    plan.base.hot = 1;
    plan.base.op_blocks_max = plan.base.op_blocks_max.min(4);
    plan.base.mix.extend([(OpKind::Read, 150), (OpKind::Write, 60)]);
    plan.base.clients.iter_mut().for_each(|c| c.depth = c.depth.max(8));
    plan.end_ns = plan.end_ns.max(8_000_000_000);
    (plan.portions, plan.ops) = (200, plan.ops + 3_000);
    for _ in 0..2 + rng.below(4) {
        let volume = rng.below(plan.owners.len() as u64) as usize;
        let nodes = plan.copies(volume);
        let node = nodes[rng.below(nodes.len() as u64) as usize];
        let core = rng.one_in(4).then(|| rng.below(plan.nodes[node].cores as u64) as usize);
        let for_ns = 1_000_000 * (600 + up_to_one_of(rng, [500, 2_500, 6_000]));
        plan.events.push((rng.below(plan.end_ns), NodeEvent::Pause { node, core, for_ns }));
    }
}

/// Nodes die and come back one after the other and several at once, so that copies are out, return and are out again before they have all.
fn nodes_come_and_go(rng: &mut Rng, plan: &mut NodesPlan) {
    plan.end_ns = plan.end_ns.max([8_000_000_000, 25_000_000_000][rng.below(2) as usize]);
    (plan.portions, plan.ops) = (150, plan.ops + 1_500);
    for _ in 0..6 + rng.below(14) {
        let ((node, other), at) = (two_nodes(rng, plan), rng.below(plan.end_ns));
        let for_ns = 1_000_000 * (1 + up_to_one_of(rng, [300, 1_500, 4_000]));
        plan.events.push((at, NodeEvent::Restart { node, power: rng.one_in(2), for_ns }));
        if rng.one_in(3) {
            let at = at + rng.below(for_ns + 2_000_000_000);
            plan.events.push((at, NodeEvent::Restart { node: other, power: rng.one_in(2), for_ns: 1_000_000 + rng.below(1_000_000_000) }));
        }
    }
}

/// A number below one of these.
fn up_to_one_of(rng: &mut Rng, limits: [u64; 3]) -> u64 {
    let limit = limits[rng.below(3) as usize];
    rng.below(limit)
}

fn node(rng: &mut Rng) -> NodePlan {
    let shards = 1 << rng.below(3);
    let device = |rng: &mut Rng| SimDeviceOptions { volatile_cache: !rng.one_in(4), ..SimDeviceOptions::default() };
    let devices = [(shards * (8 + rng.below(4)), device(rng)), (shards * (10 + rng.below(12)), device(rng))];
    let least = [0, 200_000, 5_000_000][rng.below(3) as usize];
    let most = least + 1 + up_to_one_of(rng, [500_000, 20_000_000, 900_000_000]);
    NodePlan { cores: 1 + rng.below(3) as usize, shards: shards as u8, devices, lag_ns: (least, most), clock_permille: 0 }
}

fn event(rng: &mut Rng, plan: &NodesPlan) -> NodeEvent {
    let (a, b) = two_nodes(rng, plan);
    let client = rng.below(plan.base.clients.len() as u64) as usize;
    let for_ns = 1_000 + up_to_one_of(rng, [2_000_000, 400_000_000, 2_500_000_000]);
    match rng.below(20) {
        0..5 => NodeEvent::Cut { from: a, to: b, both: rng.one_in(2), for_ns },
        5..7 => NodeEvent::Reset { a, b },
        7..10 => NodeEvent::Restart { node: a, power: rng.one_in(2), for_ns },
        10 => NodeEvent::ResetClient { client },
        11 => NodeEvent::CutClient { client, to_node: rng.one_in(2), for_ns },
        12 => NodeEvent::Stall { node: a, for_ns },
        13 | 14 => {
            let core = rng.one_in(2).then(|| rng.below(plan.nodes[a].cores as u64) as usize);
            NodeEvent::Pause { node: a, core, for_ns }
        }
        15 | 16 => {
            let least = 1_000 + up_to_one_of(rng, [1_000_000, 20_000_000, 300_000_000]);
            NodeEvent::Slow { from: a, to: b, longer_ns: (least, least + rng.below(least)), for_ns }
        }
        _ => NodeEvent::Protect { node: a, volume: rng.below(plan.base.volumes.len() as u64) as usize, on: rng.one_in(2) },
    }
}
