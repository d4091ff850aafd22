//! NVMe/TCP namespaces as disks on the network.
//!
//! Never: knows a load.

use super::nvme_address::Address;
use super::remote::{DiskShape, RemoteDisk, RemoteDone, RemoteEngine, RemoteOptions, RemoteQueue, broken};
use crate::error::LabError;
use format::nvme::StatusCode;
use initiator::{Controller, ControllerOptions, Error, Io, IoQueue, Namespace, NamespaceFault};
use std::time::{Duration, Instant};

/// Queues that were closed are gone on the controller's side within this.
const QUEUES_GONE: Duration = Duration::from_secs(5);
/// How often it is asked meanwhile.
const QUEUES_GONE_POLL: Duration = Duration::from_millis(5);

/// A namespace on the network.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Its name in results.
    pub name: String,
    /// How to connect to a controller that has it.
    pub controller: ControllerOptions,
    /// Its ID.
    pub nsid: u32,
}

/// Loads on namespaces.
pub type NvmeTcp = RemoteEngine<NvmeDisk>;

/// A namespace, and a controller that has it.
pub struct NvmeDisk {
    name: String,
    controller: Controller,
    namespace: Namespace,
}

impl NvmeTcp {
    /// Connects to `nvme-tcp://HOST:PORT/NQN?nsid=N` each.
    pub fn connect(disks: &[String], options: RemoteOptions) -> Result<NvmeTcp, LabError> {
        let remote = |text: &String| {
            let address = Address::parse(text)?;
            Ok(Remote { name: text.clone(), controller: address.options()?, nsid: address.nsid })
        };
        Self::connect_to(disks.iter().map(remote).collect::<Result<_, LabError>>()?, options)
    }

    /// Connects to namespaces whose controllers are described in full.
    pub fn connect_to(disks: Vec<Remote>, options: RemoteOptions) -> Result<NvmeTcp, LabError> {
        Ok(Self::of(disks.into_iter().map(connect).collect::<Result<_, _>>()?, options))
    }
}

fn connect(remote: Remote) -> Result<NvmeDisk, LabError> {
    let Remote { name, controller, nsid } = remote;
    let wrong = |e: &Error| broken(NvmeDisk::ENGINE, &name, e);
    let controller = Controller::connect(controller).map_err(|e| wrong(&e))?;
    let namespace = match controller.namespace(nsid) {
        Err(Error::Namespace { why: NamespaceFault::Inactive, .. }) => Err(absent(&name, nsid, &controller)),
        Err(Error::Status { status, .. }) if status.code == StatusCode::INVALID_NAMESPACE_OR_FORMAT => {
            Err(absent(&name, nsid, &controller))
        }
        result => result.map_err(|e| wrong(&e)),
    }?;
    Ok(NvmeDisk { name, controller, namespace })
}

/// What to say of a namespace that is not there: which ones are.
fn absent(name: &str, nsid: u32, controller: &Controller) -> LabError {
    let there: Vec<String> = controller.namespaces().unwrap_or_default().iter().map(u32::to_string).collect();
    let there = if there.is_empty() { "this host sees none there".to_owned() } else { format!("there are: {}", there.join(", ")) };
    LabError::Disk { disk: name.into(), problem: format!("there is no namespace {nsid} in this subsystem; {there}") }
}

fn shape(ns: &Namespace) -> DiskShape {
    DiskShape {
        bytes: ns.bytes(),
        block_bytes: ns.lba_bytes,
        transfer_bytes_max: ns.transfer_bytes_max,
        zeroes_after_trim: ns.zeroes_after_trim,
    }
}

impl NvmeDisk {
    /// How many queues the controller grants. Those of a look at the disk that were just closed may not be gone yet on its side; it refuses meanwhile.
    fn grant(&self, wanted: u16) -> Result<u16, Error> {
        let since = Instant::now();
        loop {
            match self.controller.set_queues(wanted) {
                Err(Error::Status { status, .. }) if status.code == StatusCode::COMMAND_SEQUENCE_ERROR && since.elapsed() < QUEUES_GONE => {
                    std::thread::sleep(QUEUES_GONE_POLL);
                }
                other => return other,
            }
        }
    }
}

impl RemoteDisk for NvmeDisk {
    type Queue = IoQueue;
    const ENGINE: &'static str = "nvme-tcp";

    fn name(&self) -> &str {
        &self.name
    }
    fn shape(&self) -> DiskShape {
        shape(&self.namespace)
    }
    fn open(&self, commands: &[usize]) -> Result<Vec<IoQueue>, LabError> {
        let wrong = |e: &Error| broken(Self::ENGINE, &self.name, e);
        let wanted = commands.len() as u16;
        let granted = self.grant(wanted).map_err(|e| wrong(&e))?;
        if granted < wanted {
            let problem = format!("the controller grants {granted} queues, and {wanted} are needed: use fewer --workers");
            return Err(LabError::Disk { disk: self.name.clone(), problem });
        }
        let open = |(at, commands): (usize, &usize)| {
            let commands = (*commands).min(usize::from(u16::MAX - 1)) as u16;
            self.controller.open_queue(at as u16 + 1, commands, self.namespace).map_err(|e| wrong(&e))
        };
        commands.iter().enumerate().map(open).collect()
    }
}

impl RemoteQueue for IoQueue {
    fn shape(&self) -> DiskShape {
        shape(self.namespace())
    }
    fn room(&self) -> usize {
        IoQueue::room(self)
    }
    fn submit_read(&mut self, tag: u64, offset: u64, buffer: Vec<u8>) -> Result<(), Error> {
        self.submit_read_into(tag, offset, buffer)
    }
    fn submit_write(&mut self, tag: u64, offset: u64, data: Vec<u8>) -> Result<(), Error> {
        self.submit(tag, Io::Write { offset, data, fua: false })
    }
    fn submit_trim(&mut self, tag: u64, offset: u64, len: u64) -> Result<(), Error> {
        self.submit(tag, Io::Deallocate(vec![(offset, len)]))
    }
    fn submit_flush(&mut self, tag: u64) -> Result<(), Error> {
        self.submit(tag, Io::Flush)
    }
    fn poll(&mut self) -> Result<(), Error> {
        IoQueue::poll(self, Duration::ZERO)
    }
    fn pop(&mut self) -> Result<Option<RemoteDone>, Error> {
        let done = IoQueue::pop(self);
        Ok(done.map(|done| {
            let ok = done.status.is_success();
            let result = if ok { Ok(()) } else { Err(format!("status {}", done.status.code)) };
            RemoteDone { tag: done.tag, result, data: done.data }
        }))
    }
    fn wait_any(queues: &[IoQueue], wait: Duration) -> Result<(), Error> {
        IoQueue::wait_any(queues, wait)
    }
    fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, Error> {
        IoQueue::read(self, offset, len)
    }
    fn leave(self) -> Result<(), Error> {
        self.disconnect()
    }
}

#[cfg(test)]
#[path = "nvme_tcp_tests.rs"]
mod tests;
