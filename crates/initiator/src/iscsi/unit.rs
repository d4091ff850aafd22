//! A logical unit: a block device of a target, over a session of its own.
//!
//! Invariants: a unit attention is taken note of, and its command sent again; a read that ends short is an error.
//! Never: splits a command.

use super::connection::Connection;
use super::error::ScsiFailure;
use super::login::LoginOptions;
use super::session::{COMMANDS_MAX, Command as Task, Completed, Payload};
use crate::error::{Error, UnitFault};
use format::scsi::capacity::{Capacity, LbaRange, build_unmap};
use format::scsi::inquiry::{DEVICE_BLOCK, Inquiry, QUALIFIER_CONNECTED};
use format::scsi::vpd::{BlockLimits, PAGE_LIMITS, PAGE_PROVISIONING, Provisioning};
use format::scsi::{BlockRange, CacheRange, Cdb, Command};
use std::net::SocketAddr;
use std::time::Duration;

/// Makes all that was written durable.
const ALL_OF_THE_CACHE: Command = Command::SynchronizeCache(CacheRange { lba: 0, blocks: 0, immediate: false });

/// Bound on a connection and its login.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Bound on a command of the blocking calls.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// Unit attentions in a row that are passed over.
const ATTENTIONS_MAX: u32 = 16;
/// Bytes of a command where the target names no limit.
const TRANSFER_BYTES: u32 = 256 << 10;
/// Bytes of a command at most.
const TRANSFER_BYTES_MAX: u32 = 1 << 20;
/// The tag of blocking calls.
const CALL: u64 = u64::MAX;

/// Where a unit is, and who asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitOptions {
    /// A portal of the target.
    pub addr: SocketAddr,
    /// Who logs in, and to what.
    pub login: LoginOptions,
    /// The logical unit number.
    pub lun: u64,
}

/// A unit as I/O needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitInfo {
    /// Bytes of a logical block.
    pub lba_bytes: u32,
    /// Logical blocks.
    pub blocks: u64,
    /// Most bytes of one command.
    pub transfer_bytes_max: u32,
    /// UNMAP is served.
    pub unmaps: bool,
    /// What is unmapped reads as zeroes.
    pub zeroes_after_unmap: bool,
}

impl UnitInfo {
    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks * u64::from(self.lba_bytes)
    }
}

/// A command that has ended.
#[derive(Debug)]
pub struct UnitDone {
    /// From the submission.
    pub tag: u64,
    /// How it went.
    pub result: Result<(), ScsiFailure>,
    /// The data that was read or written.
    pub data: Vec<u8>,
}

/// See the module.
pub struct Unit {
    connection: Connection,
    lun: u64,
    info: UnitInfo,
}

impl Unit {
    /// Logs in and asks the unit what it is. `commands`: how many may be under way.
    pub fn open(options: &UnitOptions, commands: usize) -> Result<Unit, Error> {
        let connection = Connection::open(options.addr, options.login.clone(), commands.min(COMMANDS_MAX), OPEN_TIMEOUT)?;
        let none = UnitInfo { lba_bytes: 0, blocks: 0, transfer_bytes_max: 0, unmaps: false, zeroes_after_unmap: false };
        let mut unit = Unit { connection, lun: options.lun, info: none };
        unit.look()?;
        Ok(unit)
    }

    fn look(&mut self) -> Result<(), Error> {
        let wrong = |why| Error::Unit { lun: self.lun, why };
        let (absent, odd) = (wrong(UnitFault::Absent), wrong(UnitFault::BlockSize));
        let standard = self.ask("INQUIRY", Command::Inquiry { page: None, allocation: 96 }, 96)?;
        let there = Inquiry::parse(&standard).is_some_and(|i| i.qualifier == QUALIFIER_CONNECTED && i.device_type == DEVICE_BLOCK);
        if !there {
            return Err(absent);
        }
        self.ask("TEST UNIT READY", Command::TestUnitReady, 0)?;
        let capacity = self.ask("READ CAPACITY (16)", Command::ReadCapacity16 { allocation: 32 }, 32)?;
        let Some(capacity) = Capacity::parse(&capacity).filter(|c| c.block_bytes.is_power_of_two() && c.block_bytes >= 512) else {
            return Err(odd);
        };
        let mut page = |page| {
            let asked = self.ask("INQUIRY", Command::Inquiry { page: Some(page), allocation: 255 }, 255);
            match asked {
                // A page that is not there says that it is not there.
                Err(Error::Scsi { .. }) => Ok(Vec::new()),
                other => other,
            }
        };
        let limits = BlockLimits::parse(&page(PAGE_LIMITS)?).unwrap_or_default();
        let provisioning = Provisioning::parse(&page(PAGE_PROVISIONING)?).unwrap_or_default();
        let most = limits.transfer_max.saturating_mul(capacity.block_bytes);
        self.info = UnitInfo {
            lba_bytes: capacity.block_bytes,
            blocks: capacity.last_lba + 1,
            transfer_bytes_max: if most == 0 { TRANSFER_BYTES } else { most.min(TRANSFER_BYTES_MAX) },
            unmaps: provisioning.unmap,
            zeroes_after_unmap: capacity.reads_zeroes,
        };
        Ok(())
    }

