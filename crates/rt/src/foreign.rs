//! Memory of another program, such as a guest's: [`ForeignMemory`].
//!
//! Owns: the mapping, as long as a handle lives, whatever becomes of the descriptor.
//! Invariants: accesses are checked against its length; its bytes are copied in and out, and never seen as a slice: the other program can change
//! them at any time. Who decides by a value reads it once and decides by the copy.
//! Never: gives its bytes to a device. What a checksum was computed of must be what is written, and what is verified must be what is sent on:
//! with bytes that somebody else can change in between, a guest could make sound data look damaged.

use crate::descriptor::{Descriptor, DescriptorInner};
use crate::foreign_error::ForeignError;
use crate::mapping::Mapping;
use crate::sim::refs::SimPassed;
use crate::{BUF_BYTES_MAX, Buf};
use std::sync::Arc;

/// Memory shared with another program. A clone is the same memory. It can be used by every core.
#[derive(Clone)]
pub struct ForeignMemory {
    mapping: Arc<Mapping>,
    start: usize,
    bytes: usize,
}

impl ForeignMemory {
    /// Maps `bytes` of what a descriptor refers to, from `offset` on (a multiple of the page). It must be a memory file of ordinary pages that is
    /// sealed against being made shorter (`F_SEAL_SHRINK`), and as long.
    pub fn map(descriptor: &Descriptor, offset: u64, bytes: u64) -> Result<ForeignMemory, ForeignError> {
        match &descriptor.0 {
            DescriptorInner::Os(fd) => {
                Ok(ForeignMemory { mapping: Arc::new(Mapping::of(fd, offset, bytes)?), start: 0, bytes: bytes as usize })
            }
            DescriptorInner::Sim(sim) => {
                let SimPassed::Memory(mapping) = &sim.what else { return Err(ForeignError::WrongDescriptor) };
                let size = mapping.bytes() as u64;
                if bytes == 0 {
                    return Err(ForeignError::Length { bytes });
                }
                if offset.checked_add(bytes).is_none_or(|end| end > size) {
                    return Err(ForeignError::BeyondEnd { offset, bytes, size });
                }
                Ok(ForeignMemory { mapping: Arc::clone(mapping), start: offset as usize, bytes: bytes as usize })
            }
        }
    }

    /// How many bytes there are: at least one.
    #[allow(clippy::len_without_is_empty)] // it is never empty
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Where `len` bytes from `at` on lie in the mapping.
    fn place(&self, at: usize, len: usize) -> Result<usize, ForeignError> {
        if at.checked_add(len).is_none_or(|end| end > self.bytes) {
            return Err(ForeignError::OutOfRange);
        }
        Ok(self.start + at)
    }

    /// Copies the bytes from `at` on into `to`. What the other program changes meanwhile comes old or new, byte by byte.
    pub fn read(&self, at: usize, to: &mut [u8]) -> Result<(), ForeignError> {
        self.mapping.read(self.place(at, to.len())?, to)
    }

    /// A buffer with a copy of `len` bytes from `at` on; [`ForeignError::OutOfRange`] also above [`BUF_BYTES_MAX`].
    pub fn read_buf(&self, at: usize, len: usize) -> Result<Buf, ForeignError> {
        self.place(at, len)?;
        if len > BUF_BYTES_MAX {
            return Err(ForeignError::OutOfRange);
        }
        let mut buf = Buf::alloc(len);
        self.read(at, &mut buf)?;
        Ok(buf)
    }

    /// Copies `from` to `at` and on.
    pub fn write(&self, at: usize, from: &[u8]) -> Result<(), ForeignError> {
        self.mapping.write(self.place(at, from.len())?, from)
    }

    /// The two bytes at `at` (a multiple of 2), in the machine's order. What the other program wrote before it stored them is seen by what is read
    /// after this (acquire).
    pub fn load_u16(&self, at: usize) -> Result<u16, ForeignError> {
        self.mapping.load_u16(self.place(at, 2)?)
    }

    /// Stores two bytes at `at` (a multiple of 2), in the machine's order. Who loads them sees what was written here before (release).
    pub fn store_u16(&self, at: usize, value: u16) -> Result<(), ForeignError> {
        self.mapping.store_u16(self.place(at, 2)?, value)
    }
}

impl core::fmt::Debug for ForeignMemory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "ForeignMemory({} bytes)", self.bytes)
    }
}

#[cfg(test)]
#[path = "foreign_tests.rs"]
mod tests;
