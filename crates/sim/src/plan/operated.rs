//! When a plan has acts of the operator, and which.
//!
//! Invariant: each is drawn from a stream of its own; a plan without acts is what it was before there were any.

use super::basics::device;
use super::parts::Plan;
use crate::acts::Act;
use crate::faults::aimed::{Death, Target};
use crate::faults::{Class, Fault, Timed};
use rt::sim::Rng;

/// In a third of the plans whose faults leave all data in its place the operator acts while clients work.
pub(super) fn acts(rng: &mut Rng, plan: &mut Plan) {
    if plan.class > Class::Errors || !rng.one_in(3) {
        return;
    }
    // Half of them keep requests waiting, so that acts come while they are held back.
    let waits = rng.one_in(2);
    if waits {
        plan.volumes.iter_mut().for_each(|v| v.iops_max = Some(50 + rng.below(400)));
        plan.clients.iter_mut().for_each(|c| c.depth = c.depth.max(8));
    }
    plan.op_blocks_max = plan.op_blocks_max.min(32);
    // Not all at once: some are to come when the act is in force.
    plan.clients.iter_mut().for_each(|c| c.depth = c.depth.min(if waits { 32 } else { 8 }));
    for life in &mut plan.lives {
        if waits {
            life.limit_ns = life.limit_ns.max(60_000_000 + rng.below(200_000_000));
        }
        life.ops *= if waits { 3 } else { 1 };
        // Early: most of a life is its beginning, and what is taken back must be used afterwards.
        let span = life.limit_ns.min(if waits { 100_000_000 } else { 10_000_000 });
        for _ in 0..1 + rng.below(4) {
            let mut at_ns = 1_000_000 + rng.below(span);
            for act in draw_act(rng) {
                life.acts.push((at_ns, act));
                let pause = [100_000, 5_000_000, 100_000_000][rng.below(3) as usize];
                at_ns += rng.below(if waits { pause } else { pause / 20 });
            }
        }
        life.acts.sort_by_key(|(at_ns, _)| *at_ns);
    }
}

/// In a quarter of the plans whose faults leave all data in its place, and in which nothing is promised, capacity devices come and go. At one change in four
/// the host is to die in the middle of it: at a write of a superblock.
pub(super) fn devices(rng: &mut Rng, plan: &mut Plan) {
    let promised = plan.volumes.iter().any(|v| v.promised);
    if plan.class > Class::Errors || promised || plan.lives.iter().any(|life| life.calm.is_some()) || !rng.one_in(4) {
        return;
    }
    let shards = u64::from(plan.shards);
    plan.spares = (0..1 + rng.below(2)).map(|_| (shards * (6 + rng.below(12)), device(rng, 1))).collect();
    let (first, devices) = (1 + plan.capacity.len() as u64, plan.spares.len() as u64);
    let failing = plan.class == Class::Errors;
    for life in &mut plan.lives {
        let span = life.limit_ns.min(20_000_000);
        let mut at_ns = rng.below(span);
        for _ in 0..1 + rng.below(4) {
            let act = match rng.below(2) {
                0 => Act::AddDevice { spare: rng.below(64) },
                _ => Act::RemoveDevice { device: rng.below(64) },
            };
            if rng.one_in(4) {
                let device = [0, first + rng.below(devices), 1 + rng.below(first - 1)][rng.below(3) as usize] as usize;
                let fails = if failing { rng.below(2) as u32 } else { 0 };
                let death = Some(Death { after_ns: rng.below(300_000), power: !rng.one_in(3) });
                let nth = 1 + rng.below(3) as u32;
                let fault = Fault::Aim { device, target: Target::Superblock, nth, fails, alike: false, full: false, death };
                life.faults.push(Timed { at_ns, fault });
            }
            life.acts.push((at_ns, act));
            at_ns += rng.below(span / 2);
        }
        life.acts.sort_by_key(|(at_ns, _)| *at_ns);
    }
}

/// An act, with the one that takes it back.
fn draw_act(rng: &mut Rng) -> Vec<Act> {
    let volume = rng.below(64);
    // Most acts are taken back later: then what they have left behind is seen.
    match rng.below(16) {
        0..5 => vec![Act::Shrink { volume, percent: 1 + rng.below(100) }, Act::Regrow { volume }],
        5..7 => vec![Act::Format { volume }],
        7..10 => vec![Act::Protect { volume, on: true }, Act::Protect { volume, on: false }],
        10 => vec![Act::Limit { volume, iops_max: limit(rng, 200), bytes_per_s_max: limit(rng, 20_000_000) }],
        11..13 => vec![Act::Offline { volume, on: true }, Act::Offline { volume, on: false }],
        13 | 14 => vec![Act::Detach { volume }, Act::Attach { volume, elsewhere: rng.one_in(2) }],
        _ => vec![Act::Replace { volume }],
    }
}

fn limit(rng: &mut Rng, least: u64) -> Option<u64> {
    (!rng.one_in(3)).then(|| least * (1 + rng.below(20)))
}
