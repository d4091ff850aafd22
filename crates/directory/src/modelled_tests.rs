use super::*;
use crate::commit::{self, Attempt, change, commit_known};
use crate::conformance::{Breach, Subject, check};
use crate::{Expect, SESSION_TTL_MAX, SESSION_TTL_MIN};
use std::{cell::Cell, collections::BTreeSet};

struct Virtual {
    directory: Modelled,
    now: Cell<Duration>,
}

impl Subject for Virtual {
    fn directory(&self) -> &dyn Directory {
        &self.directory
    }
    fn advance(&self, by: Duration) {
        self.now.set(self.now.get() + by);
        self.directory.advance(self.now.get());
    }
    fn compact(&self) {
        self.directory.compact();
    }
}

fn modelled(seed: u64, faults: Faults) -> Modelled {
    Modelled::new(seed, ClusterId::from_bytes([1; 16]), faults)
}
fn subject(seed: u64, faults: Faults) -> Virtual {
    Virtual { directory: modelled(seed, faults), now: Cell::new(Duration::ZERO) }
}
fn key(id: &str) -> Key {
    Key::new(Kind::Task, id)
}
fn put(id: &str) -> Transaction {
    Transaction::new().with(key(id), Expect::Absent, Action::Put(b"x".into()))
}
const NONCE: Nonce = Nonce([7; 16]);
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn it_conforms_when_nothing_goes_wrong() {
    assert_eq!(check(&|| Box::new(subject(1, Faults::NONE))), []);
}

