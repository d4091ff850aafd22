//! Get and Set Features (base 5.15 and 5.27).
//!
//! Invariant: the table [`FEATURES`] says what is supported, and the log of supported features says the same.
//! Never: keeps a feature over a controller's end, but the write protection and reservation persistence of a namespace, which the control plane
//! keeps.

use super::answer::{AT_DWORD_10, AT_DWORD_11, AT_NSID, Answer, Fail, OK, Outcome, existing, invalid, named};
use crate::admin_context::AdminCx;
use crate::controller::{Controller, Thresholds};
use crate::feature_table::{FEATURES, Feature};
use crate::pages;
use crate::view::Namespace;
use base::WriteProtect;
use format::nvme::admin::{GetFeatures, SetFeatures};
use format::nvme::feature::{self as fid, Select};
use format::nvme::{NSID_ALL, Sqe, Status, StatusCode};
use frontend::ControlVerb;
use rt::Buf;

fn supported(c: &Controller, fid: u8) -> Result<&'static Feature, Fail> {
    let found = FEATURES.iter().find(|f| f.fid == fid && (f.discovery || !c.shared.discovery));
    found.ok_or_else(|| invalid(AT_DWORD_10))
}

/// Events that a controller can be asked for.
fn events_offered(c: &Controller) -> u32 {
    if c.shared.discovery { fid::AEC_DISCOVERY } else { fid::AEC_HEALTH | fid::AEC_NAMESPACE | fid::AEC_ANA }
}

pub(super) fn get(c: &Controller, cx: &AdminCx<'_>, sqe: &Sqe) -> Outcome {
    let get = GetFeatures::of(sqe);
    let feature = supported(c, get.fid)?;
    let select = get.select.ok_or_else(|| invalid(AT_DWORD_10 + 1))?;
    // All namespaces at once have no one value of these (base 5.27.1.26 and 5.27.1.27).
    if is_of_reservations(get.fid) && get.nsid == NSID_ALL {
        return Err(invalid(AT_NSID));
    }
    let namespace = match feature.of_namespace {
        true => Some(existing(&cx.attached(c), get.nsid)?),
        false => None,
    };
    if select == Select::Supported {
        let value = u64::from(feature.changeable) << 2 | u64::from(feature.of_namespace) << 1;
        return Ok(Answer::Status(Status::SUCCESS, value));
    }
    // Nothing is saved, so what is saved is the default (base 4.4).
    let current = select == Select::Current;
    let value = match get.fid {
        fid::FID_TEMPERATURE => temperature(if current { c.thresholds() } else { Thresholds::default() }, get.cdw11)?,
        fid::FID_QUEUES => {
            let n = if current { c.queues_granted() } else { c.queues_max() } - 1;
            fid::queues(n, n)
        }
        fid::FID_ASYNC_EVENTS if current => c.aec(),
        fid::FID_KEEP_ALIVE if current => c.kato_ms(),
        fid::FID_HOST_BEHAVIOUR => return host_behaviour(current && c.shared.knows_retry_delays(), sqe),
        fid::FID_HOST_ID => {
            // Over fabrics only the 128-bit form exists (EXHID).
            if get.cdw11 & 1 == 0 {
                return Err(invalid(AT_DWORD_11));
            }
            if sqe.sgl.len() != 16 {
                return Err(StatusCode::DATA_SGL_LENGTH_INVALID.into());
            }
            return Ok(Answer::Data(Buf::copy_of(&c.shared.host_id)));
        }
        fid::FID_RESERVATION_MASK if current => namespace.map_or(0, |n| c.notices().mask(n.nsid)),
        fid::FID_RESERVATION_PERSISTENCE if current => namespace.is_some_and(|n| persists(cx, &n)).into(),
        fid::FID_WRITE_PROTECT if current => pages::write_protect_state(namespace.map_or(WriteProtect::None, |n| n.write_protect)),
        _ => 0,
    };
    Ok(Answer::Status(Status::SUCCESS, value.into()))
}

const fn is_of_reservations(fid: u8) -> bool {
    matches!(fid, fid::FID_RESERVATION_MASK | fid::FID_RESERVATION_PERSISTENCE)
}

/// Whether the reservation of a namespace persists through power loss.
fn persists(cx: &AdminCx<'_>, ns: &Namespace) -> bool {
    cx.view.volume(ns.volume).and_then(|v| v.reservation.as_ref()).is_some_and(|r| r.ptpl())
}

/// The namespaces that a Set Features command of a reservation feature means.
fn reservable(c: &Controller, cx: &AdminCx<'_>, nsid: u32) -> Result<Vec<Namespace>, Fail> {
    let all = cx.attached(c);
    if nsid == NSID_ALL { Ok(all) } else { existing(&all, nsid).map(|ns| vec![ns]) }
}

fn temperature(thresholds: Thresholds, cdw11: u32) -> Result<u32, Fail> {
    // TMPSEL: only the composite temperature is there.
    if cdw11 >> 16 & 0xF != 0 {
        return Err(invalid(AT_DWORD_11 + 2));
    }
    match cdw11 >> 20 & 3 {
        0 => Ok(thresholds.over.into()),
        1 => Ok(thresholds.under.into()),
        _ => Err(invalid(AT_DWORD_11 + 2)),
    }
}

