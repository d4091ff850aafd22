//! What structures on devices have in common beyond [`crate::bytes`]: how a field is refused.

use super::DiskError;
pub(crate) use crate::bytes::*;

/// Refuses anything but zeroes in `b[from..to]`.
pub(crate) fn reserved(b: &[u8], from: usize, to: usize) -> Result<(), DiskError> {
    match b[from..to].iter().position(|&v| v != 0) {
        Some(i) => Err(DiskError::Reserved { at: (from + i) as u32 }),
        None => Ok(()),
    }
}

/// Refuses a field unless `ok`.
pub(crate) fn check(ok: bool, field: &'static str) -> Result<(), DiskError> {
    if ok { Ok(()) } else { Err(DiskError::Value { field }) }
}
