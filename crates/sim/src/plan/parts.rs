//! What a plan consists of.
//!
//! Never: knows how it is drawn.

use crate::acts::Act;
use crate::faults::{Class, Surroundings, Timed};
use rt::sim::{NetOptions, SimDeviceOptions};
use std::fmt;

/// Kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpKind {
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

impl OpKind {
    /// What any host does, with how often each comes when none is preferred.
    pub const COMMON: [(OpKind, u64); 12] = [
        (OpKind::Read, 30),
        (OpKind::Write, 45),
        (OpKind::WriteFua, 5),
        (OpKind::Trim, 6),
        (OpKind::Zero, 3),
        (OpKind::Flush, 2),
        (OpKind::Compare, 2),
        (OpKind::Swap, 3),
        (OpKind::Lose, 1),
        (OpKind::Verify, 1),
        (OpKind::Copy, 2),
        (OpKind::Abort, 1),
    ];
    /// What hosts over iSCSI do not do: SCSI has no such command, or none that is served.
    pub const NVME_ONLY: [OpKind; 1] = [OpKind::Lose];
    /// What hosts do besides that take each other's rights away.
    pub const DISPUTE: [(OpKind, u64); 2] = [(OpKind::Reserve, 3), (OpKind::Report, 1)];
    /// All of them.
    pub fn all() -> impl Iterator<Item = OpKind> {
        OpKind::COMMON.into_iter().chain(OpKind::DISPUTE).map(|(kind, _)| kind)
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
    /// It speaks iSCSI; otherwise NVMe/TCP.
    pub iscsi: bool,
    /// I/O queues, or sessions.
    pub queues: u16,
    /// Commands in flight on each.
    pub depth: u16,
    /// Header and data digests.
    pub digests: (bool, bool),
    /// Over NVMe/TCP: the largest write in a capsule, in bytes.
    pub in_capsule_bytes: u32,
    /// Over NVMe/TCP: keep-alive time-out in milliseconds; 0 for none.
    pub kato_ms: u32,
    /// The volume that it uses; `None`: all of them.
    pub volume: Option<usize>,
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
    /// What the operator does meanwhile: when, in nanoseconds from the start of the life, and what.
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
    /// Devices that may be added to the group.
    pub spares: Vec<(u64, SimDeviceOptions)>,
    /// The volumes.
    pub volumes: Vec<VolumePlan>,
    /// The client hosts.
    pub clients: Vec<ClientPlan>,
    /// How often each kind of operation comes.
    pub mix: Vec<(OpKind, u64)>,
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

impl Plan {
    /// Whether the operator acts in it.
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
        if !self.spares.is_empty() {
            writeln!(f, "  spare {}", self.spares.iter().map(mib).collect::<Vec<_>>().join(", "))?;
        }
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
            let speaks = if c.iscsi { "iSCSI" } else { "NVMe/TCP" };
            writeln!(
                f,
                "  client {at}: {speaks}, {} queues of {}, digests {:?}, {} bytes in a capsule, keep-alive {} ms",
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
