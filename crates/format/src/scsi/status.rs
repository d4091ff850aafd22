//! Status codes (SAM-5 5.3.1).

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ScsiStatus {
    /// GOOD.
    Good = 0x00,
    /// CHECK CONDITION: sense data says why.
    CheckCondition = 0x02,
    /// CONDITION MET: PRE-FETCH, when all blocks fit in the cache.
    ConditionMet = 0x04,
    /// BUSY: try again later.
    Busy = 0x08,
    /// RESERVATION CONFLICT.
    ReservationConflict = 0x18,
    /// TASK SET FULL: there is no room for the command now.
    TaskSetFull = 0x28,
    /// ACA ACTIVE.
    AcaActive = 0x30,
    /// TASK ABORTED: by another I_T nexus, and TAS is one.
    TaskAborted = 0x40,
}

impl ScsiStatus {
    /// All of them.
    pub const ALL: [ScsiStatus; 8] = [
        Self::Good,
        Self::CheckCondition,
        Self::ConditionMet,
        Self::Busy,
        Self::ReservationConflict,
        Self::TaskSetFull,
        Self::AcaActive,
        Self::TaskAborted,
    ];
    /// From its byte; `None` for codes that are reserved or obsolete.
    pub fn parse(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.byte() == byte)
    }
    /// Its byte.
    pub const fn byte(self) -> u8 {
        self as u8
    }
}
