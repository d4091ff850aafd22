//! What reservations allow on a volume, over time.
//!
//! A state counts from the moment it was decided until every core served a later one: in between either may be what a command meets.
//!
//! Owns: the states of a volume's reservation, who brought them about, and what was refused.
//! Invariant: what may have been the case is never called wrong.
//! Never: decides anything; what a state allows is read from the specification's table ([`crate::rules`]). Times are nanoseconds of the world.

use crate::rules::{Role, Rules, may};
use base::HostId;
use cluster::reservation::{Command, Outcome, Refusal, ReservationType, State};
use std::collections::BTreeSet;
use std::rc::Rc;

/// The identifier of a client's host over NVMe/TCP.
pub fn host_id(client: usize) -> HostId {
    HostId::from_bytes([client as u8 + 1; 16])
}

/// The identities of the clients' hosts, to which reservations belong: over NVMe/TCP that of the host, over iSCSI that of its one session.
pub type Hosts = Rc<[HostId]>;

/// A host that no client is.
const NOBODY: HostId = HostId::from_bytes([0xFF; 16]);

/// What a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It reads.
    Read,
    /// It writes, or does both.
    Write,
}

#[derive(Clone, Debug)]
struct Period {
    state: State,
    /// From when on it may be in force.
    from: u64,
    /// Until when a command may pass by it; `u64::MAX` while it is.
    until: u64,
    /// Until when a command may be refused by it, and a report show it. With several nodes this is later: who serves a host needs not be the owner.
    seen_until: u64,
    /// The client whose command it was; `None` for the operator.
    by: Option<usize>,
    /// That command is answered only when what others had under way has ended.
    fences: bool,
    /// Hosts that it has driven out, and whose commands may be aborted.
    aborts: BTreeSet<HostId>,
}

/// The reservations of a volume.
#[derive(Clone, Debug)]
pub struct Rights {
    hosts: Hosts,
    periods: Vec<Period>,
    /// Refusals: whom, when.
    refusals: Vec<(usize, u64, Refusal)>,
    /// What the specification makes of the same commands.
    rules: Rules,
}

impl Rights {
    /// Nobody is registered. Of these hosts.
    pub fn of(hosts: Hosts) -> Rights {
        let first = Period {
            state: State::default(),
            from: 0,
            until: u64::MAX,
            seen_until: u64::MAX,
            by: None,
            fences: false,
            aborts: BTreeSet::new(),
        };
        Rights { hosts, periods: vec![first], refusals: Vec::new(), rules: Rules::default() }
    }
    /// The client of a host.
    pub fn client_of(&self, host: HostId) -> Option<usize> {
        self.hosts.iter().position(|h| *h == host)
    }
    /// The newest state.
    pub fn newest(&self) -> &State {
        &self.periods.last().expect("there is always one").state
    }
    /// A command of a client was carried out: whether the specification says the same.
    pub fn decided(&mut self, state: State, by: usize, command: &Command, outcome: &Outcome, now: u64) -> bool {
        let before = self.rules.clone();
        if self.rules.execute(self.hosts[by], command).is_err() || !self.rules.agrees(&state) {
            return false;
        }
        let driven_out = self.rules.driven_out(&before, self.hosts[by]);
        let fences = self.rules.takes_away(&before, self.hosts.iter().copied().chain([NOBODY]));
        let abort = matches!(command, Command::Preempt { abort: true, .. });
        // The code may wait for more than it must, not for less.
        let right = outcome.preempted == driven_out && outcome.abort == abort && (!fences || outcome.fences());
        let aborts = if abort { driven_out } else { BTreeSet::new() };
        self.periods.push(Period {
            state,
            from: now,
            until: u64::MAX,
            seen_until: u64::MAX,
            by: Some(by),
            fences: fences || abort,
            aborts,
        });
        right
    }
    /// A host's command was refused: whether the specification says the same.
    pub fn is_rightly_refused(&mut self, by: HostId, command: &Command, why: Refusal) -> bool {
        self.rules.execute(by, command) == Err(why)
    }
    /// Power was lost, or an administrator took all away: whether the specification says the same of what is left.
    pub fn is_left(&mut self, state: &State, cleared: bool) -> bool {
        if cleared {
            self.rules.clear_all();
        } else {
            self.rules.power_lost();
        }
        self.rules.agrees(state)
    }
    /// A command of a client was refused.
    pub fn refused(&mut self, by: usize, why: Refusal, now: u64) {
        self.refusals.push((by, now, why));
    }
    /// Every core serves the newest state.
    pub fn in_force(&mut self, now: u64) {
        let all = self.periods.len();
        for p in &mut self.periods[..all - 1] {
            (p.until, p.seen_until) = (p.until.min(now), p.seen_until.min(now));
        }
    }
    /// The number of the newest state.
    pub fn number(&self) -> usize {
        self.periods.len() - 1
    }
    /// The owner of the volume serves the state with this number, or a later one.
    pub fn in_force_at_owner(&mut self, number: usize, now: u64) {
        self.periods[..number].iter_mut().for_each(|p| p.until = p.until.min(now));
    }
    /// Every node serves the state with this number, or a later one.
    pub fn in_force_everywhere(&mut self, number: usize, now: u64) {
        self.periods[..number].iter_mut().for_each(|p| (p.until, p.seen_until) = (p.until.min(now), p.seen_until.min(now)));
    }
    /// The owner was away, and this is what is left.
    pub fn owner_started(&mut self, state: State, now: u64) {
        let aborts = BTreeSet::new();
        self.periods.push(Period { state, from: now, until: u64::MAX, seen_until: u64::MAX, by: None, fences: false, aborts });
    }
    /// The host was away, and serves this from now on.
    pub fn restarted(&mut self, state: State, now: u64) {
        self.periods.push(Period {
            state,
            from: now,
            until: u64::MAX,
            seen_until: u64::MAX,
            by: None,
            fences: false,
            aborts: BTreeSet::new(),
        });
        self.in_force(now);
    }

