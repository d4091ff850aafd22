//! Loss of power under the directory: redb on a storage that keeps of what was not synced whatever it likes, cut at every write and sync.

use super::*;
use crate::Typed;
use crate::record::HostEntryRecord;
use redb::StorageBackend;
use std::collections::BTreeMap;
use std::io;

/// What redb does to its storage.
#[derive(Clone, Debug)]
enum Step {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Sync,
    /// A transaction is begun: the number of those that were.
    Begun(usize),
    /// It was answered.
    Answered(usize),
}

/// A storage in memory that remembers all steps.
#[derive(Clone, Debug, Default)]
struct Storage {
    bytes: Arc<Mutex<Vec<u8>>>,
    steps: Arc<Mutex<Vec<Step>>>,
    /// Syncs fail from now on.
    broken: Arc<AtomicBool>,
}

impl Storage {
    fn of(bytes: Vec<u8>) -> Storage {
        Storage { bytes: Arc::new(Mutex::new(bytes)), ..Storage::default() }
    }
    fn note(&self, step: Step) {
        self.steps.lock().unwrap().push(step);
    }
}

fn take(image: &mut Vec<u8>, step: &Step) {
    match step {
        Step::Write(at, data) => image[*at as usize..][..data.len()].copy_from_slice(data),
        Step::SetLen(len) => image.resize(*len as usize, 0),
        _ => {}
    }
}

impl StorageBackend for Storage {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let bytes = self.bytes.lock().unwrap();
        let from = bytes.get(offset as usize..).and_then(|b| b.get(..out.len()));
        out.copy_from_slice(from.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
        Ok(())
    }
    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        take(&mut self.bytes.lock().unwrap(), &Step::SetLen(len));
        self.note(Step::SetLen(len));
        Ok(())
    }
    fn sync_data(&self) -> Result<(), io::Error> {
        if self.broken.load(SeqCst) {
            return Err(io::Error::other("the disk is gone"));
        }
        self.note(Step::Sync);
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        take(&mut self.bytes.lock().unwrap(), &Step::Write(offset, data.to_vec()));
        self.note(Step::Write(offset, data.to_vec()));
        Ok(())
    }
}

fn open(storage: &Storage) -> Result<Embedded, DirectoryError> {
    let path = Path::new("in memory");
    let database = Database::builder().create_with_backend(storage.clone()).map_err(|e| open_error(path, e))?;
    Embedded::on(database, path, ClusterId::from_bytes([1; 16]), Arc::new(|| Duration::ZERO))
}

/// What a directory holds: names by NQN, and its revision.
type Content = (BTreeMap<String, String>, u64);

fn content(directory: &Embedded) -> Content {
    let all = directory.all::<HostEntryRecord>().unwrap();
    (all.into_iter().map(|e| (e.value.nqn, e.value.name)).collect(), directory.revision().unwrap().0)
}

/// Any bits, the same each time.
struct Bits(u64);

