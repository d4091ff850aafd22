//! Logical units over iSCSI as disks on the network.
//!
//! Never: knows a load.

use super::iscsi_address::Address;
use super::remote::{DiskShape, RemoteDisk, RemoteDone, RemoteEngine, RemoteOptions, RemoteQueue, broken};
use crate::error::LabError;
use initiator::Error;
use initiator::iscsi::unit::UnitOptions;
use initiator::iscsi::{Unit, UnitInfo};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// Loads on logical units.
pub type Iscsi = RemoteEngine<IscsiDisk>;

/// Sessions that this process has opened. Each has an ISID of its own, also those to other units of a target: a session with the ISID of another
/// one would end that.
static SESSIONS: AtomicU16 = AtomicU16::new(0);

/// A logical unit, and where it is.
pub struct IscsiDisk {
    name: String,
    unit: UnitOptions,
    info: UnitInfo,
}

impl Iscsi {
    /// Connects to `iscsi://HOST:PORT/IQN/LUN` each.
    pub fn connect(disks: &[String], options: RemoteOptions) -> Result<Iscsi, LabError> {
        let disk = |text: &String| IscsiDisk::connect(text.clone(), Address::parse(text)?.options()?);
        Ok(Self::of(disks.iter().map(disk).collect::<Result<_, LabError>>()?, options))
    }
}

impl IscsiDisk {
    /// Asks a unit what it is.
    pub fn connect(name: String, unit: UnitOptions) -> Result<IscsiDisk, LabError> {
        let looked = Unit::open(&unit, 1).and_then(|u| {
            let info = *u.info();
            u.close().map(|()| info)
        });
        let info = looked.map_err(|e| broken(Self::ENGINE, &name, &e))?;
        Ok(IscsiDisk { name, unit, info })
    }
}

fn shape(info: &UnitInfo) -> DiskShape {
    DiskShape {
        bytes: info.bytes(),
        block_bytes: info.lba_bytes,
        transfer_bytes_max: info.transfer_bytes_max,
        zeroes_after_trim: info.zeroes_after_unmap,
    }
}

impl RemoteDisk for IscsiDisk {
    type Queue = Unit;
    const ENGINE: &'static str = "iscsi";

    fn name(&self) -> &str {
        &self.name
    }
    fn shape(&self) -> DiskShape {
        shape(&self.info)
    }
    fn open(&self, commands: &[usize]) -> Result<Vec<Unit>, LabError> {
        let open = |commands: &usize| {
            let mut unit = self.unit.clone();
            // The last two bytes are the host's to choose (RFC 7143 11.12.5).
            let number = SESSIONS.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            unit.login.isid[4..].copy_from_slice(&number.to_be_bytes());
            Unit::open(&unit, *commands).map_err(|e| broken(Self::ENGINE, &self.name, &e))
        };
        commands.iter().map(open).collect()
    }
}

impl RemoteQueue for Unit {
    fn shape(&self) -> DiskShape {
        shape(self.info())
    }
    fn room(&self) -> usize {
        Unit::room(self)
    }
    fn submit_read(&mut self, tag: u64, offset: u64, buffer: Vec<u8>) -> Result<(), Error> {
        Unit::submit_read(self, tag, offset, buffer)
    }
    fn submit_write(&mut self, tag: u64, offset: u64, data: Vec<u8>) -> Result<(), Error> {
        Unit::submit_write(self, tag, offset, data)
    }
    fn submit_trim(&mut self, tag: u64, offset: u64, len: u64) -> Result<(), Error> {
        self.submit_unmap(tag, offset, len)
    }
    fn submit_flush(&mut self, tag: u64) -> Result<(), Error> {
        Unit::submit_flush(self, tag)
    }
    fn poll(&mut self) -> Result<(), Error> {
        Unit::poll(self, Duration::ZERO)
    }
    fn pop(&mut self) -> Result<Option<RemoteDone>, Error> {
        let done = Unit::pop(self)?;
        Ok(done.map(|done| RemoteDone { tag: done.tag, result: done.result.map_err(|f| f.to_string()), data: done.data }))
    }
    fn wait_any(queues: &[Unit], wait: Duration) -> Result<(), Error> {
        Unit::wait_any(queues, wait)
    }
    fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, Error> {
        Unit::read(self, offset, len)
    }
    fn leave(self) -> Result<(), Error> {
        self.close()
    }
}
