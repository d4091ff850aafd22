//! What the operator does to volumes while clients use them: which acts there are, and when a plan has them.
//!
//! Owns: [`Act`], and how acts are drawn.
//! Invariant: drawn from a stream of their own; a plan without acts is what it was before there were any.
//! Never: carries one out ([`crate::operator`]); knows what its answers may be ([`crate::served`]).

use crate::faults::Class;
use crate::plan::Plan;
use rt::sim::Rng;

/// Something the operator does to a volume, by its number among those that there are then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It gets smaller by so many hundredths, at least a block of 4 KiB; what lies behind its end is freed.
    Shrink { volume: u64, percent: u64 },
    /// It gets as large as it ever was.
    Regrow { volume: u64 },
    /// All of its content goes, as by Format NVM.
    Format { volume: u64 },
    /// Write protection on, or off.
    Protect { volume: u64, on: bool },
    /// Other limits: requests and bytes a second.
    Limit { volume: u64, iops_max: Option<u64>, bytes_per_s_max: Option<u64> },
    /// Its disk group cannot be reached, or can again.
    Offline { volume: u64, on: bool },
    /// It is taken from the subsystem.
    Detach { volume: u64 },
    /// It is attached again, to the namespace that it was or to another.
    Attach { volume: u64, elsewhere: bool },
    /// It is deleted with all its data, and another one of its kind is made.
    Replace { volume: u64 },
}

impl Act {
    /// Its kind, for counting.
    pub fn name(&self) -> String {
        let text = format!("{self:?}");
        text.split([' ', '{']).next().unwrap_or_default().to_owned()
    }

    fn draw(rng: &mut Rng) -> Vec<Act> {
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
}

fn limit(rng: &mut Rng, least: u64) -> Option<u64> {
    (!rng.one_in(3)).then(|| least * (1 + rng.below(20)))
}

/// In a third of the plans whose faults leave all data in its place the operator acts while clients work.
pub fn draw(rng: &mut Rng, plan: &mut Plan) {
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
            for act in Act::draw(rng) {
                life.acts.push((at_ns, act));
                let pause = [100_000, 5_000_000, 100_000_000][rng.below(3) as usize];
                at_ns += rng.below(if waits { pause } else { pause / 20 });
            }
        }
        life.acts.sort_by_key(|(at_ns, _)| *at_ns);
    }
}
