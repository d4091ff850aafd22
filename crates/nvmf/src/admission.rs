//! Connect commands: who may become which queue.
//!
//! Invariant: a refusal names the field that is wrong (base 6.3); "do not retry" is said only where trying again cannot help.

use crate::controller::{Controller, QueueAt};
use crate::limits::{CNTLID_MAX, CNTLID_MIN, CONTROLLERS_MAX, IO_QUEUES_MAX, KATO_MS_MAX, QUEUE_ENTRIES_MAX};
use crate::options::ControllerIds;
use crate::shared::ControllerShared;
use crate::view::{ListenerKind, View};
use base::Security;
use format::nvme::fabrics::{
    CNTLID_DYNAMIC, CNTLID_STATIC, CONNECT_DATA_CNTLID, CONNECT_DATA_HOSTID, CONNECT_DATA_HOSTNQN, CONNECT_DATA_SUBNQN, CONNECT_SQE_KATO,
    CONNECT_SQE_QID, CONNECT_SQE_SQSIZE, Connect, ConnectData, DISCOVERY_NQN, connect_fault,
};
use format::nvme::{Sqe, Status, StatusCode};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A Connect that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    /// Dwords 0 and 1.
    pub(crate) result: u64,
    /// For the administrator.
    pub(crate) why: &'static str,
}

impl Refusal {
    fn of(status: Status, why: &'static str) -> Refusal {
        Refusal { status, result: 0, why }
    }
}

fn invalid(offset: u16, in_data: bool, why: &'static str) -> Refusal {
    let result = connect_fault(offset, in_data);
    Refusal { status: Status::dnr(StatusCode::CONNECT_INVALID_PARAMETERS), result, why }
}
fn in_data(offset: u16, why: &'static str) -> Refusal {
    invalid(offset, true, why)
}
fn in_command(offset: u16, why: &'static str) -> Refusal {
    invalid(offset, false, why)
}

const NO_SUCH_QUEUE: &str = "it has no queue with this ID";
const OTHER_HOST: &str = "its controller is another host's";

/// The controller that was asked for cannot be had.
pub(crate) fn wrong_cntlid() -> Refusal {
    in_data(CONNECT_DATA_CNTLID, "there is no such controller, or it is not this host's")
}
/// It cannot be had now.
pub(crate) fn busy(why: &'static str) -> Refusal {
    Refusal::of(Status::retry(StatusCode::CONNECT_CONTROLLER_BUSY), why)
}
/// The host has all the connections that it may have.
pub(crate) fn too_many_connections() -> Refusal {
    busy("the host has as many connections as it may (target.host_connections_max)")
}
/// The queue ID is in use.
pub(crate) fn queue_in_use() -> Refusal {
    Refusal::of(Status::retry(StatusCode::COMMAND_SEQUENCE_ERROR), "another connection is this queue")
}
/// The host may not connect, or not in this way.
pub(crate) fn not_allowed(why: &'static str) -> Refusal {
    Refusal::of(Status::dnr(StatusCode::CONNECT_INVALID_HOST), why)
}

/// A Connect command that makes sense by itself.
#[derive(Clone, Debug)]
pub(crate) struct ConnectRequest {
    pub(crate) connect: Connect,
    pub(crate) cntlid: u16,
    pub(crate) host_id: [u8; 16],
    pub(crate) host_nqn: String,
    pub(crate) subsystem: String,
}

impl ConnectRequest {
    pub(crate) fn flow_control(&self) -> bool {
        self.connect.cattr & Connect::CATTR_NO_FLOW_CONTROL == 0
    }
    pub(crate) fn entries(&self) -> u16 {
        self.connect.sqsize + 1
    }
}

/// Reads a Connect command and its data.
pub(crate) fn read(sqe: &Sqe, data: &[u8]) -> Result<ConnectRequest, Refusal> {
    let connect = Connect::of(sqe);
    if connect.recfmt != 0 {
        return Err(Refusal::of(Status::dnr(StatusCode::CONNECT_INCOMPATIBLE_FORMAT), "its record format is not 0"));
    }
    let wrong_length = Refusal::of(Status::dnr(StatusCode::DATA_SGL_LENGTH_INVALID), "its data is not 1024 bytes long");
    let data = ConnectData::parse(data).ok_or(wrong_length)?;
    if connect.qid > IO_QUEUES_MAX {
        return Err(in_command(CONNECT_SQE_QID, NO_SUCH_QUEUE));
    }
    if connect.sqsize == 0 || connect.sqsize >= QUEUE_ENTRIES_MAX {
        return Err(in_command(CONNECT_SQE_SQSIZE, "the size of its queue is not supported"));
    }
    let subsystem = data.subsystem().ok_or(in_data(CONNECT_DATA_SUBNQN, "the subsystem's name is no NQN"))?;
    // No name at all is a name that no list holds: spdk_nvme_perf connects so unless set otherwise.
    let host_nqn = data.host_or_none().ok_or(in_data(CONNECT_DATA_HOSTNQN, "the host's name is no NQN"))?;
    // Hosts without an identifier could not be distinguished: they would be one registrant of a reservation (base 2.0, 6.3: it is refused).
    if data.host_id == [0; 16] {
        return Err(in_data(CONNECT_DATA_HOSTID, "its host identifier is zero"));
    }
    let names_one = (CNTLID_MIN..=CNTLID_MAX).contains(&data.cntlid);
    let any = connect.qid == 0 && (data.cntlid == CNTLID_DYNAMIC || data.cntlid == CNTLID_STATIC && subsystem != DISCOVERY_NQN);
    let id_fits = any || names_one && (connect.qid > 0 || subsystem != DISCOVERY_NQN);
    if !id_fits {
        return Err(in_data(CONNECT_DATA_CNTLID, "its controller ID cannot be asked for"));
    }
    if connect.qid == 0 && connect.kato_ms > KATO_MS_MAX {
        return Err(in_command(CONNECT_SQE_KATO, "its keep-alive timeout is longer than a day"));
    }
    Ok(ConnectRequest { connect, cntlid: data.cntlid, host_id: data.host_id, host_nqn: host_nqn.into(), subsystem: subsystem.into() })
}

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
pub(crate) fn admit_secured(connect: &ConnectRequest, wanted: Security, proved: Option<&tls::Identity>) -> Result<(), Refusal> {
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
