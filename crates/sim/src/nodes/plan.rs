//! What a seed means for several nodes: the nodes, who owns which volume, to which node each client connects, what happens when.
//!
//! Owns: [`NodesPlan`] and how it is drawn. Invariant: a plan is a function of the seed. Never: knows the code under test.

use crate::faults::Class;
use crate::plan::{ClientPlan, OpKind, Plan, VolumePlan};
use rt::sim::{NetOptions, Rng, SimDeviceOptions};

/// A node.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// Cores of its data plane.
    pub cores: usize,
    /// Shards of its disk group.
    pub shards: u8,
    /// Its cache device, then the one for capacity: size in MiB, and what it is like.
    pub devices: [(u64, SimDeviceOptions); 2],
    /// How late it sees changes of the directory that others made, in nanoseconds: at least, at most.
    pub lag_ns: (u64, u64),
}

/// Something that happens to the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// What one node sends another is held up for a while.
    Cut {
        /// Who sends.
        from: usize,
        /// To whom.
        to: usize,
        /// The other way too.
        both: bool,
        /// For how long, in nanoseconds.
        for_ns: u64,
    },
    /// All connections between two nodes are reset.
    Reset {
        /// One.
        a: usize,
        /// The other.
        b: usize,
    },
    /// A node dies, and is started again.
    Restart {
        /// Which.
        node: usize,
        /// Its power goes; otherwise its process is killed.
        power: bool,
        /// For how long it is down, in nanoseconds.
        for_ns: u64,
    },
    /// All connections of a client are reset.
    ResetClient {
        /// Which.
        client: usize,
    },
    /// What a client sends, or is sent, is held up.
    CutClient {
        /// Which.
        client: usize,
        /// What it sends; otherwise what it is sent.
        to_node: bool,
        /// For how long, in nanoseconds.
        for_ns: u64,
    },
    /// A device of a node does nothing for a while.
    Stall {
        /// Of which.
        node: usize,
        /// For how long, in nanoseconds.
        for_ns: u64,
    },
    /// An administrator changes whether a volume is write protected, through a node.
    Protect {
        /// Through which.
        node: usize,
        /// Which volume.
        volume: usize,
        /// Whether it is from now on.
        on: bool,
    },
}

/// A whole run of several nodes.
#[derive(Clone, Debug)]
pub struct NodesPlan {
    /// Volumes, clients, what these do, and the network.
    pub base: Plan,
    /// The nodes.
    pub nodes: Vec<NodePlan>,
    /// The node that owns each volume.
    pub owners: Vec<usize>,
    /// The node that each client connects to.
    pub client_at: Vec<usize>,
    /// What happens when, in nanoseconds from the beginning.
    pub events: Vec<(u64, NodeEvent)>,
    /// How many operations the clients begin.
    pub ops: u64,
    /// When the disturbed part ends, in nanoseconds.
    pub end_ns: u64,
}

/// A node like any other.
pub fn plain_node(cores: usize) -> NodePlan {
    let options = SimDeviceOptions::default();
    NodePlan { cores, shards: 2, devices: [(24, options.clone()), (40, options)], lag_ns: (100_000, 3_000_000) }
}

/// A client like any other.
pub fn plain_client() -> ClientPlan {
    ClientPlan { queues: 2, depth: 4, digests: (false, false), in_capsule_bytes: 8192, kato_ms: 0 }
}

impl NodesPlan {
    /// Two nodes, each with a volume, and a client at each; nothing disturbs them.
    pub fn two(seed: u64) -> NodesPlan {
        let volume = |lba_bytes: u32| VolumePlan {
            blocks: 300,
            lba_bytes,
            checksum: true,
            stripes: vec![0, 0],
            first_block: (1 << 20) / u64::from(lba_bytes) - 30,
            reserve_chunks: 0,
            iops_max: None,
            promised: false,
        };
        let base = Plan {
            seed,
            class: Class::Crash,
            cores: 2,
            shards: 2,
            cache: (24, SimDeviceOptions::default()),
            capacity: vec![],
            volumes: vec![volume(4096), volume(512)],
            clients: vec![plain_client(); 2],
            mix: OpKind::COMMON.to_vec(),
            op_blocks_max: 32,
            hot: 4,
            watermarks: (0.2, 0.5),
            idle_drain_ms: 10,
            net: NetOptions::default(),
            lives: vec![],
            tiny: false,
        };
        NodesPlan {
            base,
            nodes: vec![plain_node(2), plain_node(1)],
            owners: vec![0, 1],
            client_at: vec![0, 1],
            events: vec![],
            ops: 600,
            end_ns: 5_000_000_000,
        }
    }

