//! A directory as a cluster of members would give it, in virtual time: for simulations and for tests of whoever uses a directory.
//!
//! Owns: members of which a majority must be up, elections, lost answers (of transactions that happen, do not, or happen later), a leader that
//! hangs, watches that lag, are cut and compacted, sessions that run out together, a backup that is put back.
//! Invariants: what happens is a function of the seed, the calls and the time that is handed in; a transaction happens once or never; what was
//! answered stays, except when a backup is put back.
//! Never: reads a clock, draws chance that is not of its seed, starts a thread, waits.

use crate::history::History;
use crate::transaction::check_ttl;
use crate::{
    Action, Change, Changes, Directory, DirectoryError, Entry, Event, Key, Kind, NONCES_MIN, Nonce, Revision, SESSION_KEYS_MAX,
    SESSIONS_MAX, SessionId, Snapshot, TooLarge, Transaction, Watch,
};
use base::ClusterId;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

/// What goes wrong, and how often. Of a thousand calls, where it says `permille`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Members; a majority must be up.
    pub members: u8,
    /// A call is refused: nothing happened.
    pub unavailable_permille: u32,
    /// A transaction never arrives, and nobody says so.
    pub lost_request_permille: u32,
    /// A transaction happens, and its answer is lost.
    pub lost_answer_permille: u32,
    /// A transaction happens after its caller has given it up.
    pub late_permille: u32,
    /// The latest that one can happen.
    pub late_max: Duration,
    /// The leader goes, and another is elected.
    pub election_permille: u32,
    /// How long that takes.
    pub election: Duration,
    /// A watch is cut: [`DirectoryError::Unavailable`].
    pub watch_cut_permille: u32,
    /// How late a watch sees a change.
    pub watch_lag_max: Duration,
    /// Everything older is compacted.
    pub history_max: usize,
}

impl Faults {
    /// None.
    pub const NONE: Self = Self {
        members: 3,
        unavailable_permille: 0,
        lost_request_permille: 0,
        lost_answer_permille: 0,
        late_permille: 0,
        late_max: Duration::from_secs(5),
        election_permille: 0,
        election: Duration::from_millis(1500),
        watch_cut_permille: 0,
        watch_lag_max: Duration::ZERO,
        history_max: 1000,
    };
    /// Many of every kind.
    pub const MANY: Self = Self {
        unavailable_permille: 50,
        lost_request_permille: 50,
        lost_answer_permille: 100,
        late_permille: 50,
        election_permille: 5,
        watch_cut_permille: 20,
        watch_lag_max: Duration::from_millis(300),
        ..Self::NONE
    };
}

#[derive(Clone, Debug)]
struct Item {
    revision: Revision,
    value: Vec<u8>,
    session: Option<SessionId>,
}

/// What the members agree on.
#[derive(Clone, Debug, Default)]
struct Agreed {
    revision: Revision,
    entries: BTreeMap<Key, Item>,
    /// Which transactions happened, as of which revision, and whether they made that revision: one that changes nothing makes none.
    nonces: BTreeMap<Nonce, (Revision, bool)>,
    nonce_order: VecDeque<Nonce>,
    sessions: BTreeMap<SessionId, (Duration, Duration)>,
    session_last: u64,
}

/// A copy of everything, to be put back.
#[derive(Clone, Debug)]
pub struct Backup(Agreed);

/// A transaction that nobody waits for any more.
#[derive(Clone, Debug)]
struct Late {
    at: Duration,
    transaction: Transaction,
}

struct Model {
    faults: Faults,
    cluster: ClusterId,
    random: u64,
    now: Duration,
    up: Vec<bool>,
    leader: Option<usize>,
    /// No leader before this.
    elected_at: Duration,
    /// The leader takes requests and answers none before this.
    hangs_until: Duration,
    agreed: Agreed,
    history: History,
    /// When each transaction of the history happened.
    times: BTreeMap<Revision, Duration>,
    late: Vec<Late>,
    /// How often a backup was put back.
    restored: u64,
}

/// A directory in virtual time.
#[derive(Clone)]
pub struct Modelled(Arc<Mutex<Model>>);

