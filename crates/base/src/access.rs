//! Who may see and change what: words that the directory, the control plane and the front ends share.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What a connection must at least have before it may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Security {
    /// Nothing: whoever knows an NQN that is allowed may use it.
    #[default]
    Plain,
    /// The host has proved with its secret who it is (DH-HMAC-CHAP); what goes over the wire can be read and changed on the way.
    Authenticated,
    /// TLS 1.3 with a pre-shared key: the host is proved, and what goes over the wire is encrypted and protected.
    Encrypted,
}

/// The hosts that see a namespace, of those that may use its subsystem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Visibility {
    /// Every host.
    #[default]
    All,
    /// These, by NQN. With none the namespace exists and is attached to no controller.
    Only(BTreeSet<String>),
}

impl Visibility {
    /// Whether a host sees it.
    pub fn shows(&self, host_nqn: &str) -> bool {
        match self {
            Visibility::All => true,
            Visibility::Only(hosts) => hosts.contains(host_nqn),
        }
    }
}

/// What a listener serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListenerKind {
    /// Subsystems, and discovery too. The port is usually 4420.
    #[default]
    Io,
    /// Discovery only. The port is usually 8009.
    Discovery,
}

impl ListenerKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Io, Self::Discovery];
    /// As it is written in configurations.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Discovery => "discovery",
        }
    }
}

/// Whether a volume may be changed: the states of namespace write protection (NVMe base 2.0, 8.12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteProtect {
    /// It may.
    #[default]
    None,
    /// Not until it is allowed again.
    Protected,
    /// Not until the daemon starts again.
    UntilRestart,
    /// Never again.
    Permanent,
}

impl WriteProtect {
    /// Whether changes are refused.
    pub const fn is_on(self) -> bool {
        !matches!(self, WriteProtect::None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn security_has_an_order() {
        assert!(Security::Plain < Security::Authenticated && Security::Authenticated < Security::Encrypted);
    }

    #[test]
    fn a_namespace_for_some_hosts_is_hidden_from_the_others() {
        let only = Visibility::Only(BTreeSet::from(["nqn.a".to_owned()]));
        assert!(only.shows("nqn.a") && !only.shows("nqn.b") && Visibility::All.shows("nqn.b"));
        assert!(!Visibility::Only(BTreeSet::new()).shows("nqn.a"));
    }
}
