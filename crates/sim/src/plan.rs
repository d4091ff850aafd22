//! What a seed means: the host, its devices, the clients, the mix of operations, and every fault with its time.
//!
//! Each seed draws its own configuration, leaves kinds of operations out and prefers others (swarm testing), so that rare meetings of
//! features are not drowned by the average of all.
//!
//! Owns: how a [`Plan`] is drawn, and in which order.
//! Invariant: a plan is a function of seed and cuts; a cut changes nothing else of the plan.
//! Never: knows the code under test.

mod basics;
mod cuts;
mod operated;
mod parts;
mod world;

pub use cuts::Cuts;
pub use parts::{ClientPlan, End, Life, OpKind, Plan, VolumePlan};
pub(crate) use world::transports;

use crate::faults::{Class, Fault, Timed};
use basics::{client, device, life, mix, network, volume};
use rt::sim::{Rng, SimDeviceOptions};

impl Plan {
    /// What a seed means.
    pub fn draw(seed: u64) -> Plan {
        let rng = &mut Rng::new(seed ^ 0xBA5A_1700_51D0_0001);
        let class = match rng.below(100) {
            0..64 => Class::Crash,
            64..80 => Class::Errors,
            80..92 => Class::Damage,
            _ => Class::Lies,
        };
        let cores = 1 + rng.below(3) as usize;
        let shards = 1 << rng.below(4);
        let capacity_devices = 1 + rng.below(3);
        let slow = [1, 1, 1, 10, 60][rng.below(5) as usize];
        let cache = (shards * (8 + rng.below(4)), device(rng, 1));
        let capacity: Vec<_> = (0..capacity_devices).map(|_| (shards * (6 + rng.below(12)), device(rng, slow))).collect();
        let mut volumes: Vec<_> = (0..1 + rng.below(3)).map(|_| volume(rng, capacity_devices)).collect();
        // Without checksums damage on capacity, or on the way from it, cannot be noticed: `world::unchecked` has some all the same.
        volumes.iter_mut().for_each(|v| v.checksum |= class >= Class::Errors);
        let clients = (0..1 + rng.below(3)).map(|_| client(rng)).collect();
        let low = rng.below(40) as f64 / 100.0;
        let mut plan = Plan { class, cores, shards: shards as u8, capacity, ..Plan::plain(rng, seed, cache, (volumes, clients), low) };
        plan.lives = (0..1 + rng.below(5)).map(|_| life(rng, &plan)).collect();
        strain(rng, &mut plan);
        dispute(&mut Rng::new(seed ^ 0xD15B_07E5), &mut plan);
        world::aim(&mut Rng::new(seed ^ 0xA13E_D0FF), &mut plan);
        world::spread(&mut Rng::new(seed ^ 0x51_0E4D), &mut plan);
        world::unchecked(&mut Rng::new(seed ^ 0xC_0FF), &mut plan);
        world::sizes(&mut Rng::new(seed ^ 0x0005_17E5), &mut plan);
        world::judges(&mut Rng::new(seed ^ 0x1D6E), &mut plan);
        go_on(&mut Rng::new(seed ^ 0x0006_0070_10C6), &mut plan);
        operated::acts(&mut Rng::new(seed ^ 0xAC75_0F0E), &mut plan);
        world::checkpoints(&mut Rng::new(seed ^ 0xC4EC_4901), &mut plan);
        world::deep(&mut Rng::new(seed ^ 0x000D_EE90), &mut plan);
        world::transports(&mut Rng::new(seed ^ 0x7AA5_9047), &mut plan);
        operated::devices(&mut Rng::new(seed ^ 0xDE71_CE50), &mut plan);
        plan
    }
}

