//! Every limit of the front end, and the relations between them.

use base::Duration;
use base::unit::IO_BYTES_MAX;
use format::scsi::vpd::CopyLimits;

/// Connections of one core.
pub const CONNECTIONS_MAX: usize = 1024;
/// Connections of one core that have not logged in; beyond, the oldest makes room.
pub const LOGINS_MAX: usize = 256;
/// The same of one address (IPv6: of one /64 network).
pub const ADDRESS_LOGINS_MAX: u32 = 64;
/// Discovery sessions of one core: anybody may have them.
pub const DISCOVERIES_MAX: usize = 256;
/// Connections of one session.
pub const SESSION_CONNECTIONS_MAX: u32 = 8;
/// Connections of one host.
pub const HOST_CONNECTIONS_MAX: u32 = 256;
/// Memory for the data of one host's commands, in bytes.
pub const HOST_MEMORY_BYTES_MAX: u64 = 512 << 20;
/// Memory for the data of all hosts' commands, in bytes.
pub const MEMORY_BYTES_MAX: u64 = 2 << 30;
/// Commands of a session that are not for immediate delivery: its window.
pub const COMMANDS_MAX: u32 = 128;
/// Commands for immediate delivery beyond those.
pub const IMMEDIATE_MAX: usize = 8;
/// Data that one command moves, in bytes.
pub const TRANSFER_MAX: u32 = IO_BYTES_MAX as u32;
/// Blocks that WRITE SAME changes: as many as its 10-byte command can name.
pub const WRITE_SAME_BLOCKS_MAX: u64 = u16::MAX as u64;
/// log2 of the bytes of a threshold set, in which a thin volume's use of space is counted (SBC-3 4.7.3.7).
pub const THRESHOLD_SET_SHIFT: u32 = 20;
/// A host that has heard that space is low ([`frontend::SPACE_LOW_PERCENT`]) hears it again after there was as much, in percent.
pub const SPACE_ENOUGH_PERCENT: u64 = 22;
/// Blocks that UNMAP changes, over all of its ranges.
pub const UNMAP_BLOCKS_MAX: u64 = 1 << 20;
/// Ranges of UNMAP.
pub const UNMAP_RANGES_MAX: usize = 256;
/// Bytes of the list of REGISTER AND MOVE: more than the longest name of a port takes.
pub const MOVE_LIST_BYTES_MAX: usize = 512;
/// What one EXTENDED COPY may ask for. A segment has no other limit than its count of blocks, which has 16 bits.
pub const COPY_LIMITS: CopyLimits = CopyLimits {
    targets_max: 8,
    segments_max: 16,
    list_bytes_max: 8 * 32 + 16 * 28,
    segment_bytes_max: u16::MAX as u32 * 512,
    concurrent_max: COPIES_MAX as u8,
};
/// Copies of a session under way at once.
pub const COPIES_MAX: usize = 16;
/// Results of copies that a session keeps.
pub const COPIES_KEPT_MAX: usize = 16;
/// Bytes of the list of EXTENDED COPY that are looked at: more than any that is allowed.
pub const COPY_LIST_BYTES_MAX: u32 = 4096;
/// Data that commands of a session hold, in bytes, but for unsolicited data: beyond, they wait in their order.
pub const DATA_HELD_MAX: u64 = 8 << 20;
/// The same while its volumes and its host are fast: more would only push what is about to be sent or written out of the processor's cache. Where the
/// oldest command has held memory for longer it waits for a device or the network, and there may be more: a byte for each nanosecond.
pub const DATA_NEAR_MAX: u64 = 1 << 20;
/// MaxRecvDataSegmentLength: data of one PDU from a host, in bytes.
pub const SEGMENT_BYTES_MAX: usize = 256 << 10;
/// The same before a host has logged in: the standard's default.
pub const LOGIN_SEGMENT_BYTES_MAX: usize = 8192;
/// Text of one login or text exchange, over all of its PDUs, in bytes.
pub const TEXT_BYTES_MAX: usize = 16 << 10;
/// Login PDUs of one connection.
pub const LOGIN_PDUS_MAX: u32 = 32;
/// FirstBurstLength: unsolicited data of a command, in bytes. The window times this is what a session holds of it.
pub const FIRST_BURST_MAX: u32 = 64 << 10;
/// MaxBurstLength, in bytes.
pub const BURST_MAX: u32 = 1 << 20;
/// MaxOutstandingR2T: R2Ts of one command that are not answered.
pub const R2TS_MAX: u32 = 8;
/// Answers of a connection that the network has not taken; beyond, it is not read.
pub const OUT_MAX: usize = 512;
/// Bytes of one send, from which on it is not added to.
pub const SEND_BYTES: usize = 512 << 10;
/// Sends of a connection that the network has not taken.
pub const SENDS_MAX: u8 = 2;
/// Receive buffer of a connection, in bytes, before and after it has logged in.
pub const RECV_FRESH_BYTES: usize = 4 << 10;
/// See [`RECV_FRESH_BYTES`].
pub const RECV_BYTES: usize = 128 << 10;
/// Unit attentions of one unit that wait for a session.
pub const ATTENTIONS_MAX: usize = 8;
/// From accept to the last Login Response.
pub const LOGIN_TIME_MAX: Duration = Duration::from_secs(15);
/// From the first byte of a PDU to its last; and how long a command waits for those before it, which are to come on other connections.
pub const PDU_TIME_MAX: Duration = Duration::from_secs(30);
/// A host that is silent so long is asked whether it is there.
pub const PING_AFTER: Duration = Duration::from_secs(15);
/// A host that is silent so long is gone.
pub const SILENCE_MAX: Duration = Duration::from_secs(45);
/// How long a connection that is to be closed may take to send its last answers.
pub const LINGER_MAX: Duration = Duration::from_secs(5);
/// How often deadlines are looked at.
pub const TICK: Duration = Duration::from_millis(500);
/// A path whose owner cannot be reached is said to change its state for so long: a volume with copies has another owner by then. Then it is
/// unavailable.
pub const TRANSITION_MAX: Duration = Duration::from_secs(20);
/// LUNs of a target are below this: 1 to 1024 are the namespace IDs that a subsystem can have.
pub const UNITS_MAX: u32 = 1025;

const _: () = assert!(TRANSFER_MAX as u64 <= DATA_HELD_MAX, "one command always fits");
const _: () = assert!(COMMANDS_MAX as usize + IMMEDIATE_MAX < u16::MAX as usize);
/// Requests that all sessions of a core may have with volumes at once: one for each command.
pub const REQUESTS_MAX: usize = CONNECTIONS_MAX * (COMMANDS_MAX as usize + IMMEDIATE_MAX);
const _: () = assert!(REQUESTS_MAX <= object::router::REQUESTS_MAX);
