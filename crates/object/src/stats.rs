//! What a core's router has counted, of all volumes and of each.
//!
//! Owns: the counters of requests by volume and class; a request is counted once, with its volume, and what all volumes have together is their sum.
//! Invariant: at most [`VOLUMES_COUNTED_MAX`] volumes are counted apart; what the others do, and what volumes that are gone have done, is in the sums.
//! Never: takes memory while a request is under way. A volume gets its place when the picture of the volumes changes.

use crate::{copies::CopyStats, io::VolumeRef, lanes::LaneStats, layout::LayoutView};
use base::{Histogram, IoClass, VolumeId};

/// Volumes that are counted apart at once, on a core. Each takes 4 KiB.
pub const VOLUMES_COUNTED_MAX: usize = 1024;

base::counters! {
    /// Counters of the requests of one class. Their names stand behind that of the class: `reads`, `read_bytes`, `read_errors`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct ClassStats {
        /// Requests of this class answered.
        pub requests: u64 = counter("s"),
        /// Bytes of the requests of this class answered without an error.
        pub bytes: u64 = counter("_bytes"),
        /// Requests of this class that failed.
        pub errors: u64 = counter("_errors"),
        /// From the front end's submission to the answer.
        pub latency: Histogram,
    }
}

impl ClassStats {
    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.latency.merge(&other.latency);
    }
}

base::counters! {
    /// Counters of one volume, of the requests that entered on one core.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct VolumeStats {
        /// Which; `None`: those that have no place of their own.
        pub volume: Option<VolumeId>,
        /// Reads.
        pub read: ClassStats = each("read"),
        /// Writes.
        pub write: ClassStats = each("write"),
        /// Zeroes and trims.
        pub discard: ClassStats = each("discard"),
        /// Requests that a limit held back.
        pub throttled: u64 = counter("throttled_requests"),
        /// Requests under way, with those that a limit holds back.
        pub requests: u64 = gauge("requests"),
        /// Of these, held back by a limit.
        pub held: u64 = gauge("held_requests"),
    }
}

impl VolumeStats {
    /// The counters of a class.
    pub fn class(&self, class: IoClass) -> &ClassStats {
        match class {
            IoClass::Read => &self.read,
            IoClass::Write => &self.write,
            IoClass::Discard => &self.discard,
        }
    }
    #[inline]
    fn class_mut(&mut self, class: IoClass) -> &mut ClassStats {
        match class {
            IoClass::Read => &mut self.read,
            IoClass::Write => &mut self.write,
            IoClass::Discard => &mut self.discard,
        }
    }
    /// Adds all of another: the same volume on another core.
    pub fn merge(&mut self, other: &Self) {
        IoClass::ALL.into_iter().for_each(|class| self.class_mut(class).merge(other.class(class)));
        self.throttled += other.throttled;
        self.requests += other.requests;
        self.held += other.held;
    }
    /// Whether nothing was ever asked of it.
    fn is_untouched(&self) -> bool {
        self.throttled == 0 && self.requests == 0 && IoClass::ALL.into_iter().all(|class| self.class(class).requests == 0)
    }
}

base::counters! {
    /// Counters of one core's router.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct RouterStats {
        /// Reads.
        pub read: ClassStats = each("read"),
        /// Writes.
        pub write: ClassStats = each("write"),
        /// Zeroes and trims.
        pub discard: ClassStats = each("discard"),
        /// Parts that were sent to another core.
        pub crossed: u64 = counter("crossed_parts"),
        /// Requests that a limit held back.
        pub throttled: u64 = counter("throttled_requests"),
        /// The lanes of this core.
        pub lanes: LaneStats = each(""),
        /// Mirrors with copies elsewhere.
        pub copies: CopyStats = each(""),
        /// Each volume of which anything was asked on this core.
        pub volumes: Vec<VolumeStats>,
    }
}

impl RouterStats {
    /// The counters of a class.
    pub fn class(&self, class: IoClass) -> &ClassStats {
        match class {
            IoClass::Read => &self.read,
            IoClass::Write => &self.write,
            IoClass::Discard => &self.discard,
        }
    }
}

/// The counters as a router keeps them.
#[derive(Debug)]
pub(crate) struct Counted {
    /// By [`VolumeRef`]: which of `places` it has. 0: the one that all share who have none.
    place_of: Vec<u16>,
    places: Vec<VolumeStats>,
    free: Vec<u16>,
    /// Parts that were sent to another core.
    pub crossed: u64,
}

impl Default for Counted {
    fn default() -> Self {
        Self { place_of: vec![], places: vec![VolumeStats::default()], free: vec![], crossed: 0 }
    }
}

