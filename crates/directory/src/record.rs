//! Which records the directory holds, and by which key.
//!
//! The types are `cluster`'s: what is decided on is what is stored. Never: a second spelling of one of them.

use crate::Kind;
pub use cluster::InviteRecord;
pub use cluster::record::*;
use serde::{Serialize, de::DeserializeOwned};

/// A type that the directory holds.
pub trait Record: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// Its kind of key.
    const KIND: Kind;
    /// Its id among its kind.
    fn id(&self) -> String;
}

macro_rules! record {
    ($type:ty, $kind:ident, $self:ident => $id:expr) => {
        impl Record for $type {
            const KIND: Kind = Kind::$kind;
            fn id(&$self) -> String {
                $id
            }
        }
    };
}

record!(NodeRecord, Node, self => self.name.clone());
record!(GroupRecord, Group, self => self.id.to_string());
record!(PolicyRecord, Policy, self => self.key());
record!(VolumeRecord, Volume, self => self.id.to_string());
record!(ObjectRecord, Object, self => self.id.to_string());
record!(ReservationRecord, Reservation, self => self.volume.to_string());
record!(SubsystemRecord, Subsystem, self => self.nqn.clone());
record!(HostEntryRecord, HostEntry, self => self.nqn.clone());
record!(TaskRecord, Task, self => self.id.clone());
record!(InviteRecord, Invite, self => self.secret_sha256.clone());
record!(EtcdRecord, Etcd, self => EtcdRecord::ID.to_owned());
record!(StoreRecord, Store, self => StoreRecord::ID.to_owned());
record!(PresenceRecord, Presence, self => self.node.clone());
record!(RequestRecord, Request, self => self.nonce.clone());
record!(LeaderRecord, Leader, self => LeaderRecord::ID.to_owned());
