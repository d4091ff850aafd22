//! The fake target's disk: bytes in memory, and a fault to order.

use format::nvme::io::{BlockRange, DatasetManagement, DsmRange};
use format::nvme::{IoOpcode, Sqe, StatusCode};

/// A seeded fault. Each applies to one command in `Disk::every`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// A write is acknowledged and dropped.
    LostWrite,
    /// A write is acknowledged, only its first half of sectors lands.
    TornWrite,
    /// A write lands one unit further on.
    Misplaced,
    /// A read gives what the place held before the last write to it.
    StaleRead,
    /// A byte of a read is flipped.
    Corrupt,
    /// A Write Zeroes is acknowledged and dropped.
    LostZero,
    /// A write is undone when the target is killed, though acknowledged.
    LostAtKill,
}

pub struct Disk {
    pub lba_bytes: u32,
    pub blocks: u64,
    bytes: Vec<u8>,
    before: Vec<u8>,
    pub fault: Fault,
    pub every: u64,
    count: u64,
    pub seeded: u64,
    pub alive: bool,
    pub life: u64,
    undo: Option<(usize, Vec<u8>)>,
}

impl Disk {
    pub fn new(lba_bytes: u32, blocks: u64) -> Self {
        let len = (blocks * u64::from(lba_bytes)) as usize;
        Self {
            lba_bytes,
            blocks,
            bytes: vec![0; len],
            before: vec![0; len],
            fault: Fault::None,
            every: 10,
            count: 0,
            seeded: 0,
            alive: true,
            life: 0,
            undo: None,
        }
    }

    fn strikes(&mut self, fault: Fault) -> bool {
        if self.fault != fault {
            return false;
        }
        self.count += 1;
        let hit = self.count.is_multiple_of(self.every);
        self.seeded += u64::from(hit);
        hit
    }

    fn put(&mut self, at: usize, data: &[u8]) {
        self.before[at..at + data.len()].copy_from_slice(&self.bytes[at..at + data.len()]);
        self.bytes[at..at + data.len()].copy_from_slice(data);
    }

    /// Undoes the last write of [`Fault::LostAtKill`].
    pub fn undo(&mut self) -> bool {
        let Some((at, old)) = self.undo.take() else { return false };
        self.seeded += 1;
        self.bytes[at..at + old.len()].copy_from_slice(&old);
        true
    }

    pub fn execute(&mut self, sqe: &Sqe, data: &[u8]) -> Result<Vec<u8>, StatusCode> {
        let lba = self.lba_bytes as usize;
        let range = BlockRange::of(sqe);
        let (at, len) = (range.slba as usize * lba, range.blocks() as usize * lba);
        let op = IoOpcode::parse(sqe.opcode).ok_or(StatusCode::INVALID_OPCODE)?;
        let ranged = !matches!(op, IoOpcode::Flush | IoOpcode::DatasetManagement);
        if ranged && at + len > self.bytes.len() {
            return Err(StatusCode::LBA_OUT_OF_RANGE);
        }
        match op {
            IoOpcode::Read => {
                let mut out = self.bytes[at..at + len].to_vec();
                if self.strikes(Fault::StaleRead) {
                    out.copy_from_slice(&self.before[at..at + len]);
                }
                if self.strikes(Fault::Corrupt) {
                    out[len / 2] ^= 4;
                }
                Ok(out)
            }
            IoOpcode::Write => {
                self.write(at, data);
                Ok(Vec::new())
            }
            IoOpcode::Compare if data != &self.bytes[at..at + len] => Err(StatusCode::COMPARE_FAILURE),
            IoOpcode::WriteZeroes => {
                if !self.strikes(Fault::LostZero) {
                    self.put(at, &vec![0; len]);
                }
                Ok(Vec::new())
            }
            IoOpcode::DatasetManagement => {
                assert_eq!(data.len(), DatasetManagement::of(sqe).ranges() * DsmRange::LEN);
                for r in data.chunks_exact(DsmRange::LEN).filter_map(DsmRange::parse) {
                    self.put(r.slba as usize * lba, &vec![0; r.blocks as usize * lba]);
                }
                Ok(Vec::new())
            }
            _ => Ok(Vec::new()),
        }
    }

    fn write(&mut self, at: usize, data: &[u8]) {
        if self.strikes(Fault::LostWrite) {
        } else if self.strikes(Fault::TornWrite) {
            // The last unit only half: 512-byte sectors, as a device would.
            self.put(at, &data[..data.len() - 2048]);
        } else if self.strikes(Fault::Misplaced) && at + 4096 + data.len() <= self.bytes.len() {
            self.put(at + 4096, data);
        } else {
            if self.fault == Fault::LostAtKill {
                self.undo = Some((at, self.bytes[at..at + data.len()].to_vec()));
            }
            self.put(at, data);
        }
    }
}
