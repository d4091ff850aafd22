//! Asymmetric access (ALUA, SPC-4 5.15): the ports of a node are a target port group, whose state is the node's path to the volume.
//!
//! Invariants: a group has the number of its node's slot and 1 on every node, and so has its one target port; the state of this node's group is
//! that by which this node judges commands.
//! Never: changes a state: it follows the volume's owner, and SET TARGET PORT GROUPS is not served.

use crate::limits::TRANSITION_MAX;
use crate::view::{Unit, View, portal_group};
use cluster::PathState;
use format::scsi::Command;
use format::scsi::alua::{AccessState, PortGroup, STATUS_IMPLICIT, STATUS_NONE, SUPPORTED_ACTIVE, build_port_groups};

/// IMPLICIT TRANSITION TIME, in seconds: a host waits so long for another state.
const TRANSITION_S: u8 = (TRANSITION_MAX.as_nanos() / 1_000_000_000) as u8;

/// A path's state, as SCSI has it. `moving`: the owner cannot be reached, and may be another one soon.
pub(crate) fn access_state(state: PathState, moving: bool) -> AccessState {
    match state {
        PathState::Optimized => AccessState::Optimized,
        PathState::NonOptimized => AccessState::NonOptimized,
        PathState::Inaccessible if moving => AccessState::Transitioning,
        PathState::Inaccessible => AccessState::Unavailable,
    }
}

/// REPORT TARGET PORT GROUPS: the groups of all nodes with portals. What another node's path is like only that node knows; here it is said to be
/// what it is while the links between the nodes work. While this node cannot reach the owner, nobody knows who that will be: then all groups are
/// said to change their state. Never is another node's group said to be unavailable: Linux believes it, and a host may reach an owner that this
/// node does not.
pub(crate) fn report(view: &View, unit: &Unit, moving: bool, extended: bool) -> Vec<u8> {
    let of_other = |slot| {
        let owner = u32::from(portal_group(slot)) == unit.path.group;
        match (moving, owner) {
            (true, _) => AccessState::Transitioning,
            (false, true) => AccessState::Optimized,
            (false, false) => AccessState::NonOptimized,
        }
    };
    let others = view.nodes.iter().filter(|n| !n.portals.is_empty()).map(|n| (portal_group(n.slot), of_other(n.slot)));
    let mut all: Vec<_> = others.chain([(unit.port, access_state(unit.path.state, moving))]).collect();
    all.sort_unstable();
    let status = if view.nodes.is_empty() { STATUS_NONE } else { STATUS_IMPLICIT };
    let group = |(id, state)| PortGroup { id, preferred: false, state, status, supported: SUPPORTED_ACTIVE, ports: vec![id] };
    build_port_groups(extended.then_some(TRANSITION_S), &all.into_iter().map(group).collect::<Vec<_>>())
}

/// Whether a command is carried out by a path in this state (SPC-4 5.15.2.4.5): without a path to the volume, what only says what the unit is.
pub(crate) fn may_pass(state: PathState, command: &Command) -> bool {
    state != PathState::Inaccessible
        || matches!(
            command,
            Command::Inquiry { .. }
                | Command::ReportLuns { .. }
                | Command::ReportPortGroups { .. }
                | Command::RequestSense { .. }
                | Command::ReportOpcodes { .. }
                | Command::ReportTaskManagement { .. }
        )
}
