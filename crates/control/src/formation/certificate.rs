//! Certificates of nodes are renewed before they end, without a restart.
//!
//! ```text
//!  half of its time is over, or by hand ─► the same key, a new certificate ─┬─ a node with data has the authority's key, and signs for itself
//!                                                                           └─ a witness asks nodes with data
//!  ─► node.crt replaced (etcd's member reads it for each connection) ─► used for new connections: listener, other nodes, etcd's client
//! ```
//!
//! Owns: when and how this node's certificate is renewed, signing for a node that asks, what health says of certificates.
//! Invariants: the key stays, so that the two files fit together at any time; a node gets a certificate for itself alone; one that does not fit is
//! not taken.
//! Never: renews the authority, or a certificate that others have made for an external etcd.

use super::create::names_of;
use super::home::{Home, MembershipFile};
use super::wire::{CERTIFICATE_PATH, CertificateAnswer, CertificateCall};
use super::{Formation, FormationError, InCluster, now};
use crate::api::types as api;
use crate::cluster_client::NodeRequest;
use crate::{Code, Control, Problem};
use authority::{Authority, AuthorityError, Identity, NodeKey, Refusal, Subject, UnixSeconds, Validity};
use base::{NodeId, NodeRole};
use directory::record::NodeRecord;
use directory::{Typed, Versioned};
use std::{
    net::IpAddr,
    time::{Duration, Instant},
};
use tokio::runtime::Handle;

/// After a failure it is tried again that much later.
const TRY_AGAIN: Duration = Duration::from_secs(60);
/// Another node signs within that time.
const SIGN_MAX: Duration = Duration::from_secs(10);
/// So near its end, in seconds, a certificate is an error, and not a warning.
const URGENT_S: i64 = 3 * DAY_S;
const DAY_S: i64 = 24 * 3600;

/// How the last renewal went.
#[derive(Default)]
pub(super) struct Renewal {
    tried: Option<Instant>,
    failed: Option<String>,
}

/// Signs for a node with data: its own addresses, and where others reach it.
fn sign_own(home: &Home, file: &MembershipFile, old: &Identity, at: UnixSeconds) -> Result<Identity, FormationError> {
    let authority = Authority::load(&home.folder())?;
    let new = authority.renew(old, &file.node.to_string(), names_of(file.address.ip(), None), at)?;
    new.check(at)?;
    Ok(new)
}

/// This node's identity at a start of its daemon. A node with data renews it where that is due, though it has ended.
pub(super) fn at_start(home: &Home, file: &MembershipFile, identity: Identity, at: UnixSeconds) -> Result<Identity, FormationError> {
    let due = identity.validity()?.renewal_is_due(at);
    let usable = identity.check(at);
    let ended = matches!(usable, Err(AuthorityError::Refused(Refusal::Expired { .. })));
    if file.role == NodeRole::Data && due && (usable.is_ok() || ended) {
        match sign_own(home, file, &identity, at).and_then(|new| Ok(new.save_certificate(&home.folder()).map(|()| new)?)) {
            Ok(new) => return Ok(new),
            Err(error) => tracing::warn!(%error, "this node's certificate cannot be renewed"),
        }
    }
    usable?;
    Ok(identity)
}

impl Formation {
    /// Renews this node's certificate when that is due.
    pub(super) fn keep_certificate(&self, of: &InCluster, runtime: &Handle) {
        let due = of.identity().validity().is_ok_and(|v| v.renewal_is_due(now()));
        let waits = |r: &Renewal| r.failed.is_some() && r.tried.is_some_and(|at| at.elapsed() < TRY_AGAIN);
        if !due || waits(&of.renewal.lock().unwrap_or_else(|e| e.into_inner())) {
            return;
        }
        if let Err(problem) = self.renew_certificate(runtime) {
            tracing::warn!(error = %problem.message, "this node's certificate cannot be renewed");
        }
    }

    /// Renews this node's certificate now.
    pub fn renew_certificate(&self, runtime: &Handle) -> Result<api::NodeCertificate, Problem> {
        let of = self.cluster()?;
        let _one = self.forming();
        let renewed = self.renewed(of, runtime).and_then(|new| Ok(self.use_certificate(of, &new).map(|()| new)?));
        let mut renewal = of.renewal.lock().unwrap_or_else(|e| e.into_inner());
        *renewal = Renewal { tried: Some(Instant::now()), failed: renewed.as_ref().err().map(|p| p.message.clone()) };
        drop(renewal);
        let Validity { from, until } = renewed?.validity().map_err(FormationError::from)?;
        tracing::info!(until_unix_s = until.0, "this node's certificate was renewed");
        Ok(api::NodeCertificate { from_unix_s: from.0.unsigned_abs(), until_unix_s: until.0.unsigned_abs() })
    }

    fn renewed(&self, of: &InCluster, runtime: &Handle) -> Result<Identity, Problem> {
        let (file, old, at) = (of.file(), of.identity(), now());
        if file.role == NodeRole::Data {
            return Ok(sign_own(&self.home, &file, &old, at)?);
        }
        let request = NodeKey::from_pem(&old.key).and_then(|key| key.request()).map_err(FormationError::from)?;
        let certificate = self.signed_by_others(of, &String::from_utf8_lossy(&request), runtime)?;
        let new = Identity { certificate: certificate.into_bytes(), ..old };
        new.check(at).map_err(FormationError::from)?;
        Ok(new)
    }

