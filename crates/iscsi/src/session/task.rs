//! A command under way.
//!
//! ```text
//!                                       ┌► Turn ─► Memory ─► Solicited ─┐
//!  command ─► Early (unsolicited data) ─┼──────────────────────────────►├─► Io, step by step ─► answered
//!                                       └► Turn ─► Memory (of a read) ──┘
//! A reservation command is with the control plane instead (Control).
//! ```
//!
//! Invariant: at most one request to the volume is under way for a task.

use super::copy::CopyRun;
use super::outcome::Outcome;
use crate::view::Unit;
use base::Instant;
use format::scsi::{LUN_BYTES, PersistentReserveOut};
use frontend::{CommandClass, RangeTrim};
use object::{VolumeRef, extents};
use rt::Buf;
use std::collections::VecDeque;

/// What is to be done.
#[derive(Debug)]
pub(super) enum Job {
    /// It is decided.
    Answer(Outcome),
    /// Read.
    Read { offset: u64, len: u32 },
    /// Write what was sent, then read it again when `verify`. `atomic`: all of it, or nothing.
    Write { offset: u64, len: u32, verify: bool, atomic: bool },
    /// Write blocks when others are there.
    CompareWrite { offset: u64, len: u32 },
    /// Read and compare with what was sent: all of it, or again and again the one block.
    Compare { offset: u64, len: u32 },
    /// Read the medium.
    Verify { offset: u64, len: u64 },
    /// Make durable what is not.
    Flush,
    /// Write a block again and again, from `at`.
    Same { at: u64, end: u64, unmap: bool, pattern: Option<Vec<u8>> },
    /// Unmap the ranges of the list that was sent.
    Unmap,
    /// Unmap what is left.
    Trim(RangeTrim),
    /// PERSISTENT RESERVE OUT, with the list that was sent.
    Reserve(PersistentReserveOut),
    /// RESERVE or RELEASE of the whole unit.
    Unit { take: bool },
    /// The list of MODE SELECT.
    ModeSelect { long: bool },
    /// The list of EXTENDED COPY.
    CopyList,
    /// Copy what it said, step by step.
    Copy(Box<CopyRun>),
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Unsolicited data comes.
    Early,
    /// It waits for its turn within the limits of the volume.
    Turn,
    /// It waits for memory.
    Memory,
    /// Data that was asked for comes.
    Solicited,
    /// A request is with the volume.
    Io,
    /// A control request is with the control plane.
    Control,
}

/// Data that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// The tag of the R2T.
    pub(super) transfer_tag: u32,
    /// Where it ends.
    pub(super) end: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Task {
    /// The connection that it came on, which is where it is answered.
    pub(super) wire: usize,
    pub(super) tag: u32,
    pub(super) lun: [u8; LUN_BYTES],
    /// `None`: it names no unit.
    pub(super) unit: Option<Unit>,
    pub(super) immediate: bool,
    /// Bytes that the host expects to get.
    pub(super) expected_in: u32,
    /// Bytes that the host has to send.
    pub(super) expected_out: u32,
    /// Bytes that the command would take from the host.
    pub(super) transfer_out: u64,
    /// Bytes that are taken from the host.
    pub(super) wanted: u32,
    pub(super) job: Job,
    /// As what it is counted: its job changes.
    pub(super) class: CommandClass,
    /// When it came.
    pub(super) since: Instant,
    pub(super) phase: Phase,
    pub(super) early: Vec<u8>,
    /// Bytes of unsolicited data that came, kept or not.
    pub(super) early_bytes: u32,
    /// A PDU of its data was lost: it fails when the host has sent the rest.
    pub(super) incomplete: bool,
    pub(super) parts: Vec<Buf>,
    /// Bytes that are in `parts`.
    pub(super) received: u32,
    /// What was asked for and has not come, in its order.
    pub(super) asked: VecDeque<Asked>,
    pub(super) r2t_sn: u32,
    pub(super) data_sn: u32,
    pub(super) held: u64,
    /// When it got its memory.
    pub(super) granted: Instant,
    pub(super) counted: bool,
    pub(super) aborted: bool,
}

impl Job {
    /// As what its command is counted. What was decided at once is no I/O.
    pub(super) fn class(&self) -> CommandClass {
        match self {
            Job::Read { .. } => CommandClass::Read,
            Job::Write { .. } | Job::CompareWrite { .. } => CommandClass::Write,
            Job::Compare { .. } | Job::Verify { .. } => CommandClass::Compare,
            Job::Flush => CommandClass::Flush,
            Job::Same { .. } | Job::Unmap | Job::Trim(_) => CommandClass::Deallocate,
            Job::Answer(_) | Job::Reserve(_) | Job::Unit { .. } | Job::ModeSelect { .. } | Job::CopyList | Job::Copy(_) => {
                CommandClass::Admin
            }
        }
    }
}

impl Task {
    /// Keeps a part of the unsolicited data, as far as it is wanted.
    pub(super) fn add_early(&mut self, data: &[u8]) {
        let room = (self.wanted as usize).saturating_sub(self.early.len());
        self.early.extend_from_slice(&data[..room.min(data.len())]);
    }
    /// Bytes that it holds in memory beyond unsolicited data, when it has all.
    pub(super) fn memory(&self) -> u64 {
        match self.job {
            Job::Read { len, .. } => len.into(),
            Job::Copy(ref run) => run.step_bytes(),
            _ => self.wanted.into(),
        }
    }
    /// The volume that its request is with.
    pub(super) fn volume(&self) -> Option<VolumeRef> {
        if let Job::Copy(run) = &self.job { run.volume() } else { self.unit.map(|u| u.volume) }
    }
    /// Whether data has to be asked for.
    pub(super) fn wants_more(&self) -> bool {
        self.wanted as usize > self.early.len() + self.received as usize
    }
    /// Takes memory for all of its data; what has come goes there.
    pub(super) fn make_room(&mut self) {
        self.parts = match self.job {
            Job::Write { offset, .. } => extents(offset, self.wanted).iter().map(|e| Buf::alloc(e.len as usize)).collect(),
            _ => vec![Buf::alloc(self.wanted as usize)],
        };
        let early = core::mem::take(&mut self.early);
        self.put(&early);
    }
    /// Puts data where `received` ends. It fits.
    pub(super) fn put(&mut self, mut data: &[u8]) {
        let mut at = self.received as usize;
        self.received += data.len() as u32;
        for part in &mut self.parts {
            if at >= part.len() {
                at -= part.len();
                continue;
            }
            let n = data.len().min(part.len() - at);
            part[at..at + n].copy_from_slice(&data[..n]);
            (data, at) = (&data[n..], 0);
        }
        debug_assert!(data.is_empty(), "what was asked for has room");
    }
    /// All that was sent, in one piece.
    pub(super) fn gathered(&mut self) -> Vec<u8> {
        let mut all = core::mem::take(&mut self.early);
        self.parts.drain(..).for_each(|p| all.extend_from_slice(&p));
        all
    }
}
