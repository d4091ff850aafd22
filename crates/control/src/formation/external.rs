//! A cluster whose directory is in an etcd that somebody else runs.
//!
//! ```text
//!  create:  endpoints looked at ─► claimed ─► records copied ─► cluster.json ─► claim settled
//!  set:     new endpoints looked at: the same etcd, this cluster ─► the record ─► each node looks at them, then goes by them
//! ```
//!
//! Owns: what is needed to use it ([`External`]), making a cluster there, how its settings change and get to all nodes.
//! Invariants: settings are used only after every endpoint has answered with them, or one of them on the nodes that hear of a change; a failure
//! leaves no key of the cluster in etcd; a node goes on with what it has when new settings do not work from there.
//! Never: starts, configures, backs up or restores a member; shows a private key.

use super::create::Addresses;
use super::home::{ExternalFile, Home, MembershipFile};
use super::member::{client_of, who};
use super::wire::{ExternalAnswer, Hidden};
use super::{Formation, FormationError, InCluster, UNKNOWN_PAUSE, now, open_vault};
use crate::api::types as api;
use crate::vault::{Vault, VaultError};
use crate::{Code, Control, Problem};
use authority::{AuthorityError, Identity};
use base::{ClusterId, NodeId};
use directory::etcd::{Claim, Incarnation};
use directory::record::{EtcdRecord, NodeRecord};
use directory::{DirectoryError, EtcdDirectory, Nonce, Transaction, Typed, Versioned};
use etcd::external::{Unusable, check};
use etcd::{Client, ConnectError, ENDPOINTS_MAX, Endpoint, Options};
use tokio::runtime::Handle;
use zeroize::Zeroizing;

/// What is needed to use an external etcd.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct External {
    pub endpoints: Vec<Endpoint>,
    pub identity: Identity,
}