impl Bits {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Which steps that were not synced are kept.
#[derive(Clone, Copy, Debug)]
enum Kept {
    Nothing,
    All,
    /// Of every write each sector of 512 bytes or not.
    Any(u64),
}

/// The storage after a loss of power before step `cut`.
fn image(steps: &[Step], cut: usize, kept: Kept) -> Vec<u8> {
    let synced = steps[..cut].iter().rposition(|s| matches!(s, Step::Sync)).unwrap_or(0);
    let mut image = Vec::new();
    steps[..synced].iter().for_each(|step| take(&mut image, step));
    let mut bits = Bits(0);
    for step in &steps[synced..cut] {
        match (step, kept) {
            (_, Kept::Nothing) => {}
            (Step::Write(at, data), Kept::Any(seed)) => {
                bits.0 = if bits.0 == 0 { seed | 1 } else { bits.0 };
                for (n, sector) in data.chunks(512).enumerate() {
                    let at = *at as usize + n * 512;
                    if bits.next() >> 40 & 1 == 1 && at + sector.len() <= image.len() {
                        image[at..][..sector.len()].copy_from_slice(sector);
                    }
                }
            }
            _ => take(&mut image, step),
        }
    }
    image
}

/// A directory that is made and changed: its steps, and what it held after each transaction.
fn history() -> (Vec<Step>, Vec<Content>) {
    let storage = Storage::default();
    storage.note(Step::Begun(0));
    let directory = open(&storage).unwrap();
    let mut contents = vec![content(&directory)];
    storage.note(Step::Answered(0));
    for n in 1..=24 {
        storage.note(Step::Begun(n));
        // Two records are made together, later ones go or change; some are large, so that pages split and the file grows.
        let entry = |which: &str, n: usize| HostEntryRecord {
            nqn: format!("nqn.{which}.{n}"),
            name: "x".repeat(if n.is_multiple_of(5) { 9000 } else { n }),
            dhchap: None,
            chap: None,
            tls_psks: Vec::new(),
            created_unix_s: 0,
        };
        let mut transaction = Transaction::new().create(&entry("a", n)).create(&entry("b", n));
        if let Some(old) = directory.find::<HostEntryRecord>(&format!("nqn.a.{}", n / 2)).unwrap() {
            transaction = transaction.remove(&old);
        }
        if let Some(mut old) = directory.find::<HostEntryRecord>(&format!("nqn.b.{}", n - 1)).unwrap() {
            old.value.name = format!("changed by {n}");
            transaction = transaction.update(&old);
        }
        directory.commit(&transaction).unwrap();
        storage.note(Step::Answered(n));
        contents.push(content(&directory));
    }
    let steps = storage.steps.lock().unwrap().clone();
    (steps, contents)
}

#[test]
fn after_a_loss_of_power_at_any_step_every_transaction_that_was_answered_is_there_and_none_is_half_there() {
    let (steps, contents) = history();
    let made = steps.iter().position(|s| matches!(s, Step::Answered(0))).unwrap();
    let (mut begun, mut answered, mut seen) = (0, 0, BTreeMap::<&str, u32>::new());
    for cut in made..=steps.len() {
        match steps[cut - 1] {
            Step::Begun(n) => begun = n,
            Step::Answered(n) => answered = n,
            Step::SetLen(_) => continue, // the next write is a cut of its own
            _ => {}
        }
        for kept in [Kept::Nothing, Kept::All, Kept::Any(cut as u64 * 7919), Kept::Any(cut as u64 * 104_729)] {
            let again = open(&Storage::of(image(&steps, cut, kept))).unwrap_or_else(|e| panic!("cut at {cut}, {kept:?}: {e}"));
            let found = content(&again);
            let which = contents.iter().position(|c| *c == found);
            assert!(which.is_some_and(|n| (answered..=begun).contains(&n)), "cut at {cut}, {kept:?}: {answered} answered, {which:?} found");
            let n = which.unwrap();
            *seen.entry(if n > answered { "one more than was answered" } else { "what was answered" }).or_default() += 1;
            // It goes on from there.
            let more = HostEntryRecord {
                nqn: "nqn.more".into(),
                name: "m".into(),
                chap: None,
                dhchap: None,
                tls_psks: Vec::new(),
                created_unix_s: 0,
            };
            assert_eq!(again.commit(&Transaction::new().create(&more)).unwrap().0, found.1 + 1, "cut at {cut}, {kept:?}");
        }
    }
    assert!(seen.len() == 2 && begun == 24, "cuts before and behind the moment that counts: {seen:?}");
}

#[test]
fn a_commit_that_fails_half_way_is_unknown_and_ends_the_use_of_the_file() {
    let storage = Storage::default();
    let directory = open(&storage).unwrap();
    let entry = |nqn: &str| HostEntryRecord {
        nqn: nqn.into(),
        name: "n".into(),
        chap: None,
        dhchap: None,
        tls_psks: Vec::new(),
        created_unix_s: 0,
    };
    directory.commit(&Transaction::new().create(&entry("nqn.a"))).unwrap();
    let mut watch = directory.watch(Revision(1)).unwrap();
    storage.broken.store(true, SeqCst);
    let second = Transaction::new().create(&entry("nqn.b")).with_nonce(Nonce([5; 16]));
    assert!(matches!(directory.commit(&second), Err(DirectoryError::Unknown { .. })), "it may be on the disk");
    storage.broken.store(false, SeqCst);
    assert!(matches!(directory.commit(&second), Err(DirectoryError::Storage { .. })));
    assert!(matches!(directory.get(&Key::new(Kind::HostEntry, "nqn.a")), Err(DirectoryError::Storage { .. })));
    assert!(matches!(watch.poll(), Err(DirectoryError::Storage { .. })), "a watch does not pass it over");
    drop((directory, watch));
    // Opened again, the file says what became of it, and it can be tried again.
    let bytes = storage.bytes.lock().unwrap().clone();
    let directory = open(&Storage::of(bytes)).unwrap();
    let before = directory.outcome(Nonce([5; 16])).unwrap();
    assert_eq!(before.is_some(), directory.find::<HostEntryRecord>("nqn.b").unwrap().is_some());
    assert_eq!(directory.commit(&second).unwrap(), Revision(2));
}

#[test]
fn the_judge_notices_a_directory_that_does_not_sync() {
    let (steps, contents) = history();
    let steps: Vec<Step> = steps.into_iter().filter(|s| !matches!(s, Step::Sync)).collect();
    let lost = |kept| match open(&Storage::of(image(&steps, steps.len(), kept))) {
        Ok(again) => content(&again) != contents[24],
        Err(_) => true,
    };
    assert!(lost(Kept::Nothing) && lost(Kept::Any(7)), "nothing of what was answered was synced");
}
