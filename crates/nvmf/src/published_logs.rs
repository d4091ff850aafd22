//! The entries of discovery logs that were published last, so that a host that reads the log piece by piece, or again and again, costs no more than
//! the bytes that it gets. Hosts that may use the same subsystems get the same.
//!
//! Invariant: what is kept is bounded, by count and by bytes.
//! Never: knows what an entry says; [`crate::discovery`] makes them.

use crate::limits::{DISCOVERY_KEPT_BYTES_MAX, DISCOVERY_KEPT_MAX};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The entries of a log, and their checksum.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) bytes: Vec<u8>,
    pub(crate) sum: u32,
}

/// All that entries depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    view: u64,
    listeners: u64,
    reached: Option<IpAddr>,
    /// Places of the subsystems in the view.
    subsystems: Vec<u32>,
}

impl Seen {
    /// Generations of the view and of the listeners, the address that the host reached, and the places of its subsystems in the view.
    pub(crate) fn new(view: u64, listeners: u64, reached: Option<IpAddr>, subsystems: Vec<u32>) -> Self {
        Self { view, listeners, reached, subsystems }
    }
}

/// The entries that were reported last, the newest in front. Shared by the cores.
#[derive(Debug, Default)]
pub(crate) struct PublishedLogs(Mutex<VecDeque<(Seen, Arc<Entries>)>>);

impl PublishedLogs {
    /// The entries of those who see this; made when they are not kept.
    pub(crate) fn entries(&self, seen: Seen, make: impl FnOnce() -> Vec<u8>) -> Arc<Entries> {
        let reported = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = reported.iter().position(|(s, _)| *s == seen) {
            reported.swap(0, at);
            return Arc::clone(&reported[0].1);
        }
        let bytes = make();
        let new = Arc::new(Entries { sum: base::crc32c(&bytes), bytes });
        reported.push_front((seen, Arc::clone(&new)));
        while reported.len() > DISCOVERY_KEPT_MAX
            || reported.len() > 1 && reported.iter().map(|(_, e)| e.bytes.len()).sum::<usize>() > DISCOVERY_KEPT_BYTES_MAX
        {
            reported.pop_back();
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(view: u64, subsystems: &[u32]) -> Seen {
        Seen { view, listeners: 1, reached: None, subsystems: subsystems.to_vec() }
    }

    #[test]
    fn entries_are_made_once_for_all_who_see_the_same() {
        let reported = PublishedLogs::default();
        let first = reported.entries(seen(1, &[0]), || vec![1; 10]);
        assert!(Arc::ptr_eq(&first, &reported.entries(seen(1, &[0]), || panic!("made again"))));
        assert_eq!(reported.entries(seen(1, &[0, 2]), || vec![2; 10]).bytes[0], 2);
        assert_eq!(reported.entries(seen(2, &[0]), || vec![3; 10]).bytes[0], 3);
        assert!(Arc::ptr_eq(&first, &reported.entries(seen(1, &[0]), || panic!("made again"))));
    }

    #[test]
    fn what_is_kept_is_bounded_by_count_and_by_bytes() {
        let reported = PublishedLogs::default();
        (0..100).for_each(|view| drop(reported.entries(seen(view, &[]), || vec![0; 10])));
        assert_eq!(reported.0.lock().unwrap().len(), DISCOVERY_KEPT_MAX);
        reported.entries(seen(100, &[]), || vec![0; DISCOVERY_KEPT_BYTES_MAX + 1]);
        assert_eq!(reported.0.lock().unwrap().len(), 1, "the newest is kept whatever its size");
    }
}
