//! What is served of a volume, over time: its size, whether it may be written, whether it can be reached at all.
//!
//! As with reservations ([`crate::rights`]) a state counts from the moment it was decided until every core served a later one: in between
//! either may be what a command meets.
//!
//! Owns: the states of a volume.
//! Invariant: what may have been the case is never called wrong.
//! Never: knows what lies in the volume.

use dataplane::VolumeLimits;
use format::nvme::{Status, StatusCode};

/// How a volume is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The namespace that it is; `None`: it is attached nowhere.
    pub nsid: Option<u32>,
    /// Logical blocks.
    pub blocks: u64,
    /// No command may change it.
    pub read_only: bool,
    /// It is being formatted: no command reaches it.
    pub formatting: bool,
    /// It cannot be reached: commands are to be tried again.
    pub offline: bool,
    /// The most requests and bytes a second.
    pub limits: VolumeLimits,
}

/// What a command needs of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wants {
    /// The namespace that it names.
    pub nsid: u32,
    /// The logical block behind its last one; 0 when it names none.
    pub end: u64,
    /// It changes what is there.
    pub changes: bool,
}

#[derive(Clone, Copy, Debug)]
struct Period {
    state: State,
    /// From when on it may be met.
    from: u64,
    /// Until when a command may pass by it; `u64::MAX` while it is.
    until: u64,
    /// Until when a command may be refused by it, and Identify show it: with several nodes, later.
    seen_until: u64,
}

/// The states of a volume. Times are nanoseconds of the world.
#[derive(Clone, Debug)]
pub struct Served(Vec<Period>);

impl Served {
    /// Served so from the beginning.
    pub fn new(state: State) -> Served {
        Served(vec![Period { state, from: 0, until: u64::MAX, seen_until: u64::MAX }])
    }
    /// The newest state.
    pub fn newest(&self) -> State {
        self.0.last().expect("there is always one").state
    }
    /// It is to be served so from now on.
    pub fn decided(&mut self, state: State, now: u64) {
        self.0.push(Period { state, from: now, until: u64::MAX, seen_until: u64::MAX });
    }
    /// Every core serves the newest state.
    pub fn in_force(&mut self, now: u64) {
        let all = self.0.len();
        for p in &mut self.0[..all - 1] {
            (p.until, p.seen_until) = (p.until.min(now), p.seen_until.min(now));
        }
    }
    /// The number of the newest state.
    pub fn number(&self) -> usize {
        self.0.len() - 1
    }
    /// The owner of the volume serves the state with this number, or a later one.
    pub fn in_force_at_owner(&mut self, number: usize, now: u64) {
        self.0[..number].iter_mut().for_each(|p| p.until = p.until.min(now));
    }
    /// Every node serves the state with this number, or a later one.
    pub fn in_force_everywhere(&mut self, number: usize, now: u64) {
        self.0[..number].iter_mut().for_each(|p| (p.until, p.seen_until) = (p.until.min(now), p.seen_until.min(now)));
    }
    /// The host was away, and serves it so from the start.
    pub fn restarted(&mut self, state: State, now: u64) {
        self.decided(state, now);
        self.in_force(now);
    }

