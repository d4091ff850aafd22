//! Why a request was not done, in the words of a storage administrator.
//!
//! Invariant: every problem says what is wrong and what to do; its code is stable, its words are not.

use crate::plane::PlaneError;
use cluster::{NameError, PlaceError, PolicyError};
use directory::{DirectoryError, Kind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What kind of problem. Stable: scripts may rely on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request makes no sense.
    Invalid,
    /// No token, or a wrong one.
    Unauthorized,
    /// What it names is not there.
    NotFound,
    /// The name is taken.
    Exists,
    /// It is being used, or would lose data; `force` may do it.
    Refused,
    /// The cluster cannot give what the policy asks.
    PolicyNotPossible,
    /// No room.
    NoSpace,
    /// Somebody else changed it meanwhile.
    Conflict,
    /// Not now: a group is offline, the daemon is ending.
    Unavailable,
    /// Another node leads, or has decided the same request.
    NotLeader,
    /// It may have been done. Sent again with the same `idempotency-key` it is done once.
    Unknown,
    /// A fault of Basalt or of its disks.
    Internal,
}

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// What kind.
    pub code: Code,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub action: String,
}

/// Of a name that is not there so many characters are said: NQNs have 223 at most.
const NAME_CHARACTERS_MAX: usize = 223;

impl Problem {
    /// A problem.
    pub fn new(code: Code, message: impl Into<String>, action: impl Into<String>) -> Self {
        Self { code, message: message.into(), action: action.into() }
    }
    /// The request makes no sense.
    pub fn invalid(message: impl Into<String>, action: impl Into<String>) -> Self {
        Self::new(Code::Invalid, message, action)
    }
    /// What it names is not there.
    pub fn not_found(what: &str, name: &str, list: &str) -> Self {
        let name = match name.char_indices().nth(NAME_CHARACTERS_MAX) {
            Some((end, _)) => format!("{}..", &name[..end]),
            None => name.to_owned(),
        };
        Self::new(Code::NotFound, format!("there is no {what} '{name}'"), format!("'basalt {list}' shows those that there are"))
    }
    /// The name is taken.
    pub fn exists(what: &str, name: &str) -> Self {
        Self::new(Code::Exists, format!("there is a {what} '{name}' already"), "choose another name")
    }
    /// It would lose data, or something uses it.
    pub fn refused(message: impl Into<String>, action: impl Into<String>) -> Self {
        Self::new(Code::Refused, message, action)
    }
    /// The HTTP status that carries it.
    pub const fn status(&self) -> u16 {
        match self.code {
            Code::Invalid => 400,
            Code::Unauthorized => 401,
            Code::NotFound => 404,
            Code::Exists | Code::Refused | Code::Conflict | Code::PolicyNotPossible => 409,
            Code::NoSpace => 507,
            Code::Unavailable | Code::NotLeader | Code::Unknown => 503,
            Code::Internal => 500,
        }
    }
}

impl From<NameError> for Problem {
    fn from(error: NameError) -> Self {
        Self::invalid(error.to_string(), "correct the name")
    }
}

impl From<PolicyError> for Problem {
    fn from(error: PolicyError) -> Self {
        Self::invalid(error.to_string(), "correct the value")
    }
}

impl From<DirectoryError> for Problem {
    fn from(error: DirectoryError) -> Self {
        let message = error.to_string();
        match error {
            DirectoryError::Conflict { key } if matches!(key.kind, Kind::Leader | Kind::Request) => Self::new(
                Code::NotLeader,
                "another node has begun to lead the cluster, or has taken this request, while this one was deciding it",
                "try again",
            ),
            DirectoryError::Conflict { .. } => Self::new(Code::Conflict, message, "try again"),
            DirectoryError::Unavailable => Self::new(
                Code::Unavailable,
                message,
                "nothing was changed; when it goes on, look at etcd: are most of its members up, and can this node reach them? ('basalt status')",
            ),
            DirectoryError::Unknown { .. } => {
                Self::new(Code::Unknown, message, "send it again with the same idempotency-key, or look whether it was done")
            }
            DirectoryError::Full => Self::new(Code::NoSpace, message, "nothing was changed; make room in etcd (docs/etcd.md)"),
            DirectoryError::Foreign { .. } => {
                Self::new(Code::Unavailable, message, "correct the endpoints of etcd in the configuration, then restart the daemon")
            }
            DirectoryError::Occupied { .. } => Self::new(
                Code::Exists,
                message,
                "let this server join that cluster; if nobody uses it any more, remove its keys from etcd (docs/etcd.md)",
            ),
            DirectoryError::Older { .. } | DirectoryError::Replaced { .. } | DirectoryError::Diverged { .. } => Self::new(
                Code::Unavailable,
                message,
                "this daemon changes nothing any more, and I/O goes on: restart it (systemctl restart basalt), one node after the other",
            ),
            DirectoryError::Superseded { .. } => Self::new(
                Code::Unavailable,
                message,
                "two daemons run as this node: stop the one that is not to run, then restart the other",
            ),
            DirectoryError::Refused { .. } => Self::new(
                Code::Internal,
                message,
                "nothing was changed; look at the logs of etcd's members and at the release that they run",
            ),
            _ => Self::new(Code::Internal, message, "see the daemon's log (journalctl -u basalt)"),
        }
    }
}

