//! What a target sends.

use super::header::{direction, pdu};

pdu! {
    /// NOP-In (11.19).
    NopIn = 0x20, fixed 0x80; flags {} bits {}
    fields {
        /// LUN, which goes with a target transfer tag.
        8 lun: [u8; 8],
        /// Host's task tag of what it answers, or [`super::NO_TAG`].
        16 tag: u32,
        /// Target transfer tag, when an answer is wanted; or [`super::NO_TAG`].
        20 transfer_tag: u32,
        /// StatSN.
        24 stat_sn: u32,
        /// ExpCmdSN.
        28 exp_cmd_sn: u32,
        /// MaxCmdSN.
        32 max_cmd_sn: u32,
    }
}
pdu! {
    /// SCSI Response (11.4).
    ScsiResponse = 0x21, fixed 0x80;
    flags {
        /// `residual` bytes more would have been transferred (O).
        overflow = 0x04,
        /// `residual` bytes of those expected were not (U).
        underflow = 0x02,
    }
    bits {}
    fields {
        /// Response: 0 completed at target, 1 target failure.
        2 response: u8,
        /// SCSI status.
        3 status: u8,
        /// Host's task tag.
        16 tag: u32,
        /// SNACK tag; 0.
        20 snack_tag: u32,
        /// StatSN.
        24 stat_sn: u32,
        /// ExpCmdSN.
        28 exp_cmd_sn: u32,
        /// MaxCmdSN.
        32 max_cmd_sn: u32,
        /// ExpDataSN: Data-In and R2T PDUs that were sent for the command.
        36 exp_data_sn: u32,
        /// Residual count, bytes.
        44 residual: u32,
    }
}
pdu! {
    /// Task Management Function Response (11.6).
    ManagementResponse = 0x22, fixed 0x80; flags {} bits {}
    fields {
        /// Response: see [`management_response`].
        2 response: u8,
        /// Host's task tag.
        16 tag: u32,
        /// StatSN.
        24 stat_sn: u32,
        /// ExpCmdSN.
        28 exp_cmd_sn: u32,
        /// MaxCmdSN.
        32 max_cmd_sn: u32,
    }
}
pdu! {
    /// Login Response (11.13).
    LoginResponse = 0x23, fixed 0;
    flags {
        /// On to the next stage (T).
        transit = 0x80,
        /// More text follows (C).
        more = 0x40,
    }
    bits {
        /// Current stage (CSG).
        stage = 0x03 << 2,
        /// Next stage (NSG).
        next = 0x03 << 0,
    }
    fields {
        /// Version-max.
        2 version_max: u8,
        /// Version-active.
        3 version_active: u8,
        /// ISID.
        8 isid: [u8; 6],
        /// TSIH.
        14 tsih: u16,
        /// Host's task tag.
        16 tag: u32,
        /// StatSN.
        24 stat_sn: u32,
        /// ExpCmdSN.
        28 exp_cmd_sn: u32,
        /// MaxCmdSN.
        32 max_cmd_sn: u32,
        /// Status class (high byte) and detail.
        36 status: u16,
    }
}
pdu! {
    /// Text Response (11.11).
    TextResponse = 0x24, fixed 0;
    flags {
        /// The last of the exchange (F).
        last = 0x80,
        /// More text follows (C).
        more = 0x40,
    }
    bits {}
    fields {
        /// LUN, which goes with a target transfer tag.
        8 lun: [u8; 8],
        /// Host's task tag.
        16 tag: u32,
        /// Target transfer tag, or [`super::NO_TAG`].
        20 transfer_tag: u32,
        /// StatSN.
        24 stat_sn: u32,
        /// ExpCmdSN.
        28 exp_cmd_sn: u32,
        /// MaxCmdSN.
        32 max_cmd_sn: u32,
    }
}
pdu! {
    /// SCSI Data-In (11.7).
    DataIn = 0x25, fixed 0;
    flags {
        /// The last of its sequence (F).
        last = 0x80,
        /// An acknowledgement is wanted (A).
        acknowledge = 0x40,
        /// `residual` bytes more would have been transferred (O).
        overflow = 0x04,
        /// `residual` bytes of those expected were not (U).
        underflow = 0x02,
        /// It has the status of the command (S).
        has_status = 0x01,
    }
    bits {}
    fields {
        /// SCSI status, with `has_status`.
        3 status: u8,
        /// LUN, which goes with a target transfer tag.
        8 lun: [u8; 8],
        /// Host's task tag.
        16 tag: u32,
        /// Target transfer tag, or [`super::NO_TAG`].
        20 transfer_tag: u32,
        /// StatSN, with `has_status`.
        24 stat_sn: u32,
        /// ExpCmdSN.
        28 exp_cmd_sn: u32,
        /// MaxCmdSN.
        32 max_cmd_sn: u32,
        /// DataSN.
        36 data_sn: u32,
        /// Buffer offset, bytes.
        40 offset: u32,
        /// Residual count, bytes.
        44 residual: u32,
    }
}
pdu! {
    /// Logout Response (11.15).
    LogoutResponse = 0x26, fixed 0x80; flags {} bits {}
    fields {
        /// Response: 0 closed, 1 CID not found, 2 recovery is not supported, 3 cleanup failed.
        2 response: u8,
        /// Host's task tag.
        16 tag: u32,
        /// StatSN.
        24 stat_sn: u32,
        /// ExpCmdSN.
        28 exp_cmd_sn: u32,
        /// MaxCmdSN.
        32 max_cmd_sn: u32,
        /// Time2Wait, seconds.
        40 wait: u16,
        /// Time2Retain, seconds.
        42 retain: u16,
    }
}
pdu! {
    /// Ready To Transfer (11.8).
    ReadyToTransfer = 0x31, fixed 0x80; flags {} bits {}
    fields {
        /// LUN.
        8 lun: [u8; 8],
        /// Host's task tag.
        16 tag: u32,
        /// Target transfer tag.
        20 transfer_tag: u32,
        /// StatSN: of the next status.
        24 stat_sn: u32,
        /// ExpCmdSN.
        28 exp_cmd_sn: u32,
        /// MaxCmdSN.
        32 max_cmd_sn: u32,
        /// R2TSN.
        36 r2t_sn: u32,
        /// Buffer offset, bytes.
        40 offset: u32,
        /// Desired data transfer length, bytes.
        44 bytes: u32,
    }
}
pdu! {
    /// Asynchronous Message (11.9).
    AsyncMessage = 0x32, fixed 0x80; flags {} bits {}
    fields {
        /// LUN, of a SCSI event.
        8 lun: [u8; 8],
        /// [`super::NO_TAG`].
        16 tag: u32,
        /// StatSN.
        24 stat_sn: u32,
        /// ExpCmdSN.
        28 exp_cmd_sn: u32,
        /// MaxCmdSN.
        32 max_cmd_sn: u32,
        /// AsyncEvent: 0 SCSI, 1 log out, 2 the connection is dropped, 3 all are, 4 negotiate.
        36 event: u8,
        /// AsyncVCode.
        37 vendor_code: u8,
        /// Parameter 1.
        38 parameter1: u16,
        /// Parameter 2.
        40 parameter2: u16,
        /// Parameter 3.
        42 parameter3: u16,
    }
}
pdu! {
    /// Reject (11.17). Its data is the header that is rejected.
    Reject = 0x3F, fixed 0x80; flags {} bits {}
    fields {
        /// Reason: see [`reject`].
        2 reason: u8,
        /// [`super::NO_TAG`].
        16 tag: u32,
        /// StatSN.
        24 stat_sn: u32,
        /// ExpCmdSN.
        28 exp_cmd_sn: u32,
        /// MaxCmdSN.
        32 max_cmd_sn: u32,
        /// DataSN or R2TSN, of a SNACK that is rejected.
        36 data_sn: u32,
    }
}

