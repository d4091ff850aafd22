//! `key=value` text of login and text PDUs (RFC 7143 6.1).
//!
//! Invariants: keys, values and their number are bounded; what is built parses to the same.

/// Most bytes of a key (6.1).
pub const KEY_BYTES_MAX: usize = 63;
/// Most bytes of a value here. The standard's own limit for most keys is 255; CHAP's and lists of names are longer.
pub const VALUE_BYTES_MAX: usize = 8192;
/// Most pairs of one text.
pub const PAIRS_MAX: usize = 64;

/// Why text is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// It is not UTF-8.
    #[error("text that is not UTF-8")]
    NotText,
    /// A pair has no `=`.
    #[error("a pair without '='")]
    NoValue,
    /// A key is none: empty, too long, or of other characters than letters, digits, `.`, `-`, `+`, `@`, `_`.
    #[error("a key that is none")]
    BadKey,
    /// A value is too long.
    #[error("a value that is too long")]
    LongValue,
    /// There are too many pairs.
    #[error("too many pairs")]
    TooMany,
}

/// The pairs of a text. Each ends with a zero byte; for the last one the end of the text will do.
///
/// # Errors
/// What is no such text, or more of it than the limits allow.
pub fn parse_pairs(b: &[u8]) -> Result<Vec<(&str, &str)>, TextError> {
    let mut pairs = Vec::new();
    for part in b.split(|v| *v == 0).filter(|p| !p.is_empty()) {
        if pairs.len() == PAIRS_MAX {
            return Err(TextError::TooMany);
        }
        let text = str::from_utf8(part).map_err(|_| TextError::NotText)?;
        let (key, value) = text.split_once('=').ok_or(TextError::NoValue)?;
        if !is_key(key) {
            return Err(TextError::BadKey);
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(TextError::LongValue);
        }
        pairs.push((key, value));
    }
    Ok(pairs)
}

fn is_key(key: &str) -> bool {
    let of_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '@' | '_');
    !key.is_empty() && key.len() <= KEY_BYTES_MAX && key.chars().all(of_key)
}

/// Adds a pair.
///
/// # Panics
/// In debug builds, when it would not parse to the same.
pub fn push_pair(out: &mut Vec<u8>, key: &str, value: &str) {
    debug_assert!(is_key(key) && !value.contains('\0') && value.len() <= VALUE_BYTES_MAX, "{key}={value}");
    for part in [key.as_bytes(), b"=", value.as_bytes(), b"\0"] {
        out.extend_from_slice(part);
    }
}
