//! What names a logical unit on the network: `iscsi://HOST:PORT/IQN/LUN?digests=both`.
//!
//! Invariant: secrets are named by the files they are in, never written in an address.
//! Never: connects, except that a host name is looked up.

use crate::error::LabError;
use initiator::iscsi::login::secret_file;
use initiator::iscsi::unit::UnitOptions;
use initiator::iscsi::{Chap, LoginOptions};
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};

/// How such an address begins.
pub const SCHEME: &str = "iscsi://";
/// The port of iSCSI.
const PORT: u16 = 3260;
/// Who logs in, unless another name is given.
const HOST: &str = "iqn.2026-11.io.basalt:lab";

/// An address, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    text: String,
    host: String,
    target: String,
    /// The logical unit number.
    pub lun: u64,
    header_digest: bool,
    data_digest: bool,
    name: String,
    user: Option<String>,
    secret_file: Option<PathBuf>,
    target_secret_file: Option<PathBuf>,
}

impl Address {
    /// Takes an address apart.
    pub fn parse(text: &str) -> Result<Address, LabError> {
        let wrong = |problem: &str| LabError::Disk { disk: text.into(), problem: problem.into() };
        let form = "an address is iscsi://HOST:PORT/IQN/LUN";
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| wrong(form))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let parts: Vec<&str> = place.split('/').collect();
        let [host, target, lun] = parts[..] else { return Err(wrong(form)) };
        let lun = lun.parse().ok().filter(|_| !host.is_empty() && format::scsi::is_iscsi_name(target)).ok_or_else(|| wrong(form))?;
        let with_port = host.rsplit_once(':').is_some_and(|(_, p)| p.parse::<u16>().is_ok());
        let host = if with_port { host.to_owned() } else { format!("{host}:{PORT}") };
        let mut a = Address {
            text: text.into(),
            host,
            target: target.into(),
            lun,
            header_digest: false,
            data_digest: false,
            name: HOST.into(),
            user: None,
            secret_file: None,
            target_secret_file: None,
        };
        for (key, value) in query.split('&').filter(|p| !p.is_empty()).map(|p| p.split_once('=').unwrap_or((p, ""))) {
            match key {
                "digests" => {
                    (a.header_digest, a.data_digest) = match value {
                        "none" => (false, false),
                        "header" => (true, false),
                        "data" => (false, true),
                        "both" => (true, true),
                        _ => return Err(wrong("digests are none, header, data or both")),
                    }
                }
                "host" if format::scsi::is_iscsi_name(value) => a.name = value.into(),
                "host" => return Err(wrong("the name of a host begins with iqn., eui. or naa.")),
                "chap-user" => a.user = Some(value.into()),
                "chap-secret-file" => a.secret_file = Some(value.into()),
                "chap-target-secret-file" => a.target_secret_file = Some(value.into()),
                _ => {
                    let keys = "digests, host, chap-user, chap-secret-file, chap-target-secret-file";
                    return Err(wrong(&format!("'{key}' is not known; there are {keys}")));
                }
            }
        }
        if a.secret_file.is_none() && (a.user.is_some() || a.target_secret_file.is_some()) {
            return Err(wrong("CHAP needs a chap-secret-file"));
        }
        Ok(a)
    }

    /// How to connect.
    pub fn options(&self) -> Result<UnitOptions, LabError> {
        let wrong = |problem: String| LabError::Disk { disk: self.text.clone(), problem };
        let addr = self.host.to_socket_addrs().ok().and_then(|mut a| a.next());
        let addr = addr.ok_or_else(|| wrong(format!("'{}' has no address", self.host)))?;
        let secret = |file: &Path| secret_file(file).map_err(|e| wrong(e.to_string()));
        let chap = match &self.secret_file {
            Some(file) => Some(Chap {
                user: self.user.clone().unwrap_or_else(|| self.name.clone()),
                secret: secret(file)?,
                target_secret: self.target_secret_file.as_deref().map(secret).transpose()?,
            }),
            None => None,
        };
        let mut isid = [0x80, 0, 0, 0, 0, 0];
        // A qualifier at random, so that two runs at the same time do not end each other's sessions.
        isid[1..4].copy_from_slice(&std::process::id().to_be_bytes()[1..]);
        let login = LoginOptions {
            host: self.name.clone(),
            target: self.target.clone(),
            isid,
            header_digest: self.header_digest,
            data_digest: self.data_digest,
            chap,
        };
        Ok(UnitOptions { addr, login, lun: self.lun })
    }
}

#[cfg(test)]
#[path = "iscsi_address_tests.rs"]
mod tests;
