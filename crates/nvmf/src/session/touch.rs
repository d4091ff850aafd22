//! What I/O commands do to the data of a namespace, as far as write protection and reservations must know.

use format::nvme::IoOpcode;

/// What an I/O command does to the data of a namespace: what write protection and reservations go by (base 8.19, figure 528).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    /// It reads, or tells something of what is there.
    Read,
    /// It changes what is there.
    Write,
    /// Neither.
    Neither,
    /// The target does not know the command.
    Unknown,
}

impl Touch {
    pub(super) const fn of(op: IoOpcode) -> Touch {
        use IoOpcode as Op;
        match op {
            Op::Read | Op::Compare | Op::Verify => Touch::Read,
            Op::Write | Op::WriteUncorrectable | Op::WriteZeroes | Op::DatasetManagement | Op::Copy => Touch::Write,
            Op::Flush => Touch::Neither,
            Op::ReservationRegister | Op::ReservationReport | Op::ReservationAcquire | Op::ReservationRelease | Op::Fabrics => {
                Touch::Unknown
            }
        }
    }
}
