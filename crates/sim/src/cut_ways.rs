//! Ways between machines that are cut for a while.
//!
//! Owns: [`CutWays`]. Invariant: what is cut here is restored here. Never: decides what is cut.

use base::{Duration, Instant};
use rt::sim::{HostId, World};

/// See the module.
#[derive(Debug, Default)]
pub struct CutWays(Vec<(Instant, HostId, HostId)>);

impl CutWays {
    /// Nothing gets from one machine to the other for so long.
    pub fn cut(&mut self, world: &mut World, from: HostId, to: HostId, time: Duration) {
        world.cut(from, to);
        self.0.push((world.now() + time, from, to));
    }
    /// When the next one is to be restored.
    pub fn next(&self) -> Option<Instant> {
        self.0.iter().map(|way| way.0).min()
    }
    /// Restores those that are due; `all`: every one.
    pub fn restore(&mut self, world: &mut World, all: bool) {
        let now = world.now();
        self.0.retain(|&(at, from, to)| {
            let is_due = all || at <= now;
            if is_due {
                world.heal(from, to);
            }
            !is_due
        });
    }
}