    /// From the first node with data that answers.
    fn signed_by_others(&self, of: &InCluster, request: &str, runtime: &Handle) -> Result<String, Problem> {
        let body = serde_json::to_vec(&CertificateCall { request: request.to_owned() }).expect("plain data");
        let nodes: Vec<Versioned<NodeRecord>> = of.directory.all()?;
        let mut why = vec!["no node with data is known".to_owned()];
        for node in nodes.iter().filter(|n| n.is_member() && n.role == NodeRole::Data) {
            let request = NodeRequest {
                method: "POST".into(),
                path: CERTIFICATE_PATH.into(),
                body: Some(body.clone()),
                administrator: None,
                nonce: None,
                wait: SIGN_MAX,
            };
            let answered = match runtime.block_on(of.sender.send(&node.name, request)) {
                Ok(answer) if answer.status == 200 => serde_json::from_slice::<CertificateAnswer>(&answer.body).map_err(|e| e.to_string()),
                Ok(answer) => Err(String::from_utf8_lossy(&answer.body).into_owned()),
                Err(error) => Err(error.to_string()),
            };
            match answered {
                Ok(answer) => return Ok(answer.certificate),
                Err(error) => why.push(format!("{}: {error}", node.shown_name())),
            }
        }
        let message = format!("no node with data has signed a certificate for this one: {}", why[why.len().min(2) - 1..].join("; "));
        Err(Problem::new(Code::Unavailable, message, "see whether a node with data is up and this one reaches it; then try again"))
    }

    fn use_certificate(&self, of: &InCluster, new: &Identity) -> Result<(), FormationError> {
        new.save_certificate(&self.home.folder())?;
        of.sender.renew(new)?;
        if of.file().external.is_none() {
            of.directory.client().set_identity(new)?;
        }
        // The listener takes it for the next connection.
        of.identity.send_replace(new.clone());
        Ok(())
    }

    /// Signs for a node of the cluster, which has proved who it is.
    pub(super) fn sign_for(
        &self,
        control: &Control,
        node: NodeId,
        from: IpAddr,
        call: &CertificateCall,
    ) -> Result<CertificateAnswer, Problem> {
        let gone = || Problem::new(Code::Unauthorized, format!("node {node} was removed from the cluster"), "let the server join anew");
        let name = control.member_with_id(node)?.ok_or_else(gone)?;
        let record = control.record_of(&name)?;
        let addresses = record.address.map(|a| names_of(a.ip(), Some(from))).unwrap_or_default();
        let authority = Authority::load(&self.home.folder()).map_err(FormationError::from)?;
        let signed = authority.sign(call.request.as_bytes(), &Subject::new(node.to_string(), addresses), now());
        let certificate = signed.map_err(|e| Problem::invalid(e.to_string(), "try again"))?;
        tracing::info!(node = %record.shown_name(), "a certificate was renewed");
        Ok(CertificateAnswer { certificate: String::from_utf8_lossy(&certificate).into_owned() })
    }
}

impl InCluster {
    /// What is wrong with certificates, of this node and for an external etcd. The caller says whose they are.
    pub(super) fn certificate_checks(&self, at: UnixSeconds) -> Vec<api::Check> {
        let failed = self.renewal.lock().unwrap_or_else(|e| e.into_inner()).failed.clone();
        let own = self.identity().validity().ok().and_then(|v| check_own(v, failed.as_deref(), at));
        let external = self.for_etcd.borrow().as_ref().and_then(|i| i.validity().ok());
        own.into_iter().chain(external.and_then(|v| check_external(v, at))).collect()
    }
}

fn health(validity: Validity, at: UnixSeconds) -> api::Health {
    if validity.left_s(at) < URGENT_S { api::Health::Error } else { api::Health::Warning }
}

fn ends(validity: Validity, at: UnixSeconds) -> String {
    match validity.left_s(at) {
        left if left < 0 => format!("ended {} h ago", -left / 3600),
        left if left < 2 * DAY_S => format!("ends in {} h", left / 3600),
        left => format!("ends in {} days", left / DAY_S),
    }
}

fn check_own(validity: Validity, failed: Option<&str>, at: UnixSeconds) -> Option<api::Check> {
    if failed.is_none() && !validity.nears_its_end(at) {
        return None;
    }
    let why = failed.map_or_else(String::new, |why| format!(", and it could not be renewed: {why}"));
    let near = validity.nears_its_end(at);
    Some(api::Check {
        id: "certificate".into(),
        health: if near { health(validity, at) } else { api::Health::Warning },
        subject: String::new(),
        message: format!("its certificate {}{why}", ends(validity, at)),
        action: "put right what the error says, then run 'basalt node renew-certificate' on this node; once it has ended, the node has to join anew"
            .into(),
    })
}

fn check_external(validity: Validity, at: UnixSeconds) -> Option<api::Check> {
    validity.nears_its_end(at).then(|| api::Check {
        id: "etcd_certificate".into(),
        health: health(validity, at),
        subject: String::new(),
        message: format!("its certificate for the external etcd {}; without one the directory cannot be reached", ends(validity, at)),
        action: "have a new one made by who runs etcd, then: basalt cluster set --etcd-cert FILE --etcd-key FILE".into(),
    })
}

#[cfg(test)]
#[path = "certificate_tests.rs"]
mod tests;