impl Plan {
    /// What clients do, and on which volumes, in a world of several nodes. Its devices and lives are none: each node has its own.
    pub(crate) fn draw_for_nodes(rng: &mut Rng, seed: u64) -> Plan {
        let mut volumes: Vec<_> = (0..1 + rng.below(3)).map(|_| volume(rng, 1)).collect();
        volumes.iter_mut().for_each(|v| (v.iops_max, v.reserve_chunks) = (None, 0));
        let low = rng.below(40) as f64 / 100.0;
        let cache = (0, device(rng, 1));
        let clients = (0..1 + rng.below(3)).map(|_| client(rng)).collect();
        let mut plan = Plan::plain(rng, seed, cache, (volumes, clients), low);
        if plan.clients.len() > 1 && rng.one_in(2) {
            plan.mix.extend(OpKind::DISPUTE);
        }
        plan
    }

    /// One core, no capacity devices, no lives; what clients do is drawn. `low`: the lower watermark of the write buffer.
    fn plain(
        rng: &mut Rng,
        seed: u64,
        cache: (u64, SimDeviceOptions),
        (volumes, clients): (Vec<VolumePlan>, Vec<ClientPlan>),
        low: f64,
    ) -> Plan {
        Plan {
            seed,
            class: Class::Crash,
            cores: 1,
            shards: 1,
            cache,
            capacity: Vec::new(),
            spares: Vec::new(),
            volumes,
            clients,
            mix: mix(rng),
            op_blocks_max: [1, 4, 32, 256][rng.below(4) as usize],
            hot: [0, 0, 2, 10][rng.below(4) as usize],
            watermarks: (low, low + 0.3),
            idle_drain_ms: 1 + rng.below(30),
            net: network(rng),
            lives: Vec::new(),
            tiny: false,
        }
    }
}

/// Presses a plan somewhere, so that queues fill, space runs out and clocks run down, which an average plan never comes to.
fn strain(rng: &mut Rng, plan: &mut Plan) {
    match rng.below(16) {
        // Many commands at a time.
        0 => {
            plan.clients.iter_mut().for_each(|c| c.depth = 60 + rng.below(340) as u16);
            plan.lives.iter_mut().for_each(|l| l.ops *= 4);
            plan.cache.1.bytes_per_s /= 10;
            for life in &mut plan.lives {
                let (client, for_ns) = (rng.below(plan.clients.len() as u64) as usize, 50_000_000);
                let cut = Fault::Cut { client, to_host: false, to_client: true, for_ns };
                life.faults.push(Timed { at_ns: rng.below(life.limit_ns), fault: cut });
            }
        }
        // Many bytes at a time.
        1 => {
            plan.op_blocks_max = 256;
            plan.clients.iter_mut().for_each(|c| c.depth = 40);
            plan.volumes.iter_mut().for_each(|v| v.blocks = v.blocks.max(900));
            plan.mix = vec![(OpKind::Read, 30), (OpKind::Write, 45), (OpKind::Abort, 40)];
        }
        // More blocks than there is room for.
        2 => {
            plan.op_blocks_max = 256;
            plan.capacity.iter_mut().for_each(|d| d.0 = u64::from(plan.shards) * 6);
            plan.volumes.iter_mut().for_each(|v| v.blocks = u64::from(plan.shards) * 2000);
        }
        // Limits that are felt.
        3 => plan.volumes.iter_mut().for_each(|v| v.iops_max = Some(500)),
        // A client that falls silent for longer than its controller lives.
        4 => {
            plan.clients.iter_mut().for_each(|c| c.kato_ms = 1000);
            let (client, for_ns) = (rng.below(plan.clients.len() as u64) as usize, 4_000_000_000);
            let cut =
                Timed { at_ns: 2_000_000 + rng.below(2_000_000), fault: Fault::Cut { client, to_host: true, to_client: true, for_ns } };
            plan.lives[0].faults.push(cut);
            (plan.lives[0].ops, plan.lives[0].limit_ns) = (4000, 6_000_000_000);
        }
        // Pairs, half of which are aborted.
        5 => plan.mix = vec![(OpKind::Read, 20), (OpKind::Write, 20), (OpKind::Swap, 60), (OpKind::Abort, 60)],
        _ => {}
    }
}