/// Why settings in a record cannot be used.
#[derive(Debug, thiserror::Error)]
enum UnusableRecord {
    #[error(transparent)]
    Endpoint(#[from] etcd::BadEndpoint),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

impl External {
    /// What an administrator has given, with the rest as it was `before`.
    pub fn given(given: &api::EtcdSettings, before: Option<&Self>) -> Result<Self, Problem> {
        let missing = |what: &str, option: &str| Problem::invalid(format!("{what} is missing"), format!("give {option}"));
        if given.certificate.is_some() != given.key.is_some() {
            let message = "a certificate for etcd and its private key go together";
            return Err(Problem::invalid(message, "give both: --etcd-cert and --etcd-key"));
        }
        let endpoints = match (&given.endpoints, before) {
            (Some(list), _) => endpoints(list)?,
            (None, Some(before)) => before.endpoints.clone(),
            (None, None) => return Err(missing("the list of endpoints of the external etcd", "--etcd-endpoints")),
        };
        let pick = |new: Option<&str>, old: Option<&[u8]>, what: &str, option: &str| {
            let old = || old.map(<[u8]>::to_vec);
            new.map(|text| text.as_bytes().to_vec()).or_else(old).ok_or_else(|| missing(what, option))
        };
        let old = before.map(|b| &b.identity);
        let identity = Identity {
            authority: pick(given.authority.as_deref(), old.map(|i| &*i.authority), "the authority of etcd's certificates", "--etcd-ca")?,
            certificate: pick(given.certificate.as_deref(), old.map(|i| &*i.certificate), "a certificate for etcd", "--etcd-cert")?,
            key: Zeroizing::new(pick(
                given.key.as_ref().map(api::SecretText::expose),
                old.map(|i| i.key.as_slice()),
                "the private key for etcd",
                "--etcd-key",
            )?),
        };
        let unusable = |e: AuthorityError| {
            let action =
                "--etcd-ca, --etcd-cert and --etcd-key want PEM files: authorities, a certificate and its private key without a passphrase";
            Problem::invalid(format!("what is given for etcd cannot be used: {e}"), action)
        };
        identity.check_foreign(now()).map_err(unusable)?;
        Ok(Self { endpoints, identity })
    }
    /// What this node uses.
    pub fn of(home: &Home, file: &MembershipFile) -> Result<Self, FormationError> {
        let endpoints: Result<Vec<Endpoint>, _> = file.endpoints.iter().map(|e| e.parse()).collect();
        Ok(Self { endpoints: endpoints?, identity: home.external()? })
    }
    fn of_record(record: &EtcdRecord, vault: &Vault) -> Result<Self, UnusableRecord> {
        let endpoints: Result<Vec<Endpoint>, _> = record.endpoints.iter().map(|e| e.parse()).collect();
        let key = vault.unseal(EtcdRecord::PURPOSE, &record.sealed_key)?;
        let identity = Identity {
            authority: record.authority.clone().into_bytes(),
            certificate: record.certificate.clone().into_bytes(),
            key: Zeroizing::new(key.as_bytes().to_vec()),
        };
        identity.check_foreign(now())?;
        Ok(Self { endpoints: endpoints?, identity })
    }
    /// For the other nodes.
    fn to_record(&self, vault: &Vault, serials: ExternalFile) -> Result<EtcdRecord, VaultError> {
        let text = |pem: &[u8]| String::from_utf8_lossy(pem).into_owned();
        let key = Zeroizing::new(text(&self.identity.key));
        Ok(EtcdRecord {
            endpoints_serial: serials.endpoints_serial,
            credentials_serial: serials.credentials_serial,
            endpoints: self.texts(),
            authority: text(&self.identity.authority),
            certificate: text(&self.identity.certificate),
            sealed_key: vault.seal(EtcdRecord::PURPOSE, &key)?,
        })
    }
    pub fn texts(&self) -> Vec<String> {
        self.endpoints.iter().map(Endpoint::to_string).collect()
    }
    pub fn client(&self) -> Result<Client, FormationError> {
        Ok(Client::new(Options { endpoints: self.endpoints.clone(), identity: Some(self.identity.clone()) })?)
    }
    /// Every endpoint can be used, and all are of one etcd. Gives its id.
    async fn look(&self) -> Result<u64, Problem> {
        check(&self.client()?).await.map_err(|e| problem_of(&e))
    }
    /// The same, and it holds the cluster. `seen`: it has to be this etcd.
    pub fn look_for(&self, cluster: ClusterId, seen: Option<u64>, runtime: &Handle) -> Result<(), Problem> {
        let found = runtime.block_on(self.look())?;
        if seen.is_some_and(|seen| seen != 0 && seen != found) {
            let message = "these endpoints lead to another etcd than the one that keeps this cluster's directory";
            return Err(Problem::refused(message, "give endpoints of the etcd that has it; a directory cannot be moved to another etcd"));
        }
        directory::etcd::holds(self.client()?, cluster).map_err(|e| match e {
            DirectoryError::Foreign { .. } => {
                Problem::refused(e.to_string(), "give endpoints of the etcd that keeps this cluster's directory")
            }
            other => other.into(),
        })
    }
}

fn endpoints(list: &[String]) -> Result<Vec<Endpoint>, Problem> {
    let action = "give a list such as https://10.0.0.5:2379,https://10.0.0.6:2379";
    let mut all: Vec<Endpoint> = Vec::new();
    for text in list.iter().map(|t| t.trim()).filter(|t| !t.is_empty()) {
        let endpoint: Endpoint = text.parse().map_err(|e: etcd::BadEndpoint| Problem::invalid(e.to_string(), action))?;
        if !endpoint.tls {
            let message = format!("{endpoint} is without TLS, and the directory holds who may use which volume");
            return Err(Problem::invalid(message, "let etcd listen with TLS and give https:// endpoints"));
        }
        if !all.contains(&endpoint) {
            all.push(endpoint);
        }
    }
    match all.len() {
        0 => Err(Problem::invalid("no endpoint of etcd is given", action)),
        n if n > ENDPOINTS_MAX => Err(Problem::invalid(format!("{n} endpoints are too many; {ENDPOINTS_MAX} is the most"), action)),
        _ => Ok(all),
    }
}

fn problem_of(unusable: &Unusable) -> Problem {
    let action = match unusable {
        Unusable::Differ { .. } => "give endpoints of one etcd cluster",
        Unusable::Endpoint { why, .. } => match why {
            ConnectError::Certificate(etcd::CertificateFault::Authority) => {
                "give the certificate of the authority of etcd's servers (--etcd-ca)"
            }
            ConnectError::Certificate(etcd::CertificateFault::Name) => {
                "give endpoints by a name or address that the certificates of etcd's servers have"
            }
            ConnectError::Certificate(_) => "who runs etcd has to renew the certificate of that server; look at the clocks, too",
            ConnectError::OwnCertificate(_) | ConnectError::Http(_) => {
                "give a certificate that etcd accepts, and its key (--etcd-cert, --etcd-key)"
            }
            ConnectError::Version(_) => "who runs etcd has to install a release that can be used (docs/etcd.md)",
            ConnectError::Learner => "leave this endpoint out until its member votes",
            _ => "see whether etcd runs there and this server reaches it; correct --etcd-endpoints",
        },
    };
    Problem::new(Code::Unavailable, unusable.to_string(), action)
}

/// What only those who run an external etcd can do.
fn not_ours(what: &str, action: &str) -> Problem {
    Problem::refused(format!("somebody else runs this cluster's etcd: Basalt {what}"), action)
}

impl MembershipFile {
    /// Refuses what is about members that Basalt runs. `what`: what it does not do, as in "takes no backup of it".
    pub(super) fn refuse_external(&self, what: &str, action: &str) -> Result<(), Problem> {
        if self.external.is_some() { Err(not_ours(what, action)) } else { Ok(()) }
    }
}

/// What the new directory is made from.
pub(super) struct Making<'a> {
    pub control: &'a Control,
    pub node: &'a NodeRecord,
    pub id: NodeId,
    pub name: Option<&'a str>,
    pub addresses: Addresses,
}

impl Formation {
    /// Makes the directory of a new cluster in an external etcd. A failure leaves nothing there.
    pub(super) fn make_external(&self, making: &Making<'_>, external: &External, runtime: &Handle) -> Result<ClusterId, Problem> {
        runtime.block_on(external.look())?;
        let cluster = making.control.directory().cluster();
        self.home.prepare()?;
        self.make_identity(making.control, cluster, making.id, making.addresses)?;
        self.home.save_external(&external.identity)?;
        let claim = Claim::new(external.client()?, cluster, self.home.creating()?)?;
        claim.take()?;
        let mut file = MembershipFile::new(cluster, making.id, making.node.name.clone(), making.addresses.cluster);
        file.endpoints = external.texts();
        file.external = Some(ExternalFile { endpoints_serial: 1, credentials_serial: 1 });
        let made = self.fill_external(making, external, &file);
        let ended = if made.is_ok() { claim.settle() } else { claim.give_up() };
        match ended {
            Ok(()) => self.home.created()?,
            // The next start settles it, or the next attempt gives it up.
            Err(error) => tracing::warn!(%error, "the claim on the cluster's keys in etcd stays for now"),
        }
        made.map(|()| cluster)
    }

