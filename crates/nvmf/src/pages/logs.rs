//! The log pages of controllers (base 5.16.1).
//!
//! Invariant: what is stated is true of this target; a log that the log of supported logs names is there, and no other.

use super::identify::firmware;
use crate::admin_context::AdminCx;
use crate::controller::{Controller, TEMPERATURE_K};
use crate::discovery::discovery_log;
use crate::feature_table::FEATURES;
use crate::limits::{ANA_GROUPS_MAX, NAMESPACES_MAX};
use crate::published_logs::Entries;
use crate::shared::TargetShared;
use crate::view::View;
use base::Duration;
use format::nvme::log::{
    AnaGroup, AnaHeader, CHANGED_NAMESPACES_BYTES, EFFECTS_BYTES, Effects, FEATURES_BYTES, FirmwareSlots, Health, LID_ANA,
    LID_CHANGED_NAMESPACES, LID_DISCOVERY, LID_EFFECTS, LID_ERROR, LID_FEATURES, LID_FIRMWARE, LID_HEALTH, LID_MI, LID_RESERVATION,
    LID_SUPPORTED, MI_BYTES, SUPPORTED_LOG_BYTES, write_effects,
};
use format::nvme::text::padded;
use format::nvme::{AdminOpcode, Field, IoOpcode, NSID_ALL};
use std::sync::Arc;

/// The logs of an I/O controller.
const LOGS: &[u8] = &[
    LID_SUPPORTED,
    LID_ERROR,
    LID_HEALTH,
    LID_FIRMWARE,
    LID_CHANGED_NAMESPACES,
    LID_EFFECTS,
    LID_ANA,
    LID_FEATURES,
    LID_MI,
    LID_RESERVATION,
];
/// The logs of a discovery controller.
const DISCOVERY_LOGS: &[u8] = &[LID_SUPPORTED, LID_DISCOVERY];

/// Bytes of a data unit of the health log.
const DATA_UNIT_BYTES: u64 = 512 * 1000;

/// A log page: bytes of its own, then the entries of discovery, which others get too.
pub struct Page {
    own: Vec<u8>,
    entries: Option<Arc<Entries>>,
}

impl Page {
    /// Of these bytes.
    pub fn new(own: Vec<u8>) -> Self {
        Self { own, entries: None }
    }
    /// How many bytes it has.
    #[allow(clippy::len_without_is_empty)] // None is.
    pub fn len(&self) -> usize {
        self.own.len() + self.shared().len()
    }
    /// Copies what there is from byte `from` on.
    pub fn copy(&self, from: usize, out: &mut [u8]) {
        let own = &self.own[from.min(self.own.len())..];
        let shared = &self.shared()[from.saturating_sub(self.own.len()).min(self.shared().len())..];
        let (first, second) = out.split_at_mut(own.len().min(out.len()));
        first.copy_from_slice(&own[..first.len()]);
        let n = second.len().min(shared.len());
        second[..n].copy_from_slice(&shared[..n]);
    }
    fn shared(&self) -> &[u8] {
        self.entries.as_ref().map_or(&[], |e| &e.bytes)
    }
}

/// A log page of a discovery controller.
pub fn discovery_log_page(c: &Controller, lid: u8, view: &View, shared: &TargetShared) -> Option<Page> {
    match lid {
        LID_SUPPORTED => Some(Page::new(supported_logs(true))),
        LID_DISCOVERY => {
            let (own, entries) = discovery_log(&c.shared, view, shared);
            Some(Page { own, entries: Some(entries) })
        }
        _ => None,
    }
}

/// A log page, whole; `None` for one that there is not.
pub fn log_page(c: &Controller, lid: u8, lsp: u8, cx: &AdminCx<'_>) -> Option<Vec<u8>> {
    Some(match lid {
        LID_SUPPORTED => supported_logs(false),
        LID_ERROR => c.shared.errors.page(),
        LID_HEALTH => health(c, cx).to_bytes().to_vec(),
        LID_FIRMWARE => FirmwareSlots { afi: 1, frs1: padded(firmware(cx.view)) }.to_bytes().to_vec(),
        LID_CHANGED_NAMESPACES => changed_namespaces(c),
        LID_EFFECTS => effects(cx.may_manage(c)),
        LID_ANA => ana_log(c, lsp & 1 != 0),
        LID_RESERVATION => c.notices().page().to_bytes().to_vec(),
        LID_FEATURES => features(),
        // No command of the management interface is taken in-band.
        LID_MI => vec![0; MI_BYTES],
        _ => return None,
    })
}

fn supported_logs(discovery: bool) -> Vec<u8> {
    let mut out = vec![0; SUPPORTED_LOG_BYTES];
    for lid in if discovery { DISCOVERY_LOGS } else { LOGS } {
        1u32.put(&mut out[usize::from(*lid) * 4..]);
    }
    out
}

/// SMART / Health: what the subsystem has served on this server since it started, and the errors of this controller.
fn health(c: &Controller, cx: &AdminCx<'_>) -> Health {
    let sum = c.shared.figures.sum();
    let up = cx.now.since(cx.shared.started(cx.now));
    Health {
        critical_warning: c.critical_warning(),
        temperature: TEMPERATURE_K,
        spare: 100,
        spare_threshold: 1,
        units_read: sum.read_bytes.div_ceil(DATA_UNIT_BYTES).into(),
        units_written: sum.written_bytes.div_ceil(DATA_UNIT_BYTES).into(),
        reads: sum.reads.into(),
        writes: sum.writes.into(),
        power_on_hours: up.as_nanos() / Duration::from_secs(3600).as_nanos(),
        media_errors: sum.media_errors.into(),
        error_entries: c.shared.errors.count().into(),
        ..Health::default()
    }
}

