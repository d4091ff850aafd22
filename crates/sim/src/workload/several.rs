//! Volumes that several nodes serve, as the workload knows it.
//!
//! Invariant: a change of what hosts may do counts as in force when it was answered; a node that is not the owner may refuse by what was before a
//! while longer.
//! Never: decides anything; nodes do.

use super::INDETERMINATE_NS;
use super::kept::Workload;
use crate::served::State;
use base::HostId;
use cluster::reservation::{self, Command, Outcome};
use format::nvme::{Status, StatusCode};

impl Workload {
    /// Several nodes serve what is played on.
    pub fn of_several_nodes(self) -> Workload {
        Workload { several: true, ..self }
    }
    /// Until when a change may take effect that was answered so now.
    pub(super) fn settled_after(&self, status: Status, now: u64) -> u64 {
        // It is with its owner, or was; what has begun there goes on.
        if self.several && status.code == StatusCode::CONTROLLER_PATHING_ERROR { now + INDETERMINATE_NS } else { now }
    }
    /// A node has carried out a reservation command; the number of the change of this volume.
    pub fn reserved_by_node(
        &mut self,
        volume: usize,
        by: HostId,
        state: reservation::State,
        command: &Command,
        outcome: &Outcome,
        now: u64,
    ) -> usize {
        self.reserved(volume, by, state, command, outcome, now);
        self.volumes[volume].rights.number()
    }
    /// The owner of a volume was started, which is a loss of power for its hosts: this is left of its reservation.
    pub fn owner_started(&mut self, volume: usize, left: reservation::State, now: u64) {
        let rights = &mut self.volumes[volume].rights;
        if !rights.is_left(&left, false) {
            return self.fail(format!("volume {volume}: {left:?} is left, which is not what the standard says"), None);
        }
        rights.owner_started(left, now);
        self.release_withheld(volume, now);
    }
    /// A node has changed whether a volume is write protected; the number of the change of this volume.
    pub fn protected(&mut self, volume: usize, on: bool, now: u64) -> usize {
        self.note(now, format!("volume {volume} is write protected: {on}"));
        let state = State { read_only: on, ..self.state_of(volume) };
        self.decided(volume, state, now);
        self.volumes[volume].served.number()
    }
    /// The owner of a volume has confirmed a change: of its reservation, or of its write protection.
    pub fn confirmed(&mut self, volume: usize, number: usize, reservation: bool, now: u64) {
        self.note(now, format!("change {number} of volume {volume} is in force"));
        if reservation {
            self.volumes[volume].rights.in_force_at_owner(number, now);
            return;
        }
        let served = &mut self.volumes[volume].served;
        served.in_force_at_owner(number, now);
        if number == served.number() {
            self.freeze(volume, now);
        }
    }
    /// All nodes serve what was decided last.
    pub fn all_nodes_serve(&mut self, now: u64) {
        self.in_force(now);
        self.volumes.iter_mut().for_each(|v| v.rights.in_force(now));
    }
}
