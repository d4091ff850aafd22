//! What of a plan makes the world rougher: faults that are aimed at certain writes, operations that are not over in one instant, volumes without
//! checksums where data is damaged. Each is drawn from a stream of its own, so that it changes nothing else of
//! what a seed means.
//!
//! Invariant: what is drawn is what the class of the plan allows.

use super::basics::life;
use super::parts::{End, Life, OpKind, Plan};
use crate::faults::aimed::{Death, Target};
use crate::faults::{Class, Fault, Timed};
use rt::sim::Rng;

/// Lives that a plan with aimed faults has at least: one that is hit, one that goes on where it was, and one that reads what that one wrote.
const AIMED_LIVES_MIN: usize = 3;

/// In a third of the plans some clients speak iSCSI.
pub(crate) fn transports(rng: &mut Rng, plan: &mut Plan) {
    if !rng.one_in(3) {
        return;
    }
    let first = rng.below(plan.clients.len() as u64) as usize;
    plan.clients.iter_mut().enumerate().for_each(|(at, c)| c.iscsi = at == first || rng.one_in(2));
    if !plan.mix.iter().any(|(kind, _)| *kind == OpKind::Reserve) {
        return;
    }
    // Each session is a host of its own to reservations: who disputes has one.
    plan.clients.iter_mut().filter(|c| c.iscsi).for_each(|c| c.queues = 1);
    if rng.one_in(2) {
        // A session ends with long writes under way, and another host takes the unit.
        (plan.op_blocks_max, plan.cache.1.bytes_per_s) = (256, plan.cache.1.bytes_per_s / 20);
        for life in &mut plan.lives {
            for _ in 0..4 {
                life.faults.push(Timed { at_ns: 1_000_000 + rng.below(life.limit_ns), fault: Fault::Reset { client: first } });
            }
        }
    }
}

/// In a third of the plans faults are aimed: at the first write of a segment, a page of a checkpoint, the batch that carries a tail ..., and then death.
pub(super) fn aim(rng: &mut Rng, plan: &mut Plan) {
    if !rng.one_in(3) {
        return;
    }
    if plan.class == Class::Crash && !rng.one_in(3) {
        // Its own faults stay harmless; what is aimed may fail writes.
        plan.class = Class::Errors;
    }
    if rng.one_in(2) {
        return series(rng, plan);
    }
    while plan.lives.len() < AIMED_LIVES_MIN {
        plan.lives.push(life(rng, plan));
    }
    let around = plan.surroundings();
    let failing = plan.class >= Class::Errors;
    let first = rng.below(2) as usize;
    for at in 0..plan.lives.len() {
        if at % 2 != first {
            // What the next life writes into the place where the fault hit must not be overwritten before its end.
            if rng.one_in(2) {
                plan.lives[at].ops = 5 + rng.below(60);
                plan.lives[at].end = if rng.one_in(2) { End::Power } else { End::Kill };
            }
            continue;
        }
        let Life { limit_ns, faults, .. } = &mut plan.lives[at];
        let at_ns = if rng.one_in(2) { 0 } else { rng.below(*limit_ns / 2) };
        faults.push(Timed { at_ns, fault: Fault::aim(rng, &around, failing) });
    }
    if failing && rng.one_in(6) {
        let device = rng.below(around.device_bytes.len() as u64) as usize;
        superblocks(rng, plan, device);
    }
}

/// Many short lives: each second one is hit in the same way, and the ones between go on where it was, and die before they have overwritten it.
fn series(rng: &mut Rng, plan: &mut Plan) {
    let around = plan.surroundings();
    let failing = plan.class >= Class::Errors;
    let Fault::Aim { device, target, .. } = Fault::aim(rng, &around, failing) else { unreachable!("it is aimed") };
    if device > 0 || matches!(target, Target::Tail | Target::Summary) {
        // There are checkpoints all the time.
        (plan.idle_drain_ms, plan.watermarks) = (1, (0.0, 0.05));
    }
    plan.shards = plan.shards.min(2);
    plan.op_blocks_max = plan.op_blocks_max.min(32);
    plan.volumes.iter_mut().for_each(|v| v.blocks = v.blocks.min(200));
    let lives = 6 + rng.below(7);
    plan.lives = (0..lives)
        .map(|at| {
            let Fault::Aim { nth, fails, alike, full, death, .. } = Fault::aim(rng, &around, failing) else { unreachable!("it is aimed") };
            let fault = Fault::Aim { device, target, nth: nth.min(2), fails, alike, full, death };
            Life {
                ops: 5 + rng.below(60),
                limit_ns: 4_000_000 + rng.below(12_000_000),
                end: if rng.one_in(2) { End::Power } else { End::Kill },
                faults: if at % 2 == 0 { vec![Timed { at_ns: 0, fault }] } else { Vec::new() },
                verify_first: rng.one_in(4),
                ..life(rng, plan)
            }
        })
        .collect();
}