fn host_behaviour(advanced_retry: bool, sqe: &Sqe) -> Outcome {
    if sqe.sgl.len() as usize != fid::HOST_BEHAVIOUR_BYTES {
        return Err(StatusCode::DATA_SGL_LENGTH_INVALID.into());
    }
    let mut out = Buf::zeroed(fid::HOST_BEHAVIOUR_BYTES);
    out[0] = advanced_retry.into();
    Ok(Answer::Data(out))
}

pub(super) fn set(c: &mut Controller, cx: &AdminCx<'_>, sqe: &Sqe, data: &[u8]) -> Outcome {
    let set = SetFeatures::of(sqe);
    let feature = supported(c, set.fid)?;
    if set.save {
        return Err(Fail { code: StatusCode::FEATURE_NOT_SAVEABLE, ..invalid(AT_DWORD_10 + 3) });
    }
    if !feature.of_namespace && set.nsid != 0 && set.nsid != NSID_ALL {
        return Err(Fail { code: StatusCode::FEATURE_NOT_NAMESPACE_SPECIFIC, ..invalid(AT_NSID) });
    }
    match set.fid {
        fid::FID_ASYNC_EVENTS => {
            if set.cdw11 & !events_offered(c) != 0 {
                return Err(invalid(AT_DWORD_11));
            }
            c.set_aec(set.cdw11);
        }
        fid::FID_KEEP_ALIVE => {
            if !c.set_kato(set.cdw11, cx.now) {
                return Err(StatusCode::KEEP_ALIVE_INVALID.into());
            }
        }
        fid::FID_TEMPERATURE => set_temperature(c, set.cdw11)?,
        fid::FID_QUEUES => {
            let (sq, cq) = (set.cdw11 as u16, (set.cdw11 >> 16) as u16);
            if sq == 0xFFFF || cq == 0xFFFF {
                return Err(invalid(AT_DWORD_11));
            }
            let limits = cx.view.limits_of(&c.shared.host_nqn, cx.shared.options());
            let granted = c.grant_queues(sq.min(cq) + 1, limits, cx.now)? - 1;
            return Ok(Answer::Status(Status::SUCCESS, fid::queues(granted, granted).into()));
        }
        fid::FID_HOST_BEHAVIOUR => {
            if data.len() != fid::HOST_BEHAVIOUR_BYTES {
                return Err(StatusCode::DATA_SGL_LENGTH_INVALID.into());
            }
            // ACRE; the rest is for what is not there.
            if data[0] > 1 || data[1..].iter().any(|b| *b != 0) {
                return Err(StatusCode::INVALID_FIELD.into());
            }
            c.shared.set_retry_delays(data[0] == 1);
        }
        // It was reported when the controller was connected (base 5.27.1.25).
        fid::FID_HOST_ID => return Err(StatusCode::COMMAND_SEQUENCE_ERROR.into()),
        fid::FID_RESERVATION_MASK => {
            for ns in reservable(c, cx, set.nsid)? {
                c.notices_mut().set_mask(ns.nsid, set.cdw11);
            }
        }
        fid::FID_RESERVATION_PERSISTENCE => {
            let volumes = reservable(c, cx, set.nsid)?.iter().map(|ns| ns.id).collect();
            return Ok(Answer::ControlRequest(ControlVerb::Persist { volumes, ptpl: set.cdw11 & 1 != 0 }));
        }
        fid::FID_WRITE_PROTECT => return set_write_protect(c, cx, &set),
        _ => return Err(Fail { code: StatusCode::FEATURE_NOT_CHANGEABLE, ..invalid(AT_DWORD_10) }),
    }
    Ok(OK)
}

fn set_temperature(c: &mut Controller, cdw11: u32) -> Result<(), Fail> {
    // TMPSEL: the composite temperature, or all that there are.
    if !matches!(cdw11 >> 16 & 0xF, 0 | 0xF) {
        return Err(invalid(AT_DWORD_11 + 2));
    }
    let at = cdw11 as u16;
    let thresholds = match cdw11 >> 20 & 3 {
        0 => Thresholds { over: at, ..c.thresholds() },
        1 => Thresholds { under: at, ..c.thresholds() },
        _ => return Err(invalid(AT_DWORD_11 + 2)),
    };
    c.set_thresholds(thresholds);
    Ok(())
}

/// Namespace Write Protection Config: the control plane keeps it with the volume (base 8.12). A power cycle is a start of the daemon. What
/// cannot be undone is for hosts that may manage namespaces (NWPC says so).
fn set_write_protect(c: &Controller, cx: &AdminCx<'_>, set: &SetFeatures) -> Outcome {
    let ns = named(&cx.attached(c), set.nsid)?.ok_or_else(|| invalid(AT_NSID))?;
    let state = match set.cdw11 & 7 {
        0 => WriteProtect::None,
        1 => WriteProtect::Protected,
        2 => WriteProtect::UntilRestart,
        3 if cx.may_manage(c) => WriteProtect::Permanent,
        _ => return Err(invalid(AT_DWORD_11)),
    };
    if ns.write_protect == state {
        return Ok(OK);
    }
    Ok(Answer::ControlRequest(ControlVerb::WriteProtect { volume: ns.id, state }))
}