impl From<PlaceError> for Problem {
    fn from(error: PlaceError) -> Self {
        let message = error.to_string();
        match error {
            PlaceError::NoGroups => Self::new(Code::Unavailable, message, "make a disk group: basalt group create --help"),
            PlaceError::Shortfalls(_) => Self::new(
                Code::PolicyNotPossible,
                message,
                "add what is missing, use another policy, or set force provisioning in the policy to get what is possible now",
            ),
            PlaceError::NoSpace { .. } => {
                Self::new(Code::NoSpace, message, "use a policy that reserves less, delete volumes, or add a disk group")
            }
            PlaceError::NotAtOwner { .. } => Self::new(
                Code::Refused,
                message,
                "name a disk group of that node, too; to bring a volume to another node, give it a policy with one failure more, then '--owner', then the old policy",
            ),
            PlaceError::Size => Self::invalid(message, "give another size"),
        }
    }
}

impl From<PlaneError> for Problem {
    fn from(error: PlaneError) -> Self {
        let message = error.to_string();
        match error {
            PlaneError::Open { .. } | PlaneError::Device { .. } | PlaneError::Memory { .. } => {
                Self::new(Code::Refused, message, "use another device, or free this one")
            }
            PlaneError::Group { .. } | PlaneError::OtherGroup { .. } => {
                Self::new(Code::Unavailable, message, "'basalt status' says what is wrong with the disk group")
            }
            PlaneError::NoSpace { .. } => Self::new(Code::NoSpace, message, "delete volumes, trim them (fstrim), or add a disk group"),
            PlaneError::Unconfirmed { .. } => Self::new(
                Code::Unavailable,
                message,
                "the change is durable; see whether the node that owns the volume is up, and try again",
            ),
            PlaneError::Listen { .. } => Self::new(Code::Unavailable, message, "free the address, or configure another"),
            PlaneError::Busy { .. } => Self::new(Code::Unavailable, message, "try again in a moment"),
            PlaneError::Failed { .. } => Self::new(Code::Internal, message, "see the daemon's log (journalctl -u basalt)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{ByteSize, GroupId};
    use dataplane::{DataPlaneError, OpenError};
    use store::GroupError;

    #[test]
    fn what_the_directory_says_has_a_code_and_says_what_to_do() {
        let at = directory::Revision(7);
        let cases: [(DirectoryError, Code, &str); 9] = [
            (DirectoryError::Full, Code::NoSpace, "docs/etcd.md"),
            (DirectoryError::Foreign { wanted: base::ClusterId::from_bytes([1; 16]), found: vec![] }, Code::Unavailable, "endpoints"),
            (DirectoryError::Replaced { seen: 1, found: 2 }, Code::Unavailable, "restart"),
            (DirectoryError::Diverged { at }, Code::Unavailable, "restart"),
            (DirectoryError::Superseded { writer: "h1".into() }, Code::Unavailable, "stop the one"),
            (DirectoryError::Refused { cause: "no".into() }, Code::Internal, "etcd's members"),
            (DirectoryError::Unknown { cause: "lost".into() }, Code::Unknown, "same idempotency-key"),
            (DirectoryError::Conflict { key: directory::Key::new(Kind::Leader, "control") }, Code::NotLeader, "try again"),
            (DirectoryError::Conflict { key: directory::Key::new(Kind::Volume, "v") }, Code::Conflict, "try again"),
        ];
        for (error, code, action) in cases {
            let problem = Problem::from(error);
            assert!(problem.code == code && problem.action.contains(action), "{problem:?}");
        }
    }

    /// Scripts rely on the codes; people on the words, which are those of the cause.
    #[test]
    fn what_the_data_plane_refuses_has_its_code_and_its_words() {
        let id = GroupId::from_bytes([1; 16]);
        let group = |e: GroupError| PlaneError::from(DataPlaneError::from(e));
        let cases: [(PlaneError, Code, &str); 8] = [
            (OpenError::Missing { path: "/d".into() }.into(), Code::Refused, "/d: there is nothing"),
            (group(GroupError::GivenTwice { device: "/d".into() }), Code::Refused, "/d is given twice"),
            (PlaneError::Memory { needed: ByteSize(2 << 30), available: ByteSize(1 << 30) }, Code::Refused, "2 GiB of memory"),
            (DataPlaneError::NoGroup(id).into(), Code::Unavailable, "is not open on this node"),
            (PlaneError::OtherGroup { wanted: id, found: id, name: "g2".into() }, Code::Unavailable, "hold disk group 'g2'"),
            (
                group(GroupError::CannotReserve { device: "/d".into(), wanted: 1, promised: 1, total: 1 }),
                Code::NoSpace,
                "/d cannot promise",
            ),
            (DataPlaneError::Busy.into(), Code::Unavailable, "try again"),
            (DataPlaneError::Stopped.into(), Code::Internal, "has stopped"),
        ];
        for (error, code, words) in cases {
            let problem = Problem::from(error);
            assert!(problem.code == code && problem.message.contains(words), "{problem:?}");
        }
    }
}
