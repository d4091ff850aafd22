//! Secrets of hosts for iSCSI (CHAP): set, taken away, opened for the data plane.
//!
//! Invariants: as for the other secrets: sealed or by the path of a file, never shown. A host whose secret cannot be opened cannot get in at all.

use super::secrets::{keep, kept, open};
use super::*;
use crate::api::types as api;
use crate::vault::random;
use base::SecretBytes;
use iscsi::{Credentials, TargetProof};
use zeroize::Zeroizing;

/// Bytes of a secret, at least (RFC 7143, section 9.2.1: 96 bits).
const SECRET_BYTES_MIN: usize = 12;
/// Bytes of a secret, at most.
const SECRET_BYTES_MAX: usize = 255;
/// Bytes of a user name, at most.
const USER_BYTES_MAX: usize = 223;

/// The user name that targets have unless another is given.
const TARGET_USER: &str = "basalt";

fn purpose(host: &str) -> String {
    format!("chap/host/{host}")
}
fn target_purpose(host: &str) -> String {
    format!("chap/target/{host}")
}

fn check_user(user: Option<&String>) -> Result<(), Problem> {
    let fits = |u: &&String| (1..=USER_BYTES_MAX).contains(&u.len()) && u.bytes().all(|b| b.is_ascii_graphic());
    match user {
        Some(user) if !fits(&user) => Err(Problem::invalid(
            "the user name for CHAP is none",
            format!("use 1 to {USER_BYTES_MAX} printable ASCII characters without spaces"),
        )),
        _ => Ok(()),
    }
}

/// A secret as hosts are given it: the line of a file, without what ends it.
fn parse(text: &str) -> Result<Zeroizing<String>, String> {
    let line = text.trim_end_matches(['\r', '\n']);
    if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&line.len()) {
        return Err(format!(
            "a CHAP secret has {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} characters, and this one {}; some hosts take no more than 16",
            line.len()
        ));
    }
    if !line.bytes().all(|b| b.is_ascii_graphic()) {
        return Err("a CHAP secret is made of printable ASCII characters without spaces".into());
    }
    Ok(Zeroizing::new(line.to_owned()))
}

impl Control {
    /// Sets what a host authenticates with over iSCSI. What the change does not name stays.
    pub fn set_chap(&self, host: &str, change: &api::ChapChange) -> Result<api::Host, Problem> {
        self.change_host(host, "CHAP secret set", |record| self.new_chap(record, change))
    }

    fn new_chap(&self, record: &mut HostEntryRecord, change: &api::ChapChange) -> Result<(), Problem> {
        if !cluster::is_iscsi_name(&record.nqn) {
            let why = format!("host {} connects over NVMe/TCP, and CHAP is for iSCSI", record.name);
            return Err(Problem::invalid(why, "give it a secret for DH-HMAC-CHAP, with --dhchap-secret-file or --dhchap-generate"));
        }
        let secret = keep(&self.vault, &purpose(&record.nqn), change.secret.as_ref(), change.secret_path.as_deref(), &parse)?;
        let user = change.user.clone();
        check_user(user.as_ref())?;
        let target = self.new_target(record, change)?;
        let new = match (secret, record.chap.take()) {
            (Some(secret), old) => {
                let before = old.map(|o| o.user);
                ChapRecord { user: user.or(before).unwrap_or_else(|| record.nqn.clone()), secret, target }
            }
            (None, Some(old)) => ChapRecord { user: user.unwrap_or(old.user), secret: old.secret, target },
            (None, None) => {
                let why = format!("host {} has no secret", record.name);
                return Err(Problem::invalid(why, "give one, with --chap-secret-file or --chap-generate"));
            }
        };
        self.chap_credentials(&record.nqn, &new).map_err(|why| Problem::invalid(why, "give a secret that can be read"))?;
        record.chap = Some(new);
        Ok(())
    }

    /// What targets prove themselves with to a host after a change.
    fn new_target(&self, record: &HostEntryRecord, change: &api::ChapChange) -> Result<Option<ChapTargetRecord>, Problem> {
        let (text, path) = (change.target_secret.as_ref(), change.target_secret_path.as_deref());
        let secret = keep(&self.vault, &target_purpose(&record.nqn), text, path, &parse)?;
        check_user(change.target_user.as_ref())?;
        if change.no_target_secret {
            if secret.is_some() || change.target_user.is_some() {
                return Err(Problem::invalid("the targets' secret is set and taken away", "do one of them"));
            }
            return Ok(None);
        }
        let old = record.chap.as_ref().and_then(|c| c.target.clone());
        let user = change.target_user.clone().or_else(|| old.as_ref().map(|o| o.user.clone()));
        match secret.or_else(|| old.map(|o| o.secret)) {
            Some(secret) => Ok(Some(ChapTargetRecord { user: user.unwrap_or_else(|| TARGET_USER.to_owned()), secret })),
            None if user.is_some() => {
                let why = format!("targets have no secret for host {}", record.name);
                Err(Problem::invalid(why, "give one, with --chap-target-secret-file or --chap-target-generate"))
            }
            None => Ok(None),
        }
    }

    /// Takes the secret of a host for iSCSI away.
    pub fn remove_chap(&self, host: &str) -> Result<api::Host, Problem> {
        self.change_host(host, "CHAP secret removed", |record| {
            record.chap = None;
            Ok(())
        })
    }

    fn chap_credentials(&self, host: &str, record: &ChapRecord) -> Result<Credentials, String> {
        let secret = open(&self.vault, &purpose(host), &record.secret, parse)?;
        let proof = |t: &ChapTargetRecord| {
            let own = open(&self.vault, &target_purpose(host), &t.secret, parse)?;
            // With one secret for both a host's own answers would serve as the target's (RFC 7143 9.2.1).
            if own == secret {
                return Err("the targets' secret is that of the host".to_owned());
            }
            Ok(TargetProof { user: t.user.clone(), secret: SecretBytes::new(own.as_bytes().to_vec()) })
        };
        let target = record.target.as_ref().map(proof).transpose()?;
        Ok(Credentials { user: record.user.clone(), secret: SecretBytes::new(secret.as_bytes().to_vec()), target })
    }

    /// What a host authenticates with over iSCSI, for the data plane. When a secret cannot be opened, one that nobody knows: the host is kept out.
    pub(super) fn chap_or_none_fits(&self, entry: &HostEntryRecord) -> Option<Arc<Credentials>> {
        let record = entry.chap.as_ref()?;
        let opened = self.chap_credentials(&entry.nqn, record).unwrap_or_else(|why| {
            tracing::error!(host = %entry.nqn, why, "the host's CHAP secret cannot be opened; it cannot log in until that is put right");
            let mut secret = vec![0; 32];
            random(&mut secret);
            Credentials { user: record.user.clone(), secret: SecretBytes::new(secret), target: None }
        });
        Some(Arc::new(opened))
    }
}

/// What is shown of a host's secret for iSCSI.
pub(super) fn show(record: &ChapRecord) -> api::Chap {
    let target = record.target.as_ref();
    api::Chap {
        user: record.user.clone(),
        secret: kept(&record.secret),
        target_user: target.map(|t| t.user.clone()),
        target_secret: target.map(|t| kept(&t.secret)),
    }
}
