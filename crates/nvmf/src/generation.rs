//! Generation counters of discovery logs: they change when, and only when, what is published to a host changes.
//!
//! Owns: for each host (and form of the addresses that it gets), the checksum of its log's entries and the counter.
//! Invariant: of one host, two logs with the same counter are the same; a counter never goes back, also when a host was forgotten.
//! Never: is looked at on the path of an I/O.

use crate::limits::DISCOVERY_LOGS_MAX;
use crate::published_logs::Entries;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// Whose log: the host, and the address whose form decides what is published to it.
pub(crate) type LogOf = (String, Option<IpAddr>);

#[derive(Clone, Copy, Debug)]
struct Known {
    sum: u32,
    bytes: usize,
    generation: u64,
    seen: u64,
}

#[derive(Debug, Default)]
struct Book {
    logs: BTreeMap<LogOf, Known>,
    /// Where a host that is not known starts: above all counters of those that were forgotten.
    start: u64,
    looks: u64,
}

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct Generations(Mutex<Book>);

impl Generations {
    /// The counter of a log with these entries.
    pub(crate) fn of(&self, log: LogOf, entries: &Entries) -> u64 {
        let book = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (sum, bytes) = (entries.sum, entries.bytes.len());
        book.looks += 1;
        let seen = book.looks;
        if let Some(known) = book.logs.get_mut(&log) {
            known.seen = seen;
            if (known.sum, known.bytes) != (sum, bytes) {
                (known.sum, known.bytes) = (sum, bytes);
                known.generation += 1;
            }
            return known.generation;
        }
        if book.logs.len() >= DISCOVERY_LOGS_MAX
            && let Some(oldest) = book.logs.iter().min_by_key(|(_, k)| k.seen).map(|(log, _)| log.clone())
            && let Some(known) = book.logs.remove(&oldest)
        {
            book.start = book.start.max(known.generation + 1);
        }
        book.logs.insert(log, Known { sum, bytes, generation: book.start, seen });
        book.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(bytes: &[u8]) -> Entries {
        Entries { bytes: bytes.to_vec(), sum: base::crc32c(bytes) }
    }

    #[test]
    fn a_counter_changes_with_the_content_and_only_then() {
        let g = Generations::default();
        let of = |host: &str, bytes: &[u8]| g.of((host.into(), None), &entries(bytes));
        assert_eq!((of("a", b"1"), of("a", b"1"), of("b", b"1")), (0, 0, 0));
        assert_eq!((of("a", b"2"), of("a", b"2"), of("b", b"1")), (1, 1, 0), "another host is informed the same as before");
        assert_eq!(of("a", b"1"), 2, "back to what was is a change too");
    }

    #[test]
    fn a_host_that_was_forgotten_never_sees_a_counter_again() {
        let g = Generations::default();
        let of = |host: String, bytes: &[u8]| g.of((host, None), &entries(bytes));
        for n in 0..5u8 {
            of("a".into(), &[n]);
        }
        (0..DISCOVERY_LOGS_MAX).for_each(|n| assert_eq!(of(format!("h{n}"), b""), of(format!("h{n}"), b"")));
        assert!(of("a".into(), b"else") > 4);
    }
}
