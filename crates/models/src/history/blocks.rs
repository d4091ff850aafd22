//! Whether what was read and written of each block could have happened one after another.
//!
//! ```text
//!  value a   ├─write─┤    ├read┤         it was there from the end of its first operation to the beginning of its last:  ····│ zone of a │····
//!  value b       ├───write───┤ ├read┤    two such zones may not overlap, and no value may have come and gone within one
//! ```
//!
//! As each value is written once, that is all (P. B. Gibbons and E. Korach, *Testing Shared Memories*, SIAM J. Comput. 26(4), 1997): no order has to be
//! searched for.

use super::{Op, TORN, What};
use std::collections::BTreeMap;

/// What is known of one value of a block.
#[derive(Clone, Copy)]
struct Zone {
    /// When its write began and ended; `None`: nobody wrote it.
    write: Option<(u64, u64)>,
    /// The first end of an operation that saw or wrote it.
    first_end: u64,
    /// The last beginning of one.
    last_begin: u64,
    /// The first end of a read that saw it.
    first_read: Option<u64>,
}

impl Zone {
    fn grow(&mut self, begun: u64, ended: u64) {
        self.first_end = self.first_end.min(ended);
        self.last_begin = self.last_begin.max(begun);
    }
    /// It was there from one moment to a later one, for certain.
    fn is_forward(&self) -> bool {
        self.first_end < self.last_begin
    }
}

/// What is wrong, in words.
pub fn judge(ops: &[Op]) -> Vec<String> {
    let mut blocks: BTreeMap<u64, BTreeMap<u64, Zone>> = BTreeMap::new();
    for op in ops {
        let (block, value, is_write) = match op.what {
            What::Write { block, value } => (block, value, true),
            What::Read { block, value } => (block, value, false),
            _ => continue,
        };
        // Before everything nothing was written.
        let start = || BTreeMap::from([(0, Zone { write: Some((0, 0)), first_end: 0, last_begin: 0, first_read: None })]);
        let zones = blocks.entry(block).or_insert_with(start);
        let zone = zones.entry(value).or_insert(Zone { write: None, first_end: u64::MAX, last_begin: 0, first_read: None });
        let ended = op.ended.unwrap_or(u64::MAX);
        if is_write {
            zone.write = Some((op.begun, ended));
        } else {
            zone.first_read = Some(zone.first_read.map_or(ended, |first| first.min(ended)));
        }
        zone.grow(op.begun, ended);
    }
    blocks.into_iter().filter_map(|(block, zones)| wrong_with(&zones).map(|what| format!("block {block}: {what}"))).collect()
}

fn wrong_with(zones: &BTreeMap<u64, Zone>) -> Option<String> {
    for (value, zone) in zones {
        match zone.write {
            None if *value == TORN => return Some("a read saw parts of several values".into()),
            None => return Some(format!("a read saw {value:#x}, which nobody wrote")),
            Some((begun, _)) if zone.first_read.is_some_and(|end| end < begun) => {
                return Some(format!("a read saw {value:#x} and ended before its write began at {begun}"));
            }
            Some(_) => {}
        }
    }
    // One that may never have happened, and that nobody saw, says nothing.
    let said = zones.iter().filter(|(_, zone)| zone.first_end != u64::MAX);
    let (mut forward, backward): (Vec<_>, Vec<_>) = said.partition(|(_, zone)| zone.is_forward());
    forward.sort_by_key(|(_, zone)| (zone.first_end, zone.last_begin));
    for two in forward.windows(2) {
        let ((a, first), (b, second)) = (two[0], two[1]);
        if second.first_end < first.last_begin {
            return Some(format!(
                "{a:#x} was there from {} to {} and {b:#x} from {} to {}",
                first.first_end, first.last_begin, second.first_end, second.last_begin
            ));
        }
    }
    // They follow one another, so the last one that begins before it is the only one that it can lie within.
    backward.into_iter().find_map(|(value, within)| {
        let at = forward.partition_point(|(_, zone)| zone.first_end < within.last_begin);
        let (other, around) = forward.get(at.checked_sub(1)?)?;
        (within.first_end < around.last_begin).then(|| {
            let (begun, ended) = (within.last_begin, within.first_end);
            format!(
                "{value:#x} came and went between {begun} and {ended}, while {other:#x} was there, from {} to {}",
                around.first_end, around.last_begin
            )
        })
    })
}
