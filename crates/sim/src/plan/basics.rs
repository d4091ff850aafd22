//! What every plan has: devices, volumes, clients, a mix of operations, a network and lives.
//!
//! Invariant: each draws in one order; a seed means what it always meant.

use super::parts::{ClientPlan, End, Life, OpKind, Plan, VolumePlan};
use crate::faults::{Fault, Timed};
use rt::sim::{NetOptions, Rng, SimDeviceOptions};

pub(super) fn device(rng: &mut Rng, slow: u64) -> SimDeviceOptions {
    SimDeviceOptions {
        volatile_cache: !rng.one_in(4),
        discard: !rng.one_in(4),
        bytes_per_s: 3_000_000_000 / slow,
        ..SimDeviceOptions::default()
    }
}

pub(super) fn volume(rng: &mut Rng, devices: u64) -> VolumePlan {
    let lba_bytes = if rng.one_in(3) { 512 } else { 4096 };
    let stripes = (0..1 + rng.below(3)).map(|_| rng.below(devices) as u8).collect();
    let piece = (1 << 20) / u64::from(lba_bytes);
    VolumePlan {
        blocks: [64, 200, 900][rng.below(3) as usize],
        lba_bytes,
        checksum: !rng.one_in(6),
        stripes,
        first_block: if rng.one_in(3) { 0 } else { piece - 1 - rng.below(40) },
        reserve_chunks: if rng.one_in(4) { rng.below(8) } else { 0 },
        iops_max: rng.one_in(12).then_some(20_000),
        promised: false,
    }
}

pub(super) fn client(rng: &mut Rng) -> ClientPlan {
    ClientPlan {
        iscsi: false,
        queues: 1 + rng.below(4) as u16,
        depth: 1 + rng.below(16) as u16,
        digests: (rng.one_in(3), rng.one_in(3)),
        in_capsule_bytes: [0, 4096, 8192][rng.below(3) as usize],
        kato_ms: [0, 2_000, 10_000][rng.below(3) as usize],
        volume: None,
    }
}

/// Each kind is left out, kept, or preferred.
pub(super) fn mix(rng: &mut Rng) -> Vec<(OpKind, u64)> {
    let mut mix: Vec<(OpKind, u64)> = OpKind::COMMON
        .iter()
        .filter_map(|(kind, share)| match rng.below(10) {
            0..2 if !matches!(kind, OpKind::Read | OpKind::Write) => None,
            9 => Some((*kind, share * 6)),
            _ => Some((*kind, *share)),
        })
        .collect();
    if rng.one_in(4) {
        mix.retain(|(kind, _)| *kind != OpKind::Lose);
    }
    mix
}

pub(super) fn network(rng: &mut Rng) -> NetOptions {
    let segment_bytes = [(1, 65_536), (1, 2_000), (1_000, 65_536)][rng.below(3) as usize];
    NetOptions { segment_bytes, ..NetOptions::default() }
}

pub(super) fn life(rng: &mut Rng, plan: &Plan) -> Life {
    let scale = [3_000_000, 30_000_000, 400_000_000][rng.below(3) as usize];
    let limit_ns = 2_000_000 + rng.below(scale);
    let end = match rng.below(10) {
        0..5 => End::Power,
        5..8 => End::Kill,
        8 => End::Shutdown,
        _ => End::PowerInShutdown,
    };
    let around = plan.surroundings();
    // One in four comes while the host starts.
    let faults = (0..rng.below(4))
        .map(|_| Timed { at_ns: if rng.one_in(4) { rng.below(1_500_000) } else { rng.below(limit_ns) }, fault: Fault::draw(rng, &around) })
        .collect();
    Life {
        ops: 20 + rng.below(400),
        limit_ns,
        end,
        faults,
        grow_ns: rng.one_in(4).then(|| rng.below(limit_ns)),
        scrub_ns: rng.one_in(6).then(|| rng.below(limit_ns)),
        verify_first: rng.one_in(2),
        check: false,
        acts: Vec::new(),
        calm: None,
    }
}
