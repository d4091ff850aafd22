//! Which core does what: the shards of a disk group, and the lanes of a mirror.
//!
//! ```text
//!  a copy is on this node    lane ─► shard that holds it in the copy's group ─► core of the shard     (nothing crosses twice)
//!  no copy is                lane ─► dealt in turn to all cores, from one that goes by object and mirror
//! ```
//!
//! Owns: the rule ([`LaneCores`]), and what it gave for a term of an object's owner ([`TermCores`]).
//! Invariants: each lane of each mirror has one core, with and without a copy here; it stays for the owner's term, whatever becomes of the copies:
//! the order of the lane's changes is on that core (`order`).
//! Never: looks at the state of a copy.

use base::hooks::{self, SeededFault};
use base::lane::{LANES, Lane};
use base::{Epoch, ObjectId};

/// How the shards of a disk group are dealt to cores. It stays when a group with copies of what is served is closed and opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRoute {
    /// A power of two, at most 16.
    pub shards: u8,
    /// The core of shard 0; the next shards follow, round and round.
    pub first_core: u8,
}

impl GroupRoute {
    /// The core that runs a shard, of `cores`.
    pub fn core(&self, shard: usize, cores: usize) -> usize {
        (usize::from(self.first_core) + shard) % cores
    }
}

/// The core of each lane of a mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneCores([u8; LANES as usize]);

impl LaneCores {
    /// Of a mirror with a copy in a group of this node: each lane is where its shard is.
    pub fn of_group(route: GroupRoute, cores: usize) -> Self {
        let lanes = (0..LANES).filter_map(Lane::new);
        Self::collect(lanes.map(|lane| route.core(lane.shard(usize::from(route.shards)), cores)))
    }
    /// Of a mirror without a copy on this node. The mirrors of an object follow on each other, so that all cores have equally many of its lanes.
    pub fn dealt(object: ObjectId, mirror: usize, cores: usize) -> Self {
        let start = u128::from_be_bytes(*object.as_bytes()) % cores as u128;
        let first = start as usize + mirror * usize::from(LANES);
        Self::collect((first..).take(usize::from(LANES)).map(|at| at % cores))
    }
    fn collect(cores: impl Iterator<Item = usize>) -> Self {
        let mut all = [0; LANES as usize];
        all.iter_mut().zip(cores).for_each(|(lane, core)| *lane = core as u8);
        Self(all)
    }
    /// The core of a lane.
    #[inline]
    pub const fn core_of(&self, lane: Lane) -> usize {
        self.0[lane.index()] as usize
    }
}

/// The cores of the lanes of an object's mirrors, for one term of its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TermCores {
    term: Epoch,
    mirrors: Vec<LaneCores>,
}

