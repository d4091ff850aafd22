//! What a seed means: the host, its devices, the clients, the mix of operations, and every fault with its time.
//!
//! Each seed draws its own configuration, leaves kinds of operations out and prefers others (swarm testing), so that rare meetings of
//! features are not drowned by the average of all.
//!
//! Owns: [`Plan`], how it is drawn, and the cuts that make it smaller.
//! Invariant: a plan is a function of seed and cuts; a cut changes nothing else of the plan.
//! Never: knows the code under test.

mod world;

use crate::acts::{self, Act};
use crate::faults::{Class, Fault, Surroundings, Timed};
use rt::sim::{NetOptions, Rng, SimDeviceOptions};
use std::fmt;
use std::str::FromStr;

/// Kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Write with Force Unit Access.
    WriteFua,
    /// Dataset Management, deallocate.
    Trim,
    /// Write Zeroes.
    Zero,
    /// Flush.
    Flush,
    /// Compare.
    Compare,
    /// Compare and Write, fused.
    Swap,
    /// Write Uncorrectable.
    Lose,
    /// Verify.
    Verify,
    /// Copy.
    Copy,
    /// Abort of a command in flight.
    Abort,
    /// Reservation Register, Acquire or Release.
    Reserve,
    /// Reservation Report.
    Report,
}

impl Kind {
    /// What any host does, with how often each comes when none is preferred.
    pub const COMMON: [(Kind, u64); 12] = [
        (Kind::Read, 30),
        (Kind::Write, 45),
        (Kind::WriteFua, 5),
        (Kind::Trim, 6),
        (Kind::Zero, 3),
        (Kind::Flush, 2),
        (Kind::Compare, 2),
        (Kind::Swap, 3),
        (Kind::Lose, 1),
        (Kind::Verify, 1),
        (Kind::Copy, 2),
        (Kind::Abort, 1),
    ];
    /// What hosts do besides that take each other's rights away.
    pub const DISPUTE: [(Kind, u64); 2] = [(Kind::Reserve, 3), (Kind::Report, 1)];
    /// All of them.
    pub fn all() -> impl Iterator<Item = Kind> {
        Kind::COMMON.into_iter().chain(Kind::DISPUTE).map(|(kind, _)| kind)
    }
    /// Its name on the command line.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// A volume.
#[derive(Clone, Debug)]
pub struct VolumePlan {
    /// Logical blocks that are used at first.
    pub blocks: u64,
    /// Bytes of one: 512 or 4096.
    pub lba_bytes: u32,
    /// Whether blocks keep a checksum on capacity.
    pub checksum: bool,
    /// The capacity device of each stripe.
    pub stripes: Vec<u8>,
    /// Where the used blocks begin, so that they lie across the pieces of two lanes.
    pub first_block: u64,
    /// Chunks that are reserved for each component.
    pub reserve_chunks: u64,
    /// Requests a second.
    pub iops_max: Option<u64>,
    /// All that it may need is reserved: no write to it is ever refused for want of space.
    pub promised: bool,
}

/// A client host.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    /// I/O queues.
    pub queues: u16,
    /// Commands in flight on each.
    pub depth: u16,
    /// Header and data digests.
    pub digests: (bool, bool),
    /// Largest write in a capsule, in bytes.
    pub in_capsule_bytes: u32,
    /// Keep-alive time-out in milliseconds; 0 for none.
    pub kato_ms: u32,
}

/// How a life of the host ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The power goes.
    Power,
    /// The process is killed.
    Kill,
    /// It is shut down in order, and the power stays.
    Shutdown,
    /// The power goes in the middle of an orderly shutdown.
    PowerInShutdown,
}

