//! Why a command to the data plane was not done.

use base::GroupId;
use store::GroupError;

/// A command that failed. Nothing is half done unless the message says so.
#[derive(Debug, thiserror::Error)]
pub enum DataPlaneError {
    /// The reactors could not start.
    #[error(transparent)]
    Launch(#[from] rt::LaunchError),
    /// The disk group could not be formatted, opened or changed.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// A device failed while it was looked at.
    #[error("device {device}: {cause}")]
    Device {
        /// Its name.
        device: String,
        /// What it said.
        cause: rt::DeviceError,
    },
    /// A front end cannot listen.
    #[error(transparent)]
    Listen(#[from] frontend::ListenError),
    /// The group is not open on this node.
    #[error("disk group {0} is not open on this node")]
    NoGroup(GroupId),
    /// The group is open already.
    #[error("disk group {0} is open already")]
    GroupOpen(GroupId),
    /// A volume of the command names a component whose group is not open.
    #[error("volume '{volume}' has a component in disk group {group}, which is not open on this node")]
    GroupOfVolume {
        /// The volume's name.
        volume: String,
        /// The group.
        group: GroupId,
    },
    /// An export of the command names a volume that the command does not have.
    #[error(transparent)]
    UnknownVolume(#[from] frontend::UnknownVolume),
    /// A mirror of a volume has more than one copy on this node.
    #[error("volume '{volume}' has a mirror with two copies on this node; each copy has to be on another one")]
    CopiesOnNode {
        /// The volume's name.
        volume: String,
    },
    /// The space behind the new end of a volume could not be freed.
    #[error("cannot free the space behind the end of volume {volume}: {cause}")]
    Free {
        /// The volume.
        volume: base::VolumeId,
        /// Why.
        cause: object::IoError,
    },
    /// The node that owns the volume did not say that it serves the volume as this one does.
    #[error("the node that owns volume {volume} has not confirmed how the volume is served by now: {cause}")]
    Unconfirmed {
        /// The volume.
        volume: base::VolumeId,
        /// Why.
        cause: object::IoError,
    },
    /// The worker thread could not start.
    #[error("cannot start a thread: {0}")]
    Worker(std::io::Error),
    /// More disk groups than a daemon can hold in its life.
    #[error("too many disk groups were opened since the start; restart the service")]
    TooManyGroups,
    /// Core 0 takes no commands: its inbox is full. Nothing was done; trying again may help.
    #[error("the data plane is busy with other commands; try again")]
    Busy,
    /// The data plane has ended.
    #[error("the data plane has stopped")]
    Stopped,
}
