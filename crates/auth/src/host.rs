//! The host's side of one queue's authentication: three steps, each a message in and a message out.
//!
//! Invariant: after an error the machine is of no more use; the queue has to end.
//! Never: sends a response before it has a challenge that is fresh and well formed.

use crate::compute::{Role, response};
use crate::controller::unknown;
use crate::dh::Exponent;
use crate::secret::Credentials;
use format::nvme::auth::{
    Challenge, DhGroup, FailureReason as Reason, HashId, Ids, MessageId, NO_CONCATENATION, Negotiate, Reply, Success1, failure,
    failure_code, success2,
};
use openssl::memcmp;

/// Why a host's authentication failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostFailure {
    /// The controller refused us (AUTH_Failure1).
    #[error("the controller refused us: {}", Reason::parse(*.0).map_or("reason unknown", Reason::text))]
    Refused(u8),
    /// We refuse the controller.
    #[error("the controller is refused: {}", .reason.text())]
    Wrong {
        /// Why.
        reason: Reason,
        /// AUTH_Failure2, to be sent before the queue ends.
        message: Vec<u8>,
    },
}

/// See the module.
pub struct HostAuth {
    credentials: Credentials,
    host_nqn: String,
    subsystem_nqn: String,
    t_id: u16,
    chosen: Option<(HashId, DhGroup)>,
    /// What the controller has to answer, when we asked it to prove itself.
    expected: Option<Vec<u8>>,
}

impl HostAuth {
    /// For one transaction on one queue. `t_id` should differ from those of transactions before.
    pub fn new(credentials: Credentials, host_nqn: &str, subsystem_nqn: &str, t_id: u16) -> Self {
        Self { credentials, host_nqn: host_nqn.to_owned(), subsystem_nqn: subsystem_nqn.to_owned(), t_id, chosen: None, expected: None }
    }
    /// The hash function and the group, once the controller has chosen.
    pub fn chosen(&self) -> Option<(HashId, DhGroup)> {
        self.chosen
    }
    fn wrong(&self, reason: Reason) -> HostFailure {
        HostFailure::Wrong { reason, message: failure(MessageId::Failure2, self.t_id, reason) }
    }
    fn expect(&self, message: &[u8], id: MessageId) -> Result<(), HostFailure> {
        match MessageId::of(message) {
            Some(MessageId::Failure1) => Err(HostFailure::Refused(failure_code(message).unwrap_or(0))),
            Some(got) if got == id => Ok(()),
            Some(_) => Err(self.wrong(Reason::IncorrectMessage)),
            None => Err(self.wrong(unknown(message))),
        }
    }

    /// AUTH_Negotiate.
    pub fn negotiate(&self) -> Vec<u8> {
        let hashes = Ids::new(self.credentials.hashes.iter().map(|h| h.id()));
        let groups = Ids::new(self.credentials.groups.iter().map(|g| g.id()));
        Negotiate { t_id: self.t_id, concatenation: NO_CONCATENATION, dhchap: Some((hashes, groups)) }.to_bytes()
    }

    /// The answer to the controller's challenge: DH-HMAC-CHAP_Reply.
    pub fn on_challenge(&mut self, message: &[u8], random: &mut dyn FnMut(&mut [u8])) -> Result<Vec<u8>, HostFailure> {
        self.expect(message, MessageId::Challenge)?;
        let c = Challenge::parse(message).filter(|c| c.t_id == self.t_id).ok_or_else(|| self.wrong(Reason::IncorrectPayload))?;
        let hash = HashId::parse(c.hash).filter(|h| self.credentials.hashes.contains(h)).ok_or_else(|| self.wrong(Reason::HashUnusable))?;
        let group =
            DhGroup::parse(c.group).filter(|g| self.credentials.groups.contains(g)).ok_or_else(|| self.wrong(Reason::GroupUnusable))?;
        if c.seq == 0 || c.challenge.len() != hash.bytes() || c.dh_value.len() != group.bytes() {
            return Err(self.wrong(Reason::IncorrectPayload));
        }
        self.chosen = Some((hash, group));
        let (mut public, mut shared) = (Vec::new(), None);
        if group != DhGroup::Null {
            let exponent = Exponent::new(group, random);
            shared = Some(exponent.shared(c.dh_value).map_err(|_| self.wrong(Reason::GroupUnusable))?);
            public = exponent.public().map_err(|_| self.wrong(Reason::Failed))?;
        }
        let shared = shared.as_ref().map(|s| &s[..]);
        let (host, subsystem) = (&*self.host_nqn, &*self.subsystem_nqn);
        let failed = |_| self.wrong(Reason::Failed);
        let key = self.credentials.host.key_for(host).map_err(failed)?;
        let mine = response(hash, Role::Host, &key, c.challenge, shared, c.seq, c.t_id, host, subsystem).map_err(failed)?;
        let mut ours = None;
        if let Some(secret) = &self.credentials.controller {
            let (mut challenge, mut seq) = (vec![0; hash.bytes()], [0; 4]);
            random(&mut challenge);
            random(&mut seq);
            let seq = u32::from_le_bytes(seq).max(1);
            let key = secret.key_for(subsystem).map_err(failed)?;
            let due = response(hash, Role::Controller, &key, &challenge, shared, seq, c.t_id, host, subsystem).map_err(failed)?;
            ours = Some((challenge, seq, due));
        }
        let (challenge, seq) = ours.as_ref().map_or((None, 0), |(challenge, seq, _)| (Some(&challenge[..]), *seq));
        let reply = Reply { t_id: c.t_id, seq, response: &mine, challenge, dh_value: &public }.to_bytes();
        self.expected = ours.map(|(_, _, due)| due);
        Ok(reply)
    }

    /// The controller's last message. When it had to prove itself and did, the answer is DH-HMAC-CHAP_Success2; otherwise nothing is to be sent.
    pub fn on_success1(&mut self, message: &[u8]) -> Result<Option<Vec<u8>>, HostFailure> {
        self.expect(message, MessageId::Success1)?;
        let s = Success1::parse(message).filter(|s| s.t_id == self.t_id).ok_or_else(|| self.wrong(Reason::IncorrectPayload))?;
        let digest = self.chosen.map(|(hash, _)| hash.bytes()).ok_or_else(|| self.wrong(Reason::IncorrectMessage))?;
        if usize::from(s.digest_bytes) != digest {
            return Err(self.wrong(Reason::IncorrectPayload));
        }
        let Some(expected) = self.expected.take() else { return Ok(None) };
        match s.response {
            Some(got) if got.len() == expected.len() && memcmp::eq(got, &expected) => Ok(Some(success2(self.t_id))),
            _ => Err(self.wrong(Reason::Failed)),
        }
    }
}
