//! In-band authentication: the Authentication Send and Receive commands and the messages of DH-HMAC-CHAP (base 6.2, 8.13).
//!
//! ```text
//!   host                                              controller
//!    │ ── AUTH_Negotiate (hashes, DH groups) ───────────► │  Authentication Send
//!    │ ◄────────── DH-HMAC-CHAP_Challenge (C1, S1, g^x) ─ │  Authentication Receive
//!    │ ── DH-HMAC-CHAP_Reply (R1, C2, S2, g^y) ─────────► │  Authentication Send
//!    │ ◄──────────────── DH-HMAC-CHAP_Success1 (R2) ───── │  Authentication Receive
//!    │ ── DH-HMAC-CHAP_Success2 (when C2 was sent) ─────► │  Authentication Send
//! ```
//! AUTH_Failure1 takes the place of a message of the controller, AUTH_Failure2 of one of the host.
//!
//! Invariant: a message is taken only when its length is exactly what its fields say.
//! Never: computes or judges a value.

use super::{
    Field, Sqe,
    fabrics::fabrics_sqe,
    opcode::{AdminOpcode, FabricsType},
};

/// Security protocol of the commands: NVMe authentication (SPC-5 assigns E9h to NVMe).
pub const SECP_NVME: u8 = 0xE9;
/// Security protocol specific bytes 0 and 1 of the commands.
pub const SPSP: u8 = 1;
/// Authentication protocol of DH-HMAC-CHAP in a protocol descriptor.
pub const PROTOCOL_DHCHAP: u8 = 1;
/// Secure channel concatenation is not asked for.
pub const NO_CONCATENATION: u8 = 0;
/// Most identifiers in a list of AUTH_Negotiate.
pub const IDS_MAX: usize = 30;
/// Bytes of a message before what varies.
pub const FIXED_BYTES: usize = 16;
/// Bytes of AUTH_Failure1 and AUTH_Failure2.
pub const FAILURE_BYTES: usize = 8;
/// Bytes of AUTH_Negotiate before its protocol descriptors.
const NEGOTIATE_BYTES: usize = 8;
/// Bytes of a protocol descriptor.
const DESCRIPTOR_BYTES: usize = 64;
/// Descriptors that are looked at, at most.
const DESCRIPTORS_MAX: usize = 8;
/// The longest message: a reply with SHA-512 and an 8192-bit group.
pub const MESSAGE_BYTES_MAX: usize = FIXED_BYTES + 2 * 64 + 1024;

const _: () = assert!(MESSAGE_BYTES_MAX >= NEGOTIATE_BYTES + DESCRIPTORS_MAX * DESCRIPTOR_BYTES);

macro_rules! ids {
    ($(#[$meta:meta])* $name:ident { $( $(#[$v_meta:meta])* $variant:ident = $value:literal, $text:literal, $bytes:literal; )* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $( $(#[$v_meta])* $variant = $value, )* }
        impl $name {
            /// All of them, the weakest first.
            pub const ALL: &'static [$name] = &[$( $name::$variant ),*];
            /// From its identifier; `None` when unknown.
            pub const fn parse(id: u8) -> Option<Self> {
                match id { $( $value => Some(Self::$variant), )* _ => None }
            }
            /// Its identifier.
            pub const fn id(self) -> u8 {
                self as u8
            }
            /// As people write it.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $text, )* }
            }
            /// From what people write.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|x| x.name() == name)
            }
            /// Bytes of its values.
            pub const fn bytes(self) -> usize {
                match self { $( Self::$variant => $bytes, )* }
            }
        }
    };
}

ids! {
    /// A hash function (base figure 387); its values are digests.
    HashId {
        /// SHA-256.
        Sha256 = 1, "sha256", 32;
        /// SHA-384.
        Sha384 = 2, "sha384", 48;
        /// SHA-512.
        Sha512 = 3, "sha512", 64;
    }
}

ids! {
    /// A Diffie-Hellman group (base figure 388, RFC 7919); its values are numbers below its prime.
    DhGroup {
        /// No exchange: the challenge is used as it is.
        Null = 0, "null", 0;
        /// 2048 bits.
        Ffdhe2048 = 1, "ffdhe2048", 256;
        /// 3072 bits.
        Ffdhe3072 = 2, "ffdhe3072", 384;
        /// 4096 bits.
        Ffdhe4096 = 3, "ffdhe4096", 512;
        /// 6144 bits.
        Ffdhe6144 = 4, "ffdhe6144", 768;
        /// 8192 bits.
        Ffdhe8192 = 5, "ffdhe8192", 1024;
    }
}

