//! Which nodes can pass on requests to which others, over time, and what a path may answer by that.
//!
//! Owns: [`Paths`]. Invariant: what may have been the case is never called wrong. Never: knows what lies in a volume.

use format::nvme::{Status, StatusCode};
use std::collections::BTreeMap;

/// A way that is cut for so long, in nanoseconds, has no link for certain, and every core of both ends goes by that.
const CERTAINLY_CUT_NS: u64 = 2_500_000_000;
/// So long before, or after, its record names another owner a command may meet the hand-over of a volume when nothing disturbs, in nanoseconds.
pub const HANDED_OVER_NS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
struct Period {
    open: bool,
    /// From and until when it may be met.
    from: u64,
    until: u64,
}

/// See the module. Times are nanoseconds of the world.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    /// The node that each client is connected to.
    pub client_at: Vec<usize>,
    /// The owner of each volume; `None`: it has copies on several nodes, and any of these may own it.
    pub owners: Vec<Option<usize>>,
    /// From one node to another: what the first one serves.
    serves: Vec<Vec<Vec<Period>>>,
    /// Since when what the one sends the other is held up.
    cut: Vec<Vec<Option<u64>>>,
    /// Cores may stand still: then nothing is certain that takes time.
    pub pauses: bool,
    /// When the record of a volume named another owner last, by volume.
    owned_since: BTreeMap<usize, u64>,
    /// When the first command of the calm met a hand-over which its record has still to show, by volume.
    met: BTreeMap<usize, u64>,
}

impl Paths {
    /// Of so many nodes, none of which reaches another.
    pub fn of(nodes: usize, client_at: Vec<usize>, owners: Vec<Option<usize>>, pauses: bool) -> Paths {
        let closed = vec![Period { open: false, from: 0, until: u64::MAX }];
        Paths {
            client_at,
            owners,
            serves: vec![vec![closed; nodes]; nodes],
            cut: vec![vec![None; nodes]; nodes],
            pauses,
            ..Paths::default()
        }
    }
    /// A node is about to serve the volumes of others by whether it can pass on requests to these.
    pub fn decided(&mut self, node: usize, reached: impl Fn(usize) -> bool, now: u64) {
        for (to, periods) in self.serves[node].iter_mut().enumerate() {
            let open = reached(to);
            if periods.last().is_some_and(|p| p.open != open) {
                periods.push(Period { open, from: now, until: u64::MAX });
            }
        }
    }
    /// It does, on all cores.
    pub fn in_force(&mut self, node: usize, now: u64) {
        for periods in &mut self.serves[node] {
            let all = periods.len();
            periods[..all - 1].iter_mut().for_each(|p| p.until = p.until.min(now));
        }
    }
    /// What one node sends another is held up from now on, or not any more.
    pub fn cut(&mut self, from: usize, to: usize, since: Option<u64>) {
        self.cut[from][to] = since.map(|now| self.cut[from][to].unwrap_or(now));
    }

    /// Whether another node may become the owner of a volume.
    pub fn owner_may_change(&self, volume: usize) -> bool {
        self.owners.get(volume).is_some_and(Option::is_none)
    }
    /// Objects go to other nodes of themselves also when nothing disturbs. Whether an answer may say that its command met such a hand-over: the record of
    /// the volume named another owner lately, or has to soon ([`Paths::unshown`]).
    pub fn meets_hand_over(&mut self, volume: usize, status: Status, now: u64) -> bool {
        let of_paths = [StatusCode::ANA_TRANSITION, StatusCode::ANA_INACCESSIBLE, StatusCode::CONTROLLER_PATHING_ERROR];
        if !self.owner_may_change(volume) || !of_paths.contains(&status.code) {
            return false;
        }
        self.owned_since.get(&volume).is_some_and(|since| now <= since + HANDED_OVER_NS)
            || now <= *self.met.entry(volume).or_insert(now) + HANDED_OVER_NS
    }
    /// The record of a volume names another owner.
    pub fn owner_changes(&mut self, volume: usize, now: u64) {
        self.owned_since.insert(volume, now);
        self.met.retain(|met, at| *met != volume || *at + HANDED_OVER_NS < now);
    }
    /// A volume that a command of the calm found between two owners, and when, though its record has not named another one since.
    pub fn unshown(&self) -> Option<(usize, u64)> {
        self.met.iter().next().map(|(volume, at)| (*volume, *at))
    }

