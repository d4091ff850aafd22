//! Secrets of hosts (DH-HMAC-CHAP): set, taken away, opened for the data plane.
//!
//! Invariants: the directory holds a secret sealed or by the path of a file, never as text; a host whose secret cannot be opened cannot get in
//! at all. Never: answers with a secret.

use super::*;
use crate::api::types as api;
use crate::vault::random;
use auth::{Credentials, DhGroup, HashId, Secret};
use std::{fmt::Display, io::Read, os::unix::fs::MetadataExt, path::Path};
use zeroize::Zeroizing;

/// Bytes of a file with a secret, at most.
const FILE_BYTES_MAX: u64 = 4096;

fn purpose(nqn: &str, whose: &str) -> String {
    format!("dhchap/{whose}/{nqn}")
}

/// The text of a file that only its owner may read.
fn read_private(path: &Path) -> Result<Zeroizing<String>, String> {
    let shown = path.display();
    // Looked at before it is opened: a pipe would hold the open up, and with it every other change.
    if !std::fs::metadata(path).map_err(|e| format!("{shown}: {e}"))?.is_file() {
        return Err(format!("{shown} is no file"));
    }
    let file = std::fs::File::open(path).map_err(|e| format!("{shown}: {e}"))?;
    let mode = file.metadata().map_err(|e| format!("{shown}: {e}"))?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!("{shown} can be read by others (mode {mode:03o})"));
    }
    let mut text = Zeroizing::new(String::new());
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|e| format!("{shown}: {e}"))?;
    Ok(text)
}

impl Control {
    /// Changes what is known of a host, and has it served. `what` is for the daemon's log.
    pub(super) fn change_host(
        &self,
        host: &str,
        what: &str,
        mut change: impl FnMut(&mut HostEntryRecord) -> Result<(), Problem>,
    ) -> Result<api::Host, Problem> {
        let (at, nqn) = self.decided(|| {
            let mut record = self.resolve::<HostEntryRecord>(Kind::HostEntry, host, "named host", "host list")?;
            change(&mut record.value)?;
            Ok((Transaction::new().update(&record), record.value.nqn))
        })?;
        self.serve(at)?;
        tracing::info!(host = %nqn, "{what}");
        self.host(&nqn)
    }

    /// Sets what a host authenticates with. What the change does not name stays.
    pub fn set_dhchap(&self, host: &str, change: &api::DhchapChange) -> Result<api::Host, Problem> {
        self.change_host(host, "authentication secret set", |record| self.new_dhchap(record, change))
    }

    fn new_dhchap(&self, record: &mut HostEntryRecord, change: &api::DhchapChange) -> Result<(), Problem> {
        let nqn = record.nqn.clone();
        if cluster::is_iscsi_name(&nqn) {
            let why = format!("host {} connects over iSCSI, and DH-HMAC-CHAP is for NVMe/TCP", record.name);
            return Err(Problem::invalid(why, "give it a secret for CHAP, with --chap-secret-file or --chap-generate"));
        }
        let host_secret = self.secret_record(&nqn, "host", change.secret.as_ref(), change.secret_path.as_deref())?;
        let controller =
            self.secret_record(&nqn, "controller", change.controller_secret.as_ref(), change.controller_secret_path.as_deref())?;
        let old = record.dhchap.take();
        let none =
            || Problem::invalid(format!("host {} has no secret", record.name), "give one, with --dhchap-secret-file or --dhchap-generate");
        let mut new = match (host_secret, old) {
            (Some(host), old) => {
                let old = old.map(|o| (o.controller, o.hashes, o.groups)).unwrap_or_default();
                DhchapRecord { host, controller: old.0, hashes: old.1, groups: old.2 }
            }
            (None, Some(old)) => old,
            (None, None) => return Err(none()),
        };
        if controller.is_some() || change.no_controller_secret {
            new.controller = controller;
        }
        if let Some(hashes) = &change.hashes {
            check_names(hashes, "hash function", HashId::ALL.iter().map(|h| h.name()))?;
            new.hashes.clone_from(hashes);
        }
        if let Some(groups) = &change.groups {
            check_names(groups, "DH group", DhGroup::ALL.iter().map(|g| g.name()))?;
            new.groups.clone_from(groups);
        }
        let opened = self.credentials(&nqn, &new).map_err(|why| Problem::invalid(why, "give a secret that can be read"))?;
        if opened.controller.as_ref() == Some(&opened.host) {
            return Err(Problem::invalid(
                "the host and the controller have the same secret",
                "make another for the controller: a host could prove itself with what the controller tells it",
            ));
        }
        record.dhchap = Some(new);
        Ok(())
    }

    /// Takes the secrets of a host away.
    pub fn remove_dhchap(&self, host: &str) -> Result<api::Host, Problem> {
        self.change_host(host, "authentication secret removed", |record| {
            record.dhchap = None;
            Ok(())
        })
    }