/// Why an authentication failed (reason code explanation, base figure 392).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FailureReason {
    /// The secrets do not agree, or there is none.
    Failed = 1,
    /// No common authentication protocol.
    ProtocolUnusable = 2,
    /// Secure channel concatenation is wanted by one and not by the other.
    ConcatenationMismatch = 3,
    /// No common hash function.
    HashUnusable = 4,
    /// No common DH group, or a value that is none of it.
    GroupUnusable = 5,
    /// A field or a length of a message is wrong.
    IncorrectPayload = 6,
    /// Another message was due.
    IncorrectMessage = 7,
}

impl FailureReason {
    /// All of them.
    pub const ALL: [FailureReason; 7] = {
        use FailureReason as F;
        [
            F::Failed,
            F::ProtocolUnusable,
            F::ConcatenationMismatch,
            F::HashUnusable,
            F::GroupUnusable,
            F::IncorrectPayload,
            F::IncorrectMessage,
        ]
    };
    /// From its code; `None` for reserved ones.
    pub fn parse(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|r| *r as u8 == code)
    }
    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Failed => "authentication failed",
            Self::ProtocolUnusable => "no common authentication protocol",
            Self::ConcatenationMismatch => "secure channel concatenation mismatch",
            Self::HashUnusable => "no common hash function",
            Self::GroupUnusable => "no common DH group, or a bad DH value",
            Self::IncorrectPayload => "a message with a wrong field or length",
            Self::IncorrectMessage => "a message that was not due",
        }
    }
}

/// An Authentication Send or Receive command's own dwords (base figures 373 and 375).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthCommand {
    /// Security protocol: [`SECP_NVME`].
    pub secp: u8,
    /// Security protocol specific 0: [`SPSP`].
    pub spsp0: u8,
    /// Security protocol specific 1: [`SPSP`].
    pub spsp1: u8,
    /// Transfer length (Send) or allocation length (Receive), in bytes.
    pub bytes: u32,
}

impl AuthCommand {
    /// Whether an entry is one of the two commands.
    #[inline]
    pub fn is_named_by(sqe: &Sqe) -> bool {
        sqe.opcode == AdminOpcode::Fabrics.byte()
            && matches!(FabricsType::parse(sqe.fctype()), Some(FabricsType::AuthenticationSend | FabricsType::AuthenticationReceive))
    }
    /// With the fixed values.
    pub fn new(bytes: u32) -> Self {
        Self { secp: SECP_NVME, spsp0: SPSP, spsp1: SPSP, bytes }
    }
    /// From a command.
    pub fn of(sqe: &Sqe) -> Self {
        let [_, spsp0, spsp1, secp] = sqe.cdw10.to_le_bytes();
        Self { secp, spsp0, spsp1, bytes: sqe.cdw11 }
    }
    /// Whether the security protocol fields are those of NVMe authentication.
    pub fn is_nvme(&self) -> bool {
        (self.secp, self.spsp0, self.spsp1) == (SECP_NVME, SPSP, SPSP)
    }
    /// The Authentication Send command; its SGL is the caller's to set.
    pub fn send_sqe(&self, cid: u16) -> Sqe {
        self.sqe(cid, FabricsType::AuthenticationSend)
    }
    /// The Authentication Receive command; its SGL is the caller's to set.
    pub fn receive_sqe(&self, cid: u16) -> Sqe {
        self.sqe(cid, FabricsType::AuthenticationReceive)
    }
    fn sqe(&self, cid: u16, fctype: FabricsType) -> Sqe {
        Sqe { cdw10: u32::from_le_bytes([0, self.spsp0, self.spsp1, self.secp]), cdw11: self.bytes, ..fabrics_sqe(cid, fctype) }
    }
}

/// Which message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageId {
    /// AUTH_Negotiate.
    Negotiate,
    /// DH-HMAC-CHAP_Challenge.
    Challenge,
    /// DH-HMAC-CHAP_Reply.
    Reply,
    /// DH-HMAC-CHAP_Success1.
    Success1,
    /// DH-HMAC-CHAP_Success2.
    Success2,
    /// AUTH_Failure1: of the controller.
    Failure1,
    /// AUTH_Failure2: of the host.
    Failure2,
}

impl MessageId {
    const fn bytes(self) -> [u8; 2] {
        match self {
            Self::Negotiate => [0, 0],
            Self::Failure2 => [0, 0xF0],
            Self::Failure1 => [0, 0xF1],
            Self::Challenge => [1, 1],
            Self::Reply => [1, 2],
            Self::Success1 => [1, 3],
            Self::Success2 => [1, 4],
        }
    }
    /// Which message this is; `None` when it is none, or too short for one.
    pub fn of(message: &[u8]) -> Option<Self> {
        let head = message.get(..FAILURE_BYTES)?;
        use MessageId as M;
        [M::Negotiate, M::Challenge, M::Reply, M::Success1, M::Success2, M::Failure1, M::Failure2]
            .into_iter()
            .find(|m| m.bytes()[..] == head[..2])
    }
}