    /// Whether a command of a client, sent at `since`, may be answered so for the path that it took. `None`: the answer is not about paths.
    pub fn may_answer(&self, client: usize, volume: usize, status: Status, since: u64, now: u64) -> Option<bool> {
        let wanted = match status.code {
            StatusCode::CONTROLLER_PATHING_ERROR => true,
            StatusCode::ANA_INACCESSIBLE => false,
            // Between two owners.
            StatusCode::ANA_TRANSITION => return self.owners.get(volume)?.map(|_| false),
            _ => return None,
        };
        let (node, owner) = (self.client_at.get(client)?, self.owners.get(volume)?.as_ref()?);
        if node == owner {
            return Some(false);
        }
        let met = self.serves[*node][*owner].iter().any(|p| p.open == wanted && p.from <= now && p.until >= since);
        let long = |at: Option<u64>| at.is_some_and(|at| at + CERTAINLY_CUT_NS <= since);
        let certainly_cut = !self.pauses && (long(self.cut[*node][*owner]) || long(self.cut[*owner][*node]));
        Some(met && !(wanted && certainly_cut))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_answers_by_what_its_node_may_have_served_meanwhile() {
        let mut paths = Paths::of(2, vec![0, 1], vec![Some(1)], false);
        let (error, inaccessible) = (Status::retry(StatusCode::CONTROLLER_PATHING_ERROR), Status::retry(StatusCode::ANA_INACCESSIBLE));
        let may = |paths: &Paths, client, since, now| [error, inaccessible].map(|s| paths.may_answer(client, 0, s, since, now).unwrap());
        assert_eq!(may(&paths, 0, 5, 6), [false, true], "it reaches nobody");
        assert_eq!(may(&paths, 1, 5, 6), [false, false], "the owner");
        paths.decided(0, |to| to == 1, 10);
        assert_eq!(may(&paths, 0, 12, 13), [true, true], "not on all cores yet");
        paths.in_force(0, 20);
        assert_eq!(may(&paths, 0, 21, 30), [true, false]);
        assert_eq!(may(&paths, 0, 19, 30), [true, true]);
        paths.cut(0, 1, Some(40));
        assert_eq!(may(&paths, 0, CERTAINLY_CUT_NS, CERTAINLY_CUT_NS + 1), [true, false]);
        assert_eq!(may(&paths, 0, CERTAINLY_CUT_NS + 40, CERTAINLY_CUT_NS + 41), [false, false], "it must have noticed");
        paths.cut(0, 1, None);
        assert_eq!(may(&paths, 0, CERTAINLY_CUT_NS + 40, CERTAINLY_CUT_NS + 41), [true, false]);
        assert_eq!(paths.may_answer(0, 0, Status::SUCCESS, 0, 1), None);
    }

    #[test]
    fn a_hand_over_that_a_command_meets_is_in_the_record_within_a_second() {
        let (transition, not_ready) = (Status::retry(StatusCode::ANA_TRANSITION), Status::retry(StatusCode::NAMESPACE_NOT_READY));
        let mut paths = Paths::of(2, vec![0, 1], vec![None, Some(1), None], false);
        assert!(!paths.meets_hand_over(1, transition, 5), "only one node may own it");
        assert!(!paths.meets_hand_over(0, not_ready, 5), "it is not about paths");
        assert!(paths.meets_hand_over(0, transition, 5));
        assert!(paths.meets_hand_over(0, transition, 5 + HANDED_OVER_NS));
        assert!(!paths.meets_hand_over(0, transition, 6 + HANDED_OVER_NS), "it takes too long");
        paths.owner_changes(2, 6);
        assert_eq!(paths.unshown(), Some((0, 5)), "another volume was handed over");
        paths.owner_changes(0, 6 + HANDED_OVER_NS);
        assert_eq!(paths.unshown(), Some((0, 5)), "too late");
        let mut paths = Paths::of(2, vec![0, 1], vec![None], false);
        assert!(paths.meets_hand_over(0, transition, 5));
        paths.owner_changes(0, 5 + HANDED_OVER_NS);
        assert_eq!(paths.unshown(), None);
        assert!(paths.meets_hand_over(0, transition, 5 + 2 * HANDED_OVER_NS));
        assert_eq!(paths.unshown(), None, "a second after it");
        assert!(paths.meets_hand_over(0, transition, 6 + 2 * HANDED_OVER_NS));
        assert!(paths.unshown().is_some());
    }
}
