//! The features that controllers have: what Get and Set Features go by, and what the log of supported features says.
//!
//! Invariant: none is saveable.

use format::nvme::feature as fid;

/// A feature that is supported.
pub struct Feature {
    /// Feature Identifier.
    pub fid: u8,
    /// It belongs to a namespace, not to the controller.
    pub of_namespace: bool,
    /// Set Features changes it.
    pub changeable: bool,
    /// Discovery controllers have it too.
    pub discovery: bool,
}

const fn feature(fid: u8, of_namespace: bool, changeable: bool, discovery: bool) -> Feature {
    Feature { fid, of_namespace, changeable, discovery }
}

/// All features that are supported, by identifier.
pub const FEATURES: &[Feature] = &[
    feature(fid::FID_ARBITRATION, false, false, false),
    feature(fid::FID_POWER, false, false, false),
    feature(fid::FID_TEMPERATURE, false, true, false),
    feature(fid::FID_ERROR_RECOVERY, true, false, false),
    feature(fid::FID_QUEUES, false, true, false),
    feature(fid::FID_WRITE_ATOMICITY, false, false, false),
    feature(fid::FID_ASYNC_EVENTS, false, true, true),
    feature(fid::FID_KEEP_ALIVE, false, true, true),
    feature(fid::FID_HOST_BEHAVIOUR, false, true, false),
    feature(fid::FID_HOST_ID, false, false, false),
    feature(fid::FID_RESERVATION_MASK, true, true, false),
    feature(fid::FID_RESERVATION_PERSISTENCE, true, true, false),
    feature(fid::FID_WRITE_PROTECT, true, true, false),
];
