//! Who uses a device: mounts, swap, partitions, holders (LVM, md, dm-crypt), exclusive openers, signatures.

use serde::{Deserialize, Serialize};
use std::{fmt, path::Path};

/// One use of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Use {
    /// It, or a partition of it, is mounted.
    Mounted {
        /// Where.
        at: String,
    },
    /// It, or a partition of it, is swap in use.
    Swap,
    /// It has partitions.
    Partitions {
        /// How many.
        count: usize,
    },
    /// Another block device is made of it.
    Holder {
        /// Its name.
        name: String,
    },
    /// Another process has it open exclusively.
    Exclusive,
    /// Its first bytes say that it holds something.
    Signature {
        /// What.
        what: String,
    },
    /// It cannot be looked at.
    Unreadable {
        /// Why.
        why: String,
    },
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mounted { at } => write!(f, "mounted at {at}"),
            Self::Swap => write!(f, "swap in use"),
            Self::Partitions { count: 1 } => write!(f, "1 partition"),
            Self::Partitions { count } => write!(f, "{count} partitions"),
            Self::Holder { name } => write!(f, "part of {name}"),
            Self::Exclusive => write!(f, "in use by another process"),
            Self::Signature { what } => write!(f, "{what}"),
            Self::Unreadable { why } => write!(f, "unreadable: {why}"),
        }
    }
}

impl Use {
    /// Whether it makes formatting impossible, force or not.
    pub const fn is_live(&self) -> bool {
        matches!(self, Self::Mounted { .. } | Self::Swap | Self::Holder { .. } | Self::Exclusive)
    }
}

/// Mounts and swaps of the running system, from /proc.
#[derive(Clone, Debug, Default)]
pub(crate) struct Busy {
    mounts: Vec<(String, String)>,
    swaps: Vec<String>,
}

impl Busy {
    pub fn read(root: &Path) -> Self {
        let text = |name: &str| std::fs::read_to_string(root.join("proc").join(name)).unwrap_or_default();
        let mounts = text("mounts")
            .lines()
            .filter_map(|l| {
                let mut fields = l.split(' ');
                Some((fields.next()?.to_owned(), fields.next()?.replace("\\040", " ")))
            })
            .collect();
        let swaps = text("swaps").lines().skip(1).filter_map(|l| Some(l.split_whitespace().next()?.to_owned())).collect();
        Self { mounts, swaps }
    }

    /// Uses of the device node `/dev/NAME`.
    pub fn of(&self, name: &str) -> Vec<Use> {
        let node = format!("/dev/{name}");
        let mut found: Vec<Use> = self.mounts.iter().filter(|(d, _)| *d == node).map(|(_, at)| Use::Mounted { at: at.clone() }).collect();
        found.dedup();
        if self.swaps.contains(&node) {
            found.push(Use::Swap);
        }
        found
    }
}
