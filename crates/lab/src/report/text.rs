//! Numbers and names as people read them.
//!
//! Invariants: every text that comes from a file passes through here before it is shown; numbers keep three significant digits or more.
//! Never: a unit that the reader has to guess.

/// Whether a character can be shown: no control characters, none that turn the direction of what follows.
pub fn drawable(c: char) -> bool {
    !(c.is_control()
        || ('\u{202a}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c)
        || c == '\u{feff}'
        || ('\u{fffe}'..='\u{ffff}').contains(&c))
}

/// A text of one line from a file: what cannot be shown is replaced.
pub fn line(text: &str) -> String {
    text.chars().map(|c| if drawable(c) { c } else { '\u{fffd}' }).collect()
}

/// A text of several lines: as [`line`], but lines and tabs stay.
pub fn lines(text: &str) -> String {
    text.chars().filter(|&c| c != '\r').map(|c| if drawable(c) || c == '\n' || c == '\t' { c } else { '\u{fffd}' }).collect()
}

/// At most `max` characters, with an ellipsis where more were.
pub fn short(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.into();
    }
    let mut out: String = text.chars().take(max.saturating_sub(1)).collect();
    out.push('…');
    out
}

/// A number with thousands apart: 1,234,567 or 12.3 or 0.0123.
pub fn number(v: f64) -> String {
    if !v.is_finite() {
        return "–".into();
    }
    let a = v.abs();
    let digits = if a >= 100.0 || a == 0.0 {
        0
    } else if a >= 10.0 {
        1
    } else if a >= 1.0 {
        2
    } else {
        (2 - a.log10().floor() as i32).clamp(3, 6) as usize
    };
    grouped(&format!("{v:.digits$}"))
}

/// A whole number with thousands apart.
pub fn whole(v: u64) -> String {
    grouped(&v.to_string())
}

/// A number to whole thousands, for what is no more exact: 169,000.
pub fn rounded(v: f64) -> String {
    number((v / 1e3).round() * 1e3)
}

fn grouped(plain: &str) -> String {
    let (sign, rest) = plain.strip_prefix('-').map_or(("", plain), |r| ("-", r));
    let (int, frac) = rest.split_once('.').map_or((rest, None), |(i, f)| (i, Some(f)));
    let mut out = String::from(sign);
    for (i, c) in int.chars().enumerate() {
        if i > 0 && (int.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    if let Some(f) = frac {
        out.push('.');
        out.push_str(f);
    }
    out
}

/// A share as a percentage: "12.3 %".
pub fn percent(share: f64) -> String {
    if !share.is_finite() {
        return "–".into();
    }
    let p = share * 100.0;
    if p.abs() >= 99.95 || p == 0.0 { format!("{p:.0} %") } else { format!("{p:.1} %") }
}

/// A change as a percentage with its sign: "+4.2 %".
pub fn change(share: f64) -> String {
    if share.is_finite() { format!("{:+.1} %", share * 100.0) } else { "–".into() }
}

/// A time given in microseconds, with a unit that fits.
pub fn latency(us: f64) -> String {
    let (v, unit) = if us >= 1e6 {
        (us / 1e6, "s")
    } else if us >= 1e3 {
        (us / 1e3, "ms")
    } else {
        (us, "µs")
    };
    format!("{} {unit}", number(v))
}

/// The one unit that all latencies of a report are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub enum LatencyUnit {
    /// Microseconds.
    #[default]
    #[serde(rename = "µs")]
    Us,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Ms,
}

impl LatencyUnit {
    /// The one that suits typical latencies, given in microseconds, the longest of which decides.
    pub fn of(typical_us: impl IntoIterator<Item = f64>) -> LatencyUnit {
        if typical_us.into_iter().fold(0.0, f64::max) >= 1000.0 { LatencyUnit::Ms } else { LatencyUnit::Us }
    }
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            LatencyUnit::Us => "µs",
            LatencyUnit::Ms => "ms",
        }
    }
    /// How many microseconds it is.
    pub fn us(self) -> f64 {
        match self {
            LatencyUnit::Us => 1.0,
            LatencyUnit::Ms => 1000.0,
        }
    }
    /// A latency given in microseconds.
    pub fn text(self, us: f64) -> String {
        format!("{} {}", number(us / self.us()), self.name())
    }
}

/// Bytes, with a unit that fits.
pub fn bytes(v: f64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut v, mut i) = (v, 0);
    while v >= 1024.0 && i + 1 < units.len() {
        v /= 1024.0;
        i += 1;
    }
    if i == 0 || v.fract() == 0.0 { format!("{} {}", grouped(&format!("{v:.0}")), units[i]) } else { format!("{} {}", number(v), units[i]) }
}

/// Seconds as people say them: "45 s", "2 min 30 s", "1 h 5 min".
pub fn duration(s: f64) -> String {
    if s < 60.0 {
        return format!("{} s", if s.fract() == 0.0 { format!("{s:.0}") } else { number(s) });
    }
    let all = s.round() as u64;
    let (h, m, s) = (all / 3600, all / 60 % 60, all % 60);
    match (h, m, s) {
        (0, m, 0) => format!("{m} min"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, 0, _) => format!("{h} h"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

/// Seconds since 1970 as a date and time of UTC.
pub fn date(unix_s: u64) -> String {
    let name = crate::results::folder::time_name(unix_s.min(i64::MAX as u64));
    let (day, time) = name.split_once('T').unwrap_or((&name, ""));
    let minutes: Vec<&str> = time.split('-').take(2).collect();
    format!("{day} {} UTC", minutes.join(":"))
}

/// A number at the start of a label's value with its unit, for axes: "4 KiB" → 4096, "70 %" → 70, "8" → 8. None when it is a name.
pub fn parameter(value: &str) -> Option<f64> {
    let value = value.trim();
    let end = value.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(value.len());
    let v: f64 = value[..end].parse().ok()?;
    let unit = match value[end..].trim() {
        "" | "%" | "IOPS" | "s" | "ms" | "µs" | "GiB/s" | "MiB/s" => 1.0,
        "KiB" | "K" | "k" => 1024.0,
        "MiB" | "M" => 1_048_576.0,
        "GiB" | "G" => 1_073_741_824.0,
        "TiB" | "T" => 1_099_511_627_776.0,
        _ => return None,
    };
    Some(v * unit)
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
