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

/// Why a Connect is refused: status and dwords 0 and 1.
pub(crate) type Refusal = (Status, u64);

fn in_data(offset: u16) -> Refusal {
    (Status::dnr(StatusCode::CONNECT_INVALID_PARAMETERS), connect_fault(offset, true))
}
fn in_command(offset: u16) -> Refusal {
    (Status::dnr(StatusCode::CONNECT_INVALID_PARAMETERS), connect_fault(offset, false))
}

/// The controller that was asked for cannot be had.
pub(crate) fn wrong_cntlid() -> Refusal {
    in_data(CONNECT_DATA_CNTLID)
}
/// It cannot be had now.
pub(crate) fn busy() -> Refusal {
    (Status::retry(StatusCode::CONNECT_CONTROLLER_BUSY), 0)
}
/// The queue ID is in use.
pub(crate) fn queue_in_use() -> Refusal {
    (Status::retry(StatusCode::COMMAND_SEQUENCE_ERROR), 0)
}

/// A Connect command that makes sense by itself.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) connect: Connect,
    pub(crate) cntlid: u16,
    pub(crate) host_id: [u8; 16],
    pub(crate) host_nqn: String,
    pub(crate) subsystem: String,
}

impl Wish {
    pub(crate) fn flow_control(&self) -> bool {
        self.connect.cattr & Connect::CATTR_NO_FLOW_CONTROL == 0
    }
    pub(crate) fn entries(&self) -> u16 {
        self.connect.sqsize + 1
    }
}

/// Reads a Connect command and its data.
pub(crate) fn read(sqe: &Sqe, data: &[u8]) -> Result<Wish, Refusal> {
    let connect = Connect::of(sqe);
    if connect.recfmt != 0 {
        return Err((Status::dnr(StatusCode::CONNECT_INCOMPATIBLE_FORMAT), 0));
    }
    let data = ConnectData::parse(data).ok_or((Status::dnr(StatusCode::DATA_SGL_LENGTH_INVALID), 0))?;
    if connect.qid > IO_QUEUES_MAX {
        return Err(in_command(CONNECT_SQE_QID));
    }
    if connect.sqsize == 0 || connect.sqsize >= QUEUE_ENTRIES_MAX {
        return Err(in_command(CONNECT_SQE_SQSIZE));
    }
    let subsystem = data.subsystem().ok_or(in_data(CONNECT_DATA_SUBNQN))?;
    // No name at all is a name that no list holds: spdk_nvme_perf connects so unless told otherwise.
    let host_nqn = data.host_or_none().ok_or(in_data(CONNECT_DATA_HOSTNQN))?;
    // Hosts without an identifier could not be told apart: they would be one registrant of a reservation (base 2.0, 6.3: it is refused).
    if data.host_id == [0; 16] {
        return Err(in_data(CONNECT_DATA_HOSTID));
    }
    let names_one = (CNTLID_MIN..=CNTLID_MAX).contains(&data.cntlid);
    let any = connect.qid == 0 && (data.cntlid == CNTLID_DYNAMIC || data.cntlid == CNTLID_STATIC && subsystem != DISCOVERY_NQN);
    let id_fits = any || names_one && (connect.qid > 0 || subsystem != DISCOVERY_NQN);
    if !id_fits {
        return Err(in_data(CONNECT_DATA_CNTLID));
    }
    if connect.qid == 0 && connect.kato_ms > KATO_MS_MAX {
        return Err(in_command(CONNECT_SQE_KATO));
    }
    Ok(Wish { connect, cntlid: data.cntlid, host_id: data.host_id, host_nqn: host_nqn.into(), subsystem: subsystem.into() })
}

/// Whether the host may have a controller of the subsystem through this listener.
pub(crate) fn admit(wish: &Wish, view: &View, kind: ListenerKind, draining: bool) -> Result<(), Refusal> {
    // Nothing was loaded yet, or all is about to end: later it may be different.
    if draining || view.generation == 0 && view.subsystems.is_empty() && wish.subsystem != DISCOVERY_NQN {
        return Err(busy());
    }
    if wish.subsystem == DISCOVERY_NQN {
        return Ok(());
    }
    let subsystem = match kind {
        ListenerKind::Io => view.subsystem(&wish.subsystem),
        ListenerKind::Discovery => None,
    };
    let subsystem = subsystem.ok_or(in_data(CONNECT_DATA_SUBNQN))?;
    if subsystem.allows(&wish.host_nqn) { Ok(()) } else { Err((Status::dnr(StatusCode::CONNECT_INVALID_HOST), 0)) }
}

/// Whether a connection is as safe as `wanted`, and is of those whom its key names. The standard has no status of its own for a
/// secure channel that is missing (base 2.0, 6.3): the host, as it comes, is not allowed.
pub(crate) fn admit_secured(wish: &Wish, wanted: Security, proved: Option<&tls::Identity>) -> Result<(), Refusal> {
    match proved {
        Some(identity) if identity.host_nqn != wish.host_nqn => Err(in_data(CONNECT_DATA_HOSTNQN)),
        Some(identity) if identity.subsystem_nqn != wish.subsystem => Err(in_data(CONNECT_DATA_SUBNQN)),
        Some(_) => Ok(()),
        None if wanted == Security::Encrypted => Err((Status::dnr(StatusCode::CONNECT_INVALID_HOST), 0)),
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
    Err(busy())
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
    wish: &Wish,
    at: QueueAt,
) -> Result<Arc<ControllerShared>, NotTaken> {
    let c = controllers.get_mut(&wish.cntlid).ok_or_else(wrong_cntlid)?;
    if c.shared.discovery {
        return Err(in_command(CONNECT_SQE_QID).into());
    }
    if c.shared.subsystem != wish.subsystem {
        return Err(in_data(CONNECT_DATA_SUBNQN).into());
    }
    if c.shared.host_nqn != wish.host_nqn {
        return Err(in_data(CONNECT_DATA_HOSTNQN).into());
    }
    if c.shared.host_id != wish.host_id {
        return Err(in_data(CONNECT_DATA_HOSTID).into());
    }
    if wish.connect.qid > c.queues_granted() {
        return Err(in_command(CONNECT_SQE_QID).into());
    }
    if c.queues().contains_key(&wish.connect.qid) {
        return Err(NotTaken::InUse);
    }
    c.add_queue(wish.connect.qid, at).map_err(|code| (Status::retry(code), 0))?;
    Ok(Arc::clone(&c.shared))
}
