//! What a controller tells of its health: errors of its commands, and what its subsystem has served.
//!
//! Invariants: an entry's count is never given twice in the life of a controller; what a queue has served is counted once, while it lives and
//! after. Each [`Served`] has one writer, so counting costs no more than a store.
//! Never: is waited for on the path of an I/O that succeeds (the locks guard errors, the start and the end of queues, and log pages).

use crate::limits::ERROR_ENTRIES_MAX;
use format::nvme::log::ErrorEntry;
use format::nvme::{Status, StatusCode};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The Error Information log of a controller (base 5.16.1.2).
#[derive(Debug, Default)]
pub struct ErrorLog(Mutex<Errors>);

#[derive(Debug, Default)]
struct Errors {
    count: u64,
    internal: u64,
    newest_first: VecDeque<ErrorEntry>,
}

impl ErrorLog {
    /// Notes the error of a command; `error_count` is filled in.
    pub fn note(&self, entry: ErrorEntry) {
        let mut errors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        errors.count += 1;
        let error_count = errors.count;
        errors.internal += u64::from(Status::parse(entry.status).code == StatusCode::INTERNAL_ERROR);
        errors.newest_first.truncate(ERROR_ENTRIES_MAX - 1);
        errors.newest_first.push_front(ErrorEntry { error_count, ..entry });
    }
    /// Entries ever made.
    pub fn count(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count
    }
    /// Of those, of errors inside the target.
    pub fn internal(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).internal
    }
    /// The log page: the newest entry first, zeroes behind the last.
    pub fn page(&self) -> Vec<u8> {
        let errors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut page = vec![0; ERROR_ENTRIES_MAX * ErrorEntry::LEN];
        for (slot, entry) in page.chunks_exact_mut(ErrorEntry::LEN).zip(&errors.newest_first) {
            entry.write(slot);
        }
        page
    }
    /// Whether a status is an error of the kind that the log tells: not what commands of locks and paths are answered day by day.
    pub fn tells(status: Status) -> bool {
        let daily = [StatusCode::COMPARE_FAILURE, StatusCode::RESERVATION_CONFLICT, StatusCode::ABORT_REQUESTED];
        !status.is_success() && status.code.sct() != 3 && !daily.contains(&status.code)
    }
}

/// What one I/O queue has served.
#[derive(Debug, Default)]
pub struct Served {
    reads: AtomicU64,
    writes: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    media_errors: AtomicU64,
}

/// Sums of what queues have served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServedSum {
    /// Read commands.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Commands that failed because of the media.
    pub media_errors: u64,
}

/// Adds where there is one writer.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
}

impl Served {
    fn sum(&self) -> ServedSum {
        ServedSum {
            reads: self.reads.load(Relaxed),
            writes: self.writes.load(Relaxed),
            read_bytes: self.read_bytes.load(Relaxed),
            written_bytes: self.written_bytes.load(Relaxed),
            media_errors: self.media_errors.load(Relaxed),
        }
    }
}

impl ServedSum {
    fn plus(self, other: ServedSum) -> ServedSum {
        ServedSum {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            read_bytes: self.read_bytes + other.read_bytes,
            written_bytes: self.written_bytes + other.written_bytes,
            media_errors: self.media_errors + other.media_errors,
        }
    }
}

/// What the queues of a subsystem have served on this server since it started, on all cores.
#[derive(Debug, Default)]
pub struct SubsystemFigures(Mutex<(ServedSum, Vec<Arc<Served>>)>);

impl SubsystemFigures {
    /// The sums.
    pub fn sum(&self) -> ServedSum {
        let figures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        figures.1.iter().fold(figures.0, |sum, served| sum.plus(served.sum()))
    }
}

/// A queue's place in the figures of its subsystem; when it goes, what it served stays counted.
#[derive(Debug)]
pub struct Ledger {
    served: Arc<Served>,
    figures: Arc<SubsystemFigures>,
}

impl Ledger {
    /// Of a new queue.
    pub fn open(figures: &Arc<SubsystemFigures>) -> Ledger {
        let served = Arc::new(Served::default());
        figures.0.lock().unwrap_or_else(PoisonError::into_inner).1.push(Arc::clone(&served));
        Ledger { served, figures: Arc::clone(figures) }
    }
    /// A Read command succeeded.
    #[inline]
    pub fn read(&self, bytes: u64) {
        add(&self.served.reads, 1);
        add(&self.served.read_bytes, bytes);
    }
    /// A Write command succeeded.
    #[inline]
    pub fn wrote(&self, bytes: u64) {
        add(&self.served.writes, 1);
        add(&self.served.written_bytes, bytes);
    }
    /// A command failed because of the media.
    pub fn media_error(&self) {
        add(&self.served.media_errors, 1);
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        let mut figures = self.figures.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (gone, live) = &mut *figures;
        live.retain(|s| !Arc::ptr_eq(s, &self.served));
        *gone = gone.plus(self.served.sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_queue_served_stays_counted_when_it_is_gone() {
        let figures = Arc::new(SubsystemFigures::default());
        let (a, b) = (Ledger::open(&figures), Ledger::open(&figures));
        a.read(4096);
        b.wrote(512);
        b.media_error();
        let sum = ServedSum { reads: 1, writes: 1, read_bytes: 4096, written_bytes: 512, media_errors: 1 };
        assert_eq!(figures.sum(), sum);
        drop(a);
        assert_eq!(figures.sum(), sum);
        drop(b);
        assert_eq!(figures.sum(), sum);
    }

    #[test]
    fn the_newest_errors_are_kept_and_counts_go_on() {
        let log = ErrorLog::default();
        assert!(log.page().iter().all(|b| *b == 0));
        for cid in 0..ERROR_ENTRIES_MAX as u16 + 3 {
            log.note(ErrorEntry { cid, ..ErrorEntry::default() });
        }
        let page = log.page();
        let entry = |n: usize| ErrorEntry::parse(&page[n * 64..]).unwrap();
        assert_eq!((entry(0).error_count, entry(0).cid), (67, 66));
        assert_eq!((entry(63).error_count, entry(63).cid), (4, 3));
        assert_eq!((page.len(), log.count()), (64 * 64, 67));
    }
}
