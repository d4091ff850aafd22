//! What every implementation of [`Directory`] must do, as a suite that any of them can be run through.
//!
//! Owns: the rules, each a function over a fresh [`Subject`]; a client that lives with refusals and lost answers.
//! Invariants: a rule that is broken is reported, never passed over; a run depends on the subject alone (no clock, no chance of its own): time
//! may be virtual, or real and short.
//! Never: knows how a directory stores anything. That the suite can fail is tested with directories that are broken on purpose.

use crate::{
    Action, Changes, Directory, DirectoryError, Expect, KEY_BYTES_MAX, Key, Kind, NONCES_MIN, Nonce, Revision, SESSION_KEYS_MAX,
    SESSION_TTL_MAX, SESSION_TTL_MIN, SessionId, Snapshot, TRANSACTION_BYTES_MAX, TRANSACTION_CHANGES_MAX, Transaction, VALUE_BYTES_MAX,
    View, Watch, commit_known,
};
use std::time::Duration;

/// A directory under test, with its time.
pub trait Subject {
    /// It.
    fn directory(&self) -> &dyn Directory;
    /// Lets time pass. Where time is real, this sleeps.
    fn advance(&self, by: Duration);
    /// Makes it forget its history.
    fn compact(&self);
    /// How long sessions of the rules live.
    fn ttl(&self) -> Duration {
        Duration::from_secs(30)
    }
    /// After that long nothing happens of what was given up before.
    fn late_max(&self) -> Duration {
        CATCH_UP
    }
}

/// What a rule says, and how a directory breaks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The rule's name.
    pub rule: &'static str,
    /// What was seen.
    pub what: String,
}

type Outcome = Result<(), String>;
type Rule = (&'static str, fn(&Client<'_>) -> Outcome);

/// All rules, by name.
const RULES: [Rule; 15] = [
    ("compare and swap", compare_and_swap),
    ("all or nothing", all_or_nothing),
    ("revisions", revisions),
    ("limits", limits),
    ("reads are current", reads_are_current),
    ("snapshot and watch", snapshot_and_watch),
    ("watch from the past", watch_from_the_past),
    ("compaction", compaction),
    ("watch from the future", watch_from_the_future),
    ("sessions end", sessions_end),
    ("sessions live", sessions_live),
    ("session keys", session_keys),
    ("concurrent writers", concurrent_writers),
    ("nonces", nonces),
    ("unknown outcomes", unknown_outcomes),
];

/// Runs every rule, each on a directory of its own; gives what was broken.
pub fn check(make: &dyn Fn() -> Box<dyn Subject>) -> Vec<Breach> {
    check_but(make, &[])
}

/// The same, without the rules of these names: for circumstances under which they cannot hold.
pub fn check_but(make: &dyn Fn() -> Box<dyn Subject>, without: &[&str]) -> Vec<Breach> {
    assert!(without.iter().all(|name| RULES.iter().any(|(rule, _)| rule == name)), "there are rules of these names");
    let run = |(rule, function): &Rule| {
        let subject = make();
        let client = Client { subject: &*subject, nonce: std::cell::Cell::new(1) };
        function(&client).err().map(|what| Breach { rule, what })
    };
    RULES.iter().filter(|(rule, _)| !without.contains(rule)).filter_map(run).collect()
}

/// Tries of one call, at most.
const TRIES_MAX: u32 = 400;
/// Between two of them.
const PAUSE: Duration = Duration::from_millis(50);
/// Time for a watch to give what there is.
pub const CATCH_UP: Duration = Duration::from_secs(20);

/// A user of the directory who tries again when that is what an error says.
struct Client<'a> {
    subject: &'a dyn Subject,
    nonce: std::cell::Cell<u64>,
}

