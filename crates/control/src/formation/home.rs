//! What a node of a cluster keeps in its data directory.
//!
//! ```text
//!  cluster.json     the membership: a node belongs to the cluster from the moment on at which this file has its name
//!  cluster/         authority.crt, authority.key (data nodes), node.crt, node.key, secrets.key (data nodes), peers.key, seen.json;
//!                   etcd-client.json where somebody else runs etcd
//!  etcd/            settings and store of its member of etcd, if it has one
//! ```
//!
//! Owns: the folders and files ([`Home`]), the membership ([`MembershipFile`]) and what was seen of etcd.
//! Invariants: a file is replaced as a whole, durably; one with a secret has mode 0600 from its first moment; what a crash has left of a formation
//! that did not come to its membership file is removed before the next one.
//! Never: decides anything; removes a folder while there is a membership.

use super::wire::Hidden;
use super::{FormationError, create::random_bytes};
use authority::{AuthorityError, Identity};
use base::{ClusterId, NodeId, NodeRole, SecretBytes};
use directory::etcd::Seen;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Read, Write},
    net::SocketAddr,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// The membership file, in the data directory.
pub const MEMBERSHIP_FILE: &str = "cluster.json";
/// Its version. Fields are only added to one.
const VERSION: u32 = 1;
/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;
const FOLDER: &str = "cluster";
const ETCD_FOLDER: &str = "etcd";
const SEEN_FILE: &str = "seen.json";
const LIFE_FILE: &str = "life.json";
const PEERS_KEY_FILE: &str = "peers.key";
const JOINING_FILE: &str = "joining.json";
const EXTERNAL_FILE: &str = "etcd-client.json";
const CREATING_FILE: &str = "creating.json";

/// Which cluster this node is of, and as what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembershipFile {
    /// Of this file.
    pub version: u32,
    /// The cluster.
    pub cluster: ClusterId,
    /// This node.
    pub node: NodeId,
    /// As records name it.
    pub name: String,
    /// What it does.
    #[serde(default)]
    pub role: NodeRole,
    /// Where the other nodes reach it.
    pub address: SocketAddr,
    /// Where etcd answers, as `https://HOST:PORT`: members that vote.
    pub endpoints: Vec<String>,
    /// The member of etcd that this node runs.
    #[serde(default)]
    pub member: Option<MemberFile>,
    /// The directory is in an etcd that somebody else runs.
    #[serde(default)]
    pub external: Option<ExternalFile>,
}

/// Which changes of the cluster's settings for an external etcd this node goes by. What it was given for itself stays until the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalFile {
    /// Of the endpoints.
    pub endpoints_serial: u64,
    /// Of the certificates and the key.
    pub credentials_serial: u64,
}

/// What an external etcd is used with: one file, so that it is whole at any time.
#[derive(Serialize, Deserialize)]
struct Credentials {
    authority: String,
    certificate: String,
    key: Hidden,
}

/// A member of etcd that this node runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberFile {
    /// Where clients reach it.
    pub client: SocketAddr,
    /// Where other members reach it.
    pub peer: SocketAddr,
    /// All members when this one came, itself too, by name.
    pub members: BTreeMap<String, SocketAddr>,
    /// That of a new etcd cluster, whose first member this is; `None`: it has joined others.
    #[serde(default)]
    pub token: Option<String>,
}

impl MembershipFile {
    /// One of this release.
    pub fn new(cluster: ClusterId, node: NodeId, name: String, address: SocketAddr) -> Self {
        Self { version: VERSION, cluster, node, name, role: NodeRole::Data, address, endpoints: Vec::new(), member: None, external: None }
    }
}

/// What a server that is about to join remembers, so that it comes as the same one when it tries again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Joining {
    /// SHA-256 of the token's secret.
    pub invite: String,
    /// As whom it joins.
    pub node: NodeId,
}

/// The data directory, as far as it is the cluster's.
#[derive(Clone, Debug)]
pub struct Home(PathBuf);

