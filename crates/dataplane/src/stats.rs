//! Figures of every layer, taken at one moment.

use base::{ComponentId, GroupId};
use object::RouterStats;
use rt::{CoreStats, Device};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{GroupInfo, ShardStats};

/// One shard.
#[derive(Clone, Debug)]
pub struct ShardSnapshot {
    /// Its disk group.
    pub group: GroupId,
    /// Its number in the group.
    pub shard: u8,
    /// Its figures.
    pub stats: ShardStats,
}

/// One core.
#[derive(Clone, Debug)]
pub struct CoreSnapshot<S> {
    /// The core's number, from 0.
    pub core: usize,
    /// Loops, busy and sleeping time, system calls.
    pub reactor: Arc<CoreStats>,
    /// Requests to volumes that entered here.
    pub router: RouterStats,
    /// Shards that run here.
    pub shards: Vec<ShardSnapshot>,
    /// The front end.
    pub front: S,
}

/// One disk group.
#[derive(Clone)]
pub struct GroupSnapshot {
    /// What it is.
    pub info: GroupInfo,
    /// Its devices, cache first, with their counters.
    pub devices: Vec<Device>,
}

/// The whole host.
#[derive(Clone)]
pub struct NodeStats<S> {
    /// Each core.
    pub cores: Vec<CoreSnapshot<S>>,
    /// Each open disk group.
    pub groups: Vec<GroupSnapshot>,
    /// Copies that this node brings back into sync, each with its first chunk that is not known to be complete; `None`: all are.
    pub resyncs: Vec<(ComponentId, Option<u64>)>,
    /// Copies that take much longer for changes than the others, of objects that this node serves.
    pub slow_copies: Vec<ComponentId>,
    /// Copies that are out because they fail or are slow, though their nodes answer, of objects that this node serves.
    pub failed_copies: Vec<ComponentId>,
}

impl<S> NodeStats<S> {
    /// All shards.
    pub fn shards(&self) -> impl Iterator<Item = &ShardSnapshot> {
        self.cores.iter().flat_map(|core| &core.shards)
    }
    /// How full the fullest write buffer is, the mean over its shards: 0 to 1.
    pub fn fullest_buffer(&self) -> f64 {
        let mut fills: BTreeMap<GroupId, (f64, u32)> = BTreeMap::new();
        for shard in self.shards() {
            let (sum, shards) = fills.entry(shard.group).or_default();
            *sum += shard.stats.fill;
            *shards += 1;
        }
        fills.values().map(|(sum, shards)| sum / f64::from(*shards)).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_buffer_is_that_of_a_group_over_all_its_shards_on_all_cores() {
        let shard = |n: u8, fill: f64| {
            let stats = ShardStats { fill, ..ShardStats::default() };
            ShardSnapshot { group: GroupId::from_bytes([n; 16]), shard: 0, stats }
        };
        let fullest = |cores: Vec<Vec<ShardSnapshot>>| {
            let core = |(core, shards)| CoreSnapshot { core, reactor: Arc::default(), router: RouterStats::default(), shards, front: () };
            let cores = cores.into_iter().enumerate().map(core).collect();
            NodeStats { cores, groups: vec![], resyncs: vec![], slow_copies: vec![], failed_copies: vec![] }.fullest_buffer()
        };
        assert_eq!(fullest(vec![vec![], vec![]]), 0.0);
        assert_eq!(fullest(vec![vec![shard(1, 0.5), shard(2, 0.25)], vec![shard(1, 0.0), shard(2, 0.75)]]), 0.5);
        assert_eq!(fullest(vec![vec![shard(1, 1.0)], vec![shard(1, 0.5), shard(2, 0.5)]]), 0.75);
    }
}
