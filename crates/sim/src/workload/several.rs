//! Volumes that several nodes serve, as the workload knows it.
//!
//! Invariant: a change of what hosts may do counts as in force when it was answered; a node that is not the owner may refuse by what was before a
//! while longer.
//! Never: decides anything; nodes do.

use super::INDETERMINATE_NS;
use super::kept::{Flight, Workload};
use super::paths::Paths;
use cluster::reservation;
use format::nvme::{Status, StatusCode};

impl Workload {
    /// Several nodes serve what is played on.
    pub fn of_several_nodes(self, paths: Paths) -> Workload {
        Workload { several: Some(paths), ..self }
    }
    /// What nodes reach each other.
    ///
    /// # Panics
    /// When there is one only.
    pub fn paths(&mut self) -> &mut Paths {
        self.several.as_mut().expect("of several nodes")
    }
    /// An answer that is about the path of a command must have a reason there.
    pub(super) fn check_path(&mut self, op: u64, flight: &Flight, now: u64) {
        let Some(paths) = &self.several else { return };
        let may = |status: &Status| paths.may_answer(flight.client, flight.place.volume, *status, flight.sent, now);
        if let Some(status) = flight.statuses.iter().flatten().find(|status| may(status) == Some(false)) {
            let text = format!(
                "#{op} {:?} of client {} was answered with {status:?}, for which its path had no reason",
                flight.kind, flight.client
            );
            self.fail(text, Some((flight.place.volume, flight.place.block)));
        }
    }
    /// Whether a command may be answered so, that it is to be tried again, without another reason: nodes and devices come and go, or its volume does.
    pub(super) fn may_be_later(&mut self, flight: &Flight, status: Status, now: u64) -> bool {
        let meets = |paths: &mut Paths| paths.meets_hand_over(flight.place.volume, status, now);
        !status.dnr && (self.unsteady || self.several.as_mut().is_some_and(meets))
    }
    /// Until when a change may take effect that was answered so now.
    pub(super) fn settled_after(&self, volume: usize, status: Status, now: u64) -> u64 {
        let Some(paths) = &self.several else { return now };
        // It is with its owner, or was; what has begun there goes on. What an owner that ends has begun is agreed on by the next one.
        let begun = status.code == StatusCode::CONTROLLER_PATHING_ERROR || paths.owner_may_change(volume);
        if begun { now + INDETERMINATE_NS } else { now }
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
    /// The owner of a volume serves a change of it on all cores: of its reservation, or of how it is served.
    pub fn in_force_at_owner(&mut self, volume: usize, number: usize, reservation: bool, now: u64) {
        self.note(
            now,
            format!("the owner of volume {volume} serves change {number}{}", if reservation { " of its reservation" } else { "" }),
        );
        let v = &mut self.volumes[volume];
        if reservation { v.rights.in_force_at_owner(number, now) } else { v.served.in_force_at_owner(number, now) }
    }
    /// Every node serves it.
    pub fn in_force_everywhere(&mut self, volume: usize, number: usize, reservation: bool, now: u64) {
        self.note(now, format!("all serve change {number} of volume {volume}{}", if reservation { " of its reservation" } else { "" }));
        let v = &mut self.volumes[volume];
        if reservation { v.rights.in_force_everywhere(number, now) } else { v.served.in_force_everywhere(number, now) }
    }
    /// The owner has confirmed it: nothing that was judged by an earlier one is under way there.
    pub fn confirmed(&mut self, volume: usize, number: usize, reservation: bool, now: u64) {
        self.in_force_at_owner(volume, number, reservation, now);
        if !reservation && number == self.volumes[volume].served.number() {
            self.freeze(volume, now);
        }
    }
    /// Which change of how a volume is served was the last.
    pub fn served_number(&self, volume: usize) -> usize {
        self.volumes[volume].served.number()
    }
    /// Whether a volume was deleted.
    pub fn is_gone(&self, volume: usize) -> bool {
        self.volumes[volume].operated.gone
    }
    /// All nodes serve what was decided last.
    pub fn all_nodes_serve(&mut self, now: u64) {
        self.in_force(now);
        self.volumes.iter_mut().for_each(|v| v.rights.in_force(now));
    }
}