impl Home {
    /// Of this data directory.
    pub fn new(data_dir: &Path) -> Self {
        Self(data_dir.to_owned())
    }
    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        &self.0
    }
    /// Keys and certificates.
    pub fn folder(&self) -> PathBuf {
        self.0.join(FOLDER)
    }
    /// The member of etcd.
    pub fn etcd_folder(&self) -> PathBuf {
        self.0.join(ETCD_FOLDER)
    }
    fn membership_path(&self) -> PathBuf {
        self.0.join(MEMBERSHIP_FILE)
    }

    /// The membership; `None`: this node is of no cluster.
    pub fn membership(&self) -> Result<Option<MembershipFile>, FormationError> {
        let path = self.membership_path();
        let Some(bytes) = read(&path)? else { return Ok(None) };
        let damaged = |cause: String| FormationError::Membership { path: path.clone(), cause };
        let file: MembershipFile = serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))?;
        match file.version {
            VERSION => Ok(Some(file)),
            other => Err(damaged(format!("it has version {other}, and this release knows version {VERSION}"))),
        }
    }
    /// The commit point of forming and joining, and how a membership is changed.
    pub fn save_membership(&self, file: &MembershipFile) -> Result<(), FormationError> {
        write(&self.membership_path(), &to_json(file), 0o600)
    }

    /// Empty folders for a formation. What an earlier one has left is removed.
    pub(super) fn prepare(&self) -> Result<(), FormationError> {
        self.clear()?;
        let folder = self.folder();
        fs::DirBuilder::new().mode(0o700).create(&folder).map_err(|cause| FormationError::Io { path: folder, cause })
    }
    /// Removes what a formation has left that did not come to its membership file.
    pub(super) fn clear(&self) -> Result<(), FormationError> {
        if self.membership_path().exists() {
            return Ok(());
        }
        for folder in [self.folder(), self.etcd_folder()] {
            match fs::remove_dir_all(&folder) {
                Err(cause) if cause.kind() != ErrorKind::NotFound => return Err(FormationError::Io { path: folder, cause }),
                _ => {}
            }
        }
        Ok(())
    }

    /// From which the keys of the links between nodes are made.
    pub fn peers_secret(&self) -> Result<SecretBytes, FormationError> {
        let path = self.folder().join(PEERS_KEY_FILE);
        let missing = || FormationError::Io { path: path.clone(), cause: ErrorKind::NotFound.into() };
        read(&path)?.map(SecretBytes::new).ok_or_else(missing)
    }
    pub(super) fn save_peers_secret(&self, secret: &[u8]) -> Result<(), FormationError> {
        write(&self.folder().join(PEERS_KEY_FILE), secret, 0o600)
    }
    pub(super) fn save_vault_key(&self, key: &[u8]) -> Result<(), FormationError> {
        write(&self.folder().join(crate::vault::KEY_FILE), key, 0o600)
    }

    /// What an external etcd is used with.
    pub(super) fn external(&self) -> Result<Identity, FormationError> {
        let path = self.folder().join(EXTERNAL_FILE);
        let io = |cause| FormationError::Io { path: path.clone(), cause };
        let mode = fs::metadata(&path).map_err(io)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(AuthorityError::Readable { path, mode }.into());
        }
        let bytes = zeroize::Zeroizing::new(read(&path)?.unwrap_or_default());
        let damaged = |e: serde_json::Error| FormationError::Membership { path: path.clone(), cause: e.to_string() };
        let kept: Credentials = serde_json::from_slice(&bytes).map_err(damaged)?;
        Ok(Identity {
            authority: kept.authority.into_bytes(),
            certificate: kept.certificate.into_bytes(),
            key: zeroize::Zeroizing::new(kept.key.0.clone().into_bytes()),
        })
    }
    pub(super) fn save_external(&self, identity: &Identity) -> Result<(), FormationError> {
        let text = |pem: &[u8]| String::from_utf8_lossy(pem).into_owned();
        let key = Hidden(text(&identity.key));
        let kept = Credentials { authority: text(&identity.authority), certificate: text(&identity.certificate), key };
        write(&self.folder().join(EXTERNAL_FILE), &zeroize::Zeroizing::new(to_json(&kept)), 0o600)
    }

    /// The attempt to make a cluster in an external etcd that is not finished; a new one when there is none.
    pub(super) fn creating(&self) -> Result<[u8; 16], FormationError> {
        if let Some(attempt) = self.begun()? {
            return Ok(attempt);
        }
        let attempt = random_bytes();
        write(&self.0.join(CREATING_FILE), &to_json(&attempt), 0o600)?;
        Ok(attempt)
    }
    pub(super) fn begun(&self) -> Result<Option<[u8; 16]>, FormationError> {
        let path = self.0.join(CREATING_FILE);
        let Some(bytes) = read(&path)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| FormationError::Membership { path, cause: e.to_string() })
    }
    /// That attempt is finished, one way or the other.
    pub(super) fn created(&self) -> Result<(), FormationError> {
        remove(self.0.join(CREATING_FILE))
    }

    /// What was seen of etcd before this start.
    pub fn seen(&self) -> Result<Option<Seen>, FormationError> {
        let path = self.folder().join(SEEN_FILE);
        let Some(bytes) = read(&path)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| FormationError::Membership { path, cause: e.to_string() })
    }
    /// For the next start.
    pub fn save_seen(&self, seen: Seen) -> Result<(), FormationError> {
        write(&self.folder().join(SEEN_FILE), &to_json(&seen), 0o600)
    }
    /// The directory was restored: what was seen before does not count.
    pub fn forget_seen(&self) -> Result<(), FormationError> {
        remove(self.folder().join(SEEN_FILE))
    }

    /// The last incarnation that this node had, whatever a directory says that was restored since; 0: none that is known here.
    pub fn life(&self) -> Result<u64, FormationError> {
        let path = self.folder().join(LIFE_FILE);
        let Some(bytes) = read(&path)? else { return Ok(0) };
        serde_json::from_slice(&bytes).map_err(|e| FormationError::Membership { path, cause: e.to_string() })
    }
    /// Before anybody hears of this incarnation.
    pub fn save_life(&self, incarnation: u64) -> Result<(), FormationError> {
        write(&self.folder().join(LIFE_FILE), &to_json(&incarnation), 0o600)
    }

    /// As whom an earlier attempt with the same invitation was made. What cannot be read is as good as nothing.
    pub(super) fn joining(&self) -> Option<Joining> {
        let bytes = read(&self.0.join(JOINING_FILE)).ok().flatten()?;
        serde_json::from_slice(&bytes).ok()
    }
    pub(super) fn save_joining(&self, joining: &Joining) -> Result<(), FormationError> {
        write(&self.0.join(JOINING_FILE), &to_json(joining), 0o600)
    }

    /// The directory of the time before the cluster is out of the way. It is kept, under another name.
    pub fn retire_embedded(&self) -> Result<(), FormationError> {
        let path = self.0.join(directory::FILE_NAME);
        let to = self.0.join(format!("{}.before-cluster", directory::FILE_NAME));
        match fs::rename(&path, &to) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => Err(FormationError::Io { path, cause }),
            _ => Ok(()),
        }
    }
}

fn remove(path: PathBuf) -> Result<(), FormationError> {
    match fs::remove_file(&path) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => Err(FormationError::Io { path, cause }),
        _ => Ok(()),
    }
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("plain data");
    text.push(b'\n');
    text
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, FormationError> {
    let all = || {
        let mut content = Vec::new();
        File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut content)?;
        Ok(content)
    };
    match all() {
        Ok(content) => Ok(Some(content)),
        Err(cause) if ErrorKind::NotFound == std::io::Error::kind(&cause) => Ok(None),
        Err(cause) => Err(FormationError::Io { path: path.into(), cause }),
    }
}

/// Beside its place first, then durably there.
fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), FormationError> {
    let new = PathBuf::from(format!("{}.new", path.display()));
    let all = || {
        match fs::remove_file(&new) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
    };
    all().map_err(|cause| FormationError::Io { path: path.into(), cause })
}

#[cfg(test)]
#[path = "home_tests.rs"]
mod tests;
