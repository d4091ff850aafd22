//! The command line of disk groups and their devices.
//!
//! Invariant: as all commands, each has an example in its help.

use super::{device, shards};
use clap::Subcommand;
use control::api::types::NewDevice;

#[derive(Subcommand, Debug)]
pub enum GroupCommand {
    /// Make a disk group
    #[command(after_help = "Examples:
  basalt group create fast --cache /dev/nvme0n1 --capacity /dev/nvme1n1 --capacity /dev/nvme2n1
  basalt group create lab --cache /srv/cache.img:10GiB --capacity /srv/data.img:1TiB    # files; the first has its space at once
  basalt group create test --cache memory:1GiB --capacity memory:8GiB                   # gone when the daemon stops

Devices that hold something are refused, except with --force. Devices that are mounted or open are refused always.")]
    Create {
        /// Its name
        name: String,
        /// The device of the write buffer: a path, PATH:SIZE for a new file, or memory:SIZE
        #[arg(long, value_name = "DEVICE", value_parser = device)]
        cache: NewDevice,
        /// A device for the data; one to seven times
        #[arg(long, value_name = "DEVICE", required = true, value_parser = device)]
        capacity: Vec<NewDevice>,
        /// How many cores it can use at once: 1, 2, 4, 8 or 16. It stays so
        #[arg(long, default_value_t = 16, value_parser = shards)]
        shards: u8,
        /// Take devices that hold something: what they hold is destroyed
        #[arg(long)]
        force: bool,
        /// The write buffer's file takes space as it is written, too: writes fail when its file system is full
        #[arg(long)]
        sparse: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// List disk groups
    #[command(visible_alias = "ls", after_help = "Examples:\n  basalt group list")]
    List,
    /// Show a disk group and its devices
    #[command(after_help = "Examples:\n  basalt group show fast")]
    Show {
        /// Name or id
        group: String,
    },
    /// Remove a disk group
    #[command(
        visible_alias = "delete",
        after_help = "Examples:
  basalt group remove old
  basalt group remove old --force     # deletes the volumes on it, too"
    )]
    Remove {
        /// Name or id
        group: String,
        /// Delete the volumes on it, too
        #[arg(long)]
        force: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Add capacity devices to a disk group in use
    #[command(after_help = "Examples:
  basalt group add-device fast /dev/nvme3n1
  basalt group add-device lab /srv/more.img:1TiB      # a file that is made

The devices are those of the node that has the group. Volumes can lie on them at once; what is there stays where it is.
'basalt volume set' and new volumes use them. A group has at most seven. Devices that hold something are refused, except with --force.")]
    AddDevice {
        /// Name or id
        group: String,
        /// Path, or PATH:SIZE for a new file
        #[arg(required = true, value_name = "DEVICE", value_parser = device)]
        devices: Vec<NewDevice>,
        /// Take devices that hold something: what they hold is destroyed
        #[arg(long)]
        force: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Take a capacity device out of a disk group in use: what lies on it goes to other devices first
    #[command(after_help = "Examples:
  basalt group remove-device fast /dev/nvme3n1
  basalt group remove-device fast /dev/nvme3n1 --keep # it stays after all
  basalt group remove-device fast /dev/nvme3n1 --lost # it is dead, and the group offline without it

Hosts use the volumes meanwhile. It needs room for them on other devices, and goes on when the daemon is restarted. 'basalt group show fast' says
how much of it is left to do.")]
    RemoveDevice {
        /// Name or id
        group: String,
        /// Its path, as 'basalt group show' says it
        device: String,
        /// It is not to leave any more; what went elsewhere stays there
        #[arg(long, conflicts_with = "lost")]
        keep: bool,
        /// It is gone for good: the group is opened without it, and volumes go on with their other copies
        #[arg(long)]
        lost: bool,
        /// Delete the volumes that have no other copy of what lay on the lost device
        #[arg(long, requires = "lost")]
        force: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Put a capacity device in the place of another: adds the new one, and has the old one leave
    #[command(after_help = "Examples:
  basalt group replace-device fast /dev/nvme3n1 /dev/nvme4n1

It is 'add-device', then 'remove-device'. What lies on the old device goes to where there is most room; it has to be readable.
'basalt group show fast' says how much of it is left to do.")]
    ReplaceDevice {
        /// Name or id
        group: String,
        /// The path of the one that leaves, as 'basalt group show' says it
        old: String,
        /// The one that comes: a path, or PATH:SIZE for a new file
        #[arg(value_parser = device)]
        new: NewDevice,
        /// Take a new device that holds something: what it holds is destroyed
        #[arg(long)]
        force: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Read everything on a disk group and compare checksums, in the background
    #[command(after_help = "Examples:\n  basalt group scrub fast")]
    Scrub {
        /// Name or id
        group: String,
    },
}
