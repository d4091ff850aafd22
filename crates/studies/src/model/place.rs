//! Where the volumes of a modelled cluster lie: which groups have their copies, and which capacity devices the mirrors of each.
//!
//! ```text
//!  owners: the groups in turn, those of the first groups of all nodes first      copies: on the nodes behind the owner's, another one each time
//! ```
//!
//! Invariants: copies of a volume are on different nodes; with nodes that are alike, and a multiple of the groups as volumes, every group owns as many
//! volumes as any other, and has as many copies.
//! Never: looks at what is free; a study says where its data is.

use super::cluster::{Cluster, GroupModel};

/// A copy of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyModel {
    /// The node.
    pub node: usize,
    /// The group of that node.
    pub group: usize,
    /// The capacity device of each mirror.
    pub on: Vec<u8>,
}

/// The copies of a volume; the owner's first.
pub fn copies(cluster: &Cluster, at: usize) -> Vec<CopyModel> {
    let nodes = cluster.nodes.len();
    let levels = cluster.nodes.iter().map(|n| n.groups.len()).max().unwrap_or(0);
    let level_has = |level: usize| (0..nodes).filter(move |n| level < cluster.nodes[*n].groups.len());
    let homes: Vec<(usize, usize)> = (0..levels).flat_map(|level| level_has(level).map(move |node| (node, level))).collect();
    let (owner, level) = homes[at % homes.len()];
    let turn = at / homes.len();
    let devices = |group: &GroupModel| group.capacity.iter().map(|n| n.count).sum::<usize>();
    let own = devices(&cluster.nodes[owner].groups[level]);
    let width = if cluster.volumes.stripes == 0 { own } else { cluster.volumes.stripes.min(own) };
    let copy = |copy: usize| {
        let node = match copy {
            0 => owner,
            _ => (owner + 1 + (turn + copy - 1) % (nodes - 1)) % nodes,
        };
        let groups = &cluster.nodes[node].groups;
        let group = level % groups.len();
        let capacity = devices(&groups[group]);
        CopyModel { node, group, on: (0..width).map(|mirror| ((turn + mirror) % capacity) as u8).collect() }
    };
    (0..=usize::from(cluster.volumes.failures_to_tolerate)).map(copy).collect()
}

/// The node that owns a volume, and the core that its clients use there: they are dealt to the cores in turn, as queues of NVMe/TCP would be.
pub fn entrances(cluster: &Cluster) -> Vec<(usize, usize)> {
    let mut owned = vec![0; cluster.nodes.len()];
    let entrance = |at: usize| {
        let node = copies(cluster, at)[0].node;
        owned[node] += 1;
        (node, (owned[node] - 1) % cluster.nodes[node].cores)
    };
    (0..cluster.volumes.count).map(entrance).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn cluster(nodes: usize, groups: usize, volumes: usize, failures: u8) -> Cluster {
        let group = "[[nodes.groups]]\ncache = { drive = \"d\", gib = 1 }\ncapacity = [{ drive = \"d\", gib = 9, count = 3 }]\n";
        let node = format!("[[nodes]]\ncores = 2\ndrives = [{{ name = \"d\", model = \"kioxia-cm6-7680\" }}]\n{}", group.repeat(groups));
        let volumes = format!("[volumes]\ncount = {volumes}\ngib = 0.1\nfailures_to_tolerate = {failures}\n");
        toml::from_str(&format!("name = \"n\"\n{}{volumes}", node.repeat(nodes))).unwrap()
    }

    #[test]
    fn copies_are_on_different_nodes_and_every_group_has_as_much() {
        for (nodes, groups, turns, failures) in [(4, 2, 8, 1), (2, 1, 3, 1), (5, 3, 4, 2), (1, 4, 2, 0), (3, 2, 2, 0)] {
            let cluster = cluster(nodes, groups, nodes * groups * turns, failures);
            let (mut owned, mut held): (BTreeMap<_, usize>, BTreeMap<_, usize>) = Default::default();
            for at in 0..cluster.volumes.count {
                let copies = copies(&cluster, at);
                let mut on: Vec<usize> = copies.iter().map(|c| c.node).collect();
                on.sort_unstable();
                on.dedup();
                assert_eq!(on.len(), usize::from(failures) + 1, "{copies:?}");
                *owned.entry((copies[0].node, copies[0].group)).or_default() += 1;
                copies.iter().for_each(|c| *held.entry((c.node, c.group)).or_default() += 1);
            }
            assert!(owned.len() == nodes * groups && owned.values().all(|n| *n == turns), "{owned:?}");
            assert!(held.values().all(|n| *n == turns * (usize::from(failures) + 1)), "{held:?}");
        }
        let four = cluster(4, 2, 16, 1);
        assert_eq!(entrances(&four)[..10].iter().map(|e| e.0).collect::<Vec<_>>(), [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]);
        assert_eq!(entrances(&four).iter().filter(|e| **e == (0, 1)).count(), 2, "half of the owner's four volumes are on its second core");
    }
}
