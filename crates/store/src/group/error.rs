//! Why something cannot be done with a disk group.

use crate::components::ComponentNo;
use base::{ByteSize, ClusterId, DeviceUuid};
use format::disk::superblock::{CAPACITY_DEVICES_MAX, NAME_BYTES_MAX, VERSION_MAJOR, VERSION_PLAIN};
use format::disk::{DESCRIPTOR_BYTES_MAX, DiskError};
use rt::DeviceError;

/// Why a group could not be formatted, opened or changed. The message says what and which device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// A device operation failed.
    #[error("{device}: {error}")]
    Device {
        /// Its name.
        device: String,
        /// What it said.
        error: DeviceError,
    },
    /// No devices, or too many.
    #[error("a disk group has 1 to {CAPACITY_DEVICES_MAX} capacity devices, not {count}")]
    DeviceCount {
        /// How many were given.
        count: usize,
    },
    /// Not a power of two up to 16.
    #[error("a disk group has 1, 2, 4, 8 or 16 shards, not {shards}")]
    Shards {
        /// What was asked for.
        shards: u8,
    },
    /// Empty or too long.
    #[error("the name of a disk group has 1 to {NAME_BYTES_MAX} bytes, '{name}' has {}", name.len())]
    Name {
        /// What was asked for.
        name: String,
    },
    /// One device for two roles.
    #[error("{device} is given twice; each device can be in a group once")]
    GivenTwice {
        /// Its name.
        device: String,
    },
    /// Does not hold even the smallest group.
    #[error("{device} has {}, but a {role} device of a group with {shards} shard(s) needs at least {}", ByteSize(*bytes), ByteSize(*bytes_min))]
    TooSmall {
        /// Its name.
        device: String,
        /// What it was to be.
        role: &'static str,
        /// Shards of the group.
        shards: u8,
        /// What it has.
        bytes: u64,
        /// What is needed.
        bytes_min: u64,
    },
    /// Format: there is something on it.
    #[error("{device} holds {what}; nothing was changed. If you are sure that it is not needed, format again with force")]
    NotEmpty {
        /// Its name.
        device: String,
        /// What is there.
        what: String,
    },
    /// Open: there is nothing of ours on it.
    #[error("{device} is not part of a disk group: it holds {what}")]
    NotOurs {
        /// Its name.
        device: String,
        /// What is there.
        what: &'static str,
    },
    /// Open: written by a newer version.
    #[error(
        "{device} was formatted by a newer Basalt (format version {major}, this one knows up to {VERSION_MAJOR}); update this host first"
    )]
    Newer {
        /// Its name.
        device: String,
        /// The version found.
        major: u16,
    },
    /// Open: written by an older version whose data this one does not read.
    #[error(
        "{device} was formatted by an older Basalt (format version {major}, this one reads {VERSION_PLAIN} to {VERSION_MAJOR}); nothing was changed: copy its volumes elsewhere with the version that wrote it, then make the disk group anew with --force"
    )]
    Older {
        /// Its name.
        device: String,
        /// The version found.
        major: u16,
    },
    /// Open: no valid superblock.
    #[error("{device}: both copies of the superblock are damaged ({cause}); its data cannot be found without them")]
    Damaged {
        /// Its name.
        device: String,
        /// What is wrong with it.
        cause: DiskError,
    },
    /// Open: the device has shrunk.
    #[error("{device} has {}, but had {} when it was formatted; give the whole device", ByteSize(*bytes), ByteSize(*formatted))]
    Truncated {
        /// Its name.
        device: String,
        /// What it has now.
        bytes: u64,
        /// What it had.
        formatted: u64,
    },
    /// Open: devices of different groups.
    #[error("{a} belongs to disk group '{group_a}' and {b} to '{group_b}'; give the devices of one group")]
    Mixed {
        /// One device.
        a: String,
        /// Its group.
        group_a: String,
        /// Another one.
        b: String,
        /// Its group.
        group_b: String,
    },
    /// Open: one device was left over from an earlier format of the same group.
    #[error(
        "{a} and {b} are of disk group '{group}', but were not formatted together: one is from an earlier format, or a format was cut short"
    )]
    MixedFormats {
        /// One device.
        a: String,
        /// Another one.
        b: String,
        /// The group.
        group: String,
    },
    /// Open: two devices with one identity.
    #[error("{a} and {b} carry the same identity ({uuid}): one is a copy of the other; give only the right one")]
    Duplicate {
        /// One device.
        a: String,
        /// Another one.
        b: String,
        /// What both say they are.
        uuid: DeviceUuid,
    },
    /// Open: not all devices are there.
    #[error("disk group '{group}' is incomplete: missing {}", missing.join(", "))]
    Incomplete {
        /// The group.
        group: String,
        /// What is missing: role and identity of each.
        missing: Vec<String>,
    },
    /// Open: another cluster's.
    #[error("disk group '{group}' belongs to cluster {found}, not to this one ({expected})")]
    OtherCluster {
        /// The group.
        group: String,
        /// What the devices say.
        found: ClusterId,
        /// What was asked for.
        expected: ClusterId,
    },
    /// A page of a table has no valid version.
    #[error("{device}: page {page} of the {table} table (shard {shard}) is damaged: {cause}")]
    TableDamaged {
        /// Its name.
        device: String,
        /// Which table.
        table: &'static str,
        /// The shard (0 for components).
        shard: u8,
        /// The page.
        page: u32,
        /// What is wrong with it.
        cause: DiskError,
    },
    /// The cache device's log cannot be understood.
    #[error("{device}: the log of shard {shard} is damaged: {what}")]
    LogDamaged {
        /// Its name.
        device: String,
        /// The shard.
        shard: u8,
        /// What is wrong.
        what: &'static str,
    },
    /// No such capacity device.
    #[error("the disk group has {count} capacity device(s), there is no number {index}")]
    NoDevice {
        /// What was asked for.
        index: u8,
        /// How many there are.
        count: usize,
    },
    /// No such component.
    #[error("the disk group has no component {0}")]
    NoComponent(ComponentNo),
    /// A component with this id exists and is another one.
    #[error("component {0} exists already, with another object or device")]
    ComponentExists(ComponentNo),
    /// The descriptor is too long.
    #[error("a component's descriptor has at most {DESCRIPTOR_BYTES_MAX} bytes, not {bytes}")]
    DescriptorTooLong {
        /// What it has.
        bytes: usize,
    },
    /// No room for another component.
    #[error("{device} has no room for another component (at most {components_max})")]
    ComponentsFull {
        /// Name of the device.
        device: String,
        /// How many it holds.
        components_max: u32,
    },
    /// More is reserved than there is.
    #[error("{device} cannot promise {} to one component: it has {}, of which others were promised {}", ByteSize(*wanted), ByteSize(*total), ByteSize(*promised))]
    CannotReserve {
        /// Name of the device.
        device: String,
        /// What was asked for, in bytes.
        wanted: u64,
        /// What others have, in bytes.
        promised: u64,
        /// What there is, in bytes.
        total: u64,
    },
    /// Open: it was a device of the group, or was about to be one, and the cache device does not name it.
    #[error("{device} is not a device of disk group '{group}' any more, or never came to be one; to use it anew, add it with force")]
    Left {
        /// Its name.
        device: String,
        /// The group.
        group: String,
    },
    /// Open: the cache device says which devices there are, and has forgotten it.
    #[error(
        "{cache} is older than {device}: of both copies of its superblock the newer one is lost, and with it which devices disk group '{group}' has"
    )]
    OlderCache {
        /// The cache device.
        cache: String,
        /// A device that knows better.
        device: String,
        /// The group.
        group: String,
    },
    /// Add: there is a device at this number.
    #[error("the disk group has a capacity device {index}")]
    NumberTaken {
        /// The number.
        index: u8,
    },
    /// Remove: something lies on it.
    #[error("{device} holds {components} component(s); they have to go elsewhere first")]
    NotVacated {
        /// Its name.
        device: String,
        /// How many.
        components: usize,
    },
    /// Create: the device is about to leave the group.
    #[error("{device} leaves its disk group; nothing new can lie on it")]
    Leaving {
        /// Its name.
        device: String,
    },
    /// Remove: a group needs one.
    #[error("{device} is the last capacity device of its disk group; remove the group instead")]
    LastDevice {
        /// Its name.
        device: String,
    },
    /// Add or remove: whether the cache device has the new list of devices is not known.
    #[error("{device}: {error}; whether the list of the group's devices was changed is known when the group is opened again")]
    Undecided {
        /// The cache device.
        device: String,
        /// What it said.
        error: DeviceError,
    },
}
