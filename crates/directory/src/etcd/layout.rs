//! Where everything of a cluster lies in etcd.
//!
//! Invariants: no two things have one key; what is found is read back as what it was written for, or not at all.

use crate::{Key, Nonce, Revision};
use base::ClusterId;

/// Names of clusters, to see which ones an etcd holds.
pub(super) const MARKERS: &str = "basalt/cluster/";
/// What a cluster's marker says: the layout of its keys.
pub(super) const LAYOUT: &[u8] = b"1";

/// The keys of one cluster.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    root: String,
    /// Its marker.
    pub marker: Vec<u8>,
    /// Each transaction that changes something writes this.
    pub head: Vec<u8>,
    /// Everything that belongs to the directory begins with this, the head too.
    pub records: Vec<u8>,
    /// Nonces begin with this.
    pub nonces: Vec<u8>,
}

impl Layout {
    pub fn new(cluster: ClusterId) -> Self {
        let root = format!("basalt/{cluster}/");
        Self {
            marker: format!("{MARKERS}{cluster}").into(),
            head: format!("{root}d/head").into(),
            records: format!("{root}d/").into(),
            nonces: format!("{root}n/").into(),
            root,
        }
    }
    pub fn record(&self, key: &Key) -> Vec<u8> {
        format!("{}d/{key}", self.root).into()
    }
    /// `None`: not a key that this release knows.
    pub fn parse_record(&self, key: &[u8]) -> Option<Key> {
        Key::parse(std::str::from_utf8(key.strip_prefix(self.records.as_slice())?).ok()?)
    }
    pub fn nonce(&self, nonce: Nonce) -> Vec<u8> {
        let digits: String = nonce.0.iter().map(|b| format!("{b:02x}")).collect();
        format!("{}n/{digits}", self.root).into()
    }
    /// Everything of the cluster but its marker begins with this.
    pub fn root(&self) -> Vec<u8> {
        self.root.clone().into()
    }
    /// Who is about to make it.
    pub fn claim(&self) -> Vec<u8> {
        format!("{}claim", self.root).into()
    }
    pub fn writer(&self, name: &str) -> Vec<u8> {
        format!("{}w/{name}", self.root).into()
    }
    pub fn parse_marker(key: &[u8]) -> Option<ClusterId> {
        std::str::from_utf8(key.strip_prefix(MARKERS.as_bytes())?).ok()?.parse().ok()
    }
}

/// etcd's revisions are signed, and never below 0.
pub(super) fn revision(of: i64) -> Revision {
    Revision(u64::try_from(of).unwrap_or_default())
}
/// One that etcd never has stands for one that it cannot have.
pub(super) fn signed(revision: Revision) -> i64 {
    i64::try_from(revision.0).ok().filter(|r| *r > 0).unwrap_or(-1)
}
