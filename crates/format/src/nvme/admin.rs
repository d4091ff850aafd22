//! The dwords of admin commands: Identify, Get Log Page, Get and Set Features, Abort, Namespace Management and Attachment, Format NVM
//! (base 5).

use super::{AdminOpcode, Sqe, feature::Select};

/// An Identify command (base 5.17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identify {
    /// Which structure.
    pub cns: u8,
    /// Controller, where the structure wants one.
    pub cntid: u16,
    /// Namespace.
    pub nsid: u32,
    /// Command set, where the structure wants one.
    pub csi: u8,
    /// CNS specific identifier.
    pub cnssid: u16,
}
impl Identify {
    /// From a command.
    pub fn of(sqe: &Sqe) -> Self {
        Self {
            cns: sqe.cdw10 as u8,
            cntid: (sqe.cdw10 >> 16) as u16,
            nsid: sqe.nsid,
            csi: (sqe.cdw11 >> 24) as u8,
            cnssid: sqe.cdw11 as u16,
        }
    }
    /// The command.
    pub fn sqe(&self, cid: u16) -> Sqe {
        Sqe {
            opcode: AdminOpcode::Identify.byte(),
            cid,
            nsid: self.nsid,
            cdw10: u32::from(self.cns) | u32::from(self.cntid) << 16,
            cdw11: u32::from(self.cnssid) | u32::from(self.csi) << 24,
            ..Sqe::default()
        }
    }
}

/// A Get Log Page command (base 5.16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetLogPage {
    /// Which log.
    pub lid: u8,
    /// Log specific parameter.
    pub lsp: u8,
    /// Retain the asynchronous event.
    pub rae: bool,
    /// Log specific identifier.
    pub lsi: u16,
    /// Dwords, minus one.
    pub numd: u32,
    /// Offset: bytes, or an index when `index`.
    pub offset: u64,
    /// The offset is an index.
    pub index: bool,
    /// Command set.
    pub csi: u8,
    /// Namespace.
    pub nsid: u32,
}
impl GetLogPage {
    /// From a command.
    pub fn of(sqe: &Sqe) -> Self {
        Self {
            lid: sqe.cdw10 as u8,
            lsp: (sqe.cdw10 >> 8) as u8 & 0x7F,
            rae: sqe.cdw10 >> 15 & 1 != 0,
            lsi: (sqe.cdw11 >> 16) as u16,
            numd: sqe.cdw10 >> 16 | sqe.cdw11 << 16,
            offset: u64::from(sqe.cdw12) | u64::from(sqe.cdw13) << 32,
            index: sqe.cdw14 >> 23 & 1 != 0,
            csi: (sqe.cdw14 >> 24) as u8,
            nsid: sqe.nsid,
        }
    }
    /// Bytes asked for.
    pub fn bytes(&self) -> u64 {
        (u64::from(self.numd) + 1) * 4
    }
    /// The command.
    pub fn sqe(&self, cid: u16) -> Sqe {
        Sqe {
            opcode: AdminOpcode::GetLogPage.byte(),
            cid,
            nsid: self.nsid,
            cdw10: u32::from(self.lid) | u32::from(self.lsp & 0x7F) << 8 | u32::from(self.rae) << 15 | (self.numd & 0xFFFF) << 16,
            cdw11: self.numd >> 16 | u32::from(self.lsi) << 16,
            cdw12: self.offset as u32,
            cdw13: (self.offset >> 32) as u32,
            cdw14: u32::from(self.index) << 23 | u32::from(self.csi) << 24,
            ..Sqe::default()
        }
    }
}

/// A Get Features command (base 5.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetFeatures {
    /// Which feature.
    pub fid: u8,
    /// Which value; `None` reserved.
    pub select: Option<Select>,
    /// Dword 11.
    pub cdw11: u32,
    /// Namespace.
    pub nsid: u32,
}
impl GetFeatures {
    /// From a command.
    pub fn of(sqe: &Sqe) -> Self {
        let select = match sqe.cdw10 >> 8 & 7 {
            0 => Some(Select::Current),
            1 => Some(Select::Default),
            2 => Some(Select::Saved),
            3 => Some(Select::Supported),
            _ => None,
        };
        Self { fid: sqe.cdw10 as u8, select, cdw11: sqe.cdw11, nsid: sqe.nsid }
    }
    /// The command.
    pub fn sqe(&self, cid: u16) -> Sqe {
        let sel = self.select.map_or(7, |s| s as u32);
        Sqe {
            opcode: AdminOpcode::GetFeatures.byte(),
            cid,
            nsid: self.nsid,
            cdw10: u32::from(self.fid) | sel << 8,
            cdw11: self.cdw11,
            ..Sqe::default()
        }
    }
}