/// One life of the host.
#[derive(Clone, Debug)]
pub struct Life {
    /// How many operations the clients begin at most.
    pub ops: u64,
    /// When it ends, in nanoseconds from its start, whatever was done by then.
    pub limit_ns: u64,
    /// How.
    pub end: End,
    /// What happens meanwhile.
    pub faults: Vec<Timed>,
    /// Whether volumes grow during it, when.
    pub grow_ns: Option<u64>,
    /// Whether a scrub begins during it, when.
    pub scrub_ns: Option<u64>,
    /// Everything is read before anything else.
    pub verify_first: bool,
    /// Before its end the shards are checked, if the host serves.
    pub check: bool,
    /// What the operator does to volumes meanwhile: when, in nanoseconds from the start of the life, and what.
    pub acts: Vec<(u64, Act)>,
    /// From then on nothing disturbs, and so many operations more are begun.
    pub calm: Option<(u64, u64)>,
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where it comes from.
    pub seed: u64,
    /// What must hold.
    pub class: Class,
    /// Cores of the host.
    pub cores: usize,
    /// Shards of the disk group.
    pub shards: u8,
    /// Size of the cache device in MiB, and what it is like.
    pub cache: (u64, SimDeviceOptions),
    /// The capacity devices.
    pub capacity: Vec<(u64, SimDeviceOptions)>,
    /// The volumes.
    pub volumes: Vec<VolumePlan>,
    /// The client hosts.
    pub clients: Vec<ClientPlan>,
    /// How often each kind of operation comes.
    pub mix: Vec<(Kind, u64)>,
    /// Largest operation, in blocks of 4 KiB.
    pub op_blocks_max: u64,
    /// One in so many operations goes to a hot block; 0 for none.
    pub hot: u64,
    /// Write buffer: low and high watermark; how soon an idle one is drained, in milliseconds.
    pub watermarks: (f64, f64),
    /// See `watermarks`.
    pub idle_drain_ms: u64,
    /// The network.
    pub net: NetOptions,
    /// The lives but the last, in which no fault comes and everything must be right.
    pub lives: Vec<Life>,
    /// With the feature `hooks`: limits are small (`base::hooks::tiny`).
    pub tiny: bool,
}

/// What is left out of a plan, to find what a failure needs: `lives=2,ops=40,no=trim+copy,nofaults,clients=1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    /// So many lives only.
    pub lives: Option<usize>,
    /// So many operations in each life only.
    pub ops: Option<u64>,
    /// So many clients only.
    pub clients: Option<usize>,
    /// So many commands in flight on a queue only.
    pub depth: Option<u16>,
    /// Kinds of operations that do not come.
    pub without: Vec<String>,
    /// Faults that do not come, by their number in the order of the plan.
    pub without_faults: Vec<usize>,
    /// So many of the operator's acts in each life only.
    pub acts: Option<usize>,
}

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
        let mut plan = Plan {
            seed,
            class,
            cores,
            shards: shards as u8,
            cache,
            capacity,
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
        };
        plan.lives = (0..1 + rng.below(5)).map(|_| life(rng, &plan)).collect();
        strain(rng, &mut plan);
        dispute(&mut Rng::new(seed ^ 0xD15B_07E5), &mut plan);
        world::aim(&mut Rng::new(seed ^ 0xA13E_D0FF), &mut plan);
        world::spread(&mut Rng::new(seed ^ 0x51_0E4D), &mut plan);
        world::unchecked(&mut Rng::new(seed ^ 0xC_0FF), &mut plan);
        world::sizes(&mut Rng::new(seed ^ 0x0005_17E5), &mut plan);
        world::judges(&mut Rng::new(seed ^ 0x1D6E), &mut plan);
        go_on(&mut Rng::new(seed ^ 0x0006_0070_10C6), &mut plan);
        acts::draw(&mut Rng::new(seed ^ 0xAC75_0F0E), &mut plan);
        world::checkpoints(&mut Rng::new(seed ^ 0xC4EC_4901), &mut plan);
        world::deep(&mut Rng::new(seed ^ 0x000D_EE90), &mut plan);
        plan
    }

    /// The plan without what is cut.
    pub fn cut(mut self, cuts: &Cuts) -> Plan {
        self.lives.truncate(cuts.lives.unwrap_or(usize::MAX));
        self.clients.truncate(cuts.clients.unwrap_or(usize::MAX).max(1));
        for client in &mut self.clients {
            client.depth = client.depth.min(cuts.depth.unwrap_or(u16::MAX)).max(1);
        }
        self.mix.retain(|(kind, _)| !cuts.without.contains(&kind.name()));
        let mut number = 0;
        for life in &mut self.lives {
            life.ops = life.ops.min(cuts.ops.unwrap_or(u64::MAX));
            life.acts.truncate(cuts.acts.unwrap_or(usize::MAX));
            life.faults.retain(|_| {
                number += 1;
                !cuts.without_faults.contains(&(number - 1))
            });
        }
        self
    }

    /// Whether the operator acts on volumes in it.
    pub fn has_acts(&self) -> bool {
        self.lives.iter().any(|l| !l.acts.is_empty())
    }
    /// All faults of all lives.
    pub fn faults(&self) -> usize {
        self.lives.iter().map(|l| l.faults.len()).sum()
    }
    /// What its faults may hit.
    pub fn surroundings(&self) -> Surroundings {
        let device_bytes = core::iter::once(&self.cache).chain(&self.capacity).map(|(mib, _)| mib << 20).collect();
        Surroundings { class: self.class, device_bytes, clients: self.clients.len() }
    }
}

