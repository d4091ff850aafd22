//! Fixed places of little-endian numbers in byte strings, and the macro that asserts them.
//!
//! Never: knows a format.

/// Declares the fields of a structure: offset, name, size. Checked when compiling: each begins where the one before
/// ended, and the last ends where the structure ends, so reserved bytes must be declared too.
macro_rules! layout {
    ($name:ident: $total:literal bytes { $($at:literal: $field:ident [$len:literal]),* $(,)? }) => {
        #[allow(dead_code)]
        mod $name {
            $(pub const $field: usize = $at;)*
            pub const BYTES: usize = $total;
            const _: () = {
                let mut end = 0usize;
                $(
                    assert!(end == $at, "a field does not begin where the one before ended");
                    end += $len;
                )*
                assert!(end == $total, "the fields do not fill the structure");
            };
        }
    };
}

#[inline]
pub(crate) fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([b[at], b[at + 1]])
}
#[inline]
pub(crate) fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}
#[inline]
pub(crate) fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from(u32_at(b, at)) | u64::from(u32_at(b, at + 4)) << 32
}
pub(crate) fn array_at<const N: usize>(b: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&b[at..at + N]);
    out
}
#[inline]
pub(crate) fn put(b: &mut [u8], at: usize, bytes: &[u8]) {
    b[at..at + bytes.len()].copy_from_slice(bytes);
}
#[inline]
pub(crate) fn put_u16(b: &mut [u8], at: usize, v: u16) {
    put(b, at, &v.to_le_bytes());
}
#[inline]
pub(crate) fn put_u32(b: &mut [u8], at: usize, v: u32) {
    put(b, at, &v.to_le_bytes());
}
#[inline]
pub(crate) fn put_u64(b: &mut [u8], at: usize, v: u64) {
    put(b, at, &v.to_le_bytes());
}

/// CRC-32C of `b` without the four bytes at `at`, where the checksum itself lies.
pub(crate) fn crc_around(b: &[u8], at: usize) -> u32 {
    let mut crc = base::checksum::Crc32c::default();
    crc.update(&b[..at]);
    crc.update(&b[at + 4..]);
    crc.value()
}
