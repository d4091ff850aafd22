//! Where in a world something belongs.

/// A core of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) host: usize,
    pub(crate) core: usize,
}

impl Place {
    /// Of events that belong to no core (what is on the wire). Host numbers are far smaller.
    pub(crate) const NOWHERE: Place = Place { host: usize::MAX, core: 0 };
}
