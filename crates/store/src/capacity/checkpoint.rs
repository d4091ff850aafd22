//! Brings the dirty pages of a chunk table to the devices.
//!
//! Invariant: pages first, flush, then the heads of tables that grew, flush. So a page below the mark that a durable head
//! names always has a valid version.
//! Note: the flush makes everything durable that was written to these devices before, data of destaged blocks too. Pages
//! may become durable before that data: both must be before a log segment is released, in either order.
//! Never: holds the table across an await.

use super::table::{Checkpoint, ChunkTable, PageRef};
use crate::join::join_all;
use base::hooks::{self, SeededFault};
use core::cell::RefCell;
use rt::{Buf, BufVec, Device, DeviceError, Durability, Rt};

/// Pages written at a time.
const WRITES_MAX: usize = 32;

/// What a checkpoint did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointReport {
    /// Pages written.
    pub pages: u64,
}

/// A checkpoint could not be completed. Nothing is lost: its pages are dirty as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("capacity device {device}: {error}")]
pub struct CheckpointError {
    /// Number of the capacity device.
    pub device: u8,
    /// What it said.
    pub error: DeviceError,
}

/// Writes everything that is dirty and flushes **all** capacity devices that have not failed, also those without a dirty
/// page (so that data written to them before is durable too).
pub async fn write_checkpoint(rt: &Rt, table: &RefCell<ChunkTable>, devices: &[Device]) -> Result<CheckpointReport, CheckpointError> {
    let open = table.borrow_mut().begin_checkpoint();
    let Some(checkpoint) = open else {
        flush(rt, table, devices, |_| true).await?;
        return Ok(CheckpointReport::default());
    };
    let result = write_phases(rt, table, devices, &checkpoint).await;
    let pages = (checkpoint.pages.len() + checkpoint.heads.len()) as u64;
    let mut table = table.borrow_mut();
    match result {
        Ok(()) => {
            table.committed(checkpoint);
            Ok(CheckpointReport { pages })
        }
        Err(e) => {
            table.aborted(checkpoint);
            Err(e)
        }
    }
}

async fn write_phases(rt: &Rt, table: &RefCell<ChunkTable>, devices: &[Device], c: &Checkpoint) -> Result<(), CheckpointError> {
    if hooks::seeded(SeededFault::HeadWithPages) {
        write_pages(rt, table, devices, &c.heads).await?;
        write_pages(rt, table, devices, &c.pages).await?;
        return flush(rt, table, devices, |_| true).await;
    }
    write_pages(rt, table, devices, &c.pages).await?;
    flush(rt, table, devices, |_| !hooks::seeded(SeededFault::PagesUnflushed)).await?;
    if !c.heads.is_empty() {
        write_pages(rt, table, devices, &c.heads).await?;
        flush(rt, table, devices, |device| !hooks::seeded(SeededFault::HeadUnflushed) && c.heads.iter().any(|p| p.device == device))
            .await?;
    }
    Ok(())
}

async fn write_pages(rt: &Rt, table: &RefCell<ChunkTable>, devices: &[Device], pages: &[PageRef]) -> Result<(), CheckpointError> {
    for (number, group) in pages.chunks(hooks::tiny(WRITES_MAX, 2)).enumerate() {
        let (mut writes, mut to) = (Vec::with_capacity(group.len()), Vec::with_capacity(group.len()));
        for &p in group {
            let mut t = table.borrow_mut();
            if t.device_failed(p.device) {
                continue;
            }
            let mut buf = Buf::alloc(base::BLOCK_BYTES);
            let offset = t.encode(p, &mut buf);
            let bufs: BufVec = core::iter::once(buf).collect();
            writes.push(rt.write_at(&devices[usize::from(p.device)], offset, bufs, Durability::Volatile));
            to.push(p.device);
        }
        for ((result, _), device) in join_all(writes).await.into_iter().zip(to) {
            if number == 0 || !hooks::seeded(SeededFault::LaterPagesUnchecked) {
                result.map_err(|error| CheckpointError { device, error })?;
            }
        }
    }
    Ok(())
}

async fn flush(rt: &Rt, table: &RefCell<ChunkTable>, devices: &[Device], wanted: impl Fn(u8) -> bool) -> Result<(), CheckpointError> {
    let which: Vec<u8> = (0..devices.len() as u8).filter(|d| wanted(*d) && !table.borrow().device_failed(*d)).collect();
    let flushes = which.into_iter().map(|device| async move {
        let result = rt
            .flush_dev(&devices[usize::from(device)])
            .await
            .or_else(|e| if hooks::seeded(SeededFault::FailedFlushIgnored) { Ok(()) } else { Err(e) });
        result.map_err(|error| CheckpointError { device, error })
    });
    join_all(flushes.map(Box::pin)).await.into_iter().collect()
}
