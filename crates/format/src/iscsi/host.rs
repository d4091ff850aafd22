//! What a host (the standard's initiator) sends.

use super::header::{direction, pdu};

pdu! {
    /// NOP-Out (11.18).
    NopOut = 0x00, fixed 0x80; flags {} bits {}
    fields {
        /// LUN, which goes with a target transfer tag.
        8 lun: [u8; 8],
        /// Host's task tag; [`super::NO_TAG`]: no answer is wanted.
        16 tag: u32,
        /// Target transfer tag of the NOP-In that this answers, or [`super::NO_TAG`].
        20 transfer_tag: u32,
        /// CmdSN.
        24 cmd_sn: u32,
        /// ExpStatSN.
        28 exp_stat_sn: u32,
    }
}
pdu! {
    /// SCSI Command (11.3).
    ScsiCommand = 0x01, fixed 0;
    flags {
        /// No unsolicited data follows (F).
        last = 0x80,
        /// It expects data (R).
        read = 0x40,
        /// It sends data (W).
        write = 0x20,
    }
    bits {
        /// Task attribute, 3 bits.
        attribute = 0x07 << 0,
    }
    fields {
        /// LUN.
        8 lun: [u8; 8],
        /// Host's task tag.
        16 tag: u32,
        /// Expected data transfer length, bytes.
        20 expected_bytes: u32,
        /// CmdSN.
        24 cmd_sn: u32,
        /// ExpStatSN.
        28 exp_stat_sn: u32,
        /// The CDB.
        32 cdb: [u8; 16],
    }
}
pdu! {
    /// Task Management Function Request (11.5).
    ManagementRequest = 0x02, fixed 0x80; flags {}
    bits {
        /// Function: see [`management`].
        function = 0x7F << 0,
    }
    fields {
        /// LUN.
        8 lun: [u8; 8],
        /// Host's task tag.
        16 tag: u32,
        /// Referenced task tag.
        20 referenced_tag: u32,
        /// CmdSN.
        24 cmd_sn: u32,
        /// ExpStatSN.
        28 exp_stat_sn: u32,
        /// RefCmdSN.
        32 ref_cmd_sn: u32,
        /// ExpDataSN.
        36 exp_data_sn: u32,
    }
}
pdu! {
    /// Login Request (11.12). Always for immediate delivery.
    LoginRequest = 0x03, fixed 0;
    flags {
        /// On to the next stage (T).
        transit = 0x80,
        /// More text follows (C).
        more = 0x40,
    }
    bits {
        /// Current stage (CSG): 0 security, 1 operational, 3 full feature.
        stage = 0x03 << 2,
        /// Next stage (NSG), with `transit`.
        next = 0x03 << 0,
    }
    fields {
        /// Version-max.
        2 version_max: u8,
        /// Version-min.
        3 version_min: u8,
        /// ISID.
        8 isid: [u8; 6],
        /// TSIH; 0: a new session.
        14 tsih: u16,
        /// Host's task tag.
        16 tag: u32,
        /// Connection ID.
        20 cid: u16,
        /// CmdSN.
        24 cmd_sn: u32,
        /// ExpStatSN.
        28 exp_stat_sn: u32,
    }
}
pdu! {
    /// Text Request (11.10).
    TextRequest = 0x04, fixed 0;
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
        /// CmdSN.
        24 cmd_sn: u32,
        /// ExpStatSN.
        28 exp_stat_sn: u32,
    }
}
pdu! {
    /// SCSI Data-Out (11.7).
    DataOut = 0x05, fixed 0;
    flags {
        /// The last of its sequence (F).
        last = 0x80,
    }
    bits {}
    fields {
        /// LUN, which goes with a target transfer tag.
        8 lun: [u8; 8],
        /// Host's task tag.
        16 tag: u32,
        /// Target transfer tag of the R2T, or [`super::NO_TAG`] for unsolicited data.
        20 transfer_tag: u32,
        /// ExpStatSN.
        28 exp_stat_sn: u32,
        /// DataSN.
        36 data_sn: u32,
        /// Buffer offset, bytes.
        40 offset: u32,
    }
}
pdu! {
    /// Logout Request (11.14).
    LogoutRequest = 0x06, fixed 0x80; flags {}
    bits {
        /// Reason: 0 close the session, 1 close the connection, 2 remove the connection for recovery.
        reason = 0x7F << 0,
    }
    fields {
        /// Host's task tag.
        16 tag: u32,
        /// Connection ID.
        20 cid: u16,
        /// CmdSN.
        24 cmd_sn: u32,
        /// ExpStatSN.
        28 exp_stat_sn: u32,
    }
}
pdu! {
    /// SNACK Request (11.16).
    SnackRequest = 0x10, fixed 0x80; flags {}
    bits {
        /// Type, 4 bits.
        kind = 0x0F << 0,
    }
    fields {
        /// LUN.
        8 lun: [u8; 8],
        /// Host's task tag.
        16 tag: u32,
        /// Target transfer tag.
        20 transfer_tag: u32,
        /// ExpStatSN.
        28 exp_stat_sn: u32,
        /// BegRun.
        40 first: u32,
        /// RunLength.
        44 count: u32,
    }
}

direction! {
    /// A PDU of a host.
    HostPdu {
        /// NOP-Out.
        NopOut(NopOut),
        /// SCSI Command.
        Command(ScsiCommand),
        /// Task Management Function Request.
        Management(ManagementRequest),
        /// Login Request.
        Login(LoginRequest),
        /// Text Request.
        Text(TextRequest),
        /// SCSI Data-Out.
        DataOut(DataOut),
        /// Logout Request.
        Logout(LogoutRequest),
        /// SNACK Request.
        Snack(SnackRequest),
    }
}

/// Task management functions (11.5.1).
pub mod management {
    /// ABORT TASK.
    pub const ABORT_TASK: u8 = 1;
    /// ABORT TASK SET.
    pub const ABORT_TASK_SET: u8 = 2;
    /// CLEAR ACA.
    pub const CLEAR_ACA: u8 = 3;
    /// CLEAR TASK SET.
    pub const CLEAR_TASK_SET: u8 = 4;
    /// LOGICAL UNIT RESET.
    pub const LOGICAL_UNIT_RESET: u8 = 5;
    /// TARGET WARM RESET.
    pub const TARGET_WARM_RESET: u8 = 6;
    /// TARGET COLD RESET.
    pub const TARGET_COLD_RESET: u8 = 7;
    /// TASK REASSIGN.
    pub const TASK_REASSIGN: u8 = 8;
}