    /// The states that a command may have met that was sent at `since` and is answered now.
    fn met(&self, since: u64, now: u64) -> impl Iterator<Item = &State> {
        self.0.iter().filter(move |p| p.from <= now && p.until >= since).map(|p| &p.state)
    }
    /// The states that some core of some node may have served.
    fn seen(&self, since: u64, now: u64) -> impl Iterator<Item = &State> {
        self.0.iter().filter(move |p| p.from <= now && p.seen_until >= since).map(|p| &p.state)
    }
    /// Whether a command may have been carried out. Its parts may have met states of their own.
    pub fn may_pass(&self, wants: Wants, since: u64, now: u64) -> bool {
        let met = |holds: &dyn Fn(&State) -> bool| self.met(since, now).any(holds);
        met(&|s| s.nsid == Some(wants.nsid) && !s.formatting && !s.offline)
            && met(&|s| s.blocks >= wants.end)
            && met(&|s| !(wants.changes && s.read_only))
    }
    /// Whether a command may have been refused with this status for what was served.
    pub fn may_refuse(&self, wants: Wants, status: Status, since: u64, now: u64) -> bool {
        let met = |holds: &dyn Fn(&State) -> bool| self.seen(since, now).any(holds);
        match status.code {
            StatusCode::INVALID_FIELD | StatusCode::INVALID_NAMESPACE_OR_FORMAT => met(&|s| s.nsid != Some(wants.nsid)),
            StatusCode::LBA_OUT_OF_RANGE => met(&|s| s.blocks < wants.end || s.formatting),
            StatusCode::NAMESPACE_WRITE_PROTECTED => wants.changes && met(&|s| s.read_only),
            StatusCode::FORMAT_IN_PROGRESS => !status.dnr && met(&|s| s.formatting),
            StatusCode::NAMESPACE_NOT_READY => !status.dnr && met(&|s| s.offline),
            _ => false,
        }
    }
    /// Whether Identify may say this of a namespace: its size, or 0 for one that is not there.
    pub fn may_be_identified(&self, nsid: u32, blocks: u64, since: u64, now: u64) -> bool {
        self.seen(since, now).any(|s| if s.nsid == Some(nsid) { s.blocks == blocks } else { blocks == 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: Wants = Wants { nsid: 1, end: 80, changes: true };

    /// 100 blocks; from 10 on 50, on all cores from 20.
    fn shrunk() -> Served {
        let mut served = Served::new(State {
            nsid: Some(1),
            blocks: 100,
            read_only: false,
            formatting: false,
            offline: false,
            limits: VolumeLimits::default(),
        });
        served.decided(State { blocks: 50, ..served.newest() }, 10);
        served.in_force(20);
        served
    }

    #[test]
    fn either_state_may_be_met_until_the_later_one_is_served_everywhere() {
        let (served, beyond) = (shrunk(), Status::dnr(StatusCode::LBA_OUT_OF_RANGE));
        assert!(served.may_pass(WRITE, 0, 9) && !served.may_refuse(WRITE, beyond, 0, 9), "before");
        assert!(served.may_pass(WRITE, 15, 40) && served.may_refuse(WRITE, beyond, 15, 40), "meanwhile");
        assert!(!served.may_pass(WRITE, 21, 40) && served.may_refuse(WRITE, beyond, 21, 40), "afterwards");
        assert!(served.may_pass(Wants { end: 50, ..WRITE }, 21, 40));
        assert!(served.may_be_identified(1, 100, 15, 15) && !served.may_be_identified(1, 100, 21, 30));
    }

    #[test]
    fn each_refusal_has_its_own_reason() {
        let mut served = shrunk();
        let first = State { blocks: 100, ..served.newest() };
        let protected = Status::dnr(StatusCode::NAMESPACE_WRITE_PROTECTED);
        let reasons = [
            (State { read_only: true, ..first }, protected),
            (State { formatting: true, ..first }, Status::retry(StatusCode::FORMAT_IN_PROGRESS)),
            (State { offline: true, ..first }, Status::retry(StatusCode::NAMESPACE_NOT_READY)),
            (State { nsid: Some(2), ..first }, Status::dnr(StatusCode::INVALID_FIELD)),
            (State { nsid: None, ..first }, Status::dnr(StatusCode::INVALID_NAMESPACE_OR_FORMAT)),
        ];
        for (at, (state, _)) in reasons.iter().enumerate() {
            let now = 100 * (at as u64 + 1);
            served.decided(*state, now);
            served.in_force(now);
            assert!(!served.may_pass(WRITE, now + 1, now + 9), "{state:?}");
            for (other, status) in &reasons {
                let same_kind = other.nsid != Some(1) && state.nsid != Some(1);
                assert_eq!(served.may_refuse(WRITE, *status, now + 1, now + 9), other == state || same_kind, "{state:?}, {status:?}");
            }
        }
        served.decided(reasons[0].0, 900);
        served.in_force(900);
        let read = Wants { changes: false, ..WRITE };
        assert!(served.may_pass(read, 901, 902) && !served.may_refuse(read, protected, 901, 902), "it can be read");
    }
}
