//! Secrets of hosts for iSCSI (CHAP): set, taken away, opened for the data plane.
//!
//! Invariants: as for the other secrets: sealed or by the path of a file, never shown. A host whose secret cannot be opened cannot get in at all.

use super::secrets::{keep, kept, open};
use super::*;
use crate::api::types as api;
use crate::vault::random;
use base::SecretBytes;
use iscsi::Credentials;
use zeroize::Zeroizing;

/// Bytes of a secret, at least (RFC 7143, section 9.2.1: 96 bits).
const SECRET_BYTES_MIN: usize = 12;
/// Bytes of a secret, at most.
const SECRET_BYTES_MAX: usize = 255;
/// Bytes of a user name, at most.
const USER_BYTES_MAX: usize = 223;

fn purpose(host: &str) -> String {
    format!("chap/host/{host}")
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
        if user.as_ref().is_some_and(|u| u.is_empty() || u.len() > USER_BYTES_MAX || !u.bytes().all(|b| b.is_ascii_graphic())) {
            return Err(Problem::invalid(
                "the user name for CHAP is none",
                format!("use 1 to {USER_BYTES_MAX} printable ASCII characters without spaces"),
            ));
        }
        let new = match (secret, record.chap.take()) {
            (Some(secret), old) => {
                let before = old.map(|o| o.user);
                ChapRecord { user: user.or(before).unwrap_or_else(|| record.nqn.clone()), secret }
            }
            (None, Some(old)) => ChapRecord { user: user.unwrap_or(old.user), secret: old.secret },
            (None, None) => {
                let why = format!("host {} has no secret", record.name);
                return Err(Problem::invalid(why, "give one, with --chap-secret-file or --chap-generate"));
            }
        };
        self.chap_credentials(&record.nqn, &new).map_err(|why| Problem::invalid(why, "give a secret that can be read"))?;
        record.chap = Some(new);
        Ok(())
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
        Ok(Credentials { user: record.user.clone(), secret: SecretBytes::new(secret.as_bytes().to_vec()) })
    }

    /// What a host authenticates with over iSCSI, for the data plane. When a secret cannot be opened, one that nobody knows: the host is kept out.
    pub(super) fn chap_or_none_fits(&self, entry: &HostEntryRecord) -> Option<Arc<Credentials>> {
        let record = entry.chap.as_ref()?;
        let opened = self.chap_credentials(&entry.nqn, record).unwrap_or_else(|why| {
            tracing::error!(host = %entry.nqn, why, "the host's CHAP secret cannot be opened; it cannot log in until that is put right");
            let mut secret = vec![0; 32];
            random(&mut secret);
            Credentials { user: record.user.clone(), secret: SecretBytes::new(secret) }
        });
        Some(Arc::new(opened))
    }
}

/// What is shown of a host's secret for iSCSI.
pub(super) fn show(record: &ChapRecord) -> api::Chap {
    api::Chap { user: record.user.clone(), secret: kept(&record.secret) }
}
