//! What an NVMe drive says of its health: log page 02h, asked for through the kernel.
//!
//! Invariants: the one command that is sent changes nothing on the drive; memory that the kernel writes lives until it has answered.
//! Never: sends another command.

use format::nvme::log::{Health, LID_HEALTH};
use std::{fs::File, os::fd::AsRawFd, path::Path};

/// Bytes of the log page (base figure 207).
const LOG_BYTES: usize = 512;
/// The admin command Get Log Page (base 5.16).
const GET_LOG_PAGE: u8 = 0x02;
/// The log of the controller, of no namespace by itself.
const NSID_ALL: u32 = u32::MAX;
/// How long the kernel waits for the drive.
const TIMEOUT_MS: u32 = 5000;

/// `struct nvme_passthru_cmd` of linux/nvme_ioctl.h.
#[repr(C)]
#[derive(Default)]
struct AdminCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    addr: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}

const _: () = assert!(size_of::<AdminCommand>() == 72);
const _: () = assert!(std::mem::offset_of!(AdminCommand, addr) == 24);
const _: () = assert!(std::mem::offset_of!(AdminCommand, cdw10) == 40);

/// `NVME_IOCTL_ADMIN_CMD`: `_IOWR('N', 0x41, struct nvme_passthru_cmd)`.
const ADMIN_COMMAND: libc::Ioctl = 0xC048_4E41_u32 as libc::Ioctl;

/// Why the health of a drive is not known.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// There is no such log.
    #[error("it is no NVMe drive: ask it with smartctl")]
    NotNvme,
    /// The device cannot be opened.
    #[error("it cannot be opened: {0}")]
    Open(std::io::Error),
    /// The kernel does not pass the command on.
    #[error("the kernel does not ask it: {0}")]
    Kernel(std::io::Error),
    /// The drive refuses.
    #[error("it refuses, with NVMe status {0:#x}")]
    Refused(i32),
}

/// Asks the NVMe drive with this device node.
pub fn health(node: &Path) -> Result<Health, HealthError> {
    let file = File::open(node).map_err(HealthError::Open)?;
    let mut log = [0_u8; LOG_BYTES];
    let mut command = AdminCommand {
        opcode: GET_LOG_PAGE,
        nsid: NSID_ALL,
        addr: log.as_mut_ptr() as u64,
        data_len: LOG_BYTES as u32,
        cdw10: ((LOG_BYTES as u32 / 4 - 1) << 16) | u32::from(LID_HEALTH),
        timeout_ms: TIMEOUT_MS,
        ..AdminCommand::default()
    };
    // SAFETY: the request takes a `struct nvme_passthru_cmd`, which `command` is by its layout. The kernel writes at most `data_len` bytes to `addr`,
    // which is `log`, and both outlive the call, which returns when the command has ended.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), ADMIN_COMMAND, &raw mut command) };
    match status {
        0 => Health::parse(&log).ok_or(HealthError::Refused(0)),
        status if status > 0 => Err(HealthError::Refused(status)),
        _ => Err(HealthError::Kernel(std::io::Error::last_os_error())),
    }
}