fn key(id: &str) -> Key {
    Key::new(Kind::Task, id)
}
fn put(id: &str, expect: Expect, value: &str) -> Transaction {
    Transaction::new().with(key(id), expect, Action::Put(value.into()))
}
fn remove(id: &str, at: Revision) -> Transaction {
    Transaction::new().with(key(id), Expect::At(at), Action::Delete)
}
fn holds(what: bool, or: impl FnOnce() -> String) -> Outcome {
    if what { Ok(()) } else { Err(or()) }
}
fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: T, want: T) -> Outcome {
    holds(got == want, || format!("{what}: {got:?}, not {want:?}"))
}
fn conflict_of<T: std::fmt::Debug>(what: &str, id: &str, result: Result<T, DirectoryError>) -> Outcome {
    match result {
        Err(DirectoryError::Conflict { key }) if key.id == id => Ok(()),
        other => Err(format!("{what}: {other:?}, not a conflict of {id}")),
    }
}
fn text(error: DirectoryError) -> String {
    format!("a call failed: {error:?}")
}

impl Client<'_> {
    fn directory(&self) -> &dyn Directory {
        self.subject.directory()
    }
    /// A call that may be refused; time passes between its tries.
    fn retry<T>(&self, call: impl Fn(&dyn Directory) -> Result<T, DirectoryError>) -> Result<T, DirectoryError> {
        let mut tries = 1;
        loop {
            match call(self.directory()) {
                Err(DirectoryError::Unavailable) if tries < TRIES_MAX => {
                    tries += 1;
                    self.subject.advance(PAUSE);
                }
                result => return result,
            }
        }
    }
    fn read<T>(&self, call: impl Fn(&dyn Directory) -> Result<T, DirectoryError>) -> Result<T, String> {
        self.retry(call).map_err(text)
    }
    fn new_nonce(&self) -> Nonce {
        let n = self.nonce.replace(self.nonce.get() + 1);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        Nonce(bytes)
    }
    /// Commits, and knows what became of it.
    fn commit(&self, transaction: &Transaction) -> Result<Revision, DirectoryError> {
        let mut tries = 1;
        loop {
            let result = commit_known(self.directory(), transaction.clone(), self.new_nonce(), |n| self.subject.advance(PAUSE * n));
            match result {
                // It says that nothing happened: with a nonce of its own, the next try is another transaction.
                Err(DirectoryError::Unavailable) if tries < TRIES_MAX => {
                    tries += 1;
                    self.subject.advance(PAUSE);
                }
                result => return result,
            }
        }
    }
    fn must(&self, transaction: &Transaction) -> Result<Revision, String> {
        self.commit(transaction).map_err(text)
    }
    fn get(&self, id: &str) -> Result<Option<(Revision, String)>, String> {
        let found = self.read(|d| d.get(&key(id)))?;
        Ok(found.map(|e| (e.revision, String::from_utf8_lossy(&e.value).into_owned())))
    }
    fn revision(&self) -> Result<Revision, String> {
        self.read(|d| d.revision())
    }
    fn session(&self, ttl: Duration) -> Result<SessionId, String> {
        self.read(|d| d.open_session(ttl))
    }
    fn bind(&self, id: &str, session: SessionId) -> Result<Revision, DirectoryError> {
        let expect = self.get(id).map_or(None, |f| f).map_or(Expect::Absent, |(at, _)| Expect::At(at));
        self.commit(&Transaction::new().with(key(id), expect, Action::Bind(b"x".into(), session)))
    }
    /// What a watch gives until it has given everything up to `upto`. One that is cut is begun again from where it was.
    fn follow(&self, watch: &mut Box<dyn Watch>, upto: Revision) -> Result<Vec<Changes>, DirectoryError> {
        let (mut seen, mut waited) = (Vec::new(), Duration::ZERO);
        while waited < CATCH_UP {
            match watch.poll() {
                Ok(Some(changes)) => seen.push(changes),
                Ok(None) if watch.revision() >= upto => break,
                Ok(None) => {
                    self.subject.advance(PAUSE);
                    waited += PAUSE;
                }
                Err(DirectoryError::Unavailable) => {
                    let from = watch.revision();
                    *watch = self.retry(|d| d.watch(from))?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(seen)
    }
}

fn compare_and_swap(c: &Client<'_>) -> Outcome {
    let made = c.must(&put("a", Expect::Absent, "1"))?;
    same("what was written", c.get("a")?, Some((made, "1".into())))?;
    conflict_of("made twice", "a", c.commit(&put("a", Expect::Absent, "2")))?;
    let changed = c.must(&put("a", Expect::At(made), "2"))?;
    conflict_of("changed from an old revision", "a", c.commit(&put("a", Expect::At(made), "3")))?;
    conflict_of("changed from a revision that is to come", "a", c.commit(&put("a", Expect::At(Revision(changed.0 + 1)), "3")))?;
    conflict_of("removed from an old revision", "a", c.commit(&remove("a", made)))?;
    conflict_of("changed, and not there", "b", c.commit(&put("b", Expect::At(changed), "3")))?;
    let check = |id: &str, expect| Transaction::new().with(key(id), expect, Action::Check);
    conflict_of("looked at", "a", c.commit(&check("a", Expect::Absent)))?;
    same("what is there after conflicts", c.get("a")?, Some((changed, "2".into())))?;
    c.must(&check("a", Expect::At(changed)))?;
    c.must(&check("b", Expect::Absent))?;
    c.must(&remove("a", changed))?;
    same("what was removed", c.get("a")?, None)?;
    conflict_of("removed twice", "a", c.commit(&remove("a", changed)))
}

fn all_or_nothing(c: &Client<'_>) -> Outcome {
    let a = c.must(&put("a", Expect::Absent, "1"))?;
    let b = c.must(&put("b", Expect::Absent, "1"))?;
    let both = |a, b| {
        let first = put("a", Expect::At(a), "2").with(key("c"), Expect::Absent, Action::Put(b"2".into()));
        first.with(key("b"), Expect::At(b), Action::Delete)
    };
    conflict_of("the last of three does not hold", "b", c.commit(&both(a, a)))?;
    conflict_of("the first of three does not hold", "a", c.commit(&both(b, b)))?;
    same("the first key", c.get("a")?, Some((a, "1".into())))?;
    same("the second key", c.get("b")?, Some((b, "1".into())))?;
    same("the third key", c.get("c")?, None)?;
    let done = c.must(&both(a, b))?;
    same("the first key", c.get("a")?, Some((done, "2".into())))?;
    same("the second key", c.get("b")?, None)?;
    same("the third key", c.get("c")?, Some((done, "2".into())))
}

fn revisions(c: &Client<'_>) -> Outcome {
    let mut last = c.revision()?;
    let mut first = None;
    for n in 0..20 {
        let now = c.must(&put(&n.to_string(), Expect::Absent, "x"))?;
        holds(now > last, || format!("the revision of the next transaction is {now:?}, after {last:?}"))?;
        last = c.revision()?;
        holds(last >= now, || format!("the last revision is {last:?}, after {now:?} was given"))?;
        first.get_or_insert(now);
    }
    let before = c.read(|d| d.snapshot())?;
    let mut watch = c.read(|d| d.watch(before.revision))?;
    let _ = c.commit(&put("0", Expect::Absent, "y"));
    c.must(&Transaction::new().with(key("0"), Expect::At(first.unwrap_or_default()), Action::Check))?;
    c.must(&Transaction::new())?;
    c.must(&Transaction::new().with(key("not there"), Expect::Absent, Action::Delete))?;
    let after = c.read(|d| d.snapshot())?;
    same("everything, after what changes nothing", &after.entries, &before.entries)?;
    leads(before, c.follow(&mut watch, after.revision).map_err(text)?, after, &[])
}

fn limits(c: &Client<'_>) -> Outcome {
    let many =
        |n: usize| (0..n).fold(Transaction::new(), |t, n| t.with(key(&format!("m{n:03}")), Expect::Absent, Action::Put(b"x".into())));
    let too_large = |what: &str, t: &Transaction| match c.commit(t) {
        Err(DirectoryError::TooLarge(_)) => Ok(()),
        other => Err(format!("{what}: {other:?}, not 'too large'")),
    };
    too_large("a change too many", &many(TRANSACTION_CHANGES_MAX + 1))?;
    c.must(&many(TRANSACTION_CHANGES_MAX))?;
    too_large("a long value", &put("v", Expect::Absent, &"x".repeat(VALUE_BYTES_MAX + 1)))?;
    c.must(&put("v", Expect::Absent, &"x".repeat(VALUE_BYTES_MAX)))?;
    let long = "k".repeat(KEY_BYTES_MAX - key("").bytes());
    too_large("a long key", &put(&format!("{long}k"), Expect::Absent, "x"))?;
    c.must(&put(&long, Expect::Absent, "x"))?;
    let two = |bytes: usize| put("p", Expect::Absent, &"x".repeat(bytes)).with(key("q"), Expect::Absent, Action::Put(vec![b'x'; bytes]));
    let room = (TRANSACTION_BYTES_MAX - two(0).bytes()) / 2;
    too_large("two large values", &two(room + 1))?;
    c.must(&two(room))?;
    let twice = put("t", Expect::Absent, "1").with(key("t"), Expect::Absent, Action::Put(b"2".into()));
    match c.commit(&twice) {
        Err(DirectoryError::Twice(k)) if k == key("t") => {}
        other => return Err(format!("a key twice: {other:?}")),
    }
    same("what was too large or named twice", (c.get(&format!("m{TRANSACTION_CHANGES_MAX:03}"))?, c.get("t")?), (None, None))
}

fn reads_are_current(c: &Client<'_>) -> Outcome {
    let mut at = c.must(&put("a", Expect::Absent, "0"))?;
    for n in 1..30 {
        let value = n.to_string();
        at = c.must(&put("a", Expect::At(at), &value))?;
        same("what was just written", c.get("a")?, Some((at, value.clone())))?;
        let listed = c.read(|d| d.list(Kind::Task))?;
        same("what is listed", listed.iter().map(|e| e.value.clone()).collect::<Vec<_>>(), vec![value.clone().into_bytes()])?;
        let snapshot = c.read(|d| d.snapshot())?;
        holds(snapshot.revision >= at, || format!("a snapshot after {at:?} is of {:?}", snapshot.revision))?;
        same("the snapshot", snapshot.entries, listed)?;
        same("what another kind lists", c.read(|d| d.list(Kind::Node))?.len(), 0)?;
    }
    Ok(())
}

/// Something happens: keys are made, changed together and removed, in an order that `n` gives. When; `None`: it changed nothing.
fn happen(c: &Client<'_>, n: usize) -> Result<Option<Revision>, String> {
    let id = |n: usize| format!("k{}", n % 7);
    let mut transaction = Transaction::new();
    for m in 0..1 + n % 3 {
        let at = c.get(&id(n + m))?;
        let expect = at.as_ref().map_or(Expect::Absent, |(at, _)| Expect::At(*at));
        let action = if (n + m).is_multiple_of(4) { Action::Delete } else { Action::Put(format!("{n}.{m}").into()) };
        transaction = transaction.with(key(&id(n + m)), expect, action);
    }
    let nothing = transaction.changes.iter().all(|c| c.expect == Expect::Absent && c.action == Action::Delete);
    let at = c.must(&transaction)?;
    Ok(if nothing { None } else { Some(at) })
}

/// The changes are those of the transactions at `happened`, each once and in order, and lead from one snapshot to another.
fn leads(from: Snapshot, changes: Vec<Changes>, to: Snapshot, happened: &[Revision]) -> Outcome {
    let given: Vec<Revision> = changes.iter().filter(|c| !c.events.is_empty()).map(|c| c.revision).collect();
    same("the revisions that a watch gives", given, happened.to_vec())?;
    leads_to(from, changes, to)
}

fn leads_to(from: Snapshot, changes: Vec<Changes>, to: Snapshot) -> Outcome {
    let mut view = View::new(from);
    for changes in changes {
        holds(changes.revision > view.revision(), || format!("a watch gives {:?} after {:?}", changes.revision, view.revision()))?;
        view.apply(changes);
    }
    let entries: Vec<_> = Kind::ALL.into_iter().flat_map(|kind| view.entries(kind)).collect();
    let there = View::new(to);
    let there: Vec<_> = Kind::ALL.into_iter().flat_map(|kind| there.entries(kind)).collect();
    holds(entries == there, || format!("a watch leads to {entries:?}, and there is {there:?}"))
}

fn snapshot_and_watch(c: &Client<'_>) -> Outcome {
    for n in 0..10 {
        happen(c, n)?;
    }
    let begin = c.read(|d| d.snapshot())?;
    let mut watch = c.read(|d| d.watch(begin.revision))?;
    let (mut seen, mut happened) = (Vec::new(), Vec::new());
    for n in 10..60 {
        happened.extend(happen(c, n)?);
        if n.is_multiple_of(5) {
            seen.extend(c.follow(&mut watch, c.revision()?).map_err(text)?);
        }
    }
    let end = c.read(|d| d.snapshot())?;
    seen.extend(c.follow(&mut watch, end.revision).map_err(text)?);
    leads(begin, seen, end, &happened)?;
    c.subject.advance(PAUSE);
    let more = c.follow(&mut watch, Revision(0)).map_err(text)?;
    holds(more.is_empty(), || format!("a watch gives {more:?}, and nothing has happened"))
}

fn watch_from_the_past(c: &Client<'_>) -> Outcome {
    let (mut snapshots, mut happened) = (Vec::new(), Vec::new());
    for n in 0..20 {
        snapshots.push((happened.len(), c.read(|d| d.snapshot())?));
        happened.extend(happen(c, n)?);
    }
    let end = c.read(|d| d.snapshot())?;
    for (before, begin) in snapshots {
        let mut watch = c.read(|d| d.watch(begin.revision))?;
        let seen = c.follow(&mut watch, end.revision).map_err(text)?;
        leads(begin, seen, end.clone(), &happened[before..])?;
    }
    Ok(())
}

fn compaction(c: &Client<'_>) -> Outcome {
    let begin = c.revision()?;
    let mut behind = c.read(|d| d.watch(begin))?;
    for n in 0..10 {
        happen(c, n)?;
    }
    c.subject.compact();
    let gone = |what: &str, result: Result<(), DirectoryError>| match result {
        Err(DirectoryError::Compacted { .. }) => Ok(()),
        other => Err(format!("{what}: {other:?}, not 'compacted'")),
    };
    for again in ["a watch that fell behind", "the same, asked again"] {
        gone(again, c.follow(&mut behind, Revision(u64::MAX)).map(drop))?;
    }
    gone("a watch from before", c.retry(|d| d.watch(begin)).map(drop))?;
    // A new snapshot leads on.
    let begin = c.read(|d| d.snapshot())?;
    let mut watch = c.read(|d| d.watch(begin.revision))?;
    let at = happen(c, 11)?.ok_or("a rule of the suite changes nothing")?;
    let seen = c.follow(&mut watch, at).map_err(text)?;
    leads(begin, seen, c.read(|d| d.snapshot())?, &[at])
}

fn watch_from_the_future(c: &Client<'_>) -> Outcome {
    happen(c, 1)?;
    let now = c.revision()?;
    let future = Revision(now.0 + 1000);
    match c.retry(|d| d.watch(future)) {
        Err(DirectoryError::Older { seen, found }) if seen == future && found >= now && found < seen => Ok(()),
        Err(other) => Err(format!("a watch from what has not been: {other:?}, not 'older'")),
        Ok(_) => Err("a watch begins at what has not been".into()),
    }
}

fn sessions_end(c: &Client<'_>) -> Outcome {
    let ttl = c.subject.ttl();
    let session = c.session(ttl)?;
    c.must(&put("stays", Expect::Absent, "x"))?;
    for id in ["a", "b"] {
        c.bind(id, session).map_err(text)?;
    }
    let before = c.read(|d| d.snapshot())?;
    let mut watch = c.read(|d| d.watch(before.revision))?;
    let mut waited = Duration::ZERO;
    // Each election gives a session its whole time again.
    while waited < ttl * 8 && (waited < ttl || c.get("a")?.is_some()) {
        c.subject.advance(ttl / 2);
        waited += ttl / 2;
    }
    same("the keys of a session that has run out", (c.get("a")?, c.get("b")?), (None, None))?;
    holds(c.get("stays")?.is_some(), || "a key of no session is gone".into())?;
    let listed = c.read(|d| d.list(Kind::Task))?.len();
    same("what is listed after a session ran out", listed, 1)?;
    let after = c.read(|d| d.snapshot())?;
    let seen = c.follow(&mut watch, after.revision).map_err(text)?;
    let removed: Vec<usize> = seen.iter().map(|c| c.events.iter().filter(|e| e.value.is_none()).count()).filter(|n| *n > 0).collect();
    same("keys that each transaction removes when a session ends", removed, vec![2])?;
    leads_to(before, seen, after)?;
    let ended = |what: &str, result: Result<(), DirectoryError>| match result {
        Err(DirectoryError::NoSession(id)) if id == session => Ok(()),
        other => Err(format!("{what}: {other:?}, not 'the session has ended'")),
    };
    ended("a session that has run out is kept alive", c.retry(|d| d.keep_alive(session)))?;
    ended("a key is bound to a session that has run out", c.bind("late", session).map(drop))?;
    c.read(|d| d.end_session(session))?;
    let second = c.session(ttl)?;
    holds(second != session, || "a session's id is given twice".into())?;
    c.bind("c", second).map_err(text)?;
    c.read(|d| d.end_session(second))?;
    same("the key of a session that was ended", c.get("c")?, None)
}

fn sessions_live(c: &Client<'_>) -> Outcome {
    let ttl = c.subject.ttl();
    let session = c.session(ttl)?;
    c.bind("a", session).map_err(text)?;
    for _ in 0..6 {
        c.subject.advance(ttl / 2);
        c.read(|d| d.keep_alive(session))?;
    }
    holds(c.get("a")?.is_some(), || "the key of a session that is kept alive is gone".into())?;
    for ttl in [Duration::ZERO, SESSION_TTL_MAX + SESSION_TTL_MIN] {
        let refused = c.retry(|d| d.open_session(ttl));
        holds(matches!(refused, Err(DirectoryError::TooLarge(_))), || format!("a session of {ttl:?}: {refused:?}"))?;
    }
    Ok(())
}

fn session_keys(c: &Client<'_>) -> Outcome {
    let session = c.session(c.subject.ttl() * 20)?;
    c.bind("freed", session).map_err(text)?;
    c.bind("gone", session).map_err(text)?;
    let (at, _) = c.get("freed")?.ok_or("a key that was bound is not there")?;
    c.must(&put("freed", Expect::At(at), "free"))?;
    let (at, _) = c.get("gone")?.ok_or("a key that was bound is not there")?;
    c.must(&remove("gone", at))?;
    c.must(&put("gone", Expect::Absent, "again"))?;
    let all = (0..SESSION_KEYS_MAX)
        .fold(Transaction::new(), |t, n| t.with(key(&format!("s{n}")), Expect::Absent, Action::Bind(b"x".into(), session)));
    c.must(&all)?;
    let over = c.bind("one more", session);
    holds(matches!(over, Err(DirectoryError::TooLarge(_))), || format!("a session holds more keys than it may: {over:?}"))?;
    c.read(|d| d.end_session(session))?;
    let left = c.read(|d| d.list(Kind::Task))?;
    let left: Vec<_> = left.into_iter().map(|e| e.key.id).collect();
    same("what is left of a session: keys that were written without it", left, vec!["freed".to_owned(), "gone".to_owned()])
}

/// Adds one to a counter as it was read.
fn add(c: &Client<'_>, read: &Option<(Revision, String)>) -> Result<Revision, DirectoryError> {
    match read {
        None => c.commit(&put("n", Expect::Absent, "1")),
        Some((at, value)) => c.commit(&put("n", Expect::At(*at), &(value.parse::<u64>().unwrap_or(0) + 1).to_string())),
    }
}

fn concurrent_writers(c: &Client<'_>) -> Outcome {
    // Writers read at different times and write later: whoever read before another wrote must be refused.
    let mut reads: Vec<Option<(Revision, String)>> = vec![None; 5];
    let mut added = 0u64;
    for n in 0..100usize {
        let who = (n * 3 + n / 7) % 5;
        let now = c.get("n")?;
        match add(c, &reads[who]) {
            Ok(_) if reads[who] == now => added += 1,
            Ok(at) => return Err(format!("a writer who had read {:?} wrote at {at:?} over {now:?}", reads[who])),
            Err(DirectoryError::Conflict { .. }) if reads[who] != now => {}
            Err(error) => return Err(format!("a writer who had read {:?} of {now:?}: {error:?}", reads[who])),
        }
        reads[who] = c.get("n")?;
        if n.is_multiple_of(3) {
            reads[(who + 2) % 5] = c.get("n")?;
        }
    }
    same("what was counted", c.get("n")?.map(|(_, v)| v), Some(added.to_string()))
}

fn nonces(c: &Client<'_>) -> Outcome {
    let commit = |nonce, transaction: Transaction| commit_known(c.directory(), transaction, nonce, |n| c.subject.advance(PAUSE * n));
    let persist = |nonce, transaction: Transaction| {
        let mut result = commit(nonce, transaction.clone());
        for _ in 0..TRIES_MAX {
            if !matches!(result, Err(DirectoryError::Unavailable)) {
                break;
            }
            c.subject.advance(PAUSE);
            result = commit(nonce, transaction.clone());
        }
        result
    };
    let outcome = |nonce| c.read(|d| d.outcome(nonce));
    let (first, refused, unused) = (c.new_nonce(), c.new_nonce(), c.new_nonce());
    let at = persist(first, put("a", Expect::Absent, "1")).map_err(text)?;
    same("the outcome of what happened", outcome(first)?, Some(at))?;
    same("the outcome of what was never tried", outcome(unused)?, None)?;
    conflict_of("with a nonce", "a", persist(refused, put("a", Expect::Absent, "2")))?;
    same("the outcome of what was refused", outcome(refused)?, None)?;
    let last = c.must(&remove("a", at))?;
    same("the same transaction again", persist(first, put("a", Expect::Absent, "1")).map_err(text)?, at)?;
    same("what the same transaction again has changed", c.get("a")?, None)?;
    holds(c.revision()? >= last, || format!("the last revision is before {last:?}"))?;
    let looked = c.new_nonce();
    let at_looked = persist(looked, Transaction::new().with(key("a"), Expect::Absent, Action::Check)).map_err(text)?;
    same("the outcome of what changes nothing", outcome(looked)?, Some(at_looked))?;
    for n in 0..NONCES_MIN / 2 {
        persist(c.new_nonce(), put(&format!("n{n}"), Expect::Absent, "x")).map_err(text)?;
    }
    same("an outcome, many transactions later", outcome(first)?, Some(at))
}

fn unknown_outcomes(c: &Client<'_>) -> Outcome {
    let mut counted = 0u64;
    for n in 0..400 {
        let read = c.get("n")?;
        same("what is counted before the next", read.as_ref().map_or(0, |(_, v)| v.parse().unwrap_or(0)), counted)
            .map_err(|e| format!("after {n} additions: {e}"))?;
        match add(c, &read) {
            Ok(_) => counted += 1,
            Err(error) => return Err(format!("the only writer, with what was just read: {error:?}")),
        }
    }
    c.subject.advance(c.subject.late_max());
    same("what was counted", c.get("n")?.map(|(_, v)| v), Some(counted.to_string()))
}