/// A copy of a superblock is damaged; the next life writes it anew, and is hit while it does.
fn superblocks(rng: &mut Rng, plan: &mut Plan, device: usize) {
    for at in 0..plan.lives.len() {
        // Once in a life: the next one has written it anew before it serves.
        let fault = Fault::DamageSuperblock { device, copy: rng.below(2) as usize };
        let at_ns = 1_500_000 + rng.below(plan.lives[at].limit_ns);
        plan.lives[at].faults.push(Timed { at_ns, fault });
        let fails = rng.below(2) as u32;
        let death = Some(Death { after_ns: rng.below(300_000), power: !rng.one_in(3) });
        if at > 0 && rng.one_in(2) {
            let aim = Fault::Aim { device, target: Target::Superblock, nth: 1, fails, alike: false, full: false, death };
            plan.lives[at].faults.push(Timed { at_ns: 0, fault: aim });
        }
    }
}

/// In a quarter of the plans operations of devices are not over in one instant, and single ones end long after later ones.
pub(super) fn spread(rng: &mut Rng, plan: &mut Plan) {
    if !rng.one_in(4) {
        return;
    }
    let (often, late_ns) = ([8, 64, 500][rng.below(3) as usize], [200_000, 5_000_000, 60_000_000][rng.below(3) as usize]);
    for (_, options) in core::iter::once(&mut plan.cache).chain(&mut plan.capacity) {
        options.spread = true;
        options.late_reads = (often, late_ns);
        options.late_writes = (often * 4, late_ns / 4);
    }
    if rng.one_in(3) {
        lap(rng, plan);
    }
}

/// The log goes round while a read is under way: a few hot blocks, a read that waits for each second one, a log that is emptied at once.
fn lap(rng: &mut Rng, plan: &mut Plan) {
    plan.hot = 1;
    plan.op_blocks_max = 4;
    plan.idle_drain_ms = 1;
    plan.watermarks = (0.0, 0.05);
    for (_, options) in &mut plan.capacity {
        options.late_reads = (2, 20_000_000 + rng.below(60_000_000));
        options.bytes_per_s = 3_000_000_000;
    }
    plan.cache.1.late_reads = (50, 5_000_000);
    plan.clients.iter_mut().for_each(|c| c.depth = c.depth.min(3));
    plan.mix.retain(|(kind, _)| matches!(kind, OpKind::Read | OpKind::Write | OpKind::Trim | OpKind::Zero));
    for life in &mut plan.lives {
        (life.ops, life.limit_ns) = (life.ops.max(200) * 2, life.limit_ns.max(1_500_000_000));
    }
}

/// In a third of the plans whose faults a checksum would find, some volumes have none: these may show what was damaged, the others never.
pub(super) fn unchecked(rng: &mut Rng, plan: &mut Plan) {
    if plan.class >= Class::Errors && rng.one_in(3) {
        plan.volumes.iter_mut().for_each(|v| v.checksum &= rng.one_in(2));
    }
}

/// In half of the plans limits are small, and in one of eight devices are large and sparse: many segments, far pieces, a table of many pages.
pub(super) fn sizes(rng: &mut Rng, plan: &mut Plan) {
    plan.tiny = rng.one_in(2);
    if !rng.one_in(8) {
        return;
    }
    plan.shards = plan.shards.min(1 << rng.below(2));
    plan.cache.0 = u64::from(plan.shards) * [40, 100, 140, 600][rng.below(4) as usize];
    for (mib, _) in &mut plan.capacity {
        *mib = (*mib).max([0, 1 << 10, 20 << 10, 70 << 10][rng.below(4) as usize]);
    }
    for v in &mut plan.volumes {
        // Across the end of a region of the chunk maps (512 pieces of a stripe), far out, or where it was.
        let piece = (1 << 20) / u64::from(v.lba_bytes);
        let pieces = [0, 512 * v.stripes.len() as u64 - 1, 200 << 10, 512 * 300 - 1][rng.below(4) as usize];
        v.first_block += pieces * piece;
        v.blocks = v.blocks.max(900);
    }
    if rng.one_in(2) {
        plan.op_blocks_max = 256;
        plan.clients.iter_mut().for_each(|c| c.depth = c.depth.max(24));
    }
    // The log fills before it is emptied.
    if rng.one_in(2) {
        plan.watermarks = (0.6, 0.8);
    }
}