/// The transaction that a message belongs to (T_ID); 0 when it is too short to tell.
pub fn transaction_of(message: &[u8]) -> u16 {
    message.get(4..6).map_or(0, u16::get)
}

fn head(id: MessageId, t_id: u16, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    out[..2].copy_from_slice(&id.bytes());
    t_id.put(&mut out[4..]);
    out
}

/// Identifiers of one kind, the most wanted first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ids {
    list: [u8; IDS_MAX],
    len: u8,
}

impl Ids {
    /// The first [`IDS_MAX`] of `ids`.
    pub fn new(ids: impl IntoIterator<Item = u8>) -> Self {
        let mut out = Self { list: [0; IDS_MAX], len: 0 };
        for (to, id) in out.list.iter_mut().zip(ids) {
            *to = id;
            out.len += 1;
        }
        out
    }
    /// The identifiers.
    pub fn as_slice(&self) -> &[u8] {
        &self.list[..usize::from(self.len)]
    }
    fn parse(list: &[u8], len: u8) -> Option<Self> {
        (usize::from(len) <= IDS_MAX).then(|| Self::new(list[..usize::from(len)].iter().copied()))
    }
}

impl core::fmt::Debug for Ids {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.as_slice().fmt(f)
    }
}

/// AUTH_Negotiate (base figure 384): what the host can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiate {
    /// Transaction.
    pub t_id: u16,
    /// Secure channel concatenation asked for; [`NO_CONCATENATION`] none.
    pub concatenation: u8,
    /// Hash functions and DH groups of its first DH-HMAC-CHAP descriptor; `None` when it has no such descriptor.
    pub dhchap: Option<(Ids, Ids)>,
}

impl Negotiate {
    /// From a message; `None` when a length is wrong.
    pub fn parse(message: &[u8]) -> Option<Self> {
        let count = usize::from(*message.get(7)?);
        if MessageId::of(message) != Some(MessageId::Negotiate)
            || count > DESCRIPTORS_MAX
            || message.len() != NEGOTIATE_BYTES + count * DESCRIPTOR_BYTES
        {
            return None;
        }
        let mut dhchap = None;
        for d in message[NEGOTIATE_BYTES..].chunks_exact(DESCRIPTOR_BYTES).filter(|d| d[0] == PROTOCOL_DHCHAP).take(1) {
            dhchap = Some((Ids::parse(&d[4..4 + IDS_MAX], d[2])?, Ids::parse(&d[4 + IDS_MAX..], d[3])?));
        }
        Some(Self { t_id: transaction_of(message), concatenation: message[6], dhchap })
    }
    /// The message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let count = usize::from(self.dhchap.is_some());
        let mut out = head(MessageId::Negotiate, self.t_id, NEGOTIATE_BYTES + count * DESCRIPTOR_BYTES);
        out[6] = self.concatenation;
        out[7] = count as u8;
        if let Some((hashes, groups)) = &self.dhchap {
            let d = &mut out[NEGOTIATE_BYTES..];
            (d[0], d[2], d[3]) = (PROTOCOL_DHCHAP, hashes.len, groups.len);
            d[4..4 + IDS_MAX].copy_from_slice(&hashes.list);
            d[4 + IDS_MAX..].copy_from_slice(&groups.list);
        }
        out
    }
}

/// DH-HMAC-CHAP_Challenge (base figure 389).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge<'a> {
    /// Transaction.
    pub t_id: u16,
    /// Hash function: how the controller chose.
    pub hash: u8,
    /// DH group: how the controller chose.
    pub group: u8,
    /// Sequence number S1, not 0.
    pub seq: u32,
    /// The challenge C1: as long as a digest.
    pub challenge: &'a [u8],
    /// The controller's DH value.
    pub dh_value: &'a [u8],
}

impl<'a> Challenge<'a> {
    /// From a message; what is behind it (Authentication Receive may bring more) is passed over. `None` when it is cut short.
    pub fn parse(message: &'a [u8]) -> Option<Self> {
        let fixed = message.get(..FIXED_BYTES).filter(|m| MessageId::of(m) == Some(MessageId::Challenge))?;
        let (hl, dhvlen) = (usize::from(fixed[6]), usize::from(u16::get(&fixed[10..])));
        let rest = message.get(FIXED_BYTES..FIXED_BYTES + hl + dhvlen)?;
        let (challenge, dh_value) = rest.split_at(hl);
        Some(Self { t_id: transaction_of(fixed), hash: fixed[8], group: fixed[9], seq: u32::get(&fixed[12..]), challenge, dh_value })
    }
    /// The message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let hl = self.challenge.len();
        let mut out = head(MessageId::Challenge, self.t_id, FIXED_BYTES + hl + self.dh_value.len());
        (out[6], out[8], out[9]) = (hl as u8, self.hash, self.group);
        (self.dh_value.len() as u16).put(&mut out[10..]);
        self.seq.put(&mut out[12..]);
        out[FIXED_BYTES..FIXED_BYTES + hl].copy_from_slice(self.challenge);
        out[FIXED_BYTES + hl..].copy_from_slice(self.dh_value);
        out
    }
}