impl Modelled {
    /// A new and empty one.
    pub fn new(seed: u64, cluster: ClusterId, faults: Faults) -> Self {
        assert!(faults.members > 0, "a directory has members");
        let up = vec![true; faults.members.into()];
        Self(Arc::new(Mutex::new(Model {
            faults,
            cluster,
            random: seed,
            now: Duration::ZERO,
            up,
            leader: Some(0),
            elected_at: Duration::ZERO,
            hangs_until: Duration::ZERO,
            agreed: Agreed::default(),
            history: History::new(Revision(0)),
            times: BTreeMap::new(),
            late: Vec::new(),
            restored: 0,
        })))
    }
    /// It is `now`. Never earlier than before.
    pub fn advance(&self, now: Duration) {
        self.model().advance(now);
    }
    /// So much time passes.
    pub fn pass(&self, time: Duration) {
        let mut model = self.model();
        let now = model.now + time;
        model.advance(now);
    }
    /// What goes wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        let mut model = self.model();
        assert!(usize::from(faults.members) == model.up.len(), "members stay");
        model.faults = faults;
    }
    /// A member stops or comes back. The leader's stop begins an election.
    pub fn set_up(&self, member: usize, up: bool) {
        let mut model = self.model();
        model.up[member] = up;
        if model.leader == Some(member) && !up || model.leader.is_none() {
            model.elect();
        }
    }
    /// The leader goes, and another is elected.
    pub fn elect(&self) {
        self.model().elect();
    }
    /// The leader takes requests and answers nobody until then.
    pub fn hang_leader(&self, until: Duration) {
        self.model().hangs_until = until;
    }
    /// Every session runs out now.
    pub fn expire_sessions(&self) {
        let mut model = self.model();
        let all: Vec<SessionId> = model.agreed.sessions.keys().copied().collect();
        all.into_iter().for_each(|id| model.end(id));
    }
    /// Forgets the history up to now.
    pub fn compact(&self) {
        let mut model = self.model();
        let revision = model.agreed.revision;
        model.history.compact(revision);
    }
    /// A copy of everything.
    pub fn backup(&self) -> Backup {
        Backup(self.model().agreed.clone())
    }
    /// Puts a copy back: what came after it never was.
    pub fn restore(&self, backup: &Backup) {
        let mut model = self.model();
        model.agreed = backup.0.clone();
        model.history = History::new(backup.0.revision);
        model.times.clear();
        model.late.clear();
        model.restored += 1;
    }
    /// Whether a transaction has happened, whoever knows: for checkers, which see through all faults.
    pub fn has_happened(&self, nonce: Nonce) -> bool {
        self.model().agreed.nonces.contains_key(&nonce)
    }
    /// All that has happened after a revision, whoever knows: for checkers.
    ///
    /// # Panics
    /// When its history does not go back so far.
    pub fn happened_after(&self, mut after: Revision) -> Vec<Changes> {
        let model = self.model();
        let mut all = Vec::new();
        while let Some(next) = model.history.next(after).expect("checkers keep up") {
            after = next.revision;
            all.push(next);
        }
        all
    }
    /// Whether nothing can happen any more that its caller has given up: for checkers.
    pub fn is_settled(&self) -> bool {
        self.model().late.is_empty()
    }
    /// Everything as it is, whoever knows: for checkers.
    pub fn everything(&self) -> Snapshot {
        self.model().snapshot()
    }
    /// The newest revision, whoever knows: for checkers.
    pub fn newest(&self) -> Revision {
        self.model().agreed.revision
    }
    /// The transaction that made a revision, when it has a nonce that is remembered: for checkers.
    pub fn nonce_of(&self, revision: Revision) -> Option<Nonce> {
        self.model().agreed.nonces.iter().find(|(_, made)| **made == (revision, true)).map(|(nonce, _)| *nonce)
    }
    fn model(&self) -> MutexGuard<'_, Model> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Model {
    fn snapshot(&self) -> Snapshot {
        Snapshot { revision: self.agreed.revision, entries: self.entries().collect() }
    }

    /// The next of a splitmix64 sequence.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    fn chance(&mut self, permille: u32) -> bool {
        permille > 0 && self.draw() % 1000 < u64::from(permille)
    }
    fn up_to(&mut self, most: Duration) -> Duration {
        Duration::from_nanos(self.draw() % (most.as_nanos() as u64 + 1))
    }

    fn advance(&mut self, now: Duration) {
        assert!(now >= self.now, "time does not go back");
        self.now = now;
        if self.serves() {
            let due: Vec<Late> = self.late.extract_if(.., |late| late.at <= now).collect();
            for late in due {
                // Nobody hears how it went.
                let _ = self.apply(&late.transaction);
            }
            self.expire();
        }
    }

    fn expire(&mut self) {
        let over: Vec<SessionId> = self.agreed.sessions.iter().filter(|(_, (_, ends))| *ends <= self.now).map(|(id, _)| *id).collect();
        over.into_iter().for_each(|id| self.end(id));
    }

    fn majority(&self) -> bool {
        self.up.iter().filter(|up| **up).count() * 2 > self.up.len()
    }
    /// Whether a leader can make anything happen now.
    fn serves(&self) -> bool {
        self.leader.is_some() && self.majority() && self.now >= self.elected_at && self.now >= self.hangs_until
    }

    fn elect(&mut self) {
        self.leader = None;
        self.hangs_until = Duration::ZERO;
        // What only the old leader had is gone, or comes through the new one: some of each.
        let late = std::mem::take(&mut self.late);
        let kept: Vec<Late> = late.into_iter().filter(|_| self.draw().is_multiple_of(2)).collect();
        self.late = kept;
        if !self.majority() {
            return;
        }
        let candidates: Vec<usize> = (0..self.up.len()).filter(|m| self.up[*m]).collect();
        self.leader = Some(candidates[self.draw() as usize % candidates.len()]);
        self.elected_at = self.now + self.faults.election;
        // A new leader does not know how long each session has left: all live for their whole time again.
        for (ttl, ends) in self.agreed.sessions.values_mut() {
            *ends = self.elected_at + *ttl;
        }
    }

    /// Whether a call reaches a leader that answers.
    fn reach(&mut self) -> Result<(), DirectoryError> {
        if self.chance(self.faults.election_permille) {
            self.elect();
        }
        if !self.serves() || self.chance(self.faults.unavailable_permille) {
            return Err(DirectoryError::Unavailable);
        }
        self.expire();
        Ok(())
    }

    fn push(&mut self, events: Vec<Event>) {
        self.agreed.revision.0 += 1;
        let revision = self.agreed.revision;
        self.history.push(Changes { revision, events });
        self.times.insert(revision, self.now);
        if revision.0 > self.faults.history_max as u64 {
            self.history.compact(Revision(revision.0 - self.faults.history_max as u64));
        }
        let first = Revision(revision.0.saturating_sub(self.faults.history_max as u64));
        self.times = self.times.split_off(&first);
    }

    fn end(&mut self, session: SessionId) {
        self.agreed.sessions.remove(&session);
        let gone: Vec<Key> = self.agreed.entries.iter().filter(|(_, i)| i.session == Some(session)).map(|(k, _)| k.clone()).collect();
        if !gone.is_empty() {
            gone.iter().for_each(|key| drop(self.agreed.entries.remove(key)));
            self.push(gone.into_iter().map(|key| Event { key, value: None }).collect());
        }
    }

    fn apply(&mut self, transaction: &Transaction) -> Result<Revision, DirectoryError> {
        if let Some((revision, _)) = transaction.nonce.and_then(|n| self.agreed.nonces.get(&n)) {
            return Ok(*revision);
        }
        let mut entries = self.agreed.entries.clone();
        let (revision, mut events) = (Revision(self.agreed.revision.0 + 1), Vec::new());
        for Change { key, expect, action } in &transaction.changes {
            let found = entries.get(key).map(|i| i.revision);
            if !expect.holds(found) {
                return Err(DirectoryError::Conflict { key: key.clone() });
            }
            match action {
                Action::Check => continue,
                Action::Delete if found.is_none() => continue,
                Action::Delete => drop(entries.remove(key)),
                Action::Put(value) => drop(entries.insert(key.clone(), Item { revision, value: value.clone(), session: None })),
                Action::Bind(value, session) => {
                    if !self.agreed.sessions.contains_key(session) {
                        return Err(DirectoryError::NoSession(*session));
                    }
                    entries.insert(key.clone(), Item { revision, value: value.clone(), session: Some(*session) });
                    if entries.values().filter(|i| i.session == Some(*session)).count() > SESSION_KEYS_MAX {
                        return Err(DirectoryError::TooLarge(TooLarge::Session(*session)));
                    }
                }
            }
            events.push(Event { key: key.clone(), value: action.value().cloned() });
        }
        self.agreed.entries = entries;
        let made = !events.is_empty();
        if made {
            self.push(events);
        }
        if let Some(nonce) = transaction.nonce {
            self.agreed.nonces.insert(nonce, (self.agreed.revision, made));
            self.agreed.nonce_order.push_back(nonce);
            if self.agreed.nonce_order.len() > NONCES_MIN {
                let oldest = self.agreed.nonce_order.pop_front().expect("there are more than none");
                self.agreed.nonces.remove(&oldest);
            }
        }
        Ok(self.agreed.revision)
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Revision, DirectoryError> {
        transaction.check()?;
        let unknown = || Err(DirectoryError::Unknown { cause: "the answer was lost".into() });
        if self.leader.is_some() && self.now < self.hangs_until {
            self.late.push(Late { at: self.hangs_until, transaction: transaction.clone() });
            return unknown();
        }
        self.reach()?;
        if self.chance(self.faults.lost_request_permille) {
            return unknown();
        }
        if self.chance(self.faults.late_permille) {
            let at = self.now + self.up_to(self.faults.late_max);
            self.late.push(Late { at, transaction: transaction.clone() });
            return unknown();
        }
        let result = self.apply(transaction);
        if self.chance(self.faults.lost_answer_permille) { unknown() } else { result }
    }

    fn entries(&self) -> impl Iterator<Item = Entry> {
        self.agreed.entries.iter().map(|(key, i)| Entry { key: key.clone(), revision: i.revision, value: i.value.clone() })
    }
}

