//! A table of fields becomes a structure that parses and writes itself.
//!
//! Invariants: fields ascend and do not overlap (checked when this compiles); bytes between fields are written as zero.
//! Never: casts memory.

/// A value of fixed length in little-endian bytes.
pub trait Field: Sized {
    /// Its length in bytes.
    const LEN: usize;
    /// All bytes zero.
    const ZERO: Self;
    /// From the first [`Self::LEN`] bytes of `b`. Panics when there are fewer.
    fn get(b: &[u8]) -> Self;
    /// Into the first [`Self::LEN`] bytes of `b`. Panics when there are fewer.
    fn put(&self, b: &mut [u8]);
}

macro_rules! int_field {
    ($($t:ty)*) => {$(
        impl Field for $t {
            const LEN: usize = size_of::<$t>();
            const ZERO: Self = 0;
            fn get(b: &[u8]) -> Self {
                let mut bytes = [0; size_of::<$t>()];
                bytes.copy_from_slice(&b[..size_of::<$t>()]);
                <$t>::from_le_bytes(bytes)
            }
            fn put(&self, b: &mut [u8]) {
                b[..size_of::<$t>()].copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
int_field!(u8 u16 u32 u64 u128);

impl<const N: usize> Field for [u8; N] {
    const LEN: usize = N;
    const ZERO: Self = [0; N];
    fn get(b: &[u8]) -> Self {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&b[..N]);
        bytes
    }
    fn put(&self, b: &mut [u8]) {
        b[..N].copy_from_slice(self);
    }
}

/// `layout! { Name[bytes] { offset field: type, .. } }`
macro_rules! layout {
    ($(#[$meta:meta])* $name:ident[$len:expr] { $( $(#[$field_meta:meta])* $at:literal $field:ident: $type:ty ),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $type ),*
        }
        impl $name {
            /// Its length in bytes.
            pub const LEN: usize = $len;
            /// From its bytes; `None` when there are fewer than [`Self::LEN`]. Reserved bytes are passed over.
            pub fn parse(b: &[u8]) -> Option<Self> {
                let b = b.get(..Self::LEN)?;
                Some(Self { $( $field: <$type as $crate::nvme::Field>::get(&b[$at..]) ),* })
            }
            /// Into the first [`Self::LEN`] bytes of `out`, reserved bytes zero. Panics when there are fewer.
            pub fn write(&self, out: &mut [u8]) {
                let out = &mut out[..Self::LEN];
                out.fill(0);
                $( $crate::nvme::Field::put(&self.$field, &mut out[$at..]); )*
            }
            /// Its bytes.
            pub fn to_bytes(&self) -> [u8; $len] {
                let mut out = [0; $len];
                self.write(&mut out);
                out
            }
        }
        impl Default for $name {
            /// All bytes zero.
            fn default() -> Self {
                Self { $( $field: <$type as $crate::nvme::Field>::ZERO ),* }
            }
        }
        const _: () = {
            let mut _end = 0usize;
            $( assert!($at >= _end, "fields ascend"); _end = $at + <$type as $crate::nvme::Field>::LEN; )*
            assert!(_end <= $len, "fields fit");
        };
    };
}
