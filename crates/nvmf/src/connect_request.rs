//! What a Connect command asks for, as far as it makes sense by itself, and the ways to refuse one.
//!
//! Invariant: a refusal names the field that is wrong (base 6.3); "do not retry" is said only where trying again cannot help.
//! Never: looks at what is served, nor at controllers; [`crate::admission`] does.

use crate::limits::{CNTLID_MAX, CNTLID_MIN, IO_QUEUES_MAX, KATO_MS_MAX, QUEUE_ENTRIES_MAX};
use format::nvme::fabrics::{
    CNTLID_DYNAMIC, CNTLID_STATIC, CONNECT_DATA_CNTLID, CONNECT_DATA_HOSTID, CONNECT_DATA_HOSTNQN, CONNECT_DATA_SUBNQN, CONNECT_SQE_KATO,
    CONNECT_SQE_QID, CONNECT_SQE_SQSIZE, Connect, ConnectData, DISCOVERY_NQN, connect_fault,
};
use format::nvme::{Sqe, Status, StatusCode};

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
    pub(crate) fn of(status: Status, why: &'static str) -> Refusal {
        Refusal { status, result: 0, why }
    }
}

fn invalid(offset: u16, in_data: bool, why: &'static str) -> Refusal {
    let result = connect_fault(offset, in_data);
    Refusal { status: Status::dnr(StatusCode::CONNECT_INVALID_PARAMETERS), result, why }
}
/// A field of its data is wrong.
pub(crate) fn in_data(offset: u16, why: &'static str) -> Refusal {
    invalid(offset, true, why)
}
/// A field of the command is wrong.
pub(crate) fn in_command(offset: u16, why: &'static str) -> Refusal {
    invalid(offset, false, why)
}

/// Why it is refused, where that is said in more places than one.
pub(crate) const NO_SUCH_QUEUE: &str = "it has no queue with this ID";

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
}