/// Commands Supported and Effects, with the scope of each admin command (LPA bit 5). Of I/O commands, which are all of a namespace, none is stated:
/// Linux takes any effect of theirs but a change of content for an error of the controller, and says so ("unusual effects").
fn effects(manages: bool) -> Vec<u8> {
    let mut out = vec![0; EFFECTS_BYTES];
    let (of_controller, of_namespace) = (Effects::SUPPORTED | Effects::SCOPE_CONTROLLER, Effects::SUPPORTED | Effects::SCOPE_NAMESPACE);
    let of_subsystem = Effects::SUPPORTED | Effects::SCOPE_SUBSYSTEM;
    let inventory = of_subsystem | Effects::NAMESPACE_INVENTORY_CHANGE;
    let mut admin = vec![
        (AdminOpcode::GetLogPage, of_controller),
        (AdminOpcode::Identify, of_controller),
        (AdminOpcode::Abort, of_controller),
        (AdminOpcode::SetFeatures, of_controller | Effects::NAMESPACE_CAPABILITY_CHANGE),
        (AdminOpcode::GetFeatures, of_controller),
        (AdminOpcode::AsyncEventRequest, of_controller),
        (AdminOpcode::KeepAlive, of_controller),
    ];
    if manages {
        let format = Effects::CONTENT_CHANGE | Effects::NAMESPACE_CAPABILITY_CHANGE | Effects::ALONE_IN_NAMESPACE;
        admin.push((AdminOpcode::NamespaceManagement, inventory));
        admin.push((AdminOpcode::NamespaceAttachment, inventory));
        admin.push((AdminOpcode::FormatNvm, of_namespace | format));
    }
    let changes = Effects::SUPPORTED | Effects::CONTENT_CHANGE;
    let io = [
        (IoOpcode::Flush, Effects::SUPPORTED),
        (IoOpcode::Write, changes),
        (IoOpcode::Read, Effects::SUPPORTED),
        (IoOpcode::Compare, Effects::SUPPORTED),
        (IoOpcode::WriteUncorrectable, changes),
        (IoOpcode::Verify, Effects::SUPPORTED),
        (IoOpcode::Copy, changes),
        (IoOpcode::WriteZeroes, changes),
        (IoOpcode::DatasetManagement, changes),
        (IoOpcode::ReservationRegister, Effects::SUPPORTED),
        (IoOpcode::ReservationReport, Effects::SUPPORTED),
        (IoOpcode::ReservationAcquire, Effects::SUPPORTED),
        (IoOpcode::ReservationRelease, Effects::SUPPORTED),
    ];
    write_effects(admin.iter().map(|(op, e)| (op.byte(), *e)), io.iter().map(|(op, e)| (op.byte(), *e)), &mut out);
    out
}

/// Feature Identifiers Supported and Effects.
fn features() -> Vec<u8> {
    let mut out = vec![0; FEATURES_BYTES];
    for f in FEATURES {
        let scope = if f.of_namespace { Effects::SCOPE_NAMESPACE } else { Effects::SCOPE_CONTROLLER };
        let effects = if f.of_namespace && f.changeable { Effects::NAMESPACE_CAPABILITY_CHANGE } else { 0 };
        (Effects::SUPPORTED | scope | effects).put(&mut out[usize::from(f.fid) * 4..]);
    }
    out
}

/// Asymmetric Namespace Access: groups ascending, the namespaces of each ascending.
fn ana_log(c: &Controller, groups_only: bool) -> Vec<u8> {
    let (groups, change_count) = c.ana();
    let mut out = AnaHeader { change_count, groups: groups.len() as u16 }.to_bytes().to_vec();
    for (id, group) in groups {
        let nsids: &[u32] = if groups_only { &[] } else { &group.nsids };
        let head = AnaGroup { id: *id, nsids: nsids.len() as u32, change_count: group.change_count, state: group.state.value() };
        out.extend_from_slice(&head.to_bytes());
        nsids.iter().for_each(|nsid| out.extend_from_slice(&nsid.to_le_bytes()));
    }
    // As long as it may ever be: nvme-cli reads that much, and what starts behind the end of a log is an error (base 5.16.1).
    out.resize(out.len().max(ANA_LOG_BYTES), 0);
    out
}

/// The Asymmetric Namespace Access log with every group and namespace, in bytes.
const ANA_LOG_BYTES: usize = AnaHeader::LEN + ANA_GROUPS_MAX as usize * AnaGroup::LEN + NAMESPACES_MAX as usize * 4;

fn changed_namespaces(c: &Controller) -> Vec<u8> {
    let mut out = vec![0; CHANGED_NAMESPACES_BYTES];
    match c.changed_namespaces() {
        Some(list) => out.chunks_exact_mut(4).zip(list).for_each(|(slot, nsid)| nsid.put(slot)),
        None => NSID_ALL.put(&mut out),
    }
    out
}