    /// The states that a command may have met that was sent at `since` and is answered now.
    fn met(&self, since: u64, now: u64) -> impl Iterator<Item = &State> {
        self.periods.iter().filter(move |p| p.from <= now && p.until >= since).map(|p| &p.state)
    }
    /// The states that some core of some node may have served.
    fn seen(&self, since: u64, now: u64) -> impl Iterator<Item = &State> {
        self.periods.iter().filter(move |p| p.from <= now && p.seen_until >= since).map(|p| &p.state)
    }
    /// Whether a command of a client may have been allowed.
    pub fn may_pass(&self, client: usize, need: Need, since: u64, now: u64) -> bool {
        self.met(since, now).any(|s| allows(s, self.hosts[client], need))
    }
    /// Whether a command of a client may have met a reservation that stands against it.
    pub fn may_conflict(&self, client: usize, need: Need, since: u64, now: u64) -> bool {
        self.seen(since, now).any(|s| !allows(s, self.hosts[client], need))
    }
    /// Whether a command of a client that was sent at `since` may have been aborted by a Preempt and Abort that reached the cores within `after`.
    pub fn may_be_aborted(&self, client: usize, since: u64, after: u64) -> bool {
        self.periods.iter().any(|p| p.aborts.contains(&self.hosts[client]) && p.from.saturating_add(after) >= since)
    }
    /// Whether a command of `by`, sent at `since`, was carried out.
    pub fn was_decided(&self, by: usize, since: u64) -> bool {
        self.periods.iter().any(|p| p.by == Some(by) && p.from >= since)
    }
    /// Whether a command of `by`, sent at `since`, was refused so.
    pub fn was_refused(&self, by: usize, why: Refusal, since: u64) -> bool {
        self.refusals.iter().any(|(client, at, refusal)| (*client, *refusal) == (by, why) && *at >= since)
    }
    /// Whether `client` may have been unregistered where its command came, which was sent at `since`.
    pub fn may_be_unregistered(&self, client: usize, since: u64, now: u64) -> bool {
        self.seen(since, now).any(|s| !s.registrants().contains_key(&self.hosts[client]))
    }
    /// Whether another host may have taken the volume whole where a command of `client` came, which was sent at `since`.
    pub fn may_be_taken_from(&self, client: usize, since: u64, now: u64) -> bool {
        self.seen(since, now).any(|s| s.taken().is_some_and(|(by, _)| by != self.hosts[client]))
    }
    /// Whether a report that was asked for at `since` may say this.
    pub fn may_be_reported(&self, since: u64, now: u64, is: impl Fn(&State) -> bool) -> bool {
        self.seen(since, now).any(is)
    }
    /// A command of `by`, sent at `since`, was answered with success. Says which of the other clients, fenced by it, have had no right to
    /// write since: nothing of what these have sent takes effect before they have it again.
    pub fn fenced(&self, by: usize, since: u64, clients: usize) -> Vec<usize> {
        // Which of them it was cannot be known if an earlier one, whose connection was lost, came late: so all must be such, and the first counts.
        let own = |p: &Period| p.by == Some(by) && p.from >= since;
        let Some(first) = self.periods.iter().position(own) else { return Vec::new() };
        if !self.periods[first..].iter().filter(|p| own(p)).all(|p| p.fences) {
            return Vec::new();
        }
        let shut = |client: &usize| self.periods[first..].iter().all(|p| !allows(&p.state, self.hosts[*client], Need::Write));
        (0..clients).filter(|c| *c != by).filter(shut).collect()
    }
}