/// A Set Features command (base 5.27).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetFeatures {
    /// Which feature.
    pub fid: u8,
    /// Save it.
    pub save: bool,
    /// Dword 11.
    pub cdw11: u32,
    /// Namespace.
    pub nsid: u32,
}
impl SetFeatures {
    /// From a command.
    pub fn of(sqe: &Sqe) -> Self {
        Self { fid: sqe.cdw10 as u8, save: sqe.cdw10 >> 31 != 0, cdw11: sqe.cdw11, nsid: sqe.nsid }
    }
    /// The command.
    pub fn sqe(&self, cid: u16) -> Sqe {
        Sqe {
            opcode: AdminOpcode::SetFeatures.byte(),
            cid,
            nsid: self.nsid,
            cdw10: u32::from(self.fid) | u32::from(self.save) << 31,
            cdw11: self.cdw11,
            ..Sqe::default()
        }
    }
}

/// An Abort command (base 5.1): dword 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abort {
    /// Queue of the command to abort.
    pub sqid: u16,
    /// Command to abort.
    pub cid: u16,
}
impl Abort {
    /// From a command.
    pub fn of(sqe: &Sqe) -> Self {
        Self { sqid: sqe.cdw10 as u16, cid: (sqe.cdw10 >> 16) as u16 }
    }
    /// The command.
    pub fn sqe(&self, cid: u16) -> Sqe {
        Sqe { opcode: AdminOpcode::Abort.byte(), cid, cdw10: u32::from(self.sqid) | u32::from(self.cid) << 16, ..Sqe::default() }
    }
}

/// What a Namespace Management command does (base 5.23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceAction {
    /// Create; the data is an Identify Namespace structure with the fields that a host chooses.
    Create,
    /// Delete.
    Delete,
}

/// A Namespace Management command (base 5.23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceManagement {
    /// What it does; `None` reserved.
    pub action: Option<NamespaceAction>,
    /// Command set of a namespace to be made.
    pub csi: u8,
    /// Namespace to delete.
    pub nsid: u32,
}
impl NamespaceManagement {
    /// From a command.
    pub fn of(sqe: &Sqe) -> Self {
        let action = match sqe.cdw10 & 0xF {
            0 => Some(NamespaceAction::Create),
            1 => Some(NamespaceAction::Delete),
            _ => None,
        };
        Self { action, csi: (sqe.cdw11 >> 24) as u8, nsid: sqe.nsid }
    }
    /// The command.
    pub fn sqe(&self, cid: u16) -> Sqe {
        Sqe {
            opcode: AdminOpcode::NamespaceManagement.byte(),
            cid,
            nsid: self.nsid,
            cdw10: self.action.map_or(0xF, |a| a as u32),
            cdw11: u32::from(self.csi) << 24,
            ..Sqe::default()
        }
    }
}

/// A Namespace Attachment command (base 5.22); its data is a controller list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceAttachment {
    /// True: attach, false: detach; `None` reserved.
    pub attach: Option<bool>,
    /// The namespace.
    pub nsid: u32,
}
impl NamespaceAttachment {
    /// From a command.
    pub fn of(sqe: &Sqe) -> Self {
        let attach = match sqe.cdw10 & 0xF {
            0 => Some(true),
            1 => Some(false),
            _ => None,
        };
        Self { attach, nsid: sqe.nsid }
    }
    /// The command.
    pub fn sqe(&self, cid: u16) -> Sqe {
        let sel = self.attach.map_or(0xF, |attach| u32::from(!attach));
        Sqe { opcode: AdminOpcode::NamespaceAttachment.byte(), cid, nsid: self.nsid, cdw10: sel, ..Sqe::default() }
    }
}

/// A Format NVM command (base 5.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatNvm {
    /// LBA format, by index.
    pub lba_format: u8,
    /// Protection information type.
    pub protection: u8,
    /// Secure erase: 0 none, 1 user data, 2 cryptographic.
    pub secure_erase: u8,
    /// The namespace.
    pub nsid: u32,
}
impl FormatNvm {
    /// From a command.
    pub fn of(sqe: &Sqe) -> Self {
        let d = sqe.cdw10;
        Self {
            lba_format: (d & 0xF | (d >> 12 & 3) << 4) as u8,
            protection: (d >> 5 & 7) as u8,
            secure_erase: (d >> 9 & 7) as u8,
            nsid: sqe.nsid,
        }
    }
    /// The command.
    pub fn sqe(&self, cid: u16) -> Sqe {
        let (f, p, e) = (u32::from(self.lba_format), u32::from(self.protection), u32::from(self.secure_erase));
        let cdw10 = f & 0xF | (f >> 4 & 3) << 12 | (p & 7) << 5 | (e & 7) << 9;
        Sqe { opcode: AdminOpcode::FormatNvm.byte(), cid, nsid: self.nsid, cdw10, ..Sqe::default() }
    }
}

/// A command with no fields of its own: Keep Alive, Asynchronous Event Request.
pub fn plain_sqe(opcode: AdminOpcode, cid: u16) -> Sqe {
    Sqe { opcode: opcode.byte(), cid, ..Sqe::default() }
}
