//! Every limit of the front end, and the relations between them.

use base::Duration;
use base::unit::IO_BYTES_MAX;
use base::{NODES_MAX, NodeSlot};

/// Connections of one core.
pub const CONNECTIONS_MAX: usize = 4096;
/// Connections of one core that have not got through their Connect command; beyond, the oldest makes room.
pub const HANDSHAKES_MAX: usize = 1024;
/// Connections of one address (IPv6: of one /64 network) on one core that have not got through their Connect command; beyond, the oldest of them
/// makes room.
pub const ADDRESS_HANDSHAKES_MAX: u32 = 256;
/// Receives of connections that are not known yet which a core looks into in one turn: hosts' commands come first again before the next. Bytes
/// of an unauthenticated peer may cost a TLS handshake.
pub const UNAUTHENTICATED_RECEIVES_A_TURN: usize = 4;
/// Discovery controllers of one core, and of them those of one address: anybody may make them.
pub const DISCOVERY_CONTROLLERS_MAX: usize = 512;
/// See [`DISCOVERY_CONTROLLERS_MAX`].
pub const ADDRESS_DISCOVERY_CONTROLLERS_MAX: usize = 64;
/// Connections of one host, unless set otherwise: four subsystems with [`IO_QUEUES_MAX`] queues each, each twice.
pub const HOST_CONNECTIONS_MAX: u32 = 1032;
/// Memory for the data of one host's commands, in bytes, unless set otherwise. One command a queue goes on even without.
pub const HOST_MEMORY_BYTES_MAX: u64 = 512 << 20;
/// Memory for the data of all hosts' commands, in bytes, unless set otherwise.
pub const MEMORY_BYTES_MAX: u64 = 2 << 30;
/// Controllers of one core.
pub const CONTROLLERS_MAX: usize = 1024;
/// I/O queues of a controller.
pub const IO_QUEUES_MAX: u16 = 128;
/// How long a host's connections are kept for the queues that it was granted, from the grant or the last of them that came.
pub const GRANT_KEPT_MAX: Duration = Duration::from_secs(15);
/// Entries of a submission queue (CAP.MQES + 1).
pub const QUEUE_ENTRIES_MAX: u16 = 1024;
/// Data that a command capsule may carry, in bytes (from which IOCCSZ follows).
pub const CAPSULE_DATA_MAX: u32 = 16 << 10;
/// Data of one H2CData PDU (MAXH2CDATA), in bytes.
pub const H2C_DATA_MAX: u32 = 256 << 10;
/// Data of one command (MDTS), in bytes.
pub const TRANSFER_MAX: u32 = IO_BYTES_MAX as u32;
/// log2 of [`TRANSFER_MAX`] in pages of 4 KiB.
pub const MDTS: u8 = 8;
/// Data buffers that the commands of one connection hold, in bytes; beyond, commands wait (no R2T, no read) in their order.
pub const DATA_HELD_MAX: u32 = 8 << 20;
/// The same for an admin queue: one long log page, or many short answers.
pub const ADMIN_HELD_MAX: u32 = ADMIN_DATA_MAX;
/// The same for a queue whose host has still to authenticate: it may send authentication messages only, and nobody's quota holds it.
pub const UNAUTHENTICATED_HELD_MAX: u32 = 8 << 10;
/// In-capsule data of commands under way on one connection, in bytes; beyond, the connection is not read.
pub const CAPSULE_HELD_MAX: u32 = 4 << 20;
/// The same of commands on volumes with limits, which a limit may hold back with their data: the entries of the queue bound it, and the connection is
/// read on, so that commands on other volumes come.
pub const LIMITED_CAPSULES_MAX: u32 = QUEUE_ENTRIES_MAX as u32 * CAPSULE_DATA_MAX;
/// Responses that the peer has not taken, in bytes; beyond, the connection is not read.
pub const SEND_BACKLOG_MAX: usize = 256 << 10;
/// The same for a connection that is not known yet.
pub const UNAUTHENTICATED_BACKLOG_MAX: usize = 16 << 10;
/// Sends of a connection that the network has not taken.
pub const SENDS_MAX: u8 = 2;
/// Segments of one send.
pub const SEND_SEGMENTS_MAX: usize = 512;
/// Asynchronous Event Requests of a controller (AERL + 1).
pub const AER_MAX: usize = 4;
/// Events that wait for a request, each kind once.
pub const EVENTS_MAX: usize = 8;
/// Entries of the Error Information log of a controller (ELPE + 1).
pub const ERROR_ENTRIES_MAX: usize = 64;
/// Highest ANA group (ANAGRPMAX), and groups of a subsystem (NANAGRPID): one for each server of a cluster, and
/// one for what an owner does not serve.
pub const ANA_GROUPS_MAX: u32 = NODES_MAX as u32 + 1;
/// How long a namespace is in ANA Change at most (ANATT), in seconds.
pub const ANA_TRANSITION_S: u8 = 10;
/// Aborts at a time (ACL + 1).
pub const ABORT_MAX: u8 = 4;
/// Parts of one Dataset Management command that are under way.
pub const RANGES_UNDER_WAY_MAX: u16 = 16;
/// Source ranges of a Copy command (MSRC + 1).
pub const COPY_RANGES_MAX: usize = 128;
/// Bytes of one source range of a Copy command (MSSRL).
pub const COPY_RANGE_BYTES_MAX: u64 = 16 << 20;
/// Bytes of all source ranges of a Copy command (MCL).
pub const COPY_BYTES_MAX: u64 = 64 << 20;
/// Bytes that a Copy command reads and writes at a time: what it holds in memory.
pub const COPY_STEP_BYTES: u64 = 512 << 10;
/// Memory that a Verify command may hold while it runs, in bytes.
pub const VERIFY_HELD_MAX: u64 = object::router::VERIFY_PARTS_MAX as u64 * object::router::VERIFY_PART_BYTES;
/// Highest namespace ID (NN, MNAN).
pub const NAMESPACES_MAX: u32 = 1024;
/// Receive buffer of a connection that has not connected to a queue, in bytes.
pub const RECV_FRESH_BYTES: usize = 4 << 10;
/// Receive buffer of an admin queue, and of a connection whose bytes are thrown away, in bytes.
pub const RECV_ADMIN_BYTES: usize = 16 << 10;
/// Receive buffer of an I/O queue, in bytes.
pub const RECV_IO_BYTES: usize = 128 << 10;
/// The same while large data is asked for: of a PDU's data so much at most comes here and is copied, the rest lands where it belongs.
pub const RECV_LANDING_BYTES: usize = 16 << 10;
/// Data of a PDU that is still to come, in bytes, from which on it lands where it belongs.
pub const LAND_BYTES_MIN: u32 = 16 << 10;
/// From accept to a Connect command that succeeded.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(15);
/// From the first byte of a PDU, or of a TLS record, to its last, while the target reads.
pub const PDU_MAX: Duration = Duration::from_secs(30);
/// How long a Connect for a queue ID that is in use waits for the old queue to go.
pub const QUEUE_WAIT_MAX: Duration = Duration::from_secs(2);
/// Connects that wait so, on one core.
pub const QUEUE_WAITS_MAX: usize = 256;
/// Referrals to other discovery services.
pub const REFERRALS_MAX: usize = 16;
/// Discovery logs of which the generation is remembered (by host and address family).
pub const DISCOVERY_LOGS_MAX: usize = 4096;
/// Forms of the discovery log that are kept, and their bytes: one for each set of subsystems that hosts may use.
pub const DISCOVERY_KEPT_MAX: usize = 16;
/// See [`DISCOVERY_KEPT_MAX`].
pub const DISCOVERY_KEPT_BYTES_MAX: usize = 16 << 20;
/// Refusals that one core notes for the audit log between two looks at the deadlines; beyond, they are only counted.
pub const AUDIT_REFUSALS_A_TICK: u32 = 32;
/// Pieces of authentication work of one core that are away at a time; the others wait in their order.
pub const WORKS_OUT_MAX: usize = 2;
/// From a termination request to closing, for the peer to read it.
pub const LINGER_MAX: Duration = Duration::from_secs(2);
/// What is read and thrown away after a termination request, in bytes; beyond, the connection is closed at once.
pub const LINGER_BYTES_MAX: usize = 1 << 20;
/// Command retry delays, in units of 100 ms (CRDT1 to CRDT3). Linux tries a command five times more, each time after the delay.
pub const RETRY_DELAYS: [u16; 3] = [2, 10, 50];
/// What is ready soon, or would hold up a host that looks at what there is: 200 ms.
pub const RETRY_SOON: u8 = 1;
/// What takes a moment, such as a start of the daemon: 1 s.
pub const RETRY_IN_A_MOMENT: u8 = 2;
/// What somebody or something has to put right: 5 s, so that Linux waits for half a minute.
pub const RETRY_LATER: u8 = 3;
/// How often deadlines are looked at.
pub const TICK: Duration = Duration::from_millis(500);
/// Keep Alive granularity (KAS), in units of 100 ms.
pub const KAS: u16 = 10;
/// Longest Keep Alive Timeout, in milliseconds.
pub const KATO_MS_MAX: u32 = 24 * 3600 * 1000;
/// An admin queue of a discovery controller with no Keep Alive Timeout and no command for this long is closed.
pub const DISCOVERY_IDLE_MAX: Duration = Duration::from_secs(120);
/// Lowest controller ID.
pub const CNTLID_MIN: u16 = 1;
/// Highest controller ID (base 6.3: FFF0h and above are reserved).
pub const CNTLID_MAX: u16 = 0xFFEF;
/// Controller IDs of a node's slice: an equal part of all that are not reserved for each node of a cluster.
pub const SLICE_CONTROLLERS: u16 = (CNTLID_MAX - CNTLID_MIN + 1) / NODES_MAX as u16;
/// Controller IDs that are kept for static controllers, the topmost of the slice.
pub const STATIC_CONTROLLERS: u16 = 128;
/// Listeners of a node that discovery can tell apart: a port ID has 16 bits, and 6 of them are the node's slot.
pub const PORTS_MAX: u16 = 1 << 10;
/// Log pages and Identify data of one command, in bytes.
pub const ADMIN_DATA_MAX: u32 = TRANSFER_MAX;

