//! What the operator does to volumes and to the disk group while clients use them: which acts there are.
//!
//! Never: draws one ([`crate::plan`]); carries one out ([`crate::operator`]); knows what its answers may be ([`crate::served`]).

/// Something the operator does, to a volume or a device by its number among those that there are then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It gets smaller by so many hundredths, at least a block of 4 KiB; what lies behind its end is freed.
    Shrink { volume: u64, percent: u64 },
    /// It gets as large as it ever was.
    Regrow { volume: u64 },
    /// All of its content goes, as by Format NVM.
    Format { volume: u64 },
    /// Write protection on, or off.
    Protect { volume: u64, on: bool },
    /// Other limits: requests and bytes a second.
    Limit { volume: u64, iops_max: Option<u64>, bytes_per_s_max: Option<u64> },
    /// Its disk group cannot be reached, or can again.
    Offline { volume: u64, on: bool },
    /// It is taken from the subsystem.
    Detach { volume: u64 },
    /// It is attached again, to the namespace that it was or to another.
    Attach { volume: u64, elsewhere: bool },
    /// It is deleted with all its data, and another one of its kind is made.
    Replace { volume: u64 },
    /// A spare device is added to the disk group.
    AddDevice { spare: u64 },
    /// A capacity device leaves the disk group; what lies there is made anew elsewhere.
    RemoveDevice { device: u64 },
}

impl Act {
    /// Its kind, for counting.
    pub fn name(&self) -> String {
        let text = format!("{self:?}");
        text.split([' ', '{']).next().unwrap_or_default().to_owned()
    }
}
