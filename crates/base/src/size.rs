//! Sizes as people write them: `10GiB`, `600GB`, `4096`.

use core::{fmt, str::FromStr};

/// A number of bytes. Parses `4096`, `64KiB`, `10GiB`, `1.5TiB`, `600GB` (decimal); a lone `K`, `M`, `G`, `T` is binary.
/// Prints the largest binary unit that leaves a whole number or up to two decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct ByteSize(pub u64);

/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseSizeError {
    /// No number in front.
    #[error("'{0}' is not a size: write a number and a unit, such as 10GiB or 600GB")]
    NotANumber(String),
    /// The unit is not known.
    #[error("unknown unit in '{0}': use B, KiB, MiB, GiB, TiB, PiB (powers of 1024) or KB, MB, GB, TB, PB (powers of 1000)")]
    UnknownUnit(String),
    /// More than 2^64 - 1 bytes, or a part of a byte.
    #[error("'{0}' is out of range")]
    OutOfRange(String),
}

impl FromStr for ByteSize {
    type Err = ParseSizeError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let s = text.trim();
        let split = s.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(s.len());
        let (number, unit) = (&s[..split], s[split..].trim().to_ascii_lowercase());
        if number.is_empty() {
            return Err(ParseSizeError::NotANumber(text.into()));
        }
        let factor: u128 = match unit.as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "p" | "pib" => 1 << 50,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            "pb" => 1_000_000_000_000_000,
            _ => return Err(ParseSizeError::UnknownUnit(text.into())),
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let bad = || ParseSizeError::NotANumber(text.into());
        let range = || ParseSizeError::OutOfRange(text.into());
        if whole.is_empty() && part.is_empty() || part.len() > 9 || whole.len() > 20 {
            return Err(bad());
        }
        let digits: u128 = format!("{whole}{part}").parse().map_err(|_| bad())?;
        let scale = 10u128.pow(part.len() as u32);
        let bytes = digits.checked_mul(factor).ok_or_else(range)? / scale;
        u64::try_from(bytes).map(ByteSize).map_err(|_| range())
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 5] = [("PiB", 1 << 50), ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        for (name, unit) in UNITS {
            if self.0 >= unit {
                let text = if self.0.is_multiple_of(unit) {
                    format!("{} {name}", self.0 / unit)
                } else {
                    // To the nearest hundredth that is still a size: the largest of all would round to 16384 PiB, which is none.
                    let (unit, most) = (u128::from(unit), u128::from(u64::MAX));
                    let hundredths = ((u128::from(self.0) * 100 + unit / 2) / unit).min(most * 100 / unit);
                    format!("{}.{:02} {name}", hundredths / 100, hundredths % 100)
                };
                return f.pad(&text);
            }
        }
        f.pad(&format!("{} B", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_people_write_them() {
        for (text, bytes) in [
            ("4096", 4096),
            ("10GiB", 10 << 30),
            ("10 gib", 10 << 30),
            ("10G", 10 << 30),
            ("600GB", 600_000_000_000),
            ("1.5TiB", 3 << 39),
            ("0.5k", 512),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_said_to_be_none() {
        for text in ["", "GiB", "-5GiB", "1.2.3K", "5 apples", "99999999999P", "."] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
        assert_eq!("much".parse::<ByteSize>(), Err(ParseSizeError::NotANumber("much".into())), "it has no unit that could be unknown");
        assert_eq!("5 apples".parse::<ByteSize>(), Err(ParseSizeError::UnknownUnit("5 apples".into())));
    }

    #[test]
    fn sizes_print_short_and_read_back() {
        assert_eq!(ByteSize(10 << 30).to_string(), "10 GiB");
        assert_eq!(ByteSize(1536 << 20).to_string(), "1.50 GiB");
        assert_eq!(ByteSize(0).to_string(), "0 B");
        assert_eq!("1.50 GiB".parse(), Ok(ByteSize(1536 << 20)));
        assert_eq!(ByteSize((1 << 30) - 1).to_string(), "1024.00 MiB");
    }

    #[test]
    fn the_largest_sizes_read_back_too() {
        for bytes in [u64::MAX, u64::MAX - (1 << 43), u64::MAX - (1 << 44)] {
            let text = ByteSize(bytes).to_string();
            let again: ByteSize = text.parse().unwrap_or_else(|e| panic!("{e}"));
            assert!(bytes.abs_diff(again.0) < 1 << 44, "{bytes}: {text}");
        }
        assert_eq!(ByteSize(u64::MAX).to_string(), "16383.99 PiB");
    }
}