impl Directory for Modelled {
    fn get(&self, key: &Key) -> Result<Option<Entry>, DirectoryError> {
        let mut model = self.model();
        model.reach()?;
        let found = model.agreed.entries.get(key);
        Ok(found.map(|i| Entry { key: key.clone(), revision: i.revision, value: i.value.clone() }))
    }
    fn list(&self, kind: Kind) -> Result<Vec<Entry>, DirectoryError> {
        let mut model = self.model();
        model.reach()?;
        Ok(model.entries().filter(|e| e.key.kind == kind).collect())
    }
    fn snapshot(&self) -> Result<Snapshot, DirectoryError> {
        let mut model = self.model();
        model.reach()?;
        Ok(model.snapshot())
    }
    fn watch(&self, after: Revision) -> Result<Box<dyn Watch>, DirectoryError> {
        let mut model = self.model();
        model.reach()?;
        model.history.check(after)?;
        Ok(Box::new(Reader { of: self.0.clone(), at: after, life: model.restored, lag: None, cut: false }))
    }
    fn commit(&self, transaction: &Transaction) -> Result<Revision, DirectoryError> {
        self.model().commit(transaction)
    }
    fn outcome(&self, nonce: Nonce) -> Result<Option<Revision>, DirectoryError> {
        let mut model = self.model();
        model.reach()?;
        Ok(model.agreed.nonces.get(&nonce).map(|(at, _)| *at))
    }
    fn revision(&self) -> Result<Revision, DirectoryError> {
        let mut model = self.model();
        model.reach()?;
        Ok(model.agreed.revision)
    }
    fn open_session(&self, ttl: Duration) -> Result<SessionId, DirectoryError> {
        check_ttl(ttl)?;
        let mut model = self.model();
        model.reach()?;
        if model.agreed.sessions.len() >= SESSIONS_MAX {
            return Err(DirectoryError::TooLarge(TooLarge::Sessions));
        }
        model.agreed.session_last += 1;
        let (id, ends) = (SessionId(model.agreed.session_last), model.now + ttl);
        model.agreed.sessions.insert(id, (ttl, ends));
        Ok(id)
    }
    fn keep_alive(&self, session: SessionId) -> Result<(), DirectoryError> {
        let mut model = self.model();
        model.reach()?;
        let now = model.now;
        let (ttl, ends) = model.agreed.sessions.get_mut(&session).ok_or(DirectoryError::NoSession(session))?;
        *ends = now + *ttl;
        Ok(())
    }
    fn end_session(&self, session: SessionId) -> Result<(), DirectoryError> {
        let mut model = self.model();
        model.reach()?;
        model.end(session);
        Ok(())
    }
    fn store(&self) -> Result<u64, DirectoryError> {
        let mut model = self.model();
        model.reach()?;
        Ok(model.restored + 1)
    }
    fn cluster(&self) -> ClusterId {
        self.model().cluster
    }
}

