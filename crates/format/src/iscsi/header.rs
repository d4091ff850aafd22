//! The basic header segment: what all PDUs have in common (RFC 7143 11.2).

/// Bytes of a basic header segment.
pub const HEADER_BYTES: usize = 48;
/// Most bytes of additional header segments: the field counts words in 8 bits.
pub const AHS_BYTES_MAX: usize = 255 * 4;
/// Bytes of a digest.
pub const DIGEST_BYTES: usize = 4;
/// The tag that means none.
pub const NO_TAG: u32 = u32::MAX;

/// A basic header segment.
pub type Header = [u8; HEADER_BYTES];

/// Bytes that follow `len` bytes of data so that the next part begins at a multiple of four.
pub const fn pad_bytes(len: usize) -> usize {
    len.wrapping_neg() % 4
}

/// Why a header is no PDU of its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("operation code {opcode:02X}h is none of this direction")]
pub struct Malformed {
    /// The operation code.
    pub opcode: u8,
}

/// What the header says of the PDU as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Operation code, 6 bits.
    pub opcode: u8,
    /// For immediate delivery (I).
    pub immediate: bool,
    /// Bytes of additional header segments, a multiple of 4, at most [`AHS_BYTES_MAX`].
    pub ahs_bytes: usize,
    /// Bytes of the data segment without its padding, below 2^24.
    pub data_bytes: usize,
}

impl Parts {
    /// Of a header.
    pub fn parse(b: &Header) -> Self {
        let data = usize::from(b[5]) << 16 | usize::from(b[6]) << 8 | usize::from(b[7]);
        Self { opcode: b[0] & 0x3F, immediate: b[0] & 0x40 != 0, ahs_bytes: usize::from(b[4]) * 4, data_bytes: data }
    }
    /// Bytes of header segments with their digest.
    pub const fn head_bytes(&self, digest: bool) -> usize {
        HEADER_BYTES + self.ahs_bytes + if digest { DIGEST_BYTES } else { 0 }
    }
    /// Bytes of the data segment with its padding and its digest; an empty one has neither.
    pub const fn body_bytes(&self, digest: bool) -> usize {
        if self.data_bytes == 0 { 0 } else { self.data_bytes + pad_bytes(self.data_bytes) + if digest { DIGEST_BYTES } else { 0 } }
    }
}

/// Sets the length of the data segment.
///
/// # Panics
/// In debug builds, when it does not fit the field.
pub(super) fn put_data_bytes(b: &mut Header, bytes: usize) {
    debug_assert!(bytes < 1 << 24, "a data segment of {bytes} bytes");
    b[5..8].copy_from_slice(&(bytes as u32).to_be_bytes()[1..]);
}

/// A value at a place of a header.
pub(super) trait Field: Copy {
    fn get(b: &Header, at: usize) -> Self;
    fn put(self, b: &mut Header, at: usize);
}
macro_rules! numbers {
    ($($t:ty),*) => {$(impl Field for $t {
        #[inline]
        fn get(b: &Header, at: usize) -> Self {
            Self::from_be_bytes(Field::get(b, at))
        }
        #[inline]
        fn put(self, b: &mut Header, at: usize) {
            self.to_be_bytes().put(b, at);
        }
    })*};
}
numbers!(u8, u16, u32);
impl<const N: usize> Field for [u8; N] {
    #[inline]
    fn get(b: &Header, at: usize) -> Self {
        let mut out = [0; N];
        out.copy_from_slice(&b[at..at + N]);
        out
    }
    #[inline]
    fn put(self, b: &mut Header, at: usize) {
        b[at..at + N].copy_from_slice(&self);
    }
}

/// A PDU's header: flags and small numbers of byte 1, and fields by the byte that they begin at. `fixed` is what byte 1 always has.
macro_rules! pdu {
    ($(#[$meta:meta])* $name:ident = $opcode:literal, fixed $fixed:literal;
     flags { $($(#[$flag_meta:meta])* $flag:ident = $mask:literal,)* }
     bits { $($(#[$bits_meta:meta])* $bits:ident = $bits_mask:literal << $shift:literal,)* }
     fields { $($(#[$field_meta:meta])* $at:literal $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$flag_meta])* pub $flag: bool,)*
            $($(#[$bits_meta])* pub $bits: u8,)*
            $($(#[$field_meta])* pub $field: $type,)*
        }
        impl $name {
            /// Its operation code.
            pub const OPCODE: u8 = $opcode;
            /// From a header with this operation code.
            #[inline]
            pub fn parse(b: &$crate::iscsi::Header) -> Self {
                Self {
                    $($flag: b[1] & $mask != 0,)*
                    $($bits: b[1] >> $shift & $bits_mask,)*
                    $($field: <$type as $crate::iscsi::header::Field>::get(b, $at),)*
                }
            }
            /// The header of a PDU with so many bytes of data, below 2^24.
            #[inline]
            pub fn to_header(self, data_bytes: usize) -> $crate::iscsi::Header {
                let mut b = [0; $crate::iscsi::HEADER_BYTES];
                b[0] = $opcode;
                b[1] = $fixed $(| if self.$flag { $mask } else { 0 })* $(| (self.$bits & $bits_mask) << $shift)*;
                $($crate::iscsi::header::Field::put(self.$field, &mut b, $at);)*
                $crate::iscsi::header::put_data_bytes(&mut b, data_bytes);
                b
            }
        }
    };
}
pub(super) use pdu;

/// All PDUs of a direction.
macro_rules! direction {
    ($(#[$meta:meta])* $name:ident { $($(#[$v_meta:meta])* $variant:ident($type:ident),)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$v_meta])* $variant($type),)* }
        impl $name {
            /// From a header.
            ///
            /// # Errors
            /// An operation code that no PDU of this direction has.
            #[inline]
            pub fn parse(b: &$crate::iscsi::Header) -> Result<Self, $crate::iscsi::Malformed> {
                match b[0] & 0x3F {
                    $($type::OPCODE => Ok(Self::$variant($type::parse(b))),)*
                    opcode => Err($crate::iscsi::Malformed { opcode }),
                }
            }
            /// Its header, with so many bytes of data, below 2^24. Not marked for immediate delivery.
            pub fn to_header(self, data_bytes: usize) -> $crate::iscsi::Header {
                match self { $(Self::$variant(pdu) => pdu.to_header(data_bytes),)* }
            }
        }
    };
}
pub(super) use direction;
