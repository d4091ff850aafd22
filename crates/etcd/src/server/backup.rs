//! Backup and restore.
//!
//! Invariants: a backup has its name only when it is whole and on stable media, and it says itself whether it is whole: etcd puts SHA-256 at its
//! end; a restored cluster has a token of its own, so that whoever has seen the old one notices ([`crate::message::ResponseHeader::cluster_id`]).
//! Never: restores over a store that is there.

use super::settings::{Membership, Settings};
use super::{ServerError, io};
use crate::connection::{Method, SNAPSHOT};
use crate::grpc::frame;
use crate::message::{Empty, SnapshotResponse};
use crate::{Client, EtcdError, Lost};
use hyper::body::Bytes;
use openssl::sha::Sha256;
use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::Command,
    time::Duration,
};
use tokio::time::{Instant, timeout};

/// Between two pieces of a backup.
const PIECE_MAX: Duration = Duration::from_secs(20);
/// At the end of a backup.
const DIGEST_BYTES: usize = 32;
/// etcd's store is made of pages; this divides all sizes of them.
const PAGE_BYTES: u64 = 512;
/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;

/// A backup that was taken, or looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Its file, in bytes.
    pub bytes: u64,
    /// SHA-256 of the store in it.
    pub digest: [u8; DIGEST_BYTES],
}

/// What is wrong with a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It is too short, or its length cannot be.
    Length,
    /// Its content is not what it was.
    Digest,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Length => "its length is wrong",
            Self::Digest => "its content has changed",
        })
    }
}

/// Takes a backup into a file of mode 0600, which is replaced when the new one is whole.
pub async fn take(client: &Client, path: &Path) -> Result<Backup, ServerError> {
    let new = path.with_extension("new");
    let result = match receive(client, &new).await {
        Ok(()) => look(&new),
        Err(error) => Err(error),
    };
    match result {
        Ok(backup) => {
            std::fs::rename(&new, path).map_err(io(path))?;
            let dir = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
            File::open(dir).and_then(|d| d.sync_all()).map_err(io(dir))?;
            Ok(backup)
        }
        Err(error) => {
            let _ = std::fs::remove_file(&new);
            Err(error)
        }
    }
}

async fn receive(client: &Client, new: &Path) -> Result<(), ServerError> {
    let until = Instant::now() + PIECE_MAX;
    let connection = client.dial(until).await?;
    let (_requests, mut pieces) = connection.stream_with(Method(SNAPSHOT), Bytes::from(frame(&Empty {})), until).await?;
    match std::fs::remove_file(new) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(io(new)(e)),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new).map_err(io(new))?;
    loop {
        let next = timeout(PIECE_MAX, pieces.next::<SnapshotResponse>()).await;
        match next.unwrap_or(Err(EtcdError::Unknown(Lost::TimedOut)))? {
            Some(piece) => file.write_all(&piece.blob).map_err(io(new))?,
            None => return file.sync_all().map_err(io(new)),
        }
    }
}

/// Looks whether a backup is whole.
pub fn look(path: &Path) -> Result<Backup, ServerError> {
    let damaged = |why| ServerError::Backup { path: path.into(), why };
    let mut file = File::open(path).map_err(io(path))?;
    let bytes = file.metadata().map_err(io(path))?.len();
    let store =
        bytes.checked_sub(DIGEST_BYTES as u64).filter(|s| *s > 0 && s.is_multiple_of(PAGE_BYTES)).ok_or_else(|| damaged(Damage::Length))?;
    let (mut sha, mut buffer, mut left) = (Sha256::new(), vec![0; READ_BYTES], store);
    while left > 0 {
        let some = usize::try_from(left).unwrap_or(READ_BYTES).min(READ_BYTES);
        file.read_exact(&mut buffer[..some]).map_err(io(path))?;
        sha.update(&buffer[..some]);
        left -= some as u64;
    }
    let (digest, mut found) = (sha.finish(), [0; DIGEST_BYTES]);
    file.read_exact(&mut found).map_err(io(path))?;
    if digest == found { Ok(Backup { bytes, digest }) } else { Err(damaged(Damage::Digest)) }
}

/// What a store is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// A backup.
    Backup(&'a Path),
    /// The store of a member that does not run: what it had carried out, but for the last tenth of a second.
    Member(&'a Path),
}

/// Makes a member's store. All members of the new cluster do so from the same backup, with the same settings but their own name and addresses, and a
/// token that was never used. `tool`: etcdctl, of the package etcd-client.
pub fn restore(tool: &Path, from: Source<'_>, settings: &Settings) -> Result<(), ServerError> {
    settings.check()?;
    let Membership::New { token } = &settings.membership else {
        return Err(ServerError::Tool("a restored cluster is a new one: its members do not join another".into()));
    };
    // etcd's own file of a member has no digest.
    let (file, unchecked) = match from {
        Source::Backup(path) => (look(path).map(|_| path.to_path_buf())?, None),
        Source::Member(store) => (store.join("member/snap/db"), Some("--skip-hash-check=true")),
    };
    File::open(&file).map_err(io(&file))?;
    let store = settings.store();
    if store.exists() {
        return Err(ServerError::Occupied { path: store });
    }
    settings.write()?;
    let output = Command::new(tool)
        .env("ETCDCTL_API", "3")
        .args(["snapshot", "restore"])
        .arg(&file)
        .args(unchecked)
        .arg(format!("--name={}", settings.name))
        .arg(format!("--data-dir={}", store.display()))
        .arg(format!("--initial-cluster={}", settings.initial_cluster()))
        .arg(format!("--initial-advertise-peer-urls={}", settings.peer_url()))
        .arg(format!("--initial-cluster-token={token}"))
        .output()
        .map_err(|cause| ServerError::Program { program: tool.into(), package: "etcd-client", cause })?;
    if output.status.success() {
        return Ok(());
    }
    // What is there is a part of a store.
    let _ = std::fs::remove_dir_all(&store);
    Err(ServerError::Tool(crate::error::short(String::from_utf8_lossy(&output.stderr).trim())))
}