#[test]
fn it_conforms_with_lost_answers_elections_and_lagging_watches() {
    for seed in 0..30 {
        assert_eq!(check(&|| Box::new(subject(seed, Faults::MANY))), [], "seed {seed}");
    }
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    let run = |seed| {
        let s = subject(seed, Faults::MANY);
        let mut seen = String::new();
        for n in 0..200 {
            s.advance(Duration::from_millis(20));
            seen += &format!("{:?};", s.directory.commit(&put(&n.to_string())));
        }
        seen
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn without_a_majority_nothing_happens_and_with_one_it_goes_on() {
    let d = modelled(1, Faults::NONE);
    d.commit(&put("a")).unwrap();
    d.set_up(1, false);
    d.commit(&put("b")).unwrap();
    d.set_up(0, false);
    assert!(matches!(d.commit(&put("c")), Err(DirectoryError::Unavailable)));
    assert!(matches!(d.get(&key("a")), Err(DirectoryError::Unavailable)));
    d.set_up(1, true);
    assert!(matches!(d.commit(&put("c")), Err(DirectoryError::Unavailable)), "an election takes its time");
    d.advance(2 * SECOND);
    assert_eq!(d.commit(&put("c")).unwrap(), Revision(3));
    assert!(d.get(&key("b")).unwrap().is_some());
}

#[test]
fn a_leader_that_hangs_answers_nothing_and_may_do_it_later() {
    let d = modelled(1, Faults::NONE);
    d.hang_leader(10 * SECOND);
    assert!(matches!(d.commit(&put("a").with_nonce(NONCE)), Err(DirectoryError::Unknown { .. })));
    assert!(matches!(d.get(&key("a")), Err(DirectoryError::Unavailable)));
    assert!(!d.has_happened(NONCE));
    d.advance(10 * SECOND);
    assert!(d.has_happened(NONCE));
    assert_eq!(d.outcome(NONCE).unwrap(), Some(Revision(1)));
    // When another is elected meanwhile, the old one's requests come through or do not.
    let fate = |seed| {
        let d = modelled(seed, Faults::NONE);
        d.hang_leader(10 * SECOND);
        let _ = d.commit(&put("a").with_nonce(NONCE));
        d.elect();
        d.advance(20 * SECOND);
        d.has_happened(NONCE)
    };
    assert_eq!((0..20).map(fate).collect::<BTreeSet<_>>().len(), 2);
}

#[test]
fn a_transaction_that_arrives_late_does_not_happen_a_second_time() {
    let faults = Faults { late_permille: 1000, ..Faults::NONE };
    let d = modelled(1, faults);
    assert!(matches!(d.commit(&put("a").with_nonce(NONCE)), Err(DirectoryError::Unknown { .. })));
    d.set_faults(Faults::NONE);
    let at = d.commit(&put("a").with_nonce(NONCE)).unwrap();
    let gone = Transaction::new().with(key("a"), Expect::At(at), Action::Delete);
    d.commit(&gone).unwrap();
    d.advance(60 * SECOND);
    assert_eq!(d.get(&key("a")).unwrap(), None, "it was removed, and the late one is recognised");
}

/// A start that changes nothing committed at the instant of a host's change, and was taken for what had made it (seed 941472).
#[test]
fn who_made_a_revision_is_not_who_changed_nothing_after_it() {
    let directory = modelled(3, Faults::NONE);
    let [first, second] = [2, 1].map(|n| Nonce([n; 16]));
    let made = directory.commit(&put("a").with_nonce(first)).unwrap();
    assert_eq!(directory.commit(&Transaction::new().with_nonce(second)).unwrap(), made, "it changes nothing");
    assert_eq!(directory.nonce_of(made), Some(first));
    assert_eq!(directory.outcome(second).unwrap(), Some(made));
}

#[test]
fn all_sessions_can_run_out_at_once_and_an_election_gives_them_their_time_again() {
    let d = modelled(1, Faults::NONE);
    let bind = |id: &str, session| Transaction::new().with(key(id), Expect::Absent, Action::Bind(b"x".into(), session));
    let session = d.open_session(2 * SECOND).unwrap();
    d.commit(&bind("a", session)).unwrap();
    d.advance(Duration::from_millis(1900));
    d.elect();
    d.advance(Duration::from_millis(4000));
    assert!(d.get(&key("a")).unwrap().is_some(), "a new leader does not know how long it had left");
    d.expire_sessions();
    assert_eq!(d.get(&key("a")).unwrap(), None);
    assert!(matches!(d.keep_alive(session), Err(DirectoryError::NoSession(_))));
}

#[test]
fn a_backup_that_is_put_back_is_noticed_by_whoever_watched() {
    let d = modelled(1, Faults::NONE);
    d.commit(&put("a")).unwrap();
    let backup = d.backup();
    let seen = d.commit(&put("b")).unwrap();
    let mut watch = d.watch(seen).unwrap();
    d.restore(&backup);
    assert!(matches!(watch.poll(), Err(DirectoryError::Older { .. })));
    assert!(matches!(d.watch(seen).err(), Some(DirectoryError::Older { .. })));
    assert_eq!(d.get(&key("b")).unwrap(), None);
    d.commit(&put("c")).unwrap();
    assert!(watch.poll().is_err(), "also when it has as many revisions again");
}

#[test]
fn a_commit_that_stays_unknown_is_said_to_be_unknown() {
    let d = modelled(1, Faults { lost_request_permille: 1000, ..Faults::NONE });
    let mut pauses = 0;
    let result = commit_known(&d, put("a"), NONCE, |_| pauses += 1);
    assert!(matches!(result, Err(DirectoryError::Unknown { .. })), "{result:?}");
    assert_eq!(pauses + 1, commit::UNKNOWN_ATTEMPTS_MAX);
}

#[test]
fn after_an_unknown_outcome_unavailable_does_not_mean_that_nothing_happened() {
    let d = modelled(1, Faults { lost_answer_permille: 1000, ..Faults::NONE });
    let mut attempt = Attempt::new(put("a"), NONCE);
    assert!(attempt.step(&d).is_none());
    d.set_up(0, false);
    d.set_up(1, false);
    assert!(attempt.step(&d).is_none(), "not 'unavailable', which would mean that nothing has happened");
    d.set_up(1, true);
    d.advance(5 * SECOND);
    assert_eq!(attempt.step(&d).unwrap().unwrap(), Revision(1));
}

#[test]
fn whoever_is_slower_decides_again_a_bounded_number_of_times() {
    let d = modelled(1, Faults::NONE);
    let mut decided = 0;
    let result: Result<_, DirectoryError> = change(
        || {
            decided += 1;
            Ok((put("a"), ()))
        },
        |_| Err(DirectoryError::Conflict { key: key("a") }),
    );
    assert!(matches!(result, Err(DirectoryError::Conflict { .. })));
    assert_eq!(decided, commit::CONFLICT_ATTEMPTS_MAX);
    assert!(change::<_, DirectoryError>(|| Ok((put("a"), 5)), |t| d.commit(&t)).is_ok_and(|(at, five)| at == Revision(1) && five == 5));
}

/// A way to be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    MissesEvents,
    RepeatsEvents,
    SwapsEvents,
    SplitsEvents,
    TakesUnknownForFailure,
    TakesUnknownForDone,
    AppliesHalf,
    KeepsKeysOfDeadSessions,
    KeepsDeadSessionsAlive,
    SessionsDieEarly,
    ReadsStale,
    IgnoresExpectations,
    SnapshotRunsBehind,
    HidesCompaction,
    HidesThatItIsOlder,
    ForgetsNonces,
    HappensTwice,
    TakesTooMuch,
    TakesAKeyTwice,
    CountsWhatChangesNothing,
}

impl Break {
    const ALL: [Break; 20] = [
        Break::MissesEvents,
        Break::RepeatsEvents,
        Break::SwapsEvents,
        Break::SplitsEvents,
        Break::TakesUnknownForFailure,
        Break::TakesUnknownForDone,
        Break::AppliesHalf,
        Break::KeepsKeysOfDeadSessions,
        Break::KeepsDeadSessionsAlive,
        Break::SessionsDieEarly,
        Break::ReadsStale,
        Break::IgnoresExpectations,
        Break::SnapshotRunsBehind,
        Break::HidesCompaction,
        Break::HidesThatItIsOlder,
        Break::ForgetsNonces,
        Break::HappensTwice,
        Break::TakesTooMuch,
        Break::TakesAKeyTwice,
        Break::CountsWhatChangesNothing,
    ];
    fn faults(self) -> Faults {
        match self {
            Self::TakesUnknownForFailure | Self::TakesUnknownForDone => Faults::MANY,
            _ => Faults::NONE,
        }
    }
}

/// A directory that is broken in one way.
struct Broken {
    how: Break,
    inner: Modelled,
    old: Mutex<Option<Entry>>,
    calls: Mutex<u32>,
}

impl Broken {
    fn every(&self, n: u32) -> bool {
        let mut calls = self.calls.lock().unwrap();
        *calls += 1;
        calls.is_multiple_of(n)
    }
    /// What the transaction becomes when nobody looks at expectations.
    fn unguarded(&self, t: &Transaction) -> Transaction {
        let mut t = t.clone();
        for change in &mut t.changes {
            let found = self.inner.get(&change.key).unwrap();
            change.expect = found.map_or(Expect::Absent, |e| Expect::At(e.revision));
        }
        t
    }
}

impl Directory for Broken {
    fn get(&self, key: &Key) -> Result<Option<Entry>, DirectoryError> {
        let found = self.inner.get(key);
        match self.how {
            Break::ReadsStale if self.every(10) => Ok(self.old.lock().unwrap().clone()),
            Break::ReadsStale => {
                *self.old.lock().unwrap() = found.as_ref().ok().cloned().flatten();
                found
            }
            Break::KeepsKeysOfDeadSessions if found.as_ref().is_ok_and(Option::is_none) => {
                let old = self.old.lock().unwrap().clone();
                Ok(old.filter(|e| e.key == *key))
            }
            Break::KeepsKeysOfDeadSessions => {
                if let Ok(Some(entry)) = &found
                    && entry.value == b"x"
                {
                    *self.old.lock().unwrap() = Some(entry.clone());
                }
                found
            }
            _ => found,
        }
    }
    fn list(&self, kind: Kind) -> Result<Vec<Entry>, DirectoryError> {
        let mut all = self.inner.list(kind)?;
        if self.how == Break::KeepsKeysOfDeadSessions {
            all.extend(self.old.lock().unwrap().clone());
        }
        Ok(all)
    }
    fn snapshot(&self) -> Result<Snapshot, DirectoryError> {
        let mut snapshot = self.inner.snapshot()?;
        if self.how == Break::SnapshotRunsBehind {
            snapshot.revision.0 = snapshot.revision.0.saturating_sub(1);
        }
        Ok(snapshot)
    }
    fn watch(&self, after: Revision) -> Result<Box<dyn Watch>, DirectoryError> {
        let after = match self.inner.watch(after) {
            Err(DirectoryError::Compacted { first, .. }) if self.how == Break::HidesCompaction => first,
            Err(DirectoryError::Older { found, .. }) if self.how == Break::HidesThatItIsOlder => found,
            _ => after,
        };
        let inner = self.inner.watch(after)?;
        Ok(Box::new(BrokenWatch { how: self.how, inner, of: self.inner.clone(), given: 0, kept: None }))
    }
    fn commit(&self, t: &Transaction) -> Result<Revision, DirectoryError> {
        let result = match self.how {
            Break::IgnoresExpectations => self.inner.commit(&self.unguarded(t)),
            Break::HappensTwice => self.inner.commit(&Transaction { nonce: None, ..t.clone() }),
            Break::TakesAKeyTwice if matches!(t.check(), Err(DirectoryError::Twice(_))) => {
                self.inner.commit(&Transaction { changes: t.changes[..1].to_vec(), ..t.clone() })
            }
            Break::TakesTooMuch if matches!(t.check(), Err(DirectoryError::TooLarge(_))) => self.inner.revision(),
            Break::AppliesHalf => {
                let result = self.inner.commit(t);
                if result.is_err() && t.changes.len() > 1 {
                    let _ = self.inner.commit(&Transaction { changes: t.changes[..1].to_vec(), nonce: None });
                }
                result
            }
            Break::CountsWhatChangesNothing if t.changes.is_empty() => {
                let _ = self.inner.commit(&put(&format!("counted {}", self.every(1))));
                self.inner.commit(t)
            }
            _ => self.inner.commit(t),
        };
        match (self.how, result) {
            (Break::TakesUnknownForFailure, Err(DirectoryError::Unknown { .. })) => Err(DirectoryError::Unavailable),
            (Break::TakesUnknownForDone, Err(DirectoryError::Unknown { .. })) => self.inner.revision(),
            (_, result) => result,
        }
    }
    fn outcome(&self, nonce: Nonce) -> Result<Option<Revision>, DirectoryError> {
        if self.how == Break::ForgetsNonces { Ok(None) } else { self.inner.outcome(nonce) }
    }
    fn revision(&self) -> Result<Revision, DirectoryError> {
        self.inner.revision()
    }
    fn open_session(&self, ttl: Duration) -> Result<SessionId, DirectoryError> {
        match self.how {
            Break::SessionsDieEarly => self.inner.open_session((ttl / 3).max(SESSION_TTL_MIN).min(SESSION_TTL_MAX)),
            _ => self.inner.open_session(ttl),
        }
    }
    fn keep_alive(&self, session: SessionId) -> Result<(), DirectoryError> {
        match self.inner.keep_alive(session) {
            Err(DirectoryError::NoSession(_)) if self.how == Break::KeepsDeadSessionsAlive => Ok(()),
            result => result,
        }
    }
    fn end_session(&self, session: SessionId) -> Result<(), DirectoryError> {
        self.inner.end_session(session)
    }
    fn store(&self) -> Result<u64, DirectoryError> {
        self.inner.store()
    }
    fn cluster(&self) -> ClusterId {
        self.inner.cluster()
    }
}

struct BrokenWatch {
    how: Break,
    inner: Box<dyn Watch>,
    of: Modelled,
    given: u32,
    kept: Option<Changes>,
}

impl Watch for BrokenWatch {
    fn poll(&mut self) -> Result<Option<Changes>, DirectoryError> {
        if let Some(kept) = self.kept.take() {
            return Ok(Some(kept));
        }
        let next = match self.inner.poll() {
            Err(DirectoryError::Compacted { first, .. }) if self.how == Break::HidesCompaction => {
                self.inner = self.of.watch(first)?;
                self.inner.poll()
            }
            result => result,
        };
        let Some(mut changes) = next? else { return Ok(None) };
        self.given += 1;
        if !self.given.is_multiple_of(4) {
            return Ok(Some(changes));
        }
        match self.how {
            Break::MissesEvents => return self.inner.poll(),
            Break::RepeatsEvents => self.kept = Some(changes.clone()),
            Break::SwapsEvents => {
                if let Some(later) = self.inner.poll()? {
                    self.kept = Some(changes);
                    return Ok(Some(later));
                }
            }
            Break::SplitsEvents => changes.events.truncate(1),
            _ => {}
        }
        Ok(Some(changes))
    }
    fn wait(&mut self, _: Duration) -> Result<Option<Changes>, DirectoryError> {
        self.poll()
    }
    fn revision(&self) -> Revision {
        self.inner.revision()
    }
}

struct BrokenSubject {
    directory: Broken,
    now: Cell<Duration>,
}

impl Subject for BrokenSubject {
    fn directory(&self) -> &dyn Directory {
        &self.directory
    }
    fn advance(&self, by: Duration) {
        self.now.set(self.now.get() + by);
        self.directory.inner.advance(self.now.get());
    }
    fn compact(&self) {
        self.directory.inner.compact();
    }
}

#[test]
fn the_suite_finds_every_directory_that_is_broken_on_purpose() {
    for how in Break::ALL {
        let make = |seed| -> Box<dyn Subject> {
            let inner = modelled(seed, how.faults());
            let directory = Broken { how, inner, old: Mutex::default(), calls: Mutex::default() };
            Box::new(BrokenSubject { directory, now: Cell::new(Duration::ZERO) })
        };
        // A view asserts that changes come in order: that is a finding too.
        let run = || std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&|| make(1))));
        let found: Vec<Breach> = run().unwrap_or_else(|_| vec![Breach { rule: "assertion", what: String::new() }]);
        assert!(!found.is_empty(), "{how:?} is not found");
        println!("{how:?}: {:?}", found.iter().map(|b| b.rule).collect::<Vec<_>>());
    }
}

/// That a transaction cannot be tried again says nothing of what became of it before.
#[test]
fn what_is_in_doubt_stays_so_while_the_directory_cannot_be_reached() {
    let directory = modelled(3, Faults { lost_answer_permille: 1000, ..Faults::NONE });
    let mut attempt = Attempt::new(Transaction::new().create(&crate::record::NodeRecord::new("a".into(), "d".into(), 0)), NONCE);
    assert!(attempt.step(&directory).is_none(), "its answer was lost");
    directory.set_faults(Faults { unavailable_permille: 1000, ..Faults::NONE });
    assert!(attempt.step(&directory).is_none(), "it may have happened");
    directory.set_faults(Faults::NONE);
    assert!(matches!(attempt.step(&directory), Some(Ok(_))));
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    base::hooks::notices(base::hooks::SeededFault::DoubtForgotten, what_is_in_doubt_stays_so_while_the_directory_cannot_be_reached);
}
