//! Decisions about a cluster, made from facts alone: what a policy may say, where an object's components go, whether an
//! object is what its policy promises, which names are allowed, what reservations permit, and what a node has to do next.
//!
//! Owns: [`Policy`], [`Inventory`], [`place`], [`compliance`], the rules for names, [`reservation`], [`reconcile`](fn@reconcile), paths, and the types of what the directory holds ([`record`]).
//! Invariant: every function is pure; the same facts give the same answer on every node.
//! Never: does I/O, reads a clock, draws a random number.
#![forbid(unsafe_code)]

mod copies;
mod inventory;
mod join;
mod lead;
mod moves;
mod name;
mod ownership;
mod paths;
mod place;
mod policy;
mod portals;
mod reconcile;
pub mod record;
pub mod reservation;
mod restored;
mod share;
mod store;

pub use copies::{CopiesChange, Without, copies_change, without};
pub use inventory::{DeviceInventory, GroupInventory, Inventory, NodeInventory};
pub use join::{
    CLOCK_OFF_SECONDS_MAX, INVITE_SECONDS_DEFAULT, INVITE_SECONDS_MAX, INVITES_MAX, InviteRecord, JoinRefused, JoinRequest, KnownNode,
    Membership, judge_join, work_together,
};
pub use lead::{LeaderAction, Left, REQUEST_SECONDS, TASK_WORDS, lead};
pub use moves::{Move, has_other_layout, new_layout, swapped};
pub use name::{
    ISCSI_NAME_BYTES_MAX, NAME_BYTES_MAX, NQN_BYTES_MAX, NameError, check_host, check_iscsi_name, check_name, check_nqn, default_iqn,
    default_nqn, is_iscsi_name,
};
pub use ownership::{ownership_of, with_ownership};
pub use paths::{
    FreeSlot, OpenLinks, Path, PathState, can_forward, free_slot, group_of, holder_of, other_nodes, owner_elsewhere, owner_of, path_of,
    shown_release,
};
pub use place::{Layout, MIRRORS_MAX, MirrorSlots, PlaceError, Placement, Slot, compliance, component_bytes, place, reserve_chunks};
pub use policy::{IOPS_LIMIT_UNIT_BYTES, Policy, PolicyError, STRIPE_WIDTH_MAX, Shortfall};
pub use portals::portals_near;
pub use reconcile::{
    Action, CopySeen, Finish, GroupSeen, NotServed, Observed, Records, Usable, only_on, reconcile, serving, state_after_open,
};
pub use restored::{CannotGoOn, EPOCHS_BETWEEN, Fate, GoneOn, Waits, confirmed, gone_on, mark_restored, nodes_to_hear};
pub use share::{is_sized, share_of};

#[cfg(test)]
mod reconcile_tests;
#[cfg(test)]
mod reservation_tests;
#[cfg(test)]
mod tests;