fn device(rng: &mut Rng, slow: u64) -> SimDeviceOptions {
    SimDeviceOptions {
        volatile_cache: !rng.one_in(4),
        discard: !rng.one_in(4),
        bytes_per_s: 3_000_000_000 / slow,
        ..SimDeviceOptions::default()
    }
}

fn volume(rng: &mut Rng, devices: u64) -> VolumePlan {
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

fn client(rng: &mut Rng) -> ClientPlan {
    ClientPlan {
        queues: 1 + rng.below(4) as u16,
        depth: 1 + rng.below(16) as u16,
        digests: (rng.one_in(3), rng.one_in(3)),
        in_capsule_bytes: [0, 4096, 8192][rng.below(3) as usize],
        kato_ms: [0, 2_000, 10_000][rng.below(3) as usize],
    }
}

/// Each kind is left out, kept, or preferred.
fn mix(rng: &mut Rng) -> Vec<(Kind, u64)> {
    let mut mix: Vec<(Kind, u64)> = Kind::COMMON
        .iter()
        .filter_map(|(kind, share)| match rng.below(10) {
            0..2 if !matches!(kind, Kind::Read | Kind::Write) => None,
            9 => Some((*kind, share * 6)),
            _ => Some((*kind, *share)),
        })
        .collect();
    if rng.one_in(4) {
        mix.retain(|(kind, _)| *kind != Kind::Lose);
    }
    mix
}

fn network(rng: &mut Rng) -> NetOptions {
    let segment_bytes = [(1, 65_536), (1, 2_000), (1_000, 65_536)][rng.below(3) as usize];
    NetOptions { segment_bytes, ..NetOptions::default() }
}

fn life(rng: &mut Rng, plan: &Plan) -> Life {
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
            plan.mix = vec![(Kind::Read, 30), (Kind::Write, 45), (Kind::Abort, 40)];
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
        5 => plan.mix = vec![(Kind::Read, 20), (Kind::Write, 20), (Kind::Swap, 60), (Kind::Abort, 60)],
        _ => {}
    }
}