/// In a third of the plans with several clients these dispute the volumes. Drawn from a stream of its own: plans without disputes are what they were before there were any.
fn dispute(rng: &mut Rng, plan: &mut Plan) {
    if plan.clients.len() < 2 || !rng.one_in(3) {
        return;
    }
    let often = 1 + rng.below(4);
    plan.mix.extend(OpKind::DISPUTE.map(|(kind, share)| (kind, share * often)));
    let clients = plan.clients.len() as u64;
    match rng.below(3) {
        // A host that was cut off comes back with the data of its writes, when it may not write any more.
        0 => {
            plan.hot = 1;
            plan.clients.iter_mut().for_each(|c| (c.in_capsule_bytes, c.depth) = (0, c.depth.max(16)));
            plan.mix.retain(|(kind, _)| matches!(kind, OpKind::Read | OpKind::Write | OpKind::Swap | OpKind::Reserve | OpKind::Report));
            plan.op_blocks_max = 4;
            for life in &mut plan.lives {
                (life.ops, life.limit_ns) = (life.ops * 10, life.limit_ns.max(40_000_000));
                for _ in 0..6 {
                    let client = rng.below(clients) as usize;
                    let cut = Fault::Cut { client, to_host: true, to_client: false, for_ns: 200_000 + rng.below(3_000_000) };
                    life.faults.push(Timed { at_ns: 2_000_000 + rng.below(20_000_000), fault: cut });
                }
            }
        }
        // Long commands of a host are in the middle when it is fenced, or gone.
        1 => {
            plan.cores = plan.cores.max(2);
            (plan.op_blocks_max, plan.cache.1.bytes_per_s) = (256, plan.cache.1.bytes_per_s / 10);
            plan.volumes.iter_mut().for_each(|v| (v.blocks, v.lba_bytes) = (v.blocks.max(900), 4096));
            plan.mix.retain(|(kind, _)| matches!(kind, OpKind::Read | OpKind::Write | OpKind::Reserve | OpKind::Report));
            plan.mix.extend([(OpKind::Copy, 40), (OpKind::Trim, 20)]);
            for life in &mut plan.lives {
                life.limit_ns = life.limit_ns.max(100_000_000);
                for _ in 0..3 {
                    let reset = Fault::Reset { client: rng.below(clients) as usize };
                    life.faults.push(Timed { at_ns: 2_000_000 + rng.below(50_000_000), fault: reset });
                }
            }
        }
        _ => {}
    }
}

/// One plan of the class `Crash` in ten has a life that goes on when its faults are over: the log is written round and round, and all that waits must get its turn.
fn go_on(rng: &mut Rng, plan: &mut Plan) {
    if plan.class != Class::Crash || !rng.one_in(10) {
        return;
    }
    // What was promised in each shard is promised in the one.
    let shards = u64::from(core::mem::replace(&mut plan.shards, 1));
    plan.volumes.iter_mut().filter(|v| v.promised).for_each(|v| v.reserve_chunks /= shards);
    plan.cache.0 = 8 + rng.below(4);
    plan.capacity.iter_mut().for_each(|d| d.0 = 12 + rng.below(12));
    (plan.op_blocks_max, plan.hot) = (64, if rng.one_in(2) { 2 } else { 0 });
    plan.mix =
        vec![(OpKind::Read, 25), (OpKind::Write, 60), (OpKind::WriteFua, 5), (OpKind::Trim, 4), (OpKind::Swap, 3), (OpKind::Copy, 3)];
    plan.volumes.iter_mut().for_each(|v| v.iops_max = v.iops_max.map(|n| n.max(5_000)));
    plan.clients.iter_mut().for_each(|c| c.depth = c.depth.min(32));
    let at = rng.below(plan.lives.len() as u64) as usize;
    let life = &mut plan.lives[at];
    life.faults.truncate(3);
    life.faults.iter_mut().for_each(|t| t.at_ns %= 20_000_000);
    (life.ops, life.limit_ns, life.calm) = (100, 60_000_000_000, Some((25_000_000, 700)));
}
