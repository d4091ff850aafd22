//! Superblocks on devices: find out what a device is, write its superblock, update it.
//!
//! Invariants: the newest valid copy counts; an update writes the other copy only, and has it durable before it returns. So
//! whatever a crash leaves, one of the two versions is there.
//! Never: overwrites a device that it was not asked to.

use crate::slots::AGAIN_MAX;
use base::hooks::{self, SeededFault};
use format::disk::DiskError;
use format::disk::foreign;
use format::disk::superblock::{RESERVED_BYTES, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock, looks_like_superblock};
use rt::{Buf, BufVec, Device, DeviceError, Durability, Rt};

/// How much of the end of a device is looked at for signatures of others (and cleared when it is formatted), in bytes.
pub(crate) const TAIL_BYTES: u64 = 256 << 10;

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Zeroes where anything could be known by.
    Empty,
    /// A device of a group.
    Ours(Box<Found>),
    /// Somebody else's.
    Foreign {
        /// What it looks like, with an article.
        what: &'static str,
    },
    /// Formatted by a newer version of this program.
    Newer {
        /// Its major format version.
        major: u16,
    },
    /// It has been one of ours; no copy of the superblock is valid.
    Damaged {
        /// What is wrong with the better one.
        cause: DiskError,
    },
}

/// A superblock as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The newest valid copy.
    pub superblock: Superblock,
    /// Which copy it is.
    pub copy: usize,
    /// Whether the other copy is valid too.
    pub both_valid: bool,
}

/// Looks at a device, without changing it.
pub async fn probe(rt: &Rt, device: &Device) -> Result<Probe, DeviceError> {
    let front_bytes = device.bytes().min(RESERVED_BYTES) as usize;
    let (result, mut front) = rt.read_at(device, 0, Buf::alloc(front_bytes)).await;
    result?;
    let whole = |front: &Buf| matches!(judge(front, &[], device.bytes()), Probe::Ours(found) if found.both_valid);
    let blank = |front: &Buf| base::is_zero(front);
    for _ in 0..AGAIN_MAX {
        if whole(&front) || blank(&front) {
            break;
        }
        let (result, again) = rt.read_at(device, 0, Buf::alloc(front_bytes)).await;
        result?;
        let agrees = again[..] == front[..];
        front = again;
        if agrees {
            break;
        }
    }
    let tail = device.bytes().min(TAIL_BYTES);
    let (result, tail) = rt.read_at(device, device.bytes() - tail, Buf::alloc(tail as usize)).await;
    result?;
    Ok(judge(&front, &tail, device.bytes()))
}

/// What the first and last bytes of a device say.
fn judge(front: &[u8], tail: &[u8], device_bytes: u64) -> Probe {
    let copies = SUPERBLOCK_OFFSETS.map(|at| {
        let bytes = front.get(at as usize..at as usize + SUPERBLOCK_BYTES).unwrap_or_default();
        (looks_like_superblock(bytes), Superblock::parse(bytes))
    });
    match &copies {
        [(_, Err(DiskError::Newer { major })), _] | [_, (_, Err(DiskError::Newer { major }))] => Probe::Newer { major: *major },
        [(_, Ok(a)), (_, Ok(b))] => {
            let (copy, newest) = if b.generation > a.generation { (1, b) } else { (0, a) };
            Probe::Ours(Box::new(Found { superblock: newest.clone(), copy, both_valid: true }))
        }
        [(_, Ok(s)), _] => Probe::Ours(Box::new(Found { superblock: s.clone(), copy: 0, both_valid: false })),
        [_, (_, Ok(s))] => Probe::Ours(Box::new(Found { superblock: s.clone(), copy: 1, both_valid: false })),
        [(true, Err(cause)), _] | [_, (true, Err(cause))] => Probe::Damaged { cause: *cause },
        _ => match foreign::recognise(front, tail, device_bytes) {
            Some(what) => Probe::Foreign { what },
            None if !base::is_zero(front) => Probe::Foreign { what: "data of unknown kind" },
            None => Probe::Empty,
        },
    }
}

async fn write_copy(rt: &Rt, device: &Device, copy: usize, superblock: &Superblock) -> Result<(), DeviceError> {
    let mut buf = Buf::zeroed(SUPERBLOCK_BYTES);
    superblock.build(&mut buf);
    let bufs: BufVec = core::iter::once(buf).collect();
    rt.write_at(device, SUPERBLOCK_OFFSETS[copy], bufs, Durability::Durable).await.0
}

/// Writes both copies of a new superblock, one after the other. `superblock.generation` is that of the second.
pub(crate) async fn write_new(rt: &Rt, device: &Device, superblock: &Superblock) -> Result<(), DeviceError> {
    let first = Superblock { generation: superblock.generation - 1, ..superblock.clone() };
    write_copy(rt, device, 0, &first).await?;
    write_copy(rt, device, 1, superblock).await
}

/// Writes a new version into the copy that is not the newest valid one, durably. `found` is what [`probe`] or the last
/// update gave; it is brought up to date only on success.
pub async fn update(rt: &Rt, device: &Device, found: &mut Found, change: impl FnOnce(&mut Superblock)) -> Result<(), DeviceError> {
    let mut next = found.superblock.clone();
    change(&mut next);
    next.generation = found.superblock.generation + 1;
    let copy = if hooks::seeded(SeededFault::SuperblockOverNewest) { found.copy } else { 1 - found.copy };
    write_copy(rt, device, copy, &next).await?;
    *found = Found { superblock: next, copy, both_valid: true };
    Ok(())
}

/// Makes a device that nobody takes for anything: zeroes at its start and end, durably.
pub(crate) async fn clear(rt: &Rt, device: &Device) -> Result<(), DeviceError> {
    let bufs: BufVec = core::iter::once(Buf::zeroed(RESERVED_BYTES as usize)).collect();
    rt.write_at(device, 0, bufs, Durability::Durable).await.0?;
    let bufs: BufVec = core::iter::once(Buf::zeroed(TAIL_BYTES as usize)).collect();
    rt.write_at(device, device.bytes() - TAIL_BYTES, bufs, Durability::Durable).await.0
}