fn allows(state: &State, host: HostId, need: Need) -> bool {
    // SPC-2 5.5.1: of a unit that is taken whole others get nothing.
    if state.taken().is_some_and(|(by, _)| by != host) {
        return false;
    }
    let role = match (state.is_holder(host), state.registrants().contains_key(&host)) {
        (true, _) => Role::Holder,
        (false, true) => Role::Registrant,
        (false, false) => Role::Other,
    };
    let (read, write) = may(state.rtype().map_or(0, ReservationType::byte), role);
    match need {
        Need::Read => read,
        Need::Write => read && write,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Client 0 reserves at 10, on all cores from 20; it releases at 50, on all cores from 60.
    fn example() -> Rights {
        let mut rights = Rights::of((0..3).map(host_id).collect());
        let mut state = State::default();
        let rtype = ReservationType::ExclusiveAccess;
        let commands = [
            (5, Command::Register { nrkey: 1, ptpl: None }),
            (10, Command::Acquire { crkey: 1, rtype }),
            (50, Command::Release { crkey: 1, rtype: Some(rtype) }),
        ];
        for (at, command) in commands {
            let outcome = state.execute(host_id(0), &command).expect("it may");
            assert!(rights.decided(state.clone(), 0, &command, &outcome, at));
            rights.in_force(at + 10);
        }
        rights
    }

    #[test]
    fn either_state_may_be_met_until_the_later_one_is_served_everywhere() {
        let rights = example();
        assert!(rights.may_pass(1, Need::Write, 12, 15) && rights.may_conflict(1, Need::Write, 12, 15), "not yet on all cores");
        assert!(!rights.may_pass(1, Need::Write, 21, 49) && rights.may_conflict(1, Need::Read, 21, 49), "reserved");
        assert!(rights.may_pass(1, Need::Write, 21, 51), "it waited until the release");
        assert!(!rights.may_conflict(1, Need::Write, 61, 70) && rights.may_pass(1, Need::Write, 61, 70), "released");
        assert!(!rights.may_conflict(0, Need::Write, 0, 100), "never against the holder");
    }

    #[test]
    fn others_are_fenced_by_what_takes_their_rights_until_they_have_them_again() {
        let mut rights = Rights::of((0..3).map(host_id).collect());
        let mut state = State::default();
        let rtype = ReservationType::WriteExclusive;
        for (at, command) in [(5, Command::Register { nrkey: 1, ptpl: None }), (10, Command::Acquire { crkey: 1, rtype })] {
            let outcome = state.execute(host_id(0), &command).expect("it may");
            assert!(rights.decided(state.clone(), 0, &command, &outcome, at));
        }
        assert_eq!(rights.fenced(0, 6, 3), [1, 2]);
        assert_eq!(rights.fenced(0, 4, 3), [0; 0], "an answer to Register says nothing");
        assert_eq!(rights.fenced(1, 6, 3), [0; 0], "another's answer neither");
        let outcome = state.execute(host_id(0), &Command::Clear { crkey: 1 }).expect("it may");
        assert!(rights.decided(state, 0, &Command::Clear { crkey: 1 }, &outcome, 30));
        assert_eq!(rights.fenced(0, 6, 3), [0; 0], "they have them again");
    }
}
