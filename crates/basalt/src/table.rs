//! Tables and key-value lists on a terminal, and plain text when piped.
//!
//! Invariants: numbers stand right; nothing is cut off when the output is no terminal.

use base::ByteSize;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use std::io::{IsTerminal, stdout};

/// Where a column stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}
pub use Side::{Left, Right};

/// A table without lines: header in capitals, two spaces between columns.
pub fn print(columns: &[(&str, Side)], rows: Vec<Vec<String>>, empty: &str) {
    if rows.is_empty() {
        println!("{empty}");
        return;
    }
    println!("{}", render(columns, rows, width()));
}

/// The width of the terminal; `None` when the output is no terminal: nothing is wrapped then.
fn width() -> Option<u16> {
    stdout().is_terminal().then(|| comfy_table::Table::new().width().unwrap_or(100))
}

fn render(columns: &[(&str, Side)], rows: Vec<Vec<String>>, width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    match width {
        Some(width) => table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
        None => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    let cell =
        |text: &str, side: Side| Cell::new(text).set_alignment(if side == Right { CellAlignment::Right } else { CellAlignment::Left });
    table.set_header(columns.iter().map(|(name, side)| cell(&name.to_uppercase(), *side)));
    for row in rows {
        table.add_row(row.iter().zip(columns).map(|(text, (_, side))| cell(text, *side)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Names and values, one a line, the values below each other.
pub fn facts(facts: &[(&str, String)]) {
    let width = facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in facts.iter().filter(|(_, v)| !v.is_empty()) {
        println!("{name:width$}  {value}");
    }
}

/// A size as people read it.
pub fn size(bytes: u64) -> String {
    ByteSize(bytes).to_string()
}

/// A part of a whole, in percent.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{:.0} %", part as f64 * 100.0 / whole as f64) }
}

/// How long, in the largest unit that fits.
pub fn duration(seconds: u64) -> String {
    match seconds {
        s if s >= 2 * 86_400 => format!("{} days", s / 86_400),
        s if s >= 2 * 3600 => format!("{} h", s / 3600),
        s if s >= 120 => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}

/// Seconds since 1970 as UTC: `2026-11-21 22:56:01Z`.
pub fn time(unix_s: u64) -> String {
    let (days, s) = ((unix_s / 86_400) as i64, unix_s % 86_400);
    // from days to a civil date: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms"
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}Z", s / 3600, s / 60 % 60, s % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_end_without_spaces() {
        let rows = vec![vec!["db".into(), "10 GiB".into()], vec!["a-longer-name".into(), "1.50 TiB".into()]];
        let text = render(&[("name", Left), ("size", Right)], rows, None);
        assert_eq!(text, "NAME               SIZE\ndb               10 GiB\na-longer-name  1.50 TiB");
    }

    #[test]
    fn a_narrow_terminal_is_not_overrun() {
        let rows = vec![vec!["db".into(), "nqn.2026-11.io.basalt:a-rather-long-name ".repeat(4)]];
        let text = render(&[("name", Left), ("nqn", Left)], rows, Some(80));
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    }

    #[test]
    fn times_are_civil() {
        assert_eq!(time(0), "1970-01-01 00:00:00Z");
        assert_eq!(time(951_782_400), "2000-02-29 00:00:00Z");
        assert_eq!(time(1_795_301_761), "2026-11-21 22:56:01Z");
    }
}