struct Reader {
    of: Arc<Mutex<Model>>,
    at: Revision,
    /// How often a backup had been put back when it began.
    life: u64,
    /// How late it sees the next change.
    lag: Option<Duration>,
    cut: bool,
}

impl Watch for Reader {
    fn poll(&mut self) -> Result<Option<Changes>, DirectoryError> {
        let mut model = self.of.lock().unwrap_or_else(|e| e.into_inner());
        if self.life != model.restored {
            return Err(DirectoryError::Older { seen: self.at, found: model.agreed.revision });
        }
        let often = model.faults.watch_cut_permille;
        self.cut |= model.chance(often);
        if self.cut {
            return Err(DirectoryError::Unavailable);
        }
        if model.serves() {
            model.expire();
        }
        let Some(next) = model.history.next(self.at)? else { return Ok(None) };
        let most = model.faults.watch_lag_max;
        let lag = *self.lag.get_or_insert_with(|| model.up_to(most));
        if model.times.get(&next.revision).is_some_and(|at| *at + lag > model.now) {
            return Ok(None);
        }
        (self.at, self.lag) = (next.revision, None);
        Ok(Some(next))
    }
    fn wait(&mut self, _: Duration) -> Result<Option<Changes>, DirectoryError> {
        self.poll()
    }
    fn revision(&self) -> Revision {
        self.at
    }
}

#[cfg(test)]
#[path = "modelled_tests.rs"]
mod tests;
