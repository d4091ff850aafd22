//! What can go wrong, and whether trying again can help.

use crate::iscsi::error::{ScsiFailure, SessionError};
use format::nvme::{FabricsStatus, Status, StatusCode};
use format::nvme_tcp::{Fault, PduType, TermReq};
use std::net::SocketAddr;

/// Why a queue cannot go on: the controller broke the protocol, or ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// A header field is wrong.
    #[error("the controller sent a PDU with a wrong header: {0}")]
    Header(Fault),
    /// The header digest does not match.
    #[error("header digest mismatch in a {0:?} PDU")]
    HeaderDigest(PduType),
    /// The data digest does not match.
    #[error("data digest mismatch in the data of command {0}")]
    DataDigest(u16),
    /// A PDU came when it must not.
    #[error("unexpected {0:?} PDU")]
    Unexpected(PduType),
    /// A PDU names a command that is not in flight.
    #[error("{kind:?} PDU for command {cid}, which is not in flight")]
    UnknownCommand {
        /// Type of the PDU.
        kind: PduType,
        /// Command it names.
        cid: u16,
    },
    /// Data or a request for data lies outside of the command's, or out of order.
    #[error("{kind:?} PDU for command {cid} covers bytes {offset} to {end}, out of order or outside of the command's data")]
    OutOfRange {
        /// Type of the PDU.
        kind: PduType,
        /// Command.
        cid: u16,
        /// First byte.
        offset: u32,
        /// Byte after the last.
        end: u64,
    },
    /// A read was said to be done before all of its data came.
    #[error("command {cid} succeeded with {got} of {len} bytes")]
    ShortData {
        /// Command.
        cid: u16,
        /// Bytes that came.
        got: usize,
        /// Bytes asked for.
        len: usize,
    },
    /// The controller ended the connection with a termination request.
    #[error("the controller ended the connection: reason {}, information {:#x}", .0.fes, .0.fei)]
    Terminated(TermReq),
}

/// What the other side asks for or sends that this client has no way to go on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// A reservation report that ends too early.
    #[error("the report is too short")]
    ReportTooShort,
    /// TLS does not take the PSK.
    #[error("the TLS PSK cannot be used")]
    PskUnusable,
    /// A PSK whose hash is not the one of its identity.
    #[error("an identity of version 1 has the hash of its key")]
    PskHash,
    /// The names of the host and the subsystem do not fit into the identity of a PSK.
    #[error("the names are too long for this derivation of a TLS PSK")]
    PskNames,
    /// Identify Controller data that end too early.
    #[error("Identify Controller is too short")]
    IdentifyController,
    /// Identify Namespace data that end too early.
    #[error("Identify Namespace is too short")]
    IdentifyNamespace,
    /// Secure channel concatenation.
    #[error("the controller asks for secure channel concatenation")]
    Concatenation,
    /// Authentication, for which there is no secret here.
    #[error("the controller asks for authentication, and we have no secret")]
    NoSecret,
    /// A discovery log whose records have another format.
    #[error("the discovery log has an unknown record format")]
    DiscoveryFormat,
    /// A discovery log with more records than there can be.
    #[error("the discovery log has {0} records, more than are taken")]
    DiscoveryRecords(u64),
    /// A discovery record that ends too early.
    #[error("a discovery record is too short")]
    DiscoveryRecord,
    /// A discovery log that is another one each time it is read.
    #[error("the discovery log changes faster than it can be read")]
    DiscoveryChanges,
    /// A discovery log that ends too early.
    #[error("the discovery log is too short")]
    DiscoveryLog,
    /// A PDU of a length that none can have.
    #[error("the peer sent a PDU of an impossible length")]
    PduLength,
    /// Another PDU in place of ICResp.
    #[error("no ICResp came")]
    NoIcResp,
    /// Fewer I/O queues than were asked for.
    #[error("the controller grants fewer I/O queues than were asked for")]
    FewerQueues,
}

/// Why a namespace cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceFault {
    /// It has a block size that is none.
    #[error("its block size is unknown")]
    BlockSize,
    /// There is none of this number.
    #[error("it is not active")]
    Inactive,
}

/// Why a logical unit cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitFault {
    /// There is no disk of this number.
    #[error("there is no disk of this number")]
    Absent,
    /// It has a block size that is none.
    #[error("its block size is unknown")]
    BlockSize,
    /// It has no end of unit attentions.
    #[error("it answers unit attentions only")]
    Attentions,
}

/// Why an operation of the client failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection.
    #[error("cannot connect to {addr}: {source}")]
    Connect {
        /// Where to.
        addr: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The socket failed.
    #[error("connection lost: {0}")]
    Socket(#[from] std::io::Error),
    /// The peer closed the connection.
    #[error("connection closed by the controller")]
    Closed,
    /// The protocol was broken or ended.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// No answer in time.
    #[error("no answer in time: {0}")]
    Timeout(&'static str),
    /// A command failed.
    #[error("{what} failed: {}{}", name(what, *.status), if .status.dnr { ", do not retry" } else { "" })]
    Status {
        /// Which command.
        what: &'static str,
        /// Its status.
        status: Status,
    },
    /// We or the controller did not prove who we are.
    #[error("authentication failed: {0}")]
    Authentication(#[from] auth::HostFailure),
    /// The text of a secret is wrong.
    #[error(transparent)]
    Secret(#[from] auth::SecretError),
    /// A file with a secret cannot be read.
    #[error("{}: {cause}", .path.display())]
    SecretFile {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The controller says it cannot serve.
    #[error("the controller is in a fatal state (CSTS.CFS)")]
    ControllerFatal,
    /// There is no way to go on with what the other side asks for or sends.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// TLS failed, or was refused.
    #[error(transparent)]
    Tls(#[from] tls::Fault),
    /// The namespace is not there or cannot be used.
    #[error("namespace {nsid}: {why}")]
    Namespace {
        /// Which.
        nsid: u32,
        /// Why.
        why: NamespaceFault,
    },
    /// An iSCSI session was refused, or broke.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A SCSI command failed.
    #[error("{what} failed: {failure}")]
    Scsi {
        /// Which command.
        what: &'static str,
        /// How.
        failure: ScsiFailure,
    },
    /// The logical unit is not there or cannot be used.
    #[error("LUN {lun}: {why}")]
    Unit {
        /// Which.
        lun: u64,
        /// Why.
        why: UnitFault,
    },
    /// The queue has no room for another command.
    #[error("the queue is full")]
    QueueFull,
}

/// The name of a status, which may be another one for a fabrics command.
fn name(what: &str, status: Status) -> String {
    if matches!(what, "Connect" | "Disconnect") { FabricsStatus(status.code).to_string() } else { status.code.to_string() }
}

impl Error {
    /// Whether the same attempt may go well later: the peer is away or busy, rather than of another opinion.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Connect { .. } | Error::Socket(_) | Error::Closed | Error::Timeout(_) | Error::ControllerFatal => true,
            Error::Queue(e) => matches!(e, QueueError::Terminated(_)),
            // A subsystem or volume that a starting daemon does not serve yet looks like one that does not exist.
            Error::Status { status, .. } => !status.dnr || status.code == StatusCode::CONNECT_INVALID_PARAMETERS,
            Error::Namespace { .. } | Error::Unit { .. } => true,
            Error::Session(e) => e.is_transient(),
            Error::Scsi { failure, .. } => failure.is_transient(),
            Error::Unsupported(_) | Error::QueueFull | Error::Tls(_) => false,
            Error::Authentication(_) | Error::Secret(_) | Error::SecretFile { .. } => false,
        }
    }
}