    fn fill_external(&self, making: &Making<'_>, external: &External, file: &MembershipFile) -> Result<(), Problem> {
        let vault = Vault::open(&self.home.folder()).map_err(|e| Problem::new(Code::Internal, e.to_string(), "try again"))?;
        let record = external.to_record(&vault, file.external.unwrap_or_default()).map_err(|e| vault_problem(&e))?;
        let etcd = EtcdDirectory::create(external.client()?, who(file, None))?;
        Ok(self.fill(making, &etcd, file, Some(&record))?)
    }

    /// What a node that joins uses the external etcd with; `None`: there is none.
    pub(super) fn external_answer(&self, of: &InCluster) -> Result<Option<(Vec<String>, ExternalAnswer)>, Problem> {
        if of.file().external.is_none() {
            return Ok(None);
        }
        let record = self.etcd_record(of)?;
        let vault = open_vault(&self.home, Some(&of.file())).map_err(|e| vault_problem(&e))?;
        let key = vault.unseal(EtcdRecord::PURPOSE, &record.sealed_key).map_err(|e| vault_problem(&e))?;
        let answer = ExternalAnswer {
            endpoints_serial: record.endpoints_serial,
            credentials_serial: record.credentials_serial,
            authority: record.authority.clone(),
            certificate: record.certificate.clone(),
            key: Hidden(key.to_string()),
        };
        Ok(Some((record.value.endpoints, answer)))
    }

