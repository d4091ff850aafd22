//! Statistics as they go over the API: counters since the daemon started. Rates, and quantiles of a time, are the difference of two answers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a node has counted since its daemon started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Statistics {
    /// The node.
    pub node: String,
    /// When it was taken, in milliseconds since 1970.
    pub unix_ms: u64,
    /// When the daemon started: from then on it is counted.
    pub started_unix_s: u64,
    /// Volumes of which anything was asked here, by name; at most 1024 are counted apart.
    pub volumes: Vec<VolumeStatistics>,
    /// Hosts that were connected, by NVMe/TCP or iSCSI; at most 256 of each on each core are counted apart.
    pub hosts: Vec<HostStatistics>,
    /// Devices of the disk groups here.
    pub devices: Vec<DeviceStatistics>,
    /// The disk groups that are open here.
    #[serde(default)]
    pub groups: Vec<GroupStatistics>,
    /// The machine of the node; only where it is asked for by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineStatistics>,
}

/// What the processors of a node's machine did, and for whom: counters since the machine started, but for what says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MachineStatistics {
    /// When it was taken, in milliseconds on the machine's own clock, which does not jump.
    pub at_ms: u64,
    /// Logical processors.
    pub processors: u32,
    /// Processor time of all processes and of the kernel, without that of interrupts.
    pub busy_ms: u64,
    /// Processor time that the hypervisor gave to others.
    pub stolen_ms: u64,
    /// Load average of the last minute, in hundredths.
    pub load_hundredths: Option<u64>,
    /// Frequency now, all processors on average.
    pub mhz_mean: Option<u64>,
    /// Frequency now of the processor that is the fastest.
    pub mhz_fastest: Option<u64>,
    /// The highest frequency that a processor can have.
    pub mhz_limit: Option<u64>,
    /// The process of the daemon.
    pub daemon: u32,
    /// Processes that there are and that have used processor time.
    pub processes: Vec<ProcessStatistics>,
}

/// What a process has used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProcessStatistics {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The process that started it, or that took it over.
    pub parent: u32,
    /// It is a thread of the kernel.
    pub kernel: bool,
    /// When it began, on a clock of the machine; with its number it is one process.
    pub began: u64,
    /// Processor time.
    pub used_ms: u64,
    /// Processor time of its children that have ended.
    pub children_ms: u64,
}

/// What was asked of a volume on this node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VolumeStatistics {
    /// Its name; none: all that are not counted apart, with those that are gone.
    pub volume: Option<String>,
    /// Its id.
    pub id: Option<String>,
    /// Requests under way, with those that a limit holds back.
    pub queue_depth: u64,
    /// Of these, held back by a limit of its policy.
    pub held: u64,
    /// Requests that a limit has held back so far.
    pub throttled: u64,
    /// `read`, `write`, `discard`.
    pub operations: Vec<OperationStatistics>,
}

/// What a host did on this node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostStatistics {
    /// Its NQN, or its iSCSI name; `(others)`: all that are not counted apart, with those that are gone.
    pub nqn: String,
    /// What it is called here.
    pub name: Option<String>,
    /// Connections for I/O, and sessions over iSCSI; 0: it has gone.
    pub queues: u32,
    /// Commands under way.
    pub queue_depth: u64,
    /// `read`, `write`, `compare`, `flush`, `deallocate`.
    pub operations: Vec<OperationStatistics>,
}

/// What a device did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeviceStatistics {
    /// Where it is.
    pub device: String,
    /// Its disk group.
    pub group: String,
    /// `cache` or `capacity`.
    pub role: String,
    /// Operations of any kind that failed.
    pub errors: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Operations under way, of any kind.
    #[serde(default)]
    pub in_flight: u64,
    /// `read`, `write`. Their errors are in `errors` above.
    pub operations: Vec<OperationStatistics>,
}

/// What a disk group did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupStatistics {
    /// Its name.
    pub group: String,
    /// Room in its write buffer, in bytes.
    pub buffer_bytes: u64,
    /// Used of it now.
    pub buffer_used_bytes: u64,
    /// Bytes moved from the write buffer to capacity.
    pub destaged_bytes: u64,
}

/// Operations of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OperationStatistics {
    /// Which kind.
    pub operation: String,
    /// How many have ended.
    pub operations: u64,
    /// Bytes of those that did not fail.
    pub bytes: u64,
    /// How many have failed.
    pub errors: u64,
    /// How long they took, together, in nanoseconds.
    pub latency_sum_ns: u64,
    /// How long they took. Only buckets that hold any, the shortest first.
    pub latency: Vec<LatencyBucket>,
}

/// Operations that took about as long as each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LatencyBucket {
    /// The longest of them took at most this, in nanoseconds.
    pub up_to_ns: u64,
    /// How many.
    pub count: u64,
}