/// DH-HMAC-CHAP_Reply (base figure 390).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Transaction.
    pub t_id: u16,
    /// Sequence number S2; 0 when the controller need not prove itself.
    pub seq: u32,
    /// The response R1: as long as a digest.
    pub response: &'a [u8],
    /// The challenge C2, when the controller is to prove itself.
    pub challenge: Option<&'a [u8]>,
    /// The host's DH value.
    pub dh_value: &'a [u8],
}

impl<'a> Reply<'a> {
    /// From a message; `None` when a length or CVALID is wrong.
    pub fn parse(message: &'a [u8]) -> Option<Self> {
        let fixed = message.get(..FIXED_BYTES).filter(|m| MessageId::of(m) == Some(MessageId::Reply))?;
        let (hl, dhvlen) = (usize::from(fixed[6]), usize::from(u16::get(&fixed[10..])));
        if fixed[8] > 1 || message.len() != FIXED_BYTES + 2 * hl + dhvlen {
            return None;
        }
        let (response, rest) = message[FIXED_BYTES..].split_at(hl);
        let (challenge, dh_value) = rest.split_at(hl);
        let challenge = (fixed[8] == 1).then_some(challenge);
        Some(Self { t_id: transaction_of(fixed), seq: u32::get(&fixed[12..]), response, challenge, dh_value })
    }
    /// The message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let hl = self.response.len();
        let mut out = head(MessageId::Reply, self.t_id, FIXED_BYTES + 2 * hl + self.dh_value.len());
        (out[6], out[8]) = (hl as u8, self.challenge.is_some().into());
        (self.dh_value.len() as u16).put(&mut out[10..]);
        self.seq.put(&mut out[12..]);
        out[FIXED_BYTES..FIXED_BYTES + hl].copy_from_slice(self.response);
        if let Some(challenge) = self.challenge {
            out[FIXED_BYTES + hl..FIXED_BYTES + 2 * hl].copy_from_slice(challenge);
        }
        out[FIXED_BYTES + 2 * hl..].copy_from_slice(self.dh_value);
        out
    }
}

/// DH-HMAC-CHAP_Success1 (base figure 391).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Success1<'a> {
    /// Transaction.
    pub t_id: u16,
    /// Bytes of a digest of the hash function in use (HL).
    pub digest_bytes: u8,
    /// The response R2, when there was a challenge C2.
    pub response: Option<&'a [u8]>,
}

impl<'a> Success1<'a> {
    /// From a message; what is behind it is passed over. `None` when it is cut short.
    pub fn parse(message: &'a [u8]) -> Option<Self> {
        let fixed = message.get(..FIXED_BYTES).filter(|m| MessageId::of(m) == Some(MessageId::Success1))?;
        let response = match fixed[8] {
            0 => None,
            _ => Some(message.get(FIXED_BYTES..FIXED_BYTES + usize::from(fixed[6]))?),
        };
        Some(Self { t_id: transaction_of(fixed), digest_bytes: fixed[6], response })
    }
    /// The message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = head(MessageId::Success1, self.t_id, FIXED_BYTES + usize::from(self.digest_bytes));
        (out[6], out[8]) = (self.digest_bytes, self.response.is_some().into());
        if let Some(response) = self.response {
            out[FIXED_BYTES..].copy_from_slice(response);
        }
        out
    }
}

/// DH-HMAC-CHAP_Success2: 16 bytes.
pub fn success2(t_id: u16) -> Vec<u8> {
    head(MessageId::Success2, t_id, FIXED_BYTES)
}

/// AUTH_Failure1 (of a controller) or AUTH_Failure2 (of a host), base figure 385 and 386.
pub fn failure(id: MessageId, t_id: u16, reason: FailureReason) -> Vec<u8> {
    let mut out = head(id, t_id, FAILURE_BYTES);
    (out[6], out[7]) = (1, reason as u8);
    out
}

/// The reason code explanation of AUTH_Failure1 or AUTH_Failure2.
pub fn failure_code(message: &[u8]) -> Option<u8> {
    matches!(MessageId::of(message)?, MessageId::Failure1 | MessageId::Failure2).then(|| message[7])
}