const _: () = assert!(4096 << MDTS == TRANSFER_MAX);
/// Requests that all queues of a core may have with volumes at once.
pub const REQUESTS_MAX: usize = CONNECTIONS_MAX * QUEUE_ENTRIES_MAX as usize * RANGES_UNDER_WAY_MAX as usize;
const _: () = assert!(REQUESTS_MAX <= object::router::REQUESTS_MAX);
const _: () = assert!(TRANSFER_MAX <= DATA_HELD_MAX, "one command always fits the quota");
const _: () = assert!(HANDSHAKES_MAX + DISCOVERY_CONTROLLERS_MAX < CONNECTIONS_MAX / 2, "unauthenticated leave room for hosts");
const _: () = assert!(QUEUE_WAIT_MAX.as_nanos() < HANDSHAKE_MAX.as_nanos());
const _: () = assert!(MEMORY_BYTES_MAX >= HOST_MEMORY_BYTES_MAX);
const _: () = assert!(CAPSULE_DATA_MAX >= 8192 && CAPSULE_DATA_MAX.is_multiple_of(4096));
const _: () = assert!(RECV_FRESH_BYTES >= 128 && RECV_IO_BYTES <= rt::BUF_BYTES_MAX);
const _: () = assert!(COPY_RANGE_BYTES_MAX >> 9 <= u16::MAX as u64 && COPY_BYTES_MAX <= u32::MAX as u64, "MSSRL has 16 bits");
const _: () = assert!(COPY_STEP_BYTES + 4096 <= DATA_HELD_MAX as u64);
const _: () = assert!(NODES_MAX as u32 * PORTS_MAX as u32 <= 1 << 16, "port IDs");
const _: () = assert!(NODES_MAX.is_power_of_two() && NodeSlot::new(NODES_MAX).is_none());
const _: () = assert!(SLICE_CONTROLLERS == 1023 && STATIC_CONTROLLERS <= SLICE_CONTROLLERS / 2);
const _: () = assert!(VERIFY_HELD_MAX <= DATA_HELD_MAX as u64);
