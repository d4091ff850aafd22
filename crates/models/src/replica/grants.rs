//! Grants: which node may count on which other not to accept another owner.
//!
//! Time is an order of events here. A grant runs out at the granter only after the owner has stopped counting it, and after an answer on
//! its way is too old to count: that is what 0.8 s, counted from the sending of the heartbeat, against 1 s, counted from its answer,
//! amounts to with clocks whose rates differ by up to a tenth.
//!
//! Owns: the actions `Grant`, `Renew`, `StopCounting`, `GrantRunsOut`, `WaitOver`, `HearIncarnation`.
//! Invariant: while an owner counts a grant, its granter remembers it, or waits after a restart.
//! Never: knows what is read.

use super::state::{Grant, Role, World};
use super::{Action, Bounds, Rule, bits};

impl World {
    pub(super) fn grant_actions(&self, bounds: &Bounds, out: &mut Vec<Action>) {
        for g in 0..bounds.nodes {
            if self.nodes[g].waits && (0..bounds.nodes).all(|o| self.may_run_out(bounds, self.grants[g][o])) {
                out.push(Action::WaitOver { granter: g as u8 });
            }
            for o in (0..bounds.nodes).filter(|&o| o != g) {
                let (granter, owner) = (g as u8, o as u8);
                let grant = self.grants[g][o];
                let renews = match &self.nodes[g].role {
                    Role::Holder => true,
                    Role::TakingOver => false,
                    Role::Owner(owner) => owner.serving,
                };
                let asks = matches!(self.nodes[o].role, Role::Owner(_));
                if renews && asks && grant.answer == 0 && !grant.counted && self.budget.grants < bounds.grants {
                    out.push(Action::Grant { granter, owner });
                }
                if grant.answer != 0 {
                    out.push(Action::Renew { granter, owner });
                }
                if grant.counted || grant.answer != 0 {
                    out.push(Action::StopCounting { granter, owner });
                }
                if grant.given != 0 && self.may_run_out(bounds, grant) {
                    out.push(Action::GrantRunsOut { granter, owner });
                }
                if grant.given != 0 && grant.given < self.nodes[o].inc {
                    out.push(Action::HearIncarnation { granter, owner });
                }
            }
        }
    }
    fn may_run_out(&self, bounds: &Bounds, grant: Grant) -> bool {
        (!grant.counted || !bounds.has(Rule::GrantCountedShorter)) && (grant.answer == 0 || !bounds.has(Rule::GrantFromSending))
    }
    pub(super) fn grant(&mut self, g: usize, o: usize) {
        let accepted = self.copies[g].accepted;
        self.grants[g][o] = Grant { given: self.nodes[o].inc, answer: accepted, counted: false };
        self.budget.grants += 1;
    }
    pub(super) fn renew(&mut self, bounds: &Bounds, g: usize, o: usize) {
        let accepted = core::mem::take(&mut self.grants[g][o].answer);
        if let Role::Owner(owner) = &self.nodes[o].role {
            self.grants[g][o].counted = accepted <= owner.record.epoch || !bounds.has(Rule::GrantNamesEpoch);
        }
    }
    /// Whether an owner may answer a read now.
    pub(super) fn is_granted(&self, bounds: &Bounds, o: usize) -> bool {
        let Role::Owner(owner) = &self.nodes[o].role else { return false };
        let joining = self.nodes[o].cas.filter(|_| bounds.has(Rule::GrantsOfJoining)).map_or(0, |new| new.active());
        let needed = (owner.record.active() | joining) & !(1 << o);
        if bounds.grants == 0 {
            return true;
        }
        let mut counted = bits(needed).map(|g| self.grants[g][o].counted);
        if bounds.has(Rule::GrantsOfAll) { counted.all(|c| c) } else { needed == 0 || counted.any(|c| c) }
    }
    /// A node forgets what it gave, and what it was given.
    pub(super) fn forget_grants(&mut self, bounds: &Bounds, node: usize) {
        for other in 0..bounds.nodes {
            self.grants[node][other].given = 0;
            let to_it = &mut self.grants[other][node];
            (to_it.counted, to_it.answer) = (false, 0);
        }
        self.nodes[node].waits = bounds.grants > 0 && bounds.has(Rule::WaitAfterRestart);
    }
}