direction! {
    /// A PDU of a target.
    TargetPdu {
        /// NOP-In.
        NopIn(NopIn),
        /// SCSI Response.
        Response(ScsiResponse),
        /// Task Management Function Response.
        Management(ManagementResponse),
        /// Login Response.
        Login(LoginResponse),
        /// Text Response.
        Text(TextResponse),
        /// SCSI Data-In.
        DataIn(DataIn),
        /// Logout Response.
        Logout(LogoutResponse),
        /// Ready To Transfer.
        ReadyToTransfer(ReadyToTransfer),
        /// Asynchronous Message.
        Async(AsyncMessage),
        /// Reject.
        Reject(Reject),
    }
}

/// Responses to task management functions (11.6.1).
pub mod management_response {
    /// Function complete.
    pub const COMPLETE: u8 = 0;
    /// The task does not exist.
    pub const NO_TASK: u8 = 1;
    /// The LUN does not exist.
    pub const NO_LUN: u8 = 2;
    /// Task allegiance reassignment is not supported.
    pub const NO_REASSIGN: u8 = 4;
    /// The function is not supported.
    pub const NOT_SUPPORTED: u8 = 5;
    /// The function is rejected.
    pub const REJECTED: u8 = 255;
}

/// Reasons of a Reject (11.17.1).
pub mod reject {
    /// Data (payload) digest error.
    pub const DATA_DIGEST: u8 = 0x02;
    /// SNACK reject.
    pub const SNACK: u8 = 0x03;
    /// Protocol error.
    pub const PROTOCOL: u8 = 0x04;
    /// Command not supported.
    pub const NOT_SUPPORTED: u8 = 0x05;
    /// Too many immediate commands.
    pub const TOO_MANY_IMMEDIATE: u8 = 0x06;
    /// Invalid PDU field.
    pub const INVALID_FIELD: u8 = 0x09;
}
