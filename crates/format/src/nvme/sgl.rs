//! SGL descriptors as fabrics commands carry them (base 4.1.2; TCP transport 3.4).

use super::Field;

/// What a descriptor says about where the data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SglKind {
    /// Data Block, subtype Offset: in the capsule, `offset` bytes into its data (fabrics in-capsule data).
    InCapsule {
        /// Bytes from the start of the in-capsule data.
        offset: u64,
        /// Bytes.
        len: u32,
    },
    /// Transport Data Block (type 5h subtype Ah): the transport moves it by its own means (TCP: data PDUs).
    Transport {
        /// Bytes.
        len: u32,
    },
    /// Any other type: not for this transport.
    Other {
        /// Bits 7:4 of byte 15.
        kind: u8,
        /// Bits 3:0 of byte 15.
        subtype: u8,
        /// Bytes.
        len: u32,
    },
}

/// A descriptor, 16 bytes. All zero is a Data Block with an address of 0 and no length: no data.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Sgl(pub [u8; 16]);

impl core::fmt::Debug for Sgl {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.kind().fmt(f)
    }
}

impl Sgl {
    /// Data in the capsule.
    pub fn in_capsule(offset: u64, len: u32) -> Self {
        Self::with(0x01, offset, len)
    }
    /// Data moved by the transport.
    pub fn transport(len: u32) -> Self {
        Self::with(0x5A, 0, len)
    }
    fn with(id: u8, address: u64, len: u32) -> Self {
        let mut b = [0; 16];
        address.put(&mut b);
        len.put(&mut b[8..]);
        b[15] = id;
        Self(b)
    }
    /// What it says.
    pub fn kind(&self) -> SglKind {
        let len = u32::get(&self.0[8..]);
        match self.0[15] {
            0x01 => SglKind::InCapsule { offset: u64::get(&self.0), len },
            0x5A => SglKind::Transport { len },
            id => SglKind::Other { kind: id >> 4, subtype: id & 15, len },
        }
    }
    /// Bytes of data it describes, whatever its kind.
    pub fn len(&self) -> u32 {
        u32::get(&self.0[8..])
    }
    /// Whether it describes no data.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
