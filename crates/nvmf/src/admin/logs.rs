//! Get Log Page (base 5.16): which log, which part of it, and what reading it does.
//!
//! Invariant: a log is read from a whole, which is made for this command unless it is discovery's; what is asked for beyond its end is zeroes, beginning beyond its end
//! is refused.
//! Never: holds the logs themselves; `pages` does.

use super::answer::{AT_DWORD_10, AT_DWORD_12, AT_DWORD_14, AT_NSID, Answer, Fail, Outcome, invalid};
use crate::admin_context::AdminCx;
use crate::controller::Controller;
use crate::limits::ADMIN_DATA_MAX;
use crate::pages::{self, Page};
use format::nvme::admin::GetLogPage;
use format::nvme::log::{ErrorLocation, LID_CHANGED_NAMESPACES, LID_EFFECTS};
use format::nvme::{NSID_ALL, Sqe, StatusCode};
use rt::Buf;

pub(super) fn get_log_page(c: &mut Controller, cx: &AdminCx<'_>, sqe: &Sqe) -> Outcome {
    let get = GetLogPage::of(sqe);
    if get.bytes() > ADMIN_DATA_MAX.into() {
        return Err(invalid(AT_DWORD_10 + 2));
    }
    // No log has an index of entries (IOS in the log of supported logs).
    if get.index {
        return Err(invalid(AT_DWORD_14 + 2));
    }
    if u64::from(sqe.sgl.len()) != get.bytes() {
        return Err(StatusCode::DATA_SGL_LENGTH_INVALID.into());
    }
    let page = if c.shared.discovery {
        pages::discovery_log_page(c, get.lid, cx.view, cx.shared)
    } else {
        pages::log_page(c, get.lid, get.lsp, cx).map(Page::new)
    };
    let unknown = Fail { code: StatusCode::INVALID_LOG_PAGE, at: ErrorLocation::at(AT_DWORD_10, 0) };
    let page = page.ok_or(unknown)?;
    // All logs are the controller's or the subsystem's, none is a namespace's.
    if get.nsid != 0 && get.nsid != NSID_ALL {
        return Err(invalid(AT_NSID));
    }
    if get.lid == LID_EFFECTS && get.csi != 0 {
        return Err(invalid(AT_DWORD_14 + 3));
    }
    let from = usize::try_from(get.offset).ok().filter(|at| *at <= page.len() && at.is_multiple_of(4));
    let from = from.ok_or_else(|| invalid(AT_DWORD_12))?;
    let mut out = Buf::zeroed(get.bytes() as usize);
    page.copy(from, &mut out);
    if get.lid == LID_CHANGED_NAMESPACES {
        c.forget_changed();
    }
    if !get.rae {
        c.log_was_read(get.lid);
    }
    Ok(Answer::Data(out))
}
