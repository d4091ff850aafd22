//! Opcodes (base figure 138 and 390; nvm figure 21).

use base::IoVerb;

macro_rules! opcodes {
    ($(#[$meta:meta])* $name:ident { $( $(#[$v_meta:meta])* $variant:ident = $value:literal, )* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $( $(#[$v_meta])* #[doc = concat!("Opcode ", stringify!($value), ".")] $variant = $value, )* }
        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$( $name::$variant ),*];
            /// From its byte; `None` when unknown.
            pub const fn parse(byte: u8) -> Option<Self> {
                match byte { $( $value => Some(Self::$variant), )* _ => None }
            }
            /// Its byte.
            pub const fn byte(self) -> u8 {
                self as u8
            }
        }
    };
}

opcodes! {
    /// Commands of the admin queue.
    AdminOpcode {
        DeleteIoSq = 0x00,
        CreateIoSq = 0x01,
        GetLogPage = 0x02,
        DeleteIoCq = 0x04,
        CreateIoCq = 0x05,
        Identify = 0x06,
        Abort = 0x08,
        SetFeatures = 0x09,
        GetFeatures = 0x0A,
        AsyncEventRequest = 0x0C,
        NamespaceManagement = 0x0D,
        FirmwareCommit = 0x10,
        FirmwareDownload = 0x11,
        DeviceSelfTest = 0x14,
        NamespaceAttachment = 0x15,
        KeepAlive = 0x18,
        DirectiveSend = 0x19,
        DirectiveReceive = 0x1A,
        VirtualizationManagement = 0x1C,
        MiSend = 0x1D,
        MiReceive = 0x1E,
        CapacityManagement = 0x20,
        Lockdown = 0x24,
        DoorbellBufferConfig = 0x7C,
        Fabrics = 0x7F,
        FormatNvm = 0x80,
        SecuritySend = 0x81,
        SecurityReceive = 0x82,
        Sanitize = 0x84,
        GetLbaStatus = 0x86,
    }
}

opcodes! {
    /// Commands of an I/O queue, NVM command set.
    IoOpcode {
        Flush = 0x00,
        Write = 0x01,
        Read = 0x02,
        WriteUncorrectable = 0x04,
        Compare = 0x05,
        WriteZeroes = 0x08,
        DatasetManagement = 0x09,
        Verify = 0x0C,
        ReservationRegister = 0x0D,
        ReservationReport = 0x0E,
        ReservationAcquire = 0x11,
        ReservationRelease = 0x15,
        Copy = 0x19,
        Fabrics = 0x7F,
    }
}

impl IoOpcode {
    /// What the command does to the data of a namespace; `None` for reservations and fabrics commands.
    #[inline]
    pub const fn verb(self) -> Option<IoVerb> {
        match self {
            IoOpcode::Flush => Some(IoVerb::Flush),
            IoOpcode::Write => Some(IoVerb::Write),
            IoOpcode::Read => Some(IoVerb::Read),
            IoOpcode::WriteUncorrectable => Some(IoVerb::Uncorrectable),
            IoOpcode::Compare => Some(IoVerb::Compare),
            IoOpcode::WriteZeroes => Some(IoVerb::Zero),
            IoOpcode::DatasetManagement => Some(IoVerb::Trim),
            IoOpcode::Verify => Some(IoVerb::Verify),
            IoOpcode::Copy => Some(IoVerb::Copy),
            IoOpcode::ReservationRegister
            | IoOpcode::ReservationReport
            | IoOpcode::ReservationAcquire
            | IoOpcode::ReservationRelease
            | IoOpcode::Fabrics => None,
        }
    }
}

opcodes! {
    /// Fabrics command types (byte 4 of a command with opcode 7Fh).
    FabricsType {
        PropertySet = 0x00,
        Connect = 0x01,
        PropertyGet = 0x04,
        AuthenticationSend = 0x05,
        AuthenticationReceive = 0x06,
        Disconnect = 0x08,
    }
}
