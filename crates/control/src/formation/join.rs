//! `cluster join` and `witness join`: this server becomes a node of a cluster that is there.
//!
//! ```text
//!  token ─► nothing to lose here, or it may be destroyed ─► key and request ─► let in by a node of the cluster ─► keys and certificate kept
//!        ─► what is here destroyed ─► cluster.json ─► the daemon starts itself anew
//! ```
//!
//! Invariants: the private key of this node stays here; nothing is destroyed before the cluster has let this server in; a server that tries again
//! with the same token is the same node.
//! Never: joins with what would be lost without being asked to destroy it.

use super::admit::{invite_id, refused};
use super::client::{Broken, send_unknown};
use super::create::{Addresses, random_bytes};
use super::external::External;
use super::home::{ExternalFile, Joining, MemberFile, MembershipFile};
use super::wire::{Hidden, JOIN_PATH, JoinAnswer, JoinCall, MemberOffer};
use super::{Ending, Formation, FormationError, now};
use crate::api::types as api;
use crate::cluster_client::NodeRequest;
use crate::{Code, Control, Problem};
use authority::{Authority, AuthorityError, Fingerprint, Identity, NodeKey};
use base::{NodeId, NodeRole};
use cluster::{JoinRefused, JoinRequest};
use directory::Typed;
use directory::record::{GroupRecord, HostEntryRecord, VolumeRecord};
use format::token::JoinToken;
use openssl::base64;
use std::time::Duration;
use tokio::runtime::Handle;
use zeroize::Zeroizing;

/// A node of the cluster answers within that time: it adds a member of etcd meanwhile.
const ANSWER_MAX: Duration = Duration::from_secs(90);
/// Names of what would be lost, in a message.
const LOST_NAMES_MAX: usize = 8;

impl Formation {
    /// Joins. When it returns well, the daemon is about to start itself anew as a node of the cluster.
    pub fn join(&self, control: &Control, new: &api::Join, runtime: &Handle) -> Result<api::ClusterFormed, Problem> {
        let _one = self.forming();
        self.refuse_member()?;
        let token =
            JoinToken::parse(&new.token).map_err(|e| Problem::invalid(e.to_string(), "make a new one with 'basalt node invite'"))?;
        let wanted = if new.witness { NodeRole::Witness } else { NodeRole::Data };
        if token.role != wanted {
            return Err(refused(&JoinRefused::Role { token: token.role, wanted }));
        }
        if !new.destroy {
            refuse_loss(control)?;
        }
        let addresses = Addresses::of(&new.address)?;
        let (node, key) = (self.identity_for(control, &token, new.destroy)?, NodeKey::new().map_err(FormationError::from)?);
        let name = match &new.name {
            Some(name) => name.clone(),
            None => control.own_record()?.shown_name().to_owned(),
        };
        let request = JoinRequest {
            cluster: token.cluster,
            role: token.role,
            node,
            name: name.clone(),
            fault_domain: new.fault_domain.clone(),
            address: addresses.cluster,
            release: control.version().to_owned(),
            clock_unix_s: now().0.unsigned_abs(),
        };
        let call = JoinCall {
            secret: Hidden(base64::encode_block(&token.secret)),
            request,
            certificate_request: String::from_utf8_lossy(&key.request().map_err(FormationError::from)?).into_owned(),
            member: self.programs.join("etcd").exists().then_some(MemberOffer { client: addresses.client, peer: addresses.peer }),
        };
        if call.member.is_none() && token.role == NodeRole::Witness {
            let message = format!("a witness runs etcd, and there is none in {}", self.programs.display());
            return Err(Problem::new(Code::Unavailable, message, "install etcd (docs/etcd.md says how), or set cluster.etcd_programs"));
        }
        let answer = runtime.block_on(ask(&token, &call))?;
        let file = self.keep_answer(&answer, &key, node, addresses)?;
        let file = self.try_external(file, new.etcd.as_ref(), runtime).inspect_err(|_| drop(self.home.clear()))?;
        if new.destroy {
            control.destroy_all()?;
        }
        let held = control.hold_changes();
        self.commit_membership(&file)?;
        held.for_ever();
        self.end(Ending::Again);
        tracing::info!(cluster = %answer.cluster, "this server has joined a cluster; the daemon starts itself anew");
        Ok(api::ClusterFormed { cluster: answer.cluster.to_string(), node: name, address: addresses.cluster.to_string() })
    }

    /// As whom it joins: as who it is; with a new identity when what it has is destroyed. The same again with the same token.
    fn identity_for(&self, control: &Control, token: &JoinToken, new: bool) -> Result<NodeId, Problem> {
        let invite = invite_id(&token.secret);
        if let Some(before) = self.home.joining().filter(|j| j.invite == invite) {
            return Ok(before.node);
        }
        let own = if new { None } else { control.own_record()?.id };
        let node = own.unwrap_or_else(|| NodeId::from_random(random_bytes()));
        self.home.save_joining(&Joining { invite, node })?;
        Ok(node)
    }

    /// Somebody else runs the cluster's etcd: nothing is destroyed here before this server has reached it. `own`: settings for this node alone.
    fn try_external(&self, file: MembershipFile, own: Option<&api::EtcdSettings>, runtime: &Handle) -> Result<MembershipFile, Problem> {
        if file.external.is_none() {
            let message = "the cluster's nodes run its etcd: there is nothing to set for it";
            return own.map_or(Ok(file), |_| Err(Problem::invalid(message, "leave --etcd-… out, and join again with the same token")));
        }
        let mut external = External::of(&self.home, &file)?;
        if let Some(own) = own {
            external = External::given(own, Some(&external))?;
            self.home.save_external(&external.identity)?;
        }
        external.look_for(file.cluster, None, runtime).map_err(|p| {
            let action = format!("{}; then join again with the same token (--etcd-endpoints gives this server other ones)", p.action);
            Problem::new(p.code, format!("this server cannot use the cluster's etcd, which somebody else runs: {}", p.message), action)
        })?;
        Ok(MembershipFile { endpoints: external.texts(), ..file })
    }