impl Counted {
    #[inline]
    fn place(&self, volume: VolumeRef) -> usize {
        self.place_of.get(volume.0 as usize).map_or(0, |place| usize::from(*place))
    }
    /// The counters of a class of a volume.
    #[inline]
    pub fn class(&mut self, volume: VolumeRef, class: IoClass) -> &mut ClassStats {
        let place = self.place(volume);
        self.places[place].class_mut(class)
    }
    /// A limit holds a request back.
    pub fn throttle(&mut self, volume: VolumeRef) {
        let place = self.place(volume);
        self.places[place].throttled += 1;
    }
    /// Of each volume that is counted apart: requests, and their bytes.
    pub fn requests(&self) -> impl Iterator<Item = (VolumeId, u64, u64)> {
        let sum = |one: &VolumeStats, of: fn(&ClassStats) -> u64| IoClass::ALL.into_iter().map(|class| of(one.class(class))).sum();
        self.places.iter().filter_map(move |one| Some((one.volume?, sum(one, |c| c.requests), sum(one, |c| c.bytes))))
    }
    /// Gives new volumes their places, and takes those of volumes that are gone.
    pub fn apply(&mut self, view: &LayoutView) {
        for (n, of) in self.place_of.iter_mut().enumerate().filter(|(_, of)| **of != 0) {
            if view.volumes.get(n).is_none_or(Option::is_none) {
                let gone = std::mem::take(&mut self.places[usize::from(*of)]);
                self.places[0].merge(&gone);
                self.free.push(std::mem::take(of));
            }
        }
        self.place_of.resize(view.volumes.len(), 0);
        for (of, layout) in self.place_of.iter_mut().zip(&view.volumes).filter(|(of, _)| **of == 0) {
            let Some(layout) = layout else { continue };
            if self.free.is_empty() && self.places.len() <= VOLUMES_COUNTED_MAX {
                self.free.push(self.places.len() as u16);
                self.places.push(VolumeStats::default());
            }
            let Some(place) = self.free.pop() else { return };
            self.places[usize::from(place)].volume = Some(layout.id);
            *of = place;
        }
    }
    /// Each volume of which anything was asked. `requests`: the volume of each request under way; `held`: of each that a limit holds back.
    pub fn volumes(&self, requests: impl Iterator<Item = VolumeRef>, held: impl Iterator<Item = VolumeRef>) -> Vec<VolumeStats> {
        let mut under_way = vec![(0, 0); self.places.len()];
        requests.for_each(|volume| under_way[self.place(volume)].0 += 1);
        held.for_each(|volume| under_way[self.place(volume)].1 += 1);
        let counted = self.places.iter().zip(under_way).filter(|(one, (requests, held))| !one.is_untouched() || requests + held > 0);
        counted.map(|(one, (requests, held))| VolumeStats { requests: requests + held, held, ..one.clone() }).collect()
    }
    /// What all of them have together.
    pub fn sum(&self, volumes: Vec<VolumeStats>) -> RouterStats {
        let mut sum = VolumeStats::default();
        self.places.iter().for_each(|one| sum.merge(one));
        let VolumeStats { read, write, discard, throttled, .. } = sum;
        RouterStats { read, write, discard, throttled, crossed: self.crossed, volumes, ..RouterStats::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, VolumeLayout};
    use base::Ownership;
    use std::sync::Arc;

    fn layout(n: u32) -> Option<Arc<VolumeLayout>> {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&n.to_le_bytes());
        Some(Arc::new(VolumeLayout {
            id: VolumeId::from_bytes(id),
            lanes: VolumeRef(0),
            bytes: 1 << 30,
            read_only: false,
            checksum: true,
            limits: Arc::new(Limits::default()),
            ownership: Ownership::FIRST,
            mirrors: vec![],
            owner: None,
            revision: 0,
        }))
    }
    fn view(volumes: impl Iterator<Item = Option<Arc<VolumeLayout>>>) -> LayoutView {
        LayoutView { volumes: volumes.collect(), ..LayoutView::default() }
    }
    fn read(counted: &mut Counted, volume: u32, bytes: u64) {
        let class = counted.class(VolumeRef(volume), IoClass::Read);
        class.requests += 1;
        class.bytes += bytes;
        class.latency.record(bytes);
    }

    #[test]
    fn a_volume_is_counted_apart_and_stays_in_the_sums_when_it_is_gone() {
        let mut counted = Counted::default();
        counted.apply(&view([layout(0), layout(1)].into_iter()));
        read(&mut counted, 0, 4096);
        read(&mut counted, 1, 512);
        read(&mut counted, 1, 512);
        counted.throttle(VolumeRef(1));
        let of = |counted: &Counted| -> Vec<_> {
            let all = counted.volumes([VolumeRef(0)].into_iter(), [VolumeRef(1)].into_iter());
            all.into_iter().map(|v| (v.volume, v.read.requests, v.read.bytes, v.throttled, v.requests, v.held)).collect()
        };
        let id = |n| layout(n).map(|layout| layout.id);
        assert_eq!(of(&counted), [(id(0), 1, 4096, 0, 1, 0), (id(1), 2, 1024, 1, 1, 1)]);
        // The first goes, a third comes: it has the place of the first, and nothing of what that counted.
        counted.apply(&view([None, layout(1), layout(2)].into_iter()));
        read(&mut counted, 2, 1);
        // What was under way when the first went is in the sums too.
        read(&mut counted, 0, 10);
        let found = of(&counted);
        assert_eq!(found[0], (None, 2, 4106, 0, 1, 0));
        assert!(found.contains(&(id(2), 1, 1, 0, 0, 0)), "{found:?}");
        // The last ones go, and the picture is shorter.
        counted.apply(&view([None].into_iter()));
        assert_eq!(of(&counted), [(None, 5, 5131, 1, 2, 1)]);
        counted.apply(&view([layout(3)].into_iter()));
        assert_eq!((counted.places.len(), counted.places[0].read.requests), (3, 5), "what was free is taken first");
        let sum = counted.sum(vec![]);
        assert_eq!((sum.read.requests, sum.read.bytes, sum.read.latency.count(), sum.throttled), (5, 5131, 5, 1));
    }

    #[test]
    fn volumes_beyond_the_bound_are_counted_together() {
        let mut counted = Counted::default();
        let all = VOLUMES_COUNTED_MAX as u32 + 5;
        counted.apply(&view((0..all).map(layout)));
        (0..all).for_each(|n| read(&mut counted, n, 1));
        let volumes = counted.volumes([].into_iter(), [].into_iter());
        assert_eq!((volumes.len(), volumes[0].volume, volumes[0].read.requests), (VOLUMES_COUNTED_MAX + 1, None, 5));
        assert_eq!(counted.sum(vec![]).read.requests, u64::from(all));
    }
}