impl TermCores {
    /// Those of a term. `here`: for each mirror the group of this node that has a copy of it, if there is one; no mirrors while the object is
    /// offline. `before`: what was given last; within a term that stays.
    pub fn of(
        object: ObjectId,
        term: Epoch,
        here: impl IntoIterator<Item = Option<GroupRoute>>,
        cores: usize,
        before: Option<&TermCores>,
    ) -> Self {
        let known = before.filter(|before| before.term == term && !hooks::seeded(SeededFault::LanesFollowCopies));
        let known = known.map_or(&[][..], |known| &known.mirrors);
        let rule = |(mirror, here): (usize, Option<GroupRoute>)| match (known.get(mirror), here) {
            (Some(known), _) => *known,
            (None, Some(route)) if !hooks::seeded(SeededFault::LanesOffShards) => LaneCores::of_group(route, cores),
            (None, _) => LaneCores::dealt(object, mirror, cores),
        };
        let mut mirrors: Vec<LaneCores> = here.into_iter().enumerate().map(rule).collect();
        mirrors.extend(known.iter().skip(mirrors.len()));
        Self { term, mirrors }
    }
    /// Those of a mirror that it was made for.
    pub fn of_mirror(&self, mirror: usize) -> LaneCores {
        self.mirrors[mirror]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rt::MESH_CORES_MAX;

    fn object(n: u8) -> ObjectId {
        ObjectId::from_bytes([n; 16])
    }
    fn lanes() -> impl Iterator<Item = Lane> {
        (0..LANES).filter_map(Lane::new)
    }
    fn route() -> impl Strategy<Value = GroupRoute> {
        (0..5u32, 0..64u8).prop_map(|(shards, first_core)| GroupRoute { shards: 1 << shards, first_core })
    }
    /// For each mirror, a copy here or none.
    fn copies() -> impl Strategy<Value = Vec<Option<GroupRoute>>> {
        prop::collection::vec(prop::option::of(route()), 0..6)
    }

    proptest! {
        /// Copies come, go and move while a term lasts, and the object goes offline: no lane moves. In a new term they are where the copies are.
        #[test]
        fn a_lane_keeps_its_core_for_a_term_whatever_becomes_of_copies(
            cores in 1..=MESH_CORES_MAX,
            pictures in prop::collection::vec((0..3u32, copies()), 1..12),
        ) {
            let mut given: Vec<LaneCores> = vec![];
            let (mut last, mut term): (Option<TermCores>, u32) = (None, 1);
            for (step, here) in pictures {
                if step == 0 {
                    term += 1;
                    given.clear();
                }
                let made = TermCores::of(object(3), Epoch(term), here.clone(), cores, last.as_ref());
                for (mirror, here) in here.iter().enumerate() {
                    match given.get(mirror) {
                        Some(known) => prop_assert_eq!(made.of_mirror(mirror), *known),
                        None => given.push(made.of_mirror(mirror)),
                    }
                    prop_assert!(lanes().all(|lane| given[mirror].core_of(lane) < cores));
                    if step == 0 && let Some(route) = here {
                        let shard = |lane: Lane| route.core(lane.shard(usize::from(route.shards)), cores);
                        prop_assert!(lanes().all(|lane| made.of_mirror(mirror).core_of(lane) == shard(lane)), "where its shard is");
                    }
                }
                last = Some(made);
            }
        }

        #[test]
        fn without_copies_here_all_cores_have_equally_many_lanes(cores in 1..=MESH_CORES_MAX, n: u8, mirrors in 1..9usize) {
            let mut lanes_of = vec![0; cores];
            for mirror in 0..mirrors {
                lanes().for_each(|lane| lanes_of[LaneCores::dealt(object(n), mirror, cores).core_of(lane)] += 1);
                let (least, most) = (lanes_of.iter().min().unwrap(), lanes_of.iter().max().unwrap());
                prop_assert!(most - least <= 1);
            }
        }
    }

    fn a_lane_stays_where_it_is_when_its_copy_goes_and_another_comes() {
        let [first, second] = [1, 2].map(|first_core| GroupRoute { shards: 4, first_core });
        let begun = TermCores::of(object(1), Epoch(4), [Some(first), None], 4, None);
        assert_eq!(begun.of_mirror(0), LaneCores::of_group(first, 4));
        let later = TermCores::of(object(1), Epoch(4), [None, Some(second)], 4, Some(&begun));
        let offline = TermCores::of(object(1), Epoch(4), [], 4, Some(&later));
        assert_eq!((&later, &offline), (&begun, &begun));
        let next = TermCores::of(object(1), Epoch(5), [None, Some(second)], 4, Some(&offline));
        assert_eq!(next.of_mirror(1), LaneCores::of_group(second, 4));
    }

    #[test]
    fn a_term_keeps_its_cores() {
        a_lane_stays_where_it_is_when_its_copy_goes_and_another_comes();
    }

    #[cfg(feature = "hooks")]
    #[test]
    fn seeded_faults_are_noticed() {
        use base::hooks::notices;
        for fault in [SeededFault::LanesFollowCopies, SeededFault::LanesOffShards] {
            notices(fault, a_lane_stays_where_it_is_when_its_copy_goes_and_another_comes);
        }
    }
}