    fn keep_answer(
        &self,
        answer: &JoinAnswer,
        key: &NodeKey,
        node: NodeId,
        addresses: Addresses,
    ) -> Result<MembershipFile, FormationError> {
        self.home.prepare()?;
        let folder = self.home.folder();
        let identity = Identity {
            authority: answer.authority.clone().into_bytes(),
            certificate: answer.certificate.clone().into_bytes(),
            key: key.to_pem()?,
        };
        identity.check(now())?;
        identity.save(&folder)?;
        if let Some(key) = &answer.authority_key {
            Authority::from_pem(&identity.authority, key.0.as_bytes())?.save(&folder)?;
        }
        if let Some(secret) = &answer.peers_secret {
            self.home.save_peers_secret(&opened(secret))?;
        }
        if let Some(key) = &answer.vault_key {
            self.home.save_vault_key(&opened(key))?;
        }
        let mut file = MembershipFile::new(answer.cluster, node, answer.name.clone(), addresses.cluster);
        file.role = answer.role;
        file.endpoints.clone_from(&answer.endpoints);
        if let Some(external) = &answer.external {
            self.home.save_external(&Identity {
                authority: external.authority.clone().into_bytes(),
                certificate: external.certificate.clone().into_bytes(),
                key: Zeroizing::new(external.key.0.clone().into_bytes()),
            })?;
            let (endpoints_serial, credentials_serial) = (external.endpoints_serial, external.credentials_serial);
            file.external = Some(ExternalFile { endpoints_serial, credentials_serial });
        }
        let member = |members| MemberFile { client: addresses.client, peer: addresses.peer, members, token: None };
        file.member = answer.members.clone().map(member);
        Ok(file)
    }
}

fn opened(hidden: &Hidden) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(base64::decode_block(&hidden.0).unwrap_or_default())
}

/// Asks the nodes in the token, one after the other, until one has it.
async fn ask(token: &JoinToken, call: &JoinCall) -> Result<JoinAnswer, Problem> {
    let body = Zeroizing::new(serde_json::to_vec(call).expect("plain data"));
    let request = NodeRequest {
        method: "POST".into(),
        path: JOIN_PATH.into(),
        body: Some(body.to_vec()),
        administrator: None,
        nonce: None,
        wait: ANSWER_MAX,
    };
    let mut tried = Vec::new();
    for address in &token.addresses {
        let answer = match send_unknown(*address, Fingerprint(token.fingerprint), &request).await {
            Ok(answer) => answer,
            Err(broken @ Broken::NotSent(_)) => {
                tried.push(format!("{address}: {}", broken.why()));
                continue;
            }
            Err(broken @ Broken::NoAnswer(_)) => {
                let message = format!("node {address} took the request and did not answer: {}", broken.why());
                return Err(Problem::new(Code::Unavailable, message, "join again with the same token"));
            }
        };
        if answer.status != 200 {
            let unknown = |_| {
                let message = format!("node {address} answered with status {}", answer.status);
                Problem::new(Code::Internal, message, "are this server and the cluster of neighbouring releases?")
            };
            return Err(serde_json::from_slice(&answer.body).unwrap_or_else(unknown));
        }
        let wrong = |e: serde_json::Error| {
            let message = format!("the answer of node {address} is not understood: {e}");
            Problem::new(Code::Internal, message, "install the release of the cluster on this server")
        };
        return serde_json::from_slice(&answer.body).map_err(wrong);
    }
    let message = format!("no node of the cluster can be reached: {}", tried.join("; "));
    let action =
        "see whether the nodes run and the network lets this server reach them; 'basalt node invite' makes a token with today's addresses";
    Err(Problem::new(Code::Unavailable, message, action))
}

/// What this server has of its own would be lost.
fn refuse_loss(control: &Control) -> Result<(), Problem> {
    let directory = control.directory();
    let volumes: Vec<String> =
        directory.all::<VolumeRecord>()?.into_iter().filter(|v| v.place_of.is_none()).map(|v| v.value.name).collect();
    let groups: Vec<String> = directory.all::<GroupRecord>()?.into_iter().map(|g| g.value.name).collect();
    let hosts: Vec<String> = directory.all::<HostEntryRecord>()?.into_iter().map(|h| h.value.name).collect();
    if volumes.is_empty() && groups.is_empty() && hosts.is_empty() {
        return Ok(());
    }
    let (volumes, groups, hosts) = (some("volume", &volumes), some("disk group", &groups), some("named host", &hosts));
    let message = format!("this server has {volumes}, {groups} and {hosts}: they would be lost");
    let action =
        "join with --destroy to lose them; or make the cluster on this server ('basalt cluster create') and let the others join it";
    Err(Problem::refused(message, action))
}

fn some(what: &str, names: &[String]) -> String {
    let more = if names.len() > LOST_NAMES_MAX { ", .." } else { "" };
    let named = names.iter().take(LOST_NAMES_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => format!("no {what}s"),
        1 => format!("the {what} {named}"),
        n => format!("{n} {what}s ({named}{more})"),
    }
}

impl From<AuthorityError> for Problem {
    fn from(error: AuthorityError) -> Self {
        FormationError::from(error).into()
    }
}
