//! Reading a page that has two slots.
//!
//! Invariant: a slot that looks hurt is read again before the older version counts: a bit that flips on the way must not bring it back.
//! Never: writes. What corruption on the media itself may do here stands in `docs/on-disk-format.md`.

use base::BLOCK_BYTES;
use base::hooks::{self, Mark};
use format::disk::page::{self, Newest};
use format::disk::{DiskError, FormatTag, PageAddress};
use rt::{Buf, Device, Rt};

/// How often a page is read again.
const AGAIN_MAX: u32 = 3;

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
    for _ in 0..AGAIN_MAX {
        if best.as_ref().is_ok_and(|newest| !newest.doubtful) {
            break;
        }
        hooks::mark(Mark::DoubtfulPage);
        let (result, buf) = rt.read_at(device, offset, Buf::alloc(2 * BLOCK_BYTES)).await;
        if result.is_err() {
            continue;
        }
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
    }
    best
}