    fn etcd_record(&self, of: &InCluster) -> Result<Versioned<EtcdRecord>, Problem> {
        let none = || Problem::new(Code::Internal, "the directory does not say where its etcd is", "restore a backup of etcd");
        of.directory.find::<EtcdRecord>(EtcdRecord::ID)?.ok_or_else(none)
    }

    /// Other endpoints, certificates or another key for the external etcd: for all nodes, or for this one.
    pub fn change_etcd(&self, change: &api::ClusterChange, runtime: &Handle) -> Result<(), Problem> {
        let of = self.cluster()?;
        let _one = self.forming();
        let Some(serials) = of.file().external else {
            let action = "the nodes run etcd themselves and find its members; 'basalt cluster renew-member' replaces one";
            return Err(Problem::refused("this cluster has no external etcd whose settings could change", action));
        };
        let (endpoints, credentials) = touched(&change.etcd)?;
        let before = External::of(&self.home, &of.file())?;
        let changed = External::given(&change.etcd, Some(&before))?;
        let file = of.file();
        changed.look_for(file.cluster, Some(of.directory.seen().etcd), runtime)?;
        if change.this_node {
            return Ok(self.go_by(of, &changed, serials)?);
        }
        let vault = open_vault(&self.home, Some(&file)).map_err(|e| vault_problem(&e))?;
        let decide = || {
            let there = self.etcd_record(of)?;
            // What this node has of its own is not for the others.
            let shared =
                External::of_record(&there, &vault).map_err(|e| Problem::new(Code::Internal, e.to_string(), "give all settings anew"))?;
            let changed = External::given(&change.etcd, Some(&shared))?;
            let serials = ExternalFile {
                endpoints_serial: there.endpoints_serial + u64::from(endpoints),
                credentials_serial: there.credentials_serial + u64::from(credentials),
            };
            let value = changed.to_record(&vault, serials).map_err(|e| vault_problem(&e))?;
            Ok::<_, Problem>((Transaction::new().update(&Versioned { revision: there.revision, value }), ()))
        };
        let commit = |t: Transaction| {
            let nonce = Nonce(super::create::random_bytes());
            directory::commit_known(&*of.directory, t, nonce, |tried| std::thread::sleep(UNKNOWN_PAUSE * tried))
        };
        directory::change(decide, commit)?;
        self.follow_record(of, runtime)
    }

    /// Goes by what the directory says of its etcd, when that has changed and works from here.
    pub(super) fn follow_record(&self, of: &InCluster, runtime: &Handle) -> Result<(), Problem> {
        let Some(own) = of.file().external else { return Ok(()) };
        let record = self.etcd_record(of)?;
        let now = ExternalFile { endpoints_serial: record.endpoints_serial, credentials_serial: record.credentials_serial };
        if own == now {
            return Ok(());
        }
        let vault = open_vault(&self.home, Some(&of.file())).map_err(|e| vault_problem(&e))?;
        let said =
            External::of_record(&record, &vault).map_err(|e| Problem::new(Code::Internal, e.to_string(), "'basalt cluster set' again"))?;
        let mut next = External::of(&self.home, &of.file())?;
        if own.endpoints_serial != now.endpoints_serial {
            next.endpoints = said.endpoints;
        }
        if own.credentials_serial != now.credentials_serial {
            next.identity = said.identity;
        }
        // From here it may be that not all can be reached; one is enough to go on.
        let client = next.client()?;
        directory::etcd::holds(client.clone(), of.file().cluster).map_err(|error| {
            let why = runtime.block_on(check(&client)).err().map_or_else(|| error.to_string(), |e| e.to_string());
            let message = format!("this node cannot use the new settings of the cluster's etcd, and goes on with those before: {why}");
            Problem::new(
                Code::Unavailable,
                message,
                "repair the network; or give this node settings of its own: 'basalt cluster set --this-node'",
            )
        })?;
        self.go_by(of, &next, now)?;
        tracing::info!(endpoints = %next.texts().join(", "), "this node goes by the new settings of the cluster's etcd");
        Ok(())
    }

