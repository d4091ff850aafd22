//! Disk groups and their devices, as the API shows them.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// A file.
    File,
    /// A block device or NVMe namespace.
    Block,
    /// Memory of the daemon: empty after each start.
    Memory,
}

/// A device of a disk group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Device {
    /// What it is.
    pub kind: DeviceKind,
    /// Where it is; `memory` for memory.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// What the group can put on it.
    pub usable_bytes: Option<u64>,
    /// What is used of that.
    pub used_bytes: Option<u64>,
    /// What is reserved beyond that.
    pub reserved_bytes: Option<u64>,
    /// Its number among the group's capacity devices; none for the device of the write buffer.
    #[serde(default)]
    pub number: Option<u8>,
    /// What becomes of it.
    #[serde(default)]
    pub state: DeviceState,
    /// Components that lie on it.
    #[serde(default)]
    pub components: u32,
    /// Why it has not left yet.
    #[serde(default)]
    pub reason: Option<String>,
}

/// What becomes of a device of a disk group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeviceState {
    /// In use.
    #[default]
    InUse,
    /// Being added.
    Joining,
    /// What lies on it goes elsewhere, then it leaves.
    Leaving,
    /// Gone for good, with what lay on it.
    Lost,
}

/// How a capacity device leaves a disk group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct Removal {
    /// Not at all: it was to leave, and stays.
    #[param(required = false)]
    pub keep: bool,
    /// It is gone for good. The group is opened without it; volumes with other copies go on with those.
    #[param(required = false)]
    pub lost: bool,
    /// Of a device that is lost: delete the volumes that have no other copy of what lay there.
    #[param(required = false)]
    pub force: bool,
}

/// A capacity device for a disk group that there is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddedDevice {
    /// A block device or a file, on the node that has the group.
    pub path: String,
    /// For a file that is not there: its size. It takes space as it is written.
    pub bytes: Option<u64>,
    /// Take a device that holds something: what it holds is lost.
    #[serde(default)]
    pub force: bool,
}

/// How a disk group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupState {
    /// In use.
    Online,
    /// Cannot be opened; see the reason.
    Offline,
    /// Being made.
    Creating,
    /// Being removed.
    Deleting,
}

/// A disk group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Group {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The node that has it.
    pub node: String,
    /// How it is.
    pub state: GroupState,
    /// Why it is not online.
    pub reason: Option<String>,
    /// The device of the write buffer.
    pub cache: Device,
    /// Where data ends up.
    pub capacity: Vec<Device>,
    /// How many cores it can use at once.
    pub shards: u8,
    /// What its capacity devices can hold.
    pub capacity_bytes: u64,
    /// What is used of that.
    pub used_bytes: u64,
    /// What is reserved beyond that.
    pub reserved_bytes: u64,
    /// Room in the write buffer.
    pub buffer_bytes: u64,
    /// What is used of that.
    pub buffer_used_bytes: u64,
    /// How old these figures are, in seconds, when another node has said them; none: they are as they are now.
    pub figures_age_s: Option<u64>,
    /// Components on it.
    pub components: u32,
    /// How far the scrub that runs has come; none: none runs.
    pub scrub_percent: Option<u8>,
    /// Whether what it holds is gone after a restart (memory).
    pub volatile: bool,
    /// When it was made.
    pub created_unix_s: u64,
}

/// A device for a new disk group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewDevice {
    /// A block device, a file, `memory:SIZE`, or `memory:SIZE:populated`: all of it is taken at once.
    pub path: String,
    /// For a file that is not there: its size. The write buffer's file has its space from the start, others take it as they are written.
    pub bytes: Option<u64>,
}

/// A new disk group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewGroup {
    /// Its name.
    pub name: String,
    /// The node that has the devices. Default: the one that is asked.
    pub node: Option<String>,
    /// The device of the write buffer.
    pub cache: NewDevice,
    /// One to seven devices for the data.
    pub capacity: Vec<NewDevice>,
    /// A power of two up to 16. Default: 16.
    pub shards: Option<u8>,
    /// Take devices that hold something: what they hold is lost.
    #[serde(default)]
    pub force: bool,
    /// Make the write buffer's file sparse, too, and files that are larger than their file system.
    #[serde(default)]
    pub sparse: bool,
}