    /// What a seed means.
    pub fn draw(seed: u64) -> NodesPlan {
        let rng = &mut Rng::new(seed ^ 0x0000_0DE5_5EED);
        let mut plan = NodesPlan { base: Plan::draw_for_nodes(rng, seed), ..NodesPlan::two(seed) };
        let nodes = 2 + rng.below(4) as usize;
        plan.nodes = (0..nodes).map(|_| node(rng)).collect();
        plan.owners = plan.base.volumes.iter().map(|_| rng.below(nodes as u64) as usize).collect();
        plan.client_at = plan.base.clients.iter().map(|_| rng.below(nodes as u64) as usize).collect();
        plan.end_ns = 20_000_000 + up_to_one_of(rng, [50_000_000, 500_000_000, 3_000_000_000]);
        plan.ops = 100 + rng.below(1_500);
        plan.events = (0..rng.below(7)).map(|_| (rng.below(plan.end_ns), event(rng, &plan))).collect();
        flap(rng, &mut plan);
        plan.events.sort_by_key(|(at, _)| *at);
        plan
    }
}

/// In one plan of five connections between nodes are reset again and again, so that much is with another node when its link is lost.
fn flap(rng: &mut Rng, plan: &mut NodesPlan) {
    if !rng.one_in(5) {
        return;
    }
    plan.base.mix.extend([(OpKind::Swap, 30), (OpKind::Write, 30)]);
    plan.base.hot = 1;
    plan.base.clients.iter_mut().for_each(|c| c.depth = c.depth.max(8));
    plan.ops += 1_000;
    let nodes = plan.nodes.len() as u64;
    for _ in 0..40 {
        let a = rng.below(nodes) as usize;
        let b = (a + 1 + rng.below(nodes - 1) as usize) % nodes as usize;
        plan.events.push((rng.below(plan.end_ns), NodeEvent::Reset { a, b }));
    }
}

/// A number below one of these.
fn up_to_one_of(rng: &mut Rng, limits: [u64; 3]) -> u64 {
    let limit = limits[rng.below(3) as usize];
    rng.below(limit)
}

fn node(rng: &mut Rng) -> NodePlan {
    let shards = 1 << rng.below(3);
    let device = |rng: &mut Rng| SimDeviceOptions { volatile_cache: !rng.one_in(4), ..SimDeviceOptions::default() };
    let devices = [(shards * (8 + rng.below(4)), device(rng)), (shards * (10 + rng.below(12)), device(rng))];
    let least = [0, 200_000, 5_000_000][rng.below(3) as usize];
    let most = least + 1 + up_to_one_of(rng, [500_000, 20_000_000, 900_000_000]);
    NodePlan { cores: 1 + rng.below(3) as usize, shards: shards as u8, devices, lag_ns: (least, most) }
}

fn event(rng: &mut Rng, plan: &NodesPlan) -> NodeEvent {
    let nodes = plan.nodes.len() as u64;
    let node = |rng: &mut Rng| rng.below(nodes) as usize;
    let (a, client) = (node(rng), rng.below(plan.base.clients.len() as u64) as usize);
    let b = (a + 1 + rng.below(nodes - 1) as usize) % nodes as usize;
    let for_ns = 1_000 + up_to_one_of(rng, [2_000_000, 400_000_000, 2_500_000_000]);
    match rng.below(16) {
        0..5 => NodeEvent::Cut { from: a, to: b, both: rng.one_in(2), for_ns },
        5..7 => NodeEvent::Reset { a, b },
        7..10 => NodeEvent::Restart { node: a, power: rng.one_in(2), for_ns },
        10 => NodeEvent::ResetClient { client },
        11 => NodeEvent::CutClient { client, to_node: rng.one_in(2), for_ns },
        12 => NodeEvent::Stall { node: a, for_ns },
        _ => NodeEvent::Protect { node: a, volume: rng.below(plan.base.volumes.len() as u64) as usize, on: rng.one_in(2) },
    }
}
