//! Connect commands: who may become which queue.
//!
//! Never: reads the command; [`crate::connect_request`] does.

use crate::connect_request::{ConnectRequest, NO_SUCH_QUEUE, Refusal, busy, in_command, in_data, not_allowed, wrong_cntlid};
use crate::controller::{Controller, QueueAt};
use crate::limits::CONTROLLERS_MAX;
use crate::options::ControllerIds;
use crate::shared::ControllerShared;
use crate::view::{ListenerKind, View};
use base::Security;
use format::nvme::Status;
use format::nvme::fabrics::{CONNECT_DATA_HOSTID, CONNECT_DATA_HOSTNQN, CONNECT_DATA_SUBNQN, CONNECT_SQE_QID, DISCOVERY_NQN};
use std::collections::BTreeMap;
use std::sync::Arc;

const OTHER_HOST: &str = "its controller is another host's";

/// Whether the host may have a controller of the subsystem through this listener.
pub(crate) fn admit(connect: &ConnectRequest, view: &View, kind: ListenerKind, draining: bool) -> Result<(), Refusal> {
    // Nothing was loaded yet, or all is about to end: later it may be different.
    if draining || view.generation == 0 && view.subsystems.is_empty() && connect.subsystem != DISCOVERY_NQN {
        return Err(busy(if draining { "the daemon ends" } else { "nothing is served yet" }));
    }
    if connect.subsystem == DISCOVERY_NQN {
        return Ok(());
    }
    let subsystem = match kind {
        ListenerKind::Io => view.subsystem(&connect.subsystem),
        ListenerKind::Discovery => None,
    };
    let subsystem = subsystem.ok_or(in_data(CONNECT_DATA_SUBNQN, "there is no such subsystem behind this listener"))?;
    if subsystem.allows(&connect.host_nqn) { Ok(()) } else { Err(not_allowed("the host is not on the subsystem's list")) }
}

/// Whether a connection is as safe as `wanted`, and is of those whom its key names. The standard has no status of its own for a
/// secure channel that is missing (base 2.0, 6.3): the host, as it comes, is not allowed.
pub(crate) fn admit_secured(connect: &ConnectRequest, wanted: Security, proved: Option<&tls::HostIdentity>) -> Result<(), Refusal> {
    match proved {
        Some(identity) if identity.host_nqn != connect.host_nqn => Err(in_data(CONNECT_DATA_HOSTNQN, "its TLS key is another host's")),
        Some(identity) if identity.subsystem_nqn != connect.subsystem => {
            Err(in_data(CONNECT_DATA_SUBNQN, "its TLS key is for another subsystem"))
        }
        Some(_) => Ok(()),
        None if wanted == Security::Encrypted => Err(not_allowed("TLS is asked for")),
        None => Ok(()),
    }
}

/// A dynamic controller ID for a new controller of this core.
pub(crate) fn free_cntlid(
    controllers: &BTreeMap<u16, Controller>,
    ids: &ControllerIds,
    last: &mut u16,
    core: usize,
    cores: usize,
) -> Result<u16, Refusal> {
    if controllers.len() < CONTROLLERS_MAX {
        for _ in 0..=controllers.len() {
            *last = ids.next(*last, core, cores);
            if !controllers.contains_key(last) {
                return Ok(*last);
            }
        }
    }
    Err(busy("there is no room for another controller"))
}

/// Why an I/O queue is not taken.
#[derive(Debug)]
pub(crate) enum NotTaken {
    /// It is refused.
    Refused(Refusal),
    /// Another connection has the queue ID.
    InUse,
}

impl From<Refusal> for NotTaken {
    fn from(refusal: Refusal) -> Self {
        NotTaken::Refused(refusal)
    }
}

/// At the controller's home: takes an I/O queue.
pub(crate) fn add_io_queue(
    controllers: &mut BTreeMap<u16, Controller>,
    connect: &ConnectRequest,
    at: QueueAt,
) -> Result<Arc<ControllerShared>, NotTaken> {
    let c = controllers.get_mut(&connect.cntlid).ok_or_else(wrong_cntlid)?;
    if c.shared.discovery {
        return Err(in_command(CONNECT_SQE_QID, NO_SUCH_QUEUE).into());
    }
    if c.shared.subsystem != connect.subsystem {
        return Err(in_data(CONNECT_DATA_SUBNQN, "its controller is another subsystem's").into());
    }
    if c.shared.host_nqn != connect.host_nqn {
        return Err(in_data(CONNECT_DATA_HOSTNQN, OTHER_HOST).into());
    }
    if c.shared.host_id != connect.host_id {
        return Err(in_data(CONNECT_DATA_HOSTID, OTHER_HOST).into());
    }
    if connect.connect.qid > c.queues_granted() {
        return Err(in_command(CONNECT_SQE_QID, NO_SUCH_QUEUE).into());
    }
    if c.queues().contains_key(&connect.connect.qid) {
        return Err(NotTaken::InUse);
    }
    c.add_queue(connect.connect.qid, at).map_err(|code| Refusal::of(Status::retry(code), "its controller is not enabled"))?;
    Ok(Arc::clone(&c.shared))
}
