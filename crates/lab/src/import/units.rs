//! Sizes, times and numbers as vdbench and fio write them.
//!
//! Invariant: what is not wholly understood is None; nothing overflows.

/// Splits a number from what follows it.
fn split(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    (number.is_finite() && number < 1e18).then(|| (number, text[end..].trim().to_ascii_lowercase()))
}

/// Bytes: 4096, 4k, 1m, 2g, 4kib. A kilobyte has 1024 bytes in both tools.
pub fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let power = match unit.as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 1,
        "m" | "mb" | "mib" => 2,
        "g" | "gb" | "gib" => 3,
        "t" | "tb" | "tib" => 4,
        "p" | "pb" | "pib" => 5,
        _ => return None,
    };
    let bytes = number * 1024f64.powi(power);
    (bytes < 9e18).then_some(bytes as u64)
}

/// A transfer size: bytes that fit our model.
pub fn transfer(text: &str) -> Option<u32> {
    bytes(text).and_then(|b| u32::try_from(b).ok())
}

/// Seconds: 30, 30s, 5m, 2h, 1d, 500ms. A number alone counts in seconds.
pub fn seconds(text: &str) -> Option<f64> {
    let (number, unit) = split(text)?;
    let factor = match unit.as_str() {
        "" | "s" | "sec" | "second" | "seconds" => 1.0,
        "us" => 1e-6,
        "ms" => 1e-3,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    };
    Some(number * factor)
}

/// A number with nothing behind it but perhaps k or m for thousands and millions.
pub fn number(text: &str) -> Option<f64> {
    let (number, unit) = split(text)?;
    match unit.as_str() {
        "" => Some(number),
        "k" => Some(number * 1e3),
        "m" => Some(number * 1e6),
        _ => None,
    }
}

/// A percentage, 0 to 100, as a share; the sign is not needed.
pub fn share(text: &str) -> Option<f64> {
    let v: f64 = text.trim().trim_end_matches('%').trim().parse().ok()?;
    (0.0..=100.0).contains(&v).then_some(v / 100.0)
}
