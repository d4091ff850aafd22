//! What hosts ask of volumes, by the nodes that they come by: for the host of owners, which sends an object to where its hosts are.
//!
//! Owns: [`RequestCounts`].
//! Invariant: a volume that is counted for the first time says nothing: what was asked of it so far was not asked just now.
//! Never: counts a request itself (routers and front ends do).

use crate::{
    controller::CoreController,
    core_state::Core,
    message::{Answer, Call},
};
use base::{NodeId, ObjectId, VolumeId};
use frontend::FrontEnd;
use object::limit::NORMAL_BYTES;
use object::owners::Requests;
use std::collections::BTreeMap;

/// What a core has counted of a volume.
#[derive(Debug)]
pub(crate) struct VolumeRequests {
    volume: VolumeId,
    /// Requests so far, those of other nodes among them.
    requests: u64,
    bytes: u64,
    /// Those of other nodes since they were counted last.
    by: Vec<(NodeId, u64)>,
}

/// Of each volume its object, and what had been asked of it when that was counted last: requests and bytes.
#[derive(Debug, Default)]
pub(crate) struct RequestCounts(BTreeMap<VolumeId, (ObjectId, Option<[u64; 2]>)>);

impl RequestCounts {
    /// These volumes are served.
    pub(crate) fn serves(&mut self, volumes: impl Iterator<Item = (VolumeId, ObjectId)>) {
        let before = std::mem::take(&mut self.0);
        let last = |volume: &VolumeId| before.get(volume).and_then(|(_, last)| *last);
        self.0 = volumes.map(|(volume, object)| (volume, (object, last(&volume)))).collect();
    }
    /// What was asked of each object since it was counted last. `counted`: by all cores of this node, `me`.
    pub(crate) fn since_last(&mut self, me: NodeId, counted: Vec<VolumeRequests>) -> BTreeMap<ObjectId, Requests> {
        let mut all: BTreeMap<VolumeId, ([u64; 2], BTreeMap<NodeId, u64>)> = BTreeMap::new();
        for VolumeRequests { volume, requests, bytes, by } in counted {
            let (sums, nodes) = all.entry(volume).or_default();
            *sums = [sums[0] + requests, sums[1] + bytes];
            by.into_iter().for_each(|(node, n)| *nodes.entry(node).or_default() += n);
        }
        let mut since = BTreeMap::new();
        for (volume, (object, last)) in &mut self.0 {
            let (sums, mut by) = all.remove(volume).unwrap_or_default();
            let Some(before) = last.replace(sums) else { continue };
            let [requests, bytes] = [0, 1].map(|n: usize| sums[n].saturating_sub(before[n]));
            // Those of other nodes are counted when they begin, all of them when they end.
            let forwarded: u64 = by.values().sum();
            by.insert(me, requests.saturating_sub(forwarded));
            since.insert(*object, Requests { units: requests.max(forwarded) + bytes / NORMAL_BYTES, by });
        }
        since
    }
}

impl<F: FrontEnd> Core<F> {
    /// What was asked of volumes so far, and by which other nodes since the last time.
    pub(crate) fn requests(&mut self) -> Vec<VolumeRequests> {
        let mut forwarded: BTreeMap<VolumeId, Vec<(NodeId, u64)>> = BTreeMap::new();
        for ((volume, node), n) in self.front.take_forwarded() {
            forwarded.entry(volume).or_default().push((node, n));
        }
        let touched = self.router.requests().filter(|(_, requests, _)| *requests > 0);
        touched
            .map(|(volume, requests, bytes)| VolumeRequests { volume, requests, bytes, by: forwarded.remove(&volume).unwrap_or_default() })
            .collect()
    }
}

impl<F: FrontEnd> CoreController<F> {
    /// What all cores have counted of volumes.
    pub(crate) async fn requests(&self) -> Vec<VolumeRequests> {
        let mut all = Vec::new();
        for core in 0..self.rt.cores() {
            if let Answer::Requests(counted) = self.call(core, Call::Requests).await {
                all.extend(counted);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: NodeId = NodeId::from_bytes([1; 16]);
    const OTHER: NodeId = NodeId::from_bytes([2; 16]);
    const VOLUME: VolumeId = VolumeId::from_bytes([3; 16]);
    const OBJECT: ObjectId = ObjectId::from_bytes([4; 16]);

    fn counted(requests: u64, bytes: u64, forwarded: u64) -> VolumeRequests {
        VolumeRequests { volume: VOLUME, requests, bytes, by: vec![(OTHER, forwarded)] }
    }
    fn requests(units: u64, own: u64, forwarded: u64) -> BTreeMap<ObjectId, Requests> {
        [(OBJECT, Requests { units, by: [(ME, own), (OTHER, forwarded)].into() })].into()
    }

    #[test]
    fn what_was_asked_before_the_first_count_was_not_asked_just_now() {
        let mut counts = RequestCounts::default();
        counts.serves([(VOLUME, OBJECT)].into_iter());
        assert_eq!(counts.since_last(ME, vec![counted(1_000_000, 1 << 40, 70)]), BTreeMap::new());
        assert_eq!(counts.since_last(ME, vec![counted(1_010, 0, 0)]), requests(0, 0, 0), "of another life of its place: nothing");
    }

    #[test]
    fn all_cores_are_counted_together_and_requests_of_other_nodes_apart() {
        let mut counts = RequestCounts::default();
        counts.serves([(VOLUME, OBJECT)].into_iter());
        assert_eq!(counts.since_last(ME, vec![]), BTreeMap::new());
        let two = vec![counted(60, 3 * NORMAL_BYTES, 10), counted(40, 0, 20)];
        assert_eq!(counts.since_last(ME, two), requests(103, 70, 30));
        // What was counted stays when the picture changes; what is not served is not counted.
        counts.serves([(VOLUME, OBJECT)].into_iter());
        assert_eq!(counts.since_last(ME, vec![counted(130, 3 * NORMAL_BYTES, 0)]), requests(30, 30, 0));
        counts.serves([].into_iter());
        assert_eq!(counts.since_last(ME, vec![counted(500, 0, 0)]), BTreeMap::new());
    }
}
