//! Invitations, and letting in who comes with one.
//!
//! ```text
//!  invite ─► token ─► (another server) ─► judge ─► its record, the invitation used ─► its member of etcd, a learner ─► certificate and keys
//! ```
//!
//! Owns: the records of invitations, the record of a node that joins, its certificate.
//! Invariants: what is judged and what is written is one transaction; whoever has been let in and did not hear so gets the same answer again; the
//! names in a certificate are decided here.
//! Never: keeps the secret of a token: its hash is enough.

use super::create::{names_of, random_bytes};
use super::home::MembershipFile;
use super::wire::{Hidden, JoinAnswer, JoinCall, MemberOffer};
use super::{Formation, FormationError, InCluster, now};
use crate::api::types as api;
use crate::{Code, Control, Problem};
use authority::{Authority, Subject};
use base::{NodeId, NodeRole, SecretBytes};
use cluster::{INVITE_SECONDS_DEFAULT, INVITE_SECONDS_MAX, INVITES_MAX, InviteRecord, JoinRefused, KnownNode, Membership, judge_join};
use directory::record::NodeRecord;
use directory::{HeldName, Kind, Transaction, Typed, Versioned};
use etcd::message::Member;
use etcd::server::{MEMBERS_MAX, members};
use etcd::{Client, EtcdError};
use format::token::{JoinToken, TOKEN_ADDRESSES_MAX, TOKEN_SECRET_BYTES};
use openssl::{base64, sha::sha256};
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use tokio::{runtime::Handle, time::Instant};

/// A member of etcd is added within that time: one that was added before votes first.
const MEMBER_ADD_MAX: Duration = Duration::from_secs(60);
/// Between two attempts to add one.
const MEMBER_ADD_PAUSE: Duration = Duration::from_millis(500);
/// Used and expired invitations are forgotten after that, in seconds.
const INVITE_KEPT_S: u64 = 7 * 24 * 3600;

/// The id of the invitation with this secret.
pub(super) fn invite_id(secret: &[u8]) -> String {
    sha256(secret).iter().map(|b| format!("{b:02x}")).collect()
}

fn unix_s() -> u64 {
    now().0.unsigned_abs()
}

/// The same error as others see it.
pub(super) fn refused(error: &JoinRefused) -> Problem {
    let code = match error {
        JoinRefused::Unknown | JoinRefused::Expired { .. } | JoinRefused::Used { .. } => Code::Unauthorized,
        JoinRefused::Name { .. } => Code::Exists,
        JoinRefused::NoName(_) | JoinRefused::NoAddress(_) => Code::Invalid,
        _ => Code::Refused,
    };
    Problem::new(code, error.to_string(), error.action())
}

