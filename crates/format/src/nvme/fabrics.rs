//! Fabrics commands: Connect, Property Get and Set, Disconnect (base 6).
//!
//! Never: judges values; it hands them on.

use super::{
    AdminOpcode, FabricsType, Sgl, Sqe,
    text::{nqn_field, nqn_of},
};

/// The well-known NQN of the discovery service (base 4.5).
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// Controller ID that asks for any controller (dynamic model).
pub const CNTLID_DYNAMIC: u16 = 0xFFFF;
/// Controller ID that asks for any controller whose settings were kept (static model).
pub const CNTLID_STATIC: u16 = 0xFFFE;
/// Bytes of the data of a Connect command.
pub const CONNECT_DATA_BYTES: usize = 1024;
/// Byte offset of HOSTID, CNTLID, SUBNQN and HOSTNQN within Connect data, for [`connect_fault`].
pub const CONNECT_DATA_HOSTID: u16 = 0;
/// See [`CONNECT_DATA_HOSTID`].
pub const CONNECT_DATA_CNTLID: u16 = 16;
/// See [`CONNECT_DATA_HOSTID`].
pub const CONNECT_DATA_SUBNQN: u16 = 256;
/// See [`CONNECT_DATA_HOSTID`].
pub const CONNECT_DATA_HOSTNQN: u16 = 512;
/// Byte offset of QID within a Connect command, for [`connect_fault`].
pub const CONNECT_SQE_QID: u16 = 42;
/// Byte offset of SQSIZE within a Connect command.
pub const CONNECT_SQE_SQSIZE: u16 = 44;
/// Byte offset of CATTR within a Connect command.
pub const CONNECT_SQE_CATTR: u16 = 46;
/// Byte offset of KATO within a Connect command.
pub const CONNECT_SQE_KATO: u16 = 48;

/// A Connect command's own dwords (base 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    /// Record format: 0.
    pub recfmt: u16,
    /// Queue: 0 admin, else I/O.
    pub qid: u16,
    /// Entries of the submission queue, minus one.
    pub sqsize: u16,
    /// Connect attributes; bit 2 disables SQ flow control, bits 1:0 priority class, bit 3 individual I/O queue deletion.
    pub cattr: u8,
    /// Keep Alive Timeout in milliseconds; 0 none. Admin queue only.
    pub kato_ms: u32,
}

impl Connect {
    /// CATTR bit: no SQ flow control.
    pub const CATTR_NO_FLOW_CONTROL: u8 = 1 << 2;
    /// From a command.
    pub fn of(sqe: &Sqe) -> Self {
        Self {
            recfmt: sqe.cdw10 as u16,
            qid: (sqe.cdw10 >> 16) as u16,
            sqsize: sqe.cdw11 as u16,
            cattr: (sqe.cdw11 >> 16) as u8,
            kato_ms: sqe.cdw12,
        }
    }
    /// The command, its data in the capsule.
    pub fn sqe(&self, cid: u16) -> Sqe {
        Sqe {
            cdw10: u32::from(self.recfmt) | u32::from(self.qid) << 16,
            cdw11: u32::from(self.sqsize) | u32::from(self.cattr) << 16,
            cdw12: self.kato_ms,
            sgl: Sgl::in_capsule(0, CONNECT_DATA_BYTES as u32),
            ..fabrics_sqe(cid, FabricsType::Connect)
        }
    }
}

/// A fabrics command without its dwords.
pub fn fabrics_sqe(cid: u16, fctype: FabricsType) -> Sqe {
    Sqe { opcode: AdminOpcode::Fabrics.byte(), cid, nsid: u32::from(fctype.byte()), ..Sqe::default() }
}

/// A Disconnect command (base 6.4).
pub fn disconnect_sqe(cid: u16) -> Sqe {
    fabrics_sqe(cid, FabricsType::Disconnect)
}

layout! {
    /// The data of a Connect command (base figure 382).
    ConnectData[CONNECT_DATA_BYTES] {
        /// Host Identifier, 128 bits.
        0 host_id: [u8; 16],
        /// Controller asked for.
        16 cntlid: u16,
        /// NQN of the subsystem.
        256 subnqn: [u8; 256],
        /// NQN of the host.
        512 hostnqn: [u8; 256],
    }
}

impl ConnectData {
    /// From names.
    pub fn new(host_id: [u8; 16], cntlid: u16, subnqn: &str, hostnqn: &str) -> Self {
        Self { host_id, cntlid, subnqn: nqn_field(subnqn), hostnqn: nqn_field(hostnqn) }
    }
    /// The subsystem's NQN, when it is one.
    pub fn subsystem(&self) -> Option<&str> {
        nqn_of(&self.subnqn)
    }
    /// The host's NQN, when it is one, or the empty text when the field is all zero.
    pub fn host_or_none(&self) -> Option<&str> {
        if self.hostnqn.iter().all(|b| *b == 0) { Some("") } else { self.host() }
    }
    /// The host's NQN, when it is one.
    pub fn host(&self) -> Option<&str> {
        nqn_of(&self.hostnqn)
    }
}

/// AUTHREQ of a Connect's result: the host shall authenticate on this queue before anything else (ATR, base figure 383).
pub const AUTHREQ_ATR: u16 = 1 << 1;
/// AUTHREQ of a Connect's result: authentication with secure channel concatenation is needed (ASCR).
pub const AUTHREQ_ASCR: u16 = 1 << 2;

/// The result of a Connect that went well: controller ID, and whether authentication must follow (AUTHREQ).
pub fn connect_result(cntlid: u16, authreq: u16) -> u64 {
    u64::from(cntlid) | u64::from(authreq) << 16
}

/// The result of a Connect with invalid parameters: offset of the field (IPO) and whether it lies in the data (IATTR bit 0).
pub fn connect_fault(offset: u16, in_data: bool) -> u64 {
    u64::from(offset) | u64::from(in_data) << 16
}

/// A Property Get or Set (base 6.5, 6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropertyAccess {
    /// ATTRIB bits 2:0: 0 is 4 bytes, 1 is 8 bytes, others reserved.
    pub attrib: u8,
    /// Offset of the property.
    pub offset: u32,
    /// Value to set; for get, 0.
    pub value: u64,
}

impl PropertyAccess {
    /// From a command.
    pub fn of(sqe: &Sqe) -> Self {
        Self { attrib: sqe.cdw10 as u8 & 7, offset: sqe.cdw11, value: u64::from(sqe.cdw12) | u64::from(sqe.cdw13) << 32 }
    }
    /// Bytes of the access; `None` for a reserved size.
    pub fn bytes(&self) -> Option<usize> {
        match self.attrib {
            0 => Some(4),
            1 => Some(8),
            _ => None,
        }
    }
    /// A Property Get command.
    pub fn get_sqe(cid: u16, offset: u32, eight_bytes: bool) -> Sqe {
        Sqe { cdw10: eight_bytes.into(), cdw11: offset, ..fabrics_sqe(cid, FabricsType::PropertyGet) }
    }
    /// A Property Set command.
    pub fn set_sqe(cid: u16, offset: u32, eight_bytes: bool, value: u64) -> Sqe {
        Sqe {
            cdw10: eight_bytes.into(),
            cdw11: offset,
            cdw12: value as u32,
            cdw13: (value >> 32) as u32,
            ..fabrics_sqe(cid, FabricsType::PropertySet)
        }
    }
}
