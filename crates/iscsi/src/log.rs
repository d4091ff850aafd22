//! LOG SENSE: what a unit's log pages say (SPC-4 7.3, SBC-3 6.4).
//!
//! Never: counts anything itself. There is nothing to reset, and so no LOG SELECT.

use crate::limits::THRESHOLD_SET_SHIFT;
use crate::view::Unit;
use format::scsi::log::{self, LogParameter, ResourceScope};
use format::scsi::{Invalid, LogSense, SenseCode};

/// Pages of a unit, ascending. How full it is says a thin one only.
fn pages(unit: &Unit) -> &'static [u8] {
    const ALL: &[u8] = &[log::PAGE_SUPPORTED, log::PAGE_PROVISIONING, log::PAGE_TEMPERATURE, log::PAGE_EXCEPTIONS];
    const THICK: &[u8] = &[log::PAGE_SUPPORTED, log::PAGE_TEMPERATURE, log::PAGE_EXCEPTIONS];
    if unit.thin { ALL } else { THICK }
}

/// The page that is asked for. `used`: bytes of space that the volume has now, where that is known.
pub(crate) fn sense(unit: &Unit, used: Option<u64>, l: &LogSense) -> Result<Vec<u8>, Invalid> {
    let pages = pages(unit);
    if !pages.contains(&l.page) {
        return Err(Invalid::cdb_bit(2, 5));
    }
    // Thresholds and defaults are those of counters, of which there are none.
    if l.control != log::CONTROL_CURRENT {
        return Err(Invalid::cdb_bit(2, 7));
    }
    let parameters = match (l.page, l.subpage) {
        (log::PAGE_SUPPORTED, 0) => return Ok(log::build_supported(pages)),
        (log::PAGE_SUPPORTED, log::SUBPAGE_LIST) => {
            let mut list: Vec<(u8, u8)> = pages.iter().map(|page| (*page, 0)).collect();
            list.insert(1, (log::PAGE_SUPPORTED, log::SUBPAGE_LIST));
            return Ok(log::build_supported_subpages(&list));
        }
        (log::PAGE_PROVISIONING, 0) => {
            let sets = |bytes: u64| u32::try_from(bytes.div_ceil(1 << THRESHOLD_SET_SHIFT)).unwrap_or(u32::MAX);
            used.map(|bytes| LogParameter::resources(log::USED_RESOURCES, sets(bytes), ResourceScope::Unit)).into_iter().collect()
        }
        // Of which of the drives below?
        (log::PAGE_TEMPERATURE, 0) => vec![LogParameter::temperature(log::TEMPERATURE, log::TEMPERATURE_UNKNOWN)],
        (log::PAGE_EXCEPTIONS, 0) => vec![LogParameter::exception(SenseCode::NO_ADDITIONAL_SENSE, log::TEMPERATURE_UNKNOWN)],
        _ => return Err(Invalid::cdb(3)),
    };
    if parameters.last().is_some_and(|last| l.pointer > last.code) {
        return Err(Invalid::cdb(5));
    }
    Ok(log::build_page(l.page, 0, &parameters, l.pointer))
}
