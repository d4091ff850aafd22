//! The whole protocol, within bounds.

use super::*;
use crate::explore::explore;

#[test]
fn probe() {
    let found = explore(&Replicas(Bounds { epochs: 3, evicts: true, crashes: 1, writes: &[1, 1], ..Bounds::QUIET }), 200_000);
    println!("{found}");
}
