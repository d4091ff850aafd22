//! What names a namespace on the network: `nvme-tcp://HOST:PORT/NQN?nsid=1&digests=both`.
//!
//! Invariant: secrets are named by the files they are in, never written in an address.
//! Never: connects, except that a host name is looked up.

use crate::error::LabError;
use initiator::authenticate::secret_file;
use initiator::{ControllerOptions, Credentials, Digests, TlsOptions};
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use tls::ConfiguredPsk;

/// How such an address begins.
pub const SCHEME: &str = "nvme-tcp://";
/// The port of NVMe/TCP.
const PORT: u16 = 4420;

/// An address, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    text: String,
    host: String,
    nqn: String,
    /// Which namespace.
    pub nsid: u32,
    digests: Digests,
    host_nqn: Option<String>,
    secret_file: Option<PathBuf>,
    controller_secret_file: Option<PathBuf>,
    tls_psk_file: Option<PathBuf>,
}

impl Address {
    /// Takes an address apart.
    pub fn parse(text: &str) -> Result<Address, LabError> {
        let wrong = |problem: &str| LabError::Disk { disk: text.into(), problem: problem.into() };
        let form = "an address is nvme-tcp://HOST:PORT/NQN?nsid=1";
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| wrong(form))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, nqn) = place.split_once('/').filter(|(h, n)| !h.is_empty() && n.starts_with("nqn.")).ok_or_else(|| wrong(form))?;
        let with_port = host.rsplit_once(':').is_some_and(|(_, p)| p.parse::<u16>().is_ok());
        let host = if with_port { host.to_owned() } else { format!("{host}:{PORT}") };
        let mut a = Address {
            text: text.into(),
            host,
            nqn: nqn.into(),
            nsid: 1,
            digests: Digests::default(),
            host_nqn: None,
            secret_file: None,
            controller_secret_file: None,
            tls_psk_file: None,
        };
        for (key, value) in query.split('&').filter(|p| !p.is_empty()).map(|p| p.split_once('=').unwrap_or((p, ""))) {
            match key {
                "nsid" => a.nsid = value.parse().ok().filter(|n| *n > 0).ok_or_else(|| wrong("nsid is a number from 1"))?,
                "digests" => {
                    a.digests = match value {
                        "none" => Digests::default(),
                        "header" => Digests { header: true, data: false },
                        "data" => Digests { header: false, data: true },
                        "both" => Digests { header: true, data: true },
                        _ => return Err(wrong("digests are none, header, data or both")),
                    }
                }
                "hostnqn" => a.host_nqn = Some(value.into()),
                "dhchap-secret-file" => a.secret_file = Some(value.into()),
                "dhchap-controller-secret-file" => a.controller_secret_file = Some(value.into()),
                "tls-psk-file" => a.tls_psk_file = Some(value.into()),
                _ => {
                    let keys = "nsid, digests, hostnqn, dhchap-secret-file, dhchap-controller-secret-file, tls-psk-file";
                    return Err(wrong(&format!("'{key}' is not known; there are {keys}")));
                }
            }
        }
        Ok(a)
    }

    /// How to connect.
    pub fn options(&self) -> Result<ControllerOptions, LabError> {
        let wrong = |problem: String| LabError::Disk { disk: self.text.clone(), problem };
        let addr = self.host.to_socket_addrs().ok().and_then(|mut a| a.next());
        let mut options = ControllerOptions::new(addr.ok_or_else(|| wrong(format!("'{}' has no address", self.host)))?, &self.nqn);
        options.digests = self.digests;
        if let Some(nqn) = &self.host_nqn {
            options.host.nqn.clone_from(nqn);
        }
        let secret = |file: &Path| secret_file(file).map_err(|e| wrong(e.to_string()));
        if let Some(file) = &self.secret_file {
            let controller = self.controller_secret_file.as_deref().map(secret).transpose()?;
            options.credentials = Some(Credentials::new(secret(file)?, controller));
        }
        if let Some(file) = &self.tls_psk_file {
            let text = std::fs::read_to_string(file).map_err(|e| wrong(format!("{} cannot be read: {e}", file.display())))?;
            options.tls = Some(TlsOptions::new(ConfiguredPsk::parse(&text).map_err(|e| wrong(e.to_string()))?));
        }
        Ok(options)
    }
}

#[cfg(test)]
#[path = "nvme_address_tests.rs"]
mod tests;
