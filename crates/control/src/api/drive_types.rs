//! Drives, as the API shows them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A drive of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Drive {
    /// The device node.
    pub path: String,
    /// A name that stays, below /dev/disk/by-id.
    pub stable_path: Option<String>,
    /// `nvme`, `ssd`, `hdd` or `virtual`.
    pub kind: String,
    /// Its size.
    pub bytes: u64,
    /// Its model.
    pub model: Option<String>,
    /// Its serial number.
    pub serial: Option<String>,
    /// Its firmware.
    pub firmware: Option<String>,
    /// NVMe: its controller.
    pub controller: Option<String>,
    /// NVMe: its namespace id.
    pub nsid: Option<u32>,
    /// Bytes of a logical block.
    pub lba_bytes: u32,
    /// `free`, `basalt` (in a disk group here) or `used`.
    pub use_state: String,
    /// By what it is used.
    pub used_by: Vec<String>,
}

/// A drive with what it says of its health.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriveHealth {
    /// The drive.
    pub drive: Drive,
    /// What it says of its health, where it can be asked (NVMe log page 02h).
    pub smart: Option<Smart>,
    /// Why nothing is known of its health.
    pub unknown: Option<String>,
}

/// What a drive says of its health: SMART / Health Information of NVMe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Smart {
    /// What it warns of, in words; empty: of nothing.
    pub warnings: Vec<String>,
    /// Its temperature, in degrees Celsius.
    pub temperature_celsius: i32,
    /// Spare capacity that is left, in percent.
    pub spare_percent: u8,
    /// Below this it warns, in percent.
    pub spare_threshold_percent: u8,
    /// Endurance that is used up, in percent; it may be above 100.
    pub used_percent: u8,
    /// Bytes that were read from it.
    pub read_bytes: u64,
    /// Bytes that were written to it.
    pub written_bytes: u64,
    /// Times that data could not be read or written right.
    pub media_errors: u64,
    /// Entries that its error log ever had.
    pub error_log_entries: u64,
    /// Hours that it was on.
    pub power_on_hours: u64,
    /// Times that it was switched on.
    pub power_cycles: u64,
    /// Times that its power went without notice.
    pub unsafe_shutdowns: u64,
    /// Minutes that it was hotter than its first limit.
    pub warning_temperature_minutes: u32,
    /// Minutes that it was hotter than its last limit.
    pub critical_temperature_minutes: u32,
}
