//! The driver for production: Linux, io_uring for devices, plain sockets for the network, a thread a core.
//!
//! Owns: everything that touches the kernel.
//! Invariant: `unsafe` is for system calls and memory that the kernel or several cores share, each block with its reason.
//! Never: used by the simulator.

// This is where the clock, threads and the file system of the machine come in; the rest of the data plane gets them from here.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod core;
mod deferred;
mod device_file;
mod device_memory;
mod launch;
mod launch_error;
pub mod limits;
mod local;
mod net;
mod reactor;
mod ring;
mod spin;
mod sys;
mod sys_unix;
mod timers;
mod waker;

pub(crate) use core::Core;
pub(crate) use device_file::FileDevice;
pub(crate) use device_memory::MemoryDevice;
pub use launch::{Cores, UringOptions, launch};
pub use launch_error::{CORES_MAX, LaunchError};
pub(crate) use net::OwnedSocket;
pub use sys::allowed_processors;
pub(crate) use waker::Waker;
