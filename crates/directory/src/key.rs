//! Keys: a kind and an id. Invariant: a key's text names one kind and one id, and is read back as it was written.

use std::fmt;

/// Bytes of a key as text, at most.
pub const KEY_BYTES_MAX: usize = 512;

/// What a key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A server of the cluster.
    Node,
    /// A disk group.
    Group,
    /// A storage policy.
    Policy,
    /// A volume.
    Volume,
    /// How a volume is laid out.
    Object,
    /// Who is registered with a volume, and who holds a reservation.
    Reservation,
    /// A subsystem.
    Subsystem,
    /// A host NQN that an administrator has given a name. Not `host`: schema 1 kept nodes under that word.
    HostEntry,
    /// Something under way, or that failed and will be tried again.
    Task,
    /// An invitation to join the cluster.
    Invite,
    /// Where the directory is, when somebody else runs its etcd.
    Etcd,
    /// The store that the records lie in.
    Store,
    /// What a node that is up says of itself.
    Presence,
    /// Who leads.
    Leader,
    /// A request of an administrator that was decided.
    Request,
    /// A name that must be unique among its kind; the value is what it names.
    Name,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 16] = [
        Kind::Node,
        Kind::Group,
        Kind::Policy,
        Kind::Volume,
        Kind::Object,
        Kind::Reservation,
        Kind::Subsystem,
        Kind::HostEntry,
        Kind::Task,
        Kind::Invite,
        Kind::Etcd,
        Kind::Store,
        Kind::Presence,
        Kind::Leader,
        Kind::Request,
        Kind::Name,
    ];
    /// The first part of its keys.
    pub const fn prefix(self) -> &'static str {
        match self {
            Kind::Node => "node",
            Kind::Group => "group",
            Kind::Policy => "policy",
            Kind::Volume => "volume",
            Kind::Object => "object",
            Kind::Reservation => "reservation",
            Kind::Subsystem => "subsystem",
            Kind::HostEntry => "host-entry",
            Kind::Task => "task",
            Kind::Invite => "invite",
            Kind::Etcd => "etcd",
            Kind::Store => "store",
            Kind::Presence => "presence",
            Kind::Leader => "leader",
            Kind::Request => "request",
            Kind::Name => "name",
        }
    }
}

/// Where a value lies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// What it names.
    pub kind: Kind,
    /// Its name among its kind.
    pub id: String,
}

impl Key {
    /// A key.
    pub fn new(kind: Kind, id: impl Into<String>) -> Self {
        Self { kind, id: id.into() }
    }
    /// Bytes of its text.
    pub const fn bytes(&self) -> usize {
        self.kind.prefix().len() + 1 + self.id.len()
    }
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (prefix, id) = text.split_once('/')?;
        Some(Self::new(Kind::ALL.into_iter().find(|k| k.prefix() == prefix)?, id))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.prefix(), self.id)
    }
}