    fn secret_record(
        &self,
        nqn: &str,
        whose: &str,
        text: Option<&api::SecretText>,
        path: Option<&str>,
    ) -> Result<Option<SecretRecord>, Problem> {
        let check = |text: &str| Secret::parse(text).map(|s| s.expose()).map_err(|e| e.to_string());
        keep(&self.vault, &purpose(nqn, whose), text, path, &check)
    }

    fn credentials(&self, nqn: &str, record: &DhchapRecord) -> Result<Credentials, String> {
        let open_one = |whose, record: &SecretRecord| open(&self.vault, &purpose(nqn, whose), record, Secret::parse);
        let host = open_one("host", &record.host)?;
        let controller = record.controller.as_ref().map(|r| open_one("controller", r)).transpose()?;
        let mut all = Credentials::new(host, controller);
        // An empty list means the usual ones; a name of a later release is passed over.
        let hashes: Vec<_> = record.hashes.iter().filter_map(|n| HashId::from_name(n)).collect();
        let groups: Vec<_> = record.groups.iter().filter_map(|n| DhGroup::from_name(n)).collect();
        if !record.hashes.is_empty() {
            all.hashes = hashes;
        }
        if !record.groups.is_empty() {
            all.groups = groups;
        }
        Ok(all)
    }

    /// What a host authenticates with, for the data plane. When a secret cannot be opened, one that nobody knows: the host is kept out.
    pub(super) fn credentials_or_none_fits(&self, entry: &HostEntryRecord) -> Option<Arc<Credentials>> {
        let record = entry.dhchap.as_ref()?;
        let opened = self.credentials(&entry.nqn, record).unwrap_or_else(|why| {
            tracing::error!(host = %entry.nqn, why, "the host's secret cannot be opened; it cannot connect until that is put right");
            Credentials::new(Secret::generate(HashId::Sha512, &mut random), None)
        });
        Some(Arc::new(opened))
    }
}

/// A secret as it is kept: `text` sealed, in the form that `check` gives it, or the path of its file.
pub(super) fn keep(
    vault: &Vault,
    purpose: &str,
    text: Option<&api::SecretText>,
    path: Option<&str>,
    check: &dyn Fn(&str) -> Result<Zeroizing<String>, String>,
) -> Result<Option<SecretRecord>, Problem> {
    match (text, path) {
        (Some(_), Some(_)) => Err(Problem::invalid("a secret and the path of a file with one are given", "give one of them")),
        (None, None) => Ok(None),
        (None, Some(path)) if !Path::new(path).is_absolute() => {
            Err(Problem::invalid(format!("'{path}' is not an absolute path"), "the daemon reads it: give the whole path"))
        }
        (None, Some(path)) => Ok(Some(SecretRecord::File { path: path.to_owned() })),
        (Some(text), None) => {
            let text = check(text.expose()).map_err(|e| Problem::invalid(e, "check the secret"))?;
            let sealed = vault.seal(purpose, &text).map_err(|e| Problem::refused(e.to_string(), "look at the daemon's log"))?;
            Ok(Some(SecretRecord::Sealed { sealed }))
        }
    }
}

/// Opens a secret that is kept: what `parse` reads in its text.
pub(super) fn open<T, E: Display>(
    vault: &Vault,
    purpose: &str,
    record: &SecretRecord,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, String> {
    match record {
        SecretRecord::Sealed { sealed } => {
            let text = vault.unseal(purpose, sealed).map_err(|e| e.to_string())?;
            parse(&text).map_err(|e| e.to_string())
        }
        SecretRecord::File { path } => parse(&read_private(Path::new(path))?).map_err(|e| format!("{path}: {e}")),
    }
}

/// Where a secret is kept, in words.
pub(super) fn kept(record: &SecretRecord) -> String {
    match record {
        SecretRecord::Sealed { .. } => "stored, encrypted".to_owned(),
        SecretRecord::File { path } => format!("in {path}"),
    }
}

/// What is shown of a host's secrets.
pub(super) fn show(record: &DhchapRecord) -> api::Dhchap {
    let (host_secret, controller_secret) = (kept(&record.host), record.controller.as_ref().map(kept));
    api::Dhchap { host_secret, controller_secret, hashes: record.hashes.clone(), groups: record.groups.clone() }
}

fn check_names(names: &[String], what: &str, known: impl Iterator<Item = &'static str> + Clone) -> Result<(), Problem> {
    if let Some(name) = names.iter().enumerate().find_map(|(n, name)| names[..n].contains(name).then_some(name)) {
        return Err(Problem::invalid(format!("the {what} '{name}' is named twice"), "name each once, the most wanted first"));
    }
    match names.iter().find(|n| !known.clone().any(|k| k == *n)) {
        None => Ok(()),
        Some(name) => {
            let all = known.collect::<Vec<_>>().join(", ");
            Err(Problem::invalid(format!("'{name}' is no {what}"), format!("use some of {all}, the most wanted first")))
        }
    }
}