/// In one of eight plans a volume is promised all the space that it needs, whatever the others take; and at the end of some lives the shards are checked.
pub(super) fn judges(rng: &mut Rng, plan: &mut Plan) {
    let last = plan.volumes.len() - 1;
    if rng.one_in(8) && last > 0 {
        // What a shard is asked for at most: all chunks that the volume has, with what it grows by and where it begins and ends within one.
        let v = &mut plan.volumes[last];
        v.blocks = v.blocks.min(200);
        v.stripes.truncate(1);
        let chunks = (v.blocks + 5 * 64) * u64::from(v.lba_bytes) / (64 << 10) + 2;
        (v.reserve_chunks, v.promised) = (chunks * u64::from(plan.shards), true);
        plan.volumes[..last].iter_mut().for_each(|v| v.reserve_chunks = 0);
        if rng.one_in(2) {
            // The others want more than there is.
            plan.op_blocks_max = 256;
            let room = plan.capacity.iter().map(|(mib, _)| mib * 256).max().unwrap_or(0).min(16_000);
            plan.volumes[..last].iter_mut().for_each(|v| v.blocks = v.blocks.max(room));
        }
    }
    for life in &mut plan.lives {
        life.check = rng.one_in(2);
    }
}

/// In a quarter of the plans whose devices fail, and on whose volumes nobody acts, it is checkpoints that fail: tables have several pages, a checkpoint comes
/// every few milliseconds, and in each second life a page, a head or a flush fails, whereupon the host goes on for a while.
pub(super) fn checkpoints(rng: &mut Rng, plan: &mut Plan) {
    if plan.class != Class::Errors || plan.has_acts() || !rng.one_in(4) {
        return;
    }
    (plan.tiny, plan.idle_drain_ms, plan.watermarks) = (true, 1, (0.0, 0.05));
    (plan.shards, plan.cache.0, plan.op_blocks_max, plan.hot) = (1, 8 + rng.below(8), 4, 0);
    for (mib, options) in &mut plan.capacity {
        *mib = 56 + rng.below(16);
        (options.volatile_cache, options.bytes_per_s) = (true, options.bytes_per_s.max(300_000_000));
    }
    for v in &mut plan.volumes {
        v.blocks = ((8 << 20) + rng.below(8 << 20)) / u64::from(v.lba_bytes);
        (v.promised, v.reserve_chunks) = (false, v.reserve_chunks.min(8));
    }
    plan.mix.retain(|(kind, _)| matches!(kind, OpKind::Read | OpKind::Write | OpKind::Trim | OpKind::Zero | OpKind::Flush));
    let devices = plan.capacity.len() as u64;
    let lives = 4 + rng.below(4);
    plan.lives = (0..lives)
        .map(|at| {
            let target = [Target::Page, Target::Page, Target::Flush, Target::Flush, Target::Head][rng.below(5) as usize];
            let nth = 2 + rng.below(8) as u32;
            let death = rng.one_in(2).then(|| Death { after_ns: rng.below(4_000_000), power: true });
            let (device, fails) = (1 + rng.below(devices) as usize, 1 + rng.below(2) as u32);
            let fault = Fault::Aim { device, target, nth, fails, alike: true, full: rng.one_in(4), death };
            Life {
                ops: 150 + rng.below(300),
                limit_ns: 20_000_000 + rng.below(40_000_000),
                end: End::Power,
                faults: if at % 2 == 0 { vec![Timed { at_ns: 0, fault }] } else { Vec::new() },
                check: true,
                ..life(rng, plan)
            }
        })
        .collect();
}

/// In one of 16 plans without acts, or lives in which answers must come soon, one client writes single blocks very deep, to one shard whose log is slow: so its batches have as many records as fit.
pub(super) fn deep(rng: &mut Rng, plan: &mut Plan) {
    if plan.class != Class::Crash || plan.has_acts() || plan.lives.iter().any(|l| l.calm.is_some()) || !rng.one_in(16) {
        return;
    }
    (plan.shards, plan.op_blocks_max) = (1, 1);
    plan.cache.1.bytes_per_s /= 10;
    plan.clients.truncate(1);
    plan.clients[0].depth = 256 + rng.below(144) as u16;
    plan.mix = vec![(OpKind::Read, 20), (OpKind::Write, 80)];
    // What a volume was promised is all that it needs as it is.
    plan.volumes.iter_mut().filter(|v| !v.promised).for_each(|v| v.blocks = v.blocks.max(900));
    plan.lives.iter_mut().for_each(|l| l.ops *= 4);
    plan.lives.iter_mut().flat_map(|l| &mut l.faults).for_each(|f| match &mut f.fault {
        Fault::Cut { client, .. } | Fault::Reset { client } => *client = 0,
        _ => {}
    });
}
