//! Reading what has two slots: pages and superblocks.
//!
//! Invariant: a slot that looks damaged is read again before the older version counts, until two readings agree: a bit that flips on the way
//! must not bring an old version back, and what is damaged on the media reads the same each time.
//! Never: writes. What corruption on the media itself may do here stands in `docs/on-disk-format.md`.

use base::BLOCK_BYTES;
use base::hooks::{self, CoverageMark};
use format::disk::page::{self, Newest};
use format::disk::{DiskError, FormatTag, PageAddress};
use rt::{Buf, Device, Rt};

/// How often something is read again at most. Beyond that the device does not say the same twice, and what looked best counts.
pub(crate) const AGAIN_MAX: u32 = 16;

/// The newest version of a page, of which `slots` was read at `offset` of the device; what is read again replaces it there.
pub(crate) async fn newest(
    rt: &Rt,
    device: &Device,
    offset: u64,
    slots: &mut [u8],
    tag: FormatTag,
    address: PageAddress,
) -> Result<Newest, DiskError> {
    let mut best = page::newest(slots, tag, address);
    let mut last: Option<Buf> = None;
    for _ in 0..AGAIN_MAX {
        if best.as_ref().is_ok_and(|newest| !newest.doubtful) {
            break;
        }
        hooks::reached(CoverageMark::DoubtfulPage);
        let (result, buf) = rt.read_at(device, offset, Buf::alloc(2 * BLOCK_BYTES)).await;
        if result.is_err() {
            continue;
        }
        let agrees = buf[..] == *last.as_deref().unwrap_or(slots);
        let again = page::newest(&buf, tag, address);
        let better = match (&best, &again) {
            (Err(_), Ok(_)) => true,
            (Ok(best), Ok(again)) => again.generation > best.generation || again.generation == best.generation && !again.doubtful,
            _ => false,
        };
        if better {
            best = again;
            slots.copy_from_slice(&buf);
        }
        if agrees {
            break;
        }
        last = Some(buf);
    }
    best
}
