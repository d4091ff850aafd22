//! Pre-shared keys of hosts for TLS: set, taken away, opened for the data plane.
//!
//! Invariants: as for the other secrets: sealed or by the path of a file, never shown. A key that cannot be opened lets nobody in.

use super::secrets::{keep, kept, open};
use super::*;
use crate::api::types as api;
use nvmf::HostPsk;
use tls::ConfiguredPsk;
use zeroize::Zeroizing;

/// Keys of one host, at most: one for each of so many subsystems.
const PSKS_MAX: usize = 64;

fn purpose(nqn: &str, subsystem: Option<&str>) -> String {
    format!("tls-psk/{}/{nqn}", subsystem.unwrap_or("*"))
}

impl Control {
    /// Sets the key by which a host connects over TLS, to one subsystem or to all; one that was set for the same is replaced.
    pub fn set_tls_psk(&self, host: &str, change: &api::TlsPskChange) -> Result<api::Host, Problem> {
        self.change_host(host, "TLS key set", |record| self.new_tls_psk(record, change))
    }

    fn new_tls_psk(&self, record: &mut HostEntryRecord, change: &api::TlsPskChange) -> Result<(), Problem> {
        let subsystem = match &change.subsystem {
            Some(name) => Some(self.resolve::<SubsystemRecord>(Kind::Subsystem, name, "subsystem", "subsystem list")?.value.nqn),
            None => None,
        };
        let check = |text: &str| ConfiguredPsk::parse(text).map(|_| Zeroizing::new(text.trim().to_owned())).map_err(|e| e.to_string());
        let purpose = purpose(&record.nqn, subsystem.as_deref());
        let psk = keep(&self.vault, &purpose, change.psk.as_ref(), change.psk_path.as_deref(), &check)?;
        let psk = psk.ok_or_else(|| Problem::invalid("no key is given", "give one, with --tls-psk-file or --tls-psk-generate"))?;
        let new = TlsPskRecord { subsystem, psk };
        self.tls_psk(&record.nqn, &new).map_err(|why| Problem::invalid(why, "give a key that can be read"))?;
        let all = &mut record.tls_psks;
        all.retain(|old| old.subsystem != new.subsystem);
        if all.len() >= PSKS_MAX {
            return Err(Problem::refused(format!("the host has {PSKS_MAX} keys already"), "give it one key for all subsystems"));
        }
        all.push(new);
        Ok(())
    }

    /// Takes all TLS keys of a host away.
    pub fn remove_tls_psks(&self, host: &str) -> Result<api::Host, Problem> {
        self.change_host(host, "TLS keys removed", |record| {
            record.tls_psks.clear();
            Ok(())
        })
    }

    fn tls_psk(&self, nqn: &str, record: &TlsPskRecord) -> Result<HostPsk, String> {
        let psk = open(&self.vault, &purpose(nqn, record.subsystem.as_deref()), &record.psk, ConfiguredPsk::parse)?;
        Ok(HostPsk { subsystem: record.subsystem.clone(), psk: Arc::new(psk) })
    }

    /// The TLS keys of a host, for the data plane.
    pub(super) fn tls_psks(&self, entry: &HostEntryRecord) -> Vec<HostPsk> {
        let open = |record| {
            let opened = self.tls_psk(&entry.nqn, record);
            opened.inspect_err(|why| tracing::error!(host = %entry.nqn, why, "a TLS key of the host cannot be opened")).ok()
        };
        entry.tls_psks.iter().filter_map(open).collect()
    }
}

/// What is shown of a host's keys.
pub(super) fn show(record: &TlsPskRecord) -> api::TlsPsk {
    api::TlsPsk { subsystem: record.subsystem.clone(), psk: kept(&record.psk) }
}

#[cfg(test)]
mod tests {
    use super::super::control_requests::tests::{HOST, bench};
    use super::*;

    #[test]
    fn a_host_has_as_many_keys_as_it_may_have_and_one_may_be_replaced_then() {
        let key = || SecretRecord::Sealed { sealed: String::new() };
        let many = |count: usize| (0..count).map(move |n| TlsPskRecord { subsystem: Some(format!("nqn.{n}")), psk: key() });
        let b = bench();
        let host = serde_json::from_value(serde_json::json!({"nqn": HOST, "name": "kvm1"})).unwrap();
        b.control.add_host(&host).unwrap();
        let change: api::TlsPskChange =
            serde_json::from_value(serde_json::json!({"psk": "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"}))
                .unwrap();
        for (keys, fits) in [(PSKS_MAX - 1, true), (PSKS_MAX, false)] {
            let mut record = b.control.directory.all::<HostEntryRecord>().unwrap().remove(0);
            record.value.tls_psks = many(keys).collect();
            b.control.commit(Transaction::new().update(&record)).unwrap();
            let set = b.control.set_tls_psk("kvm1", &change);
            assert_eq!(set.is_ok(), fits, "{keys}");
            if fits {
                assert_eq!(b.control.set_tls_psk("kvm1", &change).unwrap().tls_psks.len(), PSKS_MAX, "replaced");
            }
        }
    }
}
