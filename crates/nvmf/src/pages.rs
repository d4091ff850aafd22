//! Identify data and log pages: what the controllers say of themselves.
//!
//! Invariant: what is stated is true of this target; a field that is not stated is zero.

mod identify;
mod logs;

pub use identify::{
    LBA_SHIFTS, common_namespace, firmware, granularity, identify_controller, identify_namespace, independent_namespace, nvm_controller,
    write_protect_state,
};
pub use logs::{Page, discovery_log_page, log_page};