    /// What it is.
    pub fn info(&self) -> &UnitInfo {
        &self.info
    }
    /// Commands in flight.
    pub fn in_flight(&self) -> usize {
        self.connection.session().in_flight()
    }
    /// How many more commands may be sent now.
    pub fn room(&self) -> usize {
        self.connection.session().room()
    }
    /// Sends and receives; when nothing moves, waits up to `wait`.
    pub fn poll(&mut self, wait: Duration) -> Result<(), Error> {
        if wait.is_zero() { self.connection.drive() } else { self.connection.wait(wait) }.map(drop)
    }
    /// Waits up to `wait` until one of several units can send or receive.
    pub fn wait_any(units: &[Unit], wait: Duration) -> Result<(), Error> {
        Connection::wait_any(units.iter().map(|u| &u.connection), wait)
    }

    fn range(&self, offset: u64, bytes: usize) -> BlockRange {
        let block = u64::from(self.info.lba_bytes);
        BlockRange { lba: offset / block, blocks: (bytes as u64 / block) as u32, fua: false, dpo: false }
    }
    fn task(&self, tag: u64, cdb: Cdb, payload: Payload) -> Task {
        Task { tag, lun: self.lun, cdb, payload }
    }

    /// Queues a read at a byte that fills `buffer`, which comes back with its end. It goes out with the next [`Self::poll`].
    pub fn submit_read(&mut self, tag: u64, offset: u64, buffer: Vec<u8>) -> Result<(), Error> {
        let cdb = Command::Read(self.range(offset, buffer.len())).to_cdb();
        self.connection.submit(self.task(tag, cdb, Payload::In(buffer)))
    }
    /// Queues a write at a byte.
    pub fn submit_write(&mut self, tag: u64, offset: u64, data: Vec<u8>) -> Result<(), Error> {
        let cdb = Command::Write(self.range(offset, data.len())).to_cdb();
        self.connection.submit(self.task(tag, cdb, Payload::Out(data)))
    }
    /// Queues an UNMAP of `len` bytes from `offset` on.
    pub fn submit_unmap(&mut self, tag: u64, offset: u64, len: u64) -> Result<(), Error> {
        let block = u64::from(self.info.lba_bytes);
        let list = build_unmap(&[LbaRange { lba: offset / block, blocks: (len / block) as u32 }]);
        let cdb = Command::Unmap { list_length: list.len() as u16 }.to_cdb();
        self.connection.submit(self.task(tag, cdb, Payload::Out(list)))
    }
    /// Queues a SYNCHRONIZE CACHE of all that was written.
    pub fn submit_flush(&mut self, tag: u64) -> Result<(), Error> {
        self.connection.submit(self.task(tag, ALL_OF_THE_CACHE.to_cdb(), Payload::None))
    }
    /// The next command that has ended. One that met a unit attention is sent again.
    pub fn pop(&mut self) -> Result<Option<UnitDone>, Error> {
        while let Some(done) = self.connection.pop() {
            if done.result.is_err_and(|f| f.is_unit_attention()) {
                self.connection.submit(done.command)?;
                continue;
            }
            let full = !matches!(&done.command.payload, Payload::In(b) if b.len() != done.bytes);
            let result = done.result.and(if full { Ok(()) } else { Err(ScsiFailure::SHORT) });
            return Ok(Some(UnitDone { tag: done.command.tag, result, data: done.command.payload.into_bytes() }));
        }
        Ok(None)
    }

    fn execute(&mut self, what: &'static str, cdb: Cdb, payload: Payload) -> Result<Completed, Error> {
        let mut task = self.task(CALL, cdb, payload);
        for _ in 0..ATTENTIONS_MAX {
            let done = self.connection.call(task, COMMAND_TIMEOUT, what)?;
            match done.result {
                Ok(()) => return Ok(done),
                Err(f) if f.is_unit_attention() => task = done.command,
                Err(failure) => return Err(Error::Scsi { what, failure }),
            }
        }
        Err(Error::Unit { lun: self.lun, why: UnitFault::Attentions })
    }
    /// A command that returns up to `room` bytes.
    fn ask(&mut self, what: &'static str, command: Command, room: usize) -> Result<Vec<u8>, Error> {
        let payload = if room == 0 { Payload::None } else { Payload::In(vec![0; room]) };
        let done = self.execute(what, command.to_cdb(), payload)?;
        let mut data = done.command.payload.into_bytes();
        data.truncate(done.bytes);
        Ok(data)
    }

    /// Reads.
    pub fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, Error> {
        let command = Command::Read(self.range(offset, len as usize));
        let data = self.ask("READ", command, len as usize)?;
        if data.len() == len as usize { Ok(data) } else { Err(Error::Scsi { what: "READ", failure: ScsiFailure::SHORT }) }
    }
    /// Writes.
    pub fn write(&mut self, offset: u64, data: Vec<u8>) -> Result<(), Error> {
        let cdb = Command::Write(self.range(offset, data.len())).to_cdb();
        self.execute("WRITE", cdb, Payload::Out(data)).map(drop)
    }
    /// Makes all that was written durable.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.ask("SYNCHRONIZE CACHE", ALL_OF_THE_CACHE, 0).map(drop)
    }
    /// Does any command, with unit attentions passed over; the data that came, or was sent.
    pub fn command(&mut self, what: &'static str, cdb: Cdb, payload: Payload) -> Result<Vec<u8>, Error> {
        self.execute(what, cdb, payload).map(|done| done.command.payload.into_bytes())
    }
    /// Logs out.
    pub fn close(self) -> Result<(), Error> {
        self.connection.log_out()
    }
}
