//! Text in fixed fields: space-padded ASCII (base 1.4.2) and NUL-padded UTF-8 names (base 4.5).
//!
//! Never: panics on what a peer wrote.

/// Bytes of a field that holds an NQN.
pub const NQN_FIELD_BYTES: usize = 256;
/// Longest NQN in bytes, without the NUL (base 4.5).
pub const NQN_BYTES_MAX: usize = 223;

/// `text` as space-padded ASCII, cut to `N`; what is not printable ASCII becomes `?`.
pub fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut out = [b' '; N];
    for (to, from) in out.iter_mut().zip(text.bytes()) {
        *to = if (0x20..0x7F).contains(&from) { from } else { b'?' };
    }
    out
}

/// The text of a space-padded field; what is not printable ASCII becomes `?`.
pub fn trimmed(field: &[u8]) -> String {
    let text: String = field.iter().map(|&b| if (0x20..0x7F).contains(&b) { b as char } else { '?' }).collect();
    text.trim_end().to_owned()
}

/// `text` NUL-padded in `N` bytes, cut so that one NUL stays.
pub fn terminated<const N: usize>(text: &str) -> [u8; N] {
    let mut out = [0; N];
    let mut len = text.len().min(N - 1);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    out[..len].copy_from_slice(&text.as_bytes()[..len]);
    out
}

/// The text before the first NUL; `None` when there is no NUL or it is not UTF-8.
pub fn until_nul(field: &[u8]) -> Option<&str> {
    let end = field.iter().position(|&b| b == 0)?;
    core::str::from_utf8(&field[..end]).ok()
}

/// An NQN in its 256-byte field.
pub fn nqn_field(nqn: &str) -> [u8; NQN_FIELD_BYTES] {
    terminated(nqn)
}

/// The NQN in a field: terminated, UTF-8, 1 to [`NQN_BYTES_MAX`] bytes, in the form `nqn.yyyy-mm.…` (base 4.5). `None` otherwise.
pub fn nqn_of(field: &[u8]) -> Option<&str> {
    until_nul(field).filter(|nqn| is_nqn(nqn))
}

/// Whether `nqn` has the form of an NQN: `nqn.yyyy-mm.` and a name, no control characters, at most [`NQN_BYTES_MAX`] bytes.
pub fn is_nqn(nqn: &str) -> bool {
    let b = nqn.as_bytes();
    let digits = |r: core::ops::Range<usize>| b[r].iter().all(u8::is_ascii_digit);
    b.len() > 12
        && b.len() <= NQN_BYTES_MAX
        && b.starts_with(b"nqn.")
        && digits(4..8)
        && b[8] == b'-'
        && digits(9..11)
        && b[11] == b'.'
        && !nqn.chars().any(char::is_control)
}
