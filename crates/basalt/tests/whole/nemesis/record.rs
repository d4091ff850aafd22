//! The history of a volume, as its hosts write it down, and the file that keeps it.

use models::history::Op;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Hosts write down here what they do.
pub struct Recorder {
    began: Instant,
    ops: Mutex<Vec<Op>>,
}

impl Recorder {
    pub fn new() -> Self {
        Self { began: Instant::now(), ops: Mutex::default() }
    }
    /// Microseconds since it began. 0 is before everything.
    pub fn now(&self) -> u64 {
        self.began.elapsed().as_micros().max(1) as u64
    }
    pub fn add(&self, ops: impl IntoIterator<Item = Op>) {
        self.ops.lock().unwrap_or_else(PoisonError::into_inner).extend(ops);
    }
    /// All of them, in the order of their beginnings.
    pub fn taken(&self) -> Vec<Op> {
        let mut ops = std::mem::take(&mut *self.ops.lock().unwrap_or_else(PoisonError::into_inner));
        ops.sort_by_key(|op| (op.begun, op.host));
        ops
    }
}

/// A line of JSON for each operation.
pub fn save(ops: &[Op], at: &Path) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(at)?);
    for op in ops {
        serde_json::to_writer(&mut file, op)?;
        file.write_all(b"\n")?;
    }
    file.flush()
}

/// What [`save`] has written.
pub fn load(at: &Path) -> io::Result<Vec<Op>> {
    let parsed = |line: io::Result<String>| Ok(serde_json::from_str(&line?)?);
    BufReader::new(File::open(at)?).lines().map(parsed).collect()
}

#[test]
fn a_history_is_read_as_it_was_written() {
    use models::history::What;
    use models::history::reservations::{Answer, Asked, Seen};
    let op = |ended, what| Op { host: 3, begun: 1, ended, what };
    let seen = Seen { rtype: 1, registrants: [(3, 3, true), (4, 4, false)].into() };
    let ops = [
        op(Some(2), What::Write { block: 7, value: 10 }),
        op(None, What::Read { block: 7, value: models::history::TORN }),
        op(None, What::Reserve { asked: Asked::Preempt { key: 3, other: 4, rtype: 1 }, answer: None }),
        op(Some(2), What::Reserve { asked: Asked::Unregister, answer: Some(Answer::Conflict) }),
        op(Some(2), What::Report { seen }),
        op(Some(2), What::Access { write: true, allowed: true }),
    ];
    let file = tempfile::NamedTempFile::new().expect("a file");
    save(&ops, file.path()).expect("it is written");
    assert_eq!(load(file.path()).expect("it is read"), ops);
}