    fn go_by(&self, of: &InCluster, external: &External, serials: ExternalFile) -> Result<(), FormationError> {
        self.home.save_external(&external.identity)?;
        {
            let mut kept = of.file.lock().unwrap_or_else(|e| e.into_inner());
            let file = MembershipFile { endpoints: external.texts(), external: Some(serials), ..kept.clone() };
            self.home.save_membership(&file)?;
            *kept = file;
        }
        of.directory.client().set_identity(&external.identity)?;
        of.directory.set_endpoints(external.endpoints.clone())?;
        of.for_etcd.send_replace(Some(external.identity.clone()));
        Ok(())
    }
}

/// Which of endpoints and credentials a change is about.
fn touched(given: &api::EtcdSettings) -> Result<(bool, bool), Problem> {
    let credentials = given.authority.is_some() || given.certificate.is_some() || given.key.is_some();
    match (given.endpoints.is_some(), credentials) {
        (false, false) => {
            Err(Problem::invalid("nothing is given to be changed", "give --etcd-endpoints, --etcd-ca, --etcd-cert and --etcd-key"))
        }
        both => Ok(both),
    }
}

fn vault_problem(error: &VaultError) -> Problem {
    Problem::new(Code::Internal, error.to_string(), "put the file secrets.key in cluster/ of the data directory back")
}

/// Of a node whose daemon is stopped: other settings for its external etcd.
pub fn set_stopped(home: &Home, file: MembershipFile, given: &api::EtcdSettings) -> Result<(), Problem> {
    if file.external.is_none() {
        return Err(Problem::refused(
            "this node is of a cluster that runs its etcd itself",
            "'basalt cluster restore --from' moves it to another one",
        ));
    }
    touched(given)?;
    let external = External::given(given, Some(&External::of(home, &file)?))?;
    // One whose handle drives what it waits for.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|e| Problem::new(Code::Internal, e.to_string(), "try again"))?;
    external.look_for(file.cluster, home.seen()?.map(|s| s.etcd), runtime.handle())?;
    home.save_external(&external.identity)?;
    Ok(home.save_membership(&MembershipFile { endpoints: external.texts(), ..file })?)
}

/// Of a node whose daemon is stopped: who runs the external etcd has restored it, and what was seen of it before does not count.
pub fn accept_restored(home: &Home, file: &MembershipFile) -> Result<(), Problem> {
    match file.external {
        Some(_) => Ok(home.forget_seen()?),
        None => Err(Problem::refused("this node is of a cluster that runs its etcd itself", "'basalt cluster restore FILE' restores it")),
    }
}

/// After a crash between the end of a formation and its last word to etcd.
pub(super) fn settle(home: &Home, file: &MembershipFile, client: &Client) -> Result<(), FormationError> {
    if let Some(attempt) = home.begun()?.filter(|_| file.external.is_some()) {
        Claim::new(client.clone(), file.cluster, attempt)?.settle()?;
        home.created()?;
    }
    Ok(())
}

/// The client of a node's etcd, with what that wants.
pub(super) fn client_for(home: &Home, file: &MembershipFile, own: &Identity) -> Result<(Client, Option<Identity>), FormationError> {
    match file.external {
        Some(_) => External::of(home, file).and_then(|e| Ok((e.client()?, Some(e.identity)))),
        None => Ok((client_of(file, own)?, None)),
    }
}

/// This start of the daemon, as a writer.
pub(super) fn incarnation() -> Incarnation {
    Incarnation(super::create::random_bytes())
}

#[cfg(test)]
#[path = "external_tests.rs"]
mod tests;