/// In a third of the plans with several clients these dispute the volumes. Drawn from a stream of its own: plans without disputes are what they were before there were any.
fn dispute(rng: &mut Rng, plan: &mut Plan) {
    if plan.clients.len() < 2 || !rng.one_in(3) {
        return;
    }
    let often = 1 + rng.below(4);
    plan.mix.extend(Kind::DISPUTE.map(|(kind, share)| (kind, share * often)));
    let clients = plan.clients.len() as u64;
    match rng.below(3) {
        // A host that was cut off comes back with the data of its writes, when it may not write any more.
        0 => {
            plan.hot = 1;
            plan.clients.iter_mut().for_each(|c| (c.in_capsule_bytes, c.depth) = (0, c.depth.max(16)));
            plan.mix.retain(|(kind, _)| matches!(kind, Kind::Read | Kind::Write | Kind::Swap | Kind::Reserve | Kind::Report));
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
            plan.mix.retain(|(kind, _)| matches!(kind, Kind::Read | Kind::Write | Kind::Reserve | Kind::Report));
            plan.mix.extend([(Kind::Copy, 40), (Kind::Trim, 20)]);
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
    plan.mix = vec![(Kind::Read, 25), (Kind::Write, 60), (Kind::WriteFua, 5), (Kind::Trim, 4), (Kind::Swap, 3), (Kind::Copy, 3)];
    plan.volumes.iter_mut().for_each(|v| v.iops_max = v.iops_max.map(|n| n.max(5_000)));
    plan.clients.iter_mut().for_each(|c| c.depth = c.depth.min(32));
    let at = rng.below(plan.lives.len() as u64) as usize;
    let life = &mut plan.lives[at];
    life.faults.truncate(3);
    life.faults.iter_mut().for_each(|t| t.at_ns %= 20_000_000);
    (life.ops, life.limit_ns, life.calm) = (100, 60_000_000_000, Some((25_000_000, 700)));
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |d: &(u64, SimDeviceOptions)| {
            let cache = if d.1.volatile_cache { "volatile" } else { "durable" };
            let spread = if d.1.spread { " spread" } else { "" };
            format!("{} MiB {cache} {} MB/s{spread}", d.0, d.1.bytes_per_s / 1_000_000)
        };
        let limits = if self.tiny { ", small limits" } else { "" };
        writeln!(f, "seed {}: class {:?}, {} cores, {} shards{limits}", self.seed, self.class, self.cores, self.shards)?;
        writeln!(f, "  cache {}; capacity {}", mib(&self.cache), self.capacity.iter().map(mib).collect::<Vec<_>>().join(", "))?;
        for (at, v) in self.volumes.iter().enumerate() {
            writeln!(
                f,
                "  volume {at}: {} blocks of {} from {}, checksum {}, stripes on {:?}, {} chunks reserved{}",
                v.blocks,
                v.lba_bytes,
                v.first_block,
                v.checksum,
                v.stripes,
                v.reserve_chunks,
                if v.promised { ": all it needs" } else { "" }
            )?;
        }
        for (at, c) in self.clients.iter().enumerate() {
            writeln!(
                f,
                "  client {at}: {} queues of {}, digests {:?}, {} bytes in a capsule, keep-alive {} ms",
                c.queues, c.depth, c.digests, c.in_capsule_bytes, c.kato_ms
            )?;
        }
        let mix: Vec<String> = self.mix.iter().map(|(k, n)| format!("{} {n}", k.name())).collect();
        writeln!(f, "  mix {}; up to {} blocks; hot 1/{}", mix.join(", "), self.op_blocks_max, self.hot)?;
        let mut number = 0;
        for (at, l) in self.lives.iter().enumerate() {
            writeln!(f, "  life {at}: {} operations, {} us, then {:?}", l.ops, l.limit_ns / 1000, l.end)?;
            for t in &l.faults {
                writeln!(f, "    fault {number} at {} us: {:?}", t.at_ns / 1000, t.fault)?;
                number += 1;
            }
            if let Some((at_ns, ops)) = l.calm {
                writeln!(f, "    quiet from {} us on, with {ops} operations more", at_ns / 1000)?;
            }
            for (at_ns, act) in &l.acts {
                writeln!(f, "    at {} us: {act:?}", at_ns / 1000)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Cuts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.lives.map(|n| format!("lives={n}")));
        parts.extend(self.ops.map(|n| format!("ops={n}")));
        parts.extend(self.clients.map(|n| format!("clients={n}")));
        parts.extend(self.depth.map(|n| format!("depth={n}")));
        parts.extend((!self.without.is_empty()).then(|| format!("no={}", self.without.join("+"))));
        parts.extend(self.acts.map(|n| format!("acts={n}")));
        let faults: Vec<String> = self.without_faults.iter().map(usize::to_string).collect();
        parts.extend((!faults.is_empty()).then(|| format!("nofaults={}", faults.join("+"))));
        f.write_str(&parts.join(","))
    }
}

impl FromStr for Cuts {
    type Err = String;
    fn from_str(text: &str) -> Result<Cuts, String> {
        let mut cuts = Cuts::default();
        for part in text.split(',').filter(|p| !p.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| format!("'{part}' is not NAME=VALUE"))?;
            let number = || value.parse::<u64>().map_err(|_| format!("'{value}' of '{name}' is not a number"));
            match name {
                "lives" => cuts.lives = Some(number()? as usize),
                "ops" => cuts.ops = Some(number()?),
                "acts" => cuts.acts = Some(number()? as usize),
                "clients" => cuts.clients = Some(number()? as usize),
                "depth" => cuts.depth = Some(number()? as u16),
                "no" => {
                    cuts.without = value.split('+').map(str::to_owned).collect();
                    if let Some(unknown) = cuts.without.iter().find(|w| !Kind::all().any(|k| k.name() == **w)) {
                        return Err(format!("there is no operation '{unknown}'"));
                    }
                }
                "nofaults" => {
                    let all: Result<_, _> =
                        value.split('+').map(|n| n.parse().map_err(|_| format!("'{n}' is not the number of a fault"))).collect();
                    cuts.without_faults = all?;
                }
                _ => return Err(format!("there is no cut '{name}': lives, ops, acts, clients, depth, no, nofaults")),
            }
        }
        Ok(cuts)
    }
}
