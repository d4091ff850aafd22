//! How a command ends.

use crate::unit::illegal;
use crate::view::Unit;
use format::scsi::{Invalid, ScsiStatus, Sense, SenseCode, SenseKey};
use object::IoError;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// GOOD, with this data.
    Good(Vec<u8>),
    /// Another status, without sense data.
    Status(ScsiStatus),
    /// CHECK CONDITION.
    Sense(Sense),
}

impl Outcome {
    /// GOOD without data.
    pub(super) const GOOD: Outcome = Outcome::Good(Vec::new());
}

impl From<Sense> for Outcome {
    fn from(sense: Sense) -> Self {
        Outcome::Sense(sense)
    }
}
impl From<Invalid> for Outcome {
    fn from(invalid: Invalid) -> Self {
        Outcome::Sense(invalid.sense())
    }
}

/// What a host gets for a request that failed.
pub(super) fn of_error(error: IoError, unit: Option<&Unit>) -> Outcome {
    let sense = |key, code| Outcome::Sense(Sense::new(key, code));
    match error {
        IoError::NoSpace => sense(SenseKey::DataProtect, SenseCode::SPACE_ALLOCATION_FAILED),
        IoError::Media { offset } => {
            let lba = offset >> unit.map_or(9, |u| u.shift);
            Outcome::Sense(Sense::new(SenseKey::MediumError, SenseCode::UNRECOVERED_READ_ERROR).with_information(lba))
        }
        IoError::Miscompare => sense(SenseKey::Miscompare, SenseCode::MISCOMPARE_DURING_VERIFY),
        IoError::Unaligned => illegal(SenseCode::INVALID_FIELD_IN_CDB).into(),
        IoError::OutOfRange => illegal(SenseCode::LBA_OUT_OF_RANGE).into(),
        IoError::NoVolume => illegal(SenseCode::LOGICAL_UNIT_NOT_SUPPORTED).into(),
        IoError::ReadOnly => sense(SenseKey::DataProtect, SenseCode::WRITE_PROTECTED),
        IoError::Failed => sense(SenseKey::HardwareError, SenseCode::INTERNAL_TARGET_FAILURE),
        IoError::NoPath | IoError::Withdrawn => sense(SenseKey::AbortedCommand, SenseCode::COMMUNICATION_FAILURE),
        IoError::NotOwner => sense(SenseKey::NotReady, SenseCode::PORT_UNAVAILABLE),
        IoError::Closing => Outcome::Status(ScsiStatus::Busy),
    }
}
