//! The reactor: one loop a core, with tasks, timers, buffers, devices, sockets and mailboxes. Two drivers: io_uring on Linux, and a
//! simulator in virtual time, for the same compiled code. See `docs/reactor.md`.
//!
//! Owns: every way in which the data plane touches the world.
//! Invariants: one completion an operation, which gives back the memory it took; completions are only ever queued, nothing of the
//! caller runs inside of a call to [`Rt`]; a simulated run is a function of its seed.
//! Never: knows what the bytes mean.

mod app;
mod buf;
mod descriptor;
mod device;
mod driver;
mod exec;
mod foreign;
mod foreign_error;
mod handle;
mod mailbox;
mod mapping;
mod net;
mod ops;
mod owned_conn;
mod queue;
pub mod sim;
mod stats;
pub mod sync;
mod unix;
mod uring;
mod waker;

pub use app::{App, Progress};
pub use buf::{BUF_ALIGN, BUF_BYTES_MAX, Buf, BufVec, FREE_BYTES_MAX, SEND_HEADER_BYTES_MAX, SendList, buffers_outstanding};
pub use descriptor::{DESCRIPTORS_MAX, Descriptor};
pub use device::{
    DEVICE_BYTES_MIN, Device, DeviceCounters, DeviceError, DeviceInfo, Durability, LATENCY_BUCKETS, LatencyHistogram, OpenError,
    OpenOptions,
};
pub use exec::{TASKS_MAX, TaskId};
pub use foreign::ForeignMemory;
pub use foreign_error::{FOREIGN_BYTES_MAX, ForeignError};
pub use handle::Rt;
pub use mailbox::{INBOX_DEPTH, Inbox, Inlet, InletError, MESH_CORES_MAX, MeshEnd, inbox, mesh};
pub use net::{ConnId, ListenerId, NetError, TimerId};
pub use owned_conn::OwnedConn;
pub use queue::{Completion, Event, Queue};
pub use stats::{CoreStats, Counter};
pub use unix::{EVENTS_MAX, EventId, UNIX_CONNS_MAX, UNIX_LISTENERS_MAX, UnixConnId, UnixListenerId};
pub use uring::{CORES_MAX, Cores, LaunchError, UringOptions, allowed_processors, launch, limits};
pub use waker::CoreWaker;
