//! What a seed means for several nodes: the nodes, who owns which volume, to which node each client connects, what happens when.
//!
//! Owns: [`NodesPlan`]. Never: knows how it is drawn (`draw` does), or the code under test.

use super::way::Through;
use crate::faults::Class;
use crate::plan::{ClientPlan, OpKind, Plan, VolumePlan};
use base::ResyncPace;
use dataplane::Balancing;
use directory::modelled::Faults;
use rt::sim::{NetOptions, SimDeviceOptions};

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
    /// How much faster its clock is, in thousandths; any two differ by a tenth at most.
    pub clock_permille: i32,
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
    /// A node, or one of its cores, does nothing for a while: its program is stopped.
    Pause {
        /// Which.
        node: usize,
        /// Which core; `None`: all, and its control plane.
        core: Option<usize>,
        /// For how long, in nanoseconds.
        for_ns: u64,
    },
    /// What one node sends another takes longer for a while.
    Slow {
        /// Who sends.
        from: usize,
        /// To whom.
        to: usize,
        /// By how much, in nanoseconds: at least, at most.
        longer_ns: (u64, u64),
        /// For how long, in nanoseconds.
        for_ns: u64,
    },
    /// A node does not reach the directory for a while.
    Unreached {
        /// Which.
        node: usize,
        /// What gets through meanwhile.
        through: Through,
        /// For how long, in nanoseconds.
        for_ns: u64,
    },
    /// The directory answers nobody for a while.
    Outage {
        /// How.
        how: Outage,
        /// For how long, in nanoseconds.
        for_ns: u64,
    },
    /// What the directory remembers of its history goes.
    Compact,
    /// All sessions end.
    ExpireSessions,
    /// A backup of the directory is made.
    Backup,
    /// All nodes end, the directory is made anew from the backup, and they start with that.
    Restore {
        /// A node that does not end: it goes on without a directory until it is its turn to start anew.
        goes_on: Option<usize>,
        /// The power of all goes; otherwise their processes are killed.
        power: bool,
        /// After how long the first one starts, in nanoseconds.
        for_ns: u64,
        /// How much later than the one before each other one starts, in nanoseconds.
        each_ns: u64,
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
    /// An administrator names the node that is to own a volume, through a node.
    Prefer {
        /// Through which.
        node: usize,
        /// Which volume.
        volume: usize,
        /// Which node; `None`: any.
        owner: Option<usize>,
    },
    /// An administrator wants a volume to lie on other mirrors.
    Layout {
        /// Through which node.
        node: usize,
        /// Which.
        volume: usize,
        /// On how many; `None`: it stays as it lies.
        mirrors: Option<usize>,
    },
    /// An administrator says how fast copies of a volume come back into sync, through a node.
    Resync {
        /// Through which.
        node: usize,
        /// Which volume.
        volume: usize,
        /// How fast.
        pace: ResyncPace,
    },
    /// An administrator asks for another number of copies of a volume, through a node.
    Copies {
        /// Through which.
        node: usize,
        /// Which volume.
        volume: usize,
        /// How many.
        copies: usize,
    },
}

/// How the directory answers nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// Most of its members are down.
    NoMajority,
    /// Its leader takes requests and answers none.
    Hangs,
    /// It elects another leader; that takes as long as it takes.
    Election,
}

/// A whole run of several nodes.
#[derive(Clone, Debug)]
pub struct NodesPlan {
    /// Volumes, clients, what these do, and the network.
    pub base: Plan,
    /// The nodes.
    pub nodes: Vec<NodePlan>,
    /// The node that owns each volume; of one with several copies, at first.
    pub owners: Vec<usize>,
    /// The nodes that have copies of each volume besides its owner.
    pub mirrored: Vec<Vec<usize>>,
    /// The node that each client connects to.
    pub client_at: Vec<usize>,
    /// What happens when, in nanoseconds from the beginning.
    pub events: Vec<(u64, NodeEvent)>,
    /// What goes wrong in the directory, until nothing disturbs any more.
    pub directory: Faults,
    /// Whether volumes with copies go to other nodes of themselves.
    pub balancing: Balancing,
    /// How many operations the clients begin, and in how many portions that come one after the other.
    pub ops: u64,
    /// See `ops`.
    pub portions: u64,
    /// When the disturbed part ends, in nanoseconds.
    pub end_ns: u64,
}

/// A node like any other.
pub fn plain_node(cores: usize) -> NodePlan {
    let options = SimDeviceOptions::default();
    NodePlan { cores, shards: 2, devices: [(24, options.clone()), (40, options)], lag_ns: (100_000, 3_000_000), clock_permille: 0 }
}

/// A client like any other.
pub fn plain_client() -> ClientPlan {
    ClientPlan { iscsi: false, queues: 2, depth: 4, digests: (false, false), in_capsule_bytes: 8192, kato_ms: 0, volume: None }
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
            spares: vec![],
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
            mirrored: vec![vec![]; 2],
            client_at: vec![0, 1],
            events: vec![],
            directory: Faults::NONE,
            balancing: Balancing::Off,
            ops: 600,
            portions: 1,
            end_ns: 5_000_000_000,
        }
    }

    /// The nodes with copies of a volume: its owner first.
    pub fn copies(&self, volume: usize) -> Vec<usize> {
        let mut all = vec![self.owners[volume]];
        all.extend(&self.mirrored[volume]);
        all
    }
    /// Whether a volume has, or may get, copies on several nodes.
    pub fn is_mirrored(&self, volume: usize) -> bool {
        let changes = |event: &NodeEvent| matches!(event, NodeEvent::Copies { volume: of, .. } if *of == volume);
        !self.mirrored[volume].is_empty() || self.events.iter().any(|(_, event)| changes(event))
    }
    /// Whether the directory is made anew from a backup.
    pub fn restores(&self) -> bool {
        self.events.iter().any(|(_, event)| matches!(event, NodeEvent::Restore { .. }))
    }
    /// What a seed means.
    pub fn draw(seed: u64) -> NodesPlan {
        super::draw::draw(seed)
    }
}