impl Formation {
    /// Makes an invitation: a token, to be carried to the server that is to join.
    pub fn invite(&self, control: &Control, new: &api::NewInvite) -> Result<api::Invite, Problem> {
        let of = self.cluster()?;
        if new.witness {
            let action = "invite a node with data; votes are cast by the members of that etcd";
            of.file().refuse_external("runs no member of it, so there is nothing for a witness to do", action)?;
        }
        let seconds = new.valid_s.unwrap_or(INVITE_SECONDS_DEFAULT);
        if seconds == 0 || seconds > INVITE_SECONDS_MAX {
            return Err(Problem::invalid(format!("a token cannot be good for {seconds} s"), format!("give 1 to {INVITE_SECONDS_MAX} s")));
        }
        let role = if new.witness { NodeRole::Witness } else { NodeRole::Data };
        let (secret, now_s): ([u8; TOKEN_SECRET_BYTES], u64) = (random_bytes(), unix_s());
        let record =
            InviteRecord { secret_sha256: invite_id(&secret), role, expires_unix_s: now_s + seconds, used_by: None, created_unix_s: now_s };
        control.change_records(|| {
            let all = control.directory().all::<InviteRecord>()?;
            let (old, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(|i| i.expires_unix_s + INVITE_KEPT_S < now_s);
            if kept.len() >= INVITES_MAX {
                let message = format!("there are {INVITES_MAX} tokens, as many as there can be");
                return Err(Problem::refused(message, "use one of them, or wait until some have expired"));
            }
            let forgotten = old.iter().take(INVITES_MAX).fold(Transaction::new().create(&record), Transaction::remove);
            Ok((forgotten, ()))
        })?;
        let token = JoinToken {
            role,
            cluster: of.file().cluster,
            secret: SecretBytes::new(secret.to_vec()),
            fingerprint: of.identity().authority_fingerprint().map_err(FormationError::from)?.0,
            expires_unix_s: record.expires_unix_s,
            addresses: self.token_addresses(control, &of.file())?,
        };
        Ok(api::Invite { token: token.build().expose().to_owned(), witness: new.witness, expires_unix_s: record.expires_unix_s })
    }

    /// Where nodes of the cluster that can let others in answer, this one first.
    fn token_addresses(&self, control: &Control, file: &MembershipFile) -> Result<Vec<SocketAddr>, Problem> {
        let nodes = control.directory().all::<NodeRecord>()?;
        let others = nodes.iter().filter(|n| n.is_member() && n.role == NodeRole::Data && n.name != file.name);
        let mut all = vec![file.address];
        all.extend(others.filter_map(|n| n.address).take(TOKEN_ADDRESSES_MAX - 1));
        Ok(all)
    }

    /// Lets a server in that comes with an invitation, or says why not. `from`: where its connection comes from.
    pub(super) fn admit(&self, control: &Control, call: &JoinCall, from: IpAddr, runtime: &Handle) -> Result<JoinAnswer, Problem> {
        let of = self.cluster()?;
        let authority = Authority::load(&self.home.folder()).map_err(FormationError::from)?;
        let secret = base64::decode_block(&call.secret.0).map_err(|_| refused(&JoinRefused::Unknown))?;
        let id = invite_id(&secret);
        let name = call.request.node.to_string();
        let external = self.external_answer(of)?;
        if call.request.role == NodeRole::Witness {
            of.file().refuse_external("runs no member of it, so there is nothing for a witness to do", "join as a node with data")?;
        }
        control.change_records(|| self.admitting(control, call, &id).map(|t| (t, ())))?;
        let members = self.add_member(control, call, runtime)?;
        let subject = Subject::new(&name, names_of(call.request.address.ip(), Some(from)));
        let certificate = authority
            .sign(call.certificate_request.as_bytes(), &subject, now())
            .map_err(|e| Problem::invalid(e.to_string(), "join again"))?;
        tracing::info!(node = %call.request.name, id = %name, role = call.request.role.word(), "a node has joined");
        let text = |pem: Vec<u8>| String::from_utf8_lossy(&pem).into_owned();
        let (endpoints, external) = external.map_or_else(|| (of.file().endpoints, None), |(endpoints, answer)| (endpoints, Some(answer)));
        let data = call.request.role == NodeRole::Data;
        let hidden = |bytes: &[u8]| Hidden(base64::encode_block(bytes));
        let key = |e: authority::AuthorityError| Problem::from(FormationError::from(e));
        Ok(JoinAnswer {
            cluster: of.file().cluster,
            name,
            role: call.request.role,
            authority: text(authority.certificate_pem().map_err(key)?),
            authority_key: if data { Some(Hidden(text(authority.key_pem().map_err(key)?.to_vec()))) } else { None },
            certificate: text(certificate),
            peers_secret: if data { Some(hidden(&self.home.peers_secret()?)) } else { None },
            vault_key: data.then(|| hidden(control.vault_key())),
            endpoints,
            members,
            external,
        })
    }

    /// Judges, and makes the record of the node that comes, in one transaction with the use of its invitation.
    fn admitting(&self, control: &Control, call: &JoinCall, id: &str) -> Result<Transaction, Problem> {
        let (directory, request) = (control.directory(), &call.request);
        let invite = directory.find::<InviteRecord>(id)?;
        let nodes = directory.all::<NodeRecord>()?;
        let known = |n: &Versioned<NodeRecord>| KnownNode {
            id: n.id,
            name: n.shown_name().to_owned(),
            address: n.address,
            removed: !n.is_member(),
        };
        let membership =
            Membership { cluster: directory.cluster(), release: control.version().to_owned(), nodes: nodes.iter().map(known).collect() };
        judge_join(&membership, invite.as_deref(), request, unix_s()).map_err(|e| refused(&e))?;
        let Some(mut invite) = invite else { return Err(refused(&JoinRefused::Unknown)) };
        invite.used_by = Some(request.node);
        let key = request.node.to_string();
        let there = nodes.into_iter().find(|n| n.name == key);
        if let Some(domain) = &request.fault_domain {
            cluster::check_name(domain)?;
        }
        let domain = request.fault_domain.clone().unwrap_or_else(|| request.name.clone());
        let node = NodeRecord {
            display_name: Some(request.name.clone()),
            id: Some(request.node),
            role: request.role,
            address: Some(request.address),
            etcd_peer: call.member.map(|m| m.peer),
            release: request.release.clone(),
            ..NodeRecord::new(key.clone(), domain, unix_s())
        };
        let mut t = Transaction::new().update(&invite);
        t = match HeldName::find(&*directory, Kind::Node, &request.name)? {
            Some(held) if directory.named(Kind::Node, &request.name)?.as_deref() == Some(&*key) => t.retake_name(&held, &key),
            Some(_) => return Err(refused(&JoinRefused::Name { name: request.name.clone() })),
            None => t.take_name(Kind::Node, &request.name, &key),
        };
        Ok(match there {
            // It has been let in before, and did not hear so: what it has by now stays.
            Some(there) => {
                let value = NodeRecord { address: node.address, etcd_peer: node.etcd_peer.or(there.etcd_peer), ..there.value };
                t.update(&Versioned { revision: there.revision, value })
            }
            None => t.create(&node),
        })
    }

    /// Adds the server's member of etcd as a learner, while there are fewer than [`MEMBERS_MAX`]. Gives all members that it starts with.
    fn add_member(&self, control: &Control, call: &JoinCall, runtime: &Handle) -> Result<Option<BTreeMap<String, SocketAddr>>, Problem> {
        let (of, Some(offer)) = (self.cluster()?, &call.member) else { return Ok(None) };
        let all = match of.file().external {
            Some(_) => None,
            None => runtime.block_on(add_when_possible(of, offer)).map_err(|e| Problem::from(FormationError::from(e)))?,
        };
        let Some(all) = all else {
            // No room, or nothing to do for it: its record says so.
            let key = call.request.node.to_string();
            control.change_records(|| {
                let mut node: Versioned<NodeRecord> = control.record_of(&key)?;
                node.etcd_peer = None;
                Ok((Transaction::new().update(&node), ()))
            })?;
            return Ok(None);
        };
        Ok(Some(members_of(&all, call.request.node, offer.peer)))
    }
}

/// `None`: there are as many members as are of use.
pub(super) async fn add_when_possible(of: &InCluster, offer: &MemberOffer) -> Result<Option<Vec<Member>>, EtcdError> {
    let (client, until) = (of.directory.client(), Instant::now() + MEMBER_ADD_MAX);
    let url = format!("https://{}", offer.peer);
    loop {
        let all = members::list(client, until).await?;
        let is_there = all.iter().any(|m| m.peer_urls.contains(&url));
        if !is_there && all.len() >= MEMBERS_MAX {
            return Ok(None);
        }
        // etcd takes one learner at a time.
        if !is_there && all.iter().any(|m| m.is_learner) && Instant::now() + MEMBER_ADD_PAUSE < until {
            tokio::time::sleep(MEMBER_ADD_PAUSE).await;
            continue;
        }
        match members::add(client, offer.peer, until).await {
            Ok(_) => return members::list(client, until).await.map(Some),
            // Another server was faster with its learner.
            Err(EtcdError::Refused(_)) if Instant::now() + MEMBER_ADD_PAUSE < until && learns(client, until).await? => {}
            Err(error) => return Err(error),
        }
    }
}

async fn learns(client: &Client, until: Instant) -> Result<bool, EtcdError> {
    Ok(members::list(client, until).await?.iter().any(|m| m.is_learner))
}

/// Names and peers of all members, the new one too. One that has not started yet has no name, and is not of use to a third.
pub(super) fn members_of(all: &[Member], node: NodeId, peer: SocketAddr) -> BTreeMap<String, SocketAddr> {
    let others = all.iter().filter(|m| !m.name.is_empty());
    let parse = |m: &Member| Some((m.name.clone(), m.peer_urls.first()?.strip_prefix("https://")?.parse().ok()?));
    let mut members: BTreeMap<String, SocketAddr> = others.filter_map(parse).collect();
    members.insert(node.to_string(), peer);
    members
}
