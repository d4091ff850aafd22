//! Tables and lists of facts as plain text.
//!
//! Invariants: numbers stand right; nothing is cut off when the output is no terminal; a line has no spaces at its end.
//! Never: prints; that is [`crate::output`]'s.

use base::ByteSize;
use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, presets};

/// How a table is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// With the line of column names.
    pub headers: bool,
    /// With the columns that a narrow terminal has no room for.
    pub wide: bool,
    pub colour: bool,
    /// Columns of the terminal; `None`: nothing is wrapped.
    pub width: Option<u16>,
}

/// How a column is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Left,
    Right,
    /// A word that says how something is: coloured by what it says.
    State,
}

struct Column {
    name: String,
    kind: Kind,
    wide: bool,
    cells: Vec<String>,
}

/// Columns of text, and what each line is called.
pub struct Table {
    columns: Vec<Column>,
    names: Option<Vec<String>>,
    empty: String,
}

/// A table in the making: a line for each item.
pub struct Rows<'a, T> {
    items: &'a [T],
    table: Table,
}

impl<'a, T> Rows<'a, T> {
    /// Of these; `empty` is said when there are none.
    pub fn of(items: &'a [T], empty: impl Into<String>) -> Self {
        Self { items, table: Table { columns: Vec::new(), names: None, empty: empty.into() } }
    }
    fn column(mut self, name: &str, kind: Kind, cell: impl Fn(&T) -> String) -> Self {
        let cells = self.items.iter().map(cell).collect();
        self.table.columns.push(Column { name: name.to_uppercase(), kind, wide: false, cells });
        self
    }
    /// A column of words.
    pub fn left(self, name: &str, cell: impl Fn(&T) -> String) -> Self {
        self.column(name, Kind::Left, cell)
    }
    /// A column of numbers.
    pub fn right(self, name: &str, cell: impl Fn(&T) -> String) -> Self {
        self.column(name, Kind::Right, cell)
    }
    /// A column of states.
    pub fn state(self, name: &str, cell: impl Fn(&T) -> String) -> Self {
        self.column(name, Kind::State, cell)
    }
    /// The last column is one of `-o wide` only.
    pub fn wide(mut self) -> Self {
        if let Some(last) = self.table.columns.last_mut() {
            last.wide = true;
        }
        self
    }
    /// What `-q` prints of each, where that is not what the first column has.
    pub fn names(mut self, name: impl Fn(&T) -> String) -> Self {
        self.table.names = Some(self.items.iter().map(name).collect());
        self
    }
    /// The table.
    pub fn table(self) -> Table {
        self.table
    }
}

impl Table {
    /// What each line is called.
    pub fn names(&self) -> &[String] {
        let first = || self.columns.first().map_or(&[][..], |c| &c.cells);
        self.names.as_deref().unwrap_or_else(first)
    }

    /// As text, without a newline at its end; nothing where there is nothing to say.
    pub fn text(&self, style: Style) -> String {
        let columns: Vec<&Column> = self.columns.iter().filter(|c| style.wide || !c.wide).collect();
        let rows = columns.first().map_or(0, |c| c.cells.len());
        if rows == 0 {
            return if style.headers { self.empty.clone() } else { String::new() };
        }
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        match style.width {
            Some(width) => table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
            None => table.set_content_arrangement(ContentArrangement::Disabled),
        };
        if style.colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        let align = |kind: Kind| if kind == Kind::Right { CellAlignment::Right } else { CellAlignment::Left };
        if style.headers {
            table.set_header(columns.iter().map(|c| Cell::new(&c.name).set_alignment(align(c.kind)).add_attribute(Attribute::Bold)));
        }
        for row in 0..rows {
            table.add_row(columns.iter().map(|c| {
                let cell = Cell::new(&c.cells[row]).set_alignment(align(c.kind));
                match tone(&c.cells[row]).filter(|_| c.kind == Kind::State) {
                    Some(color) => cell.fg(color),
                    None => cell,
                }
            }));
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }
}

/// The colour of a state: nothing is said of what is well.
pub fn tone(state: &str) -> Option<Color> {
    let first = state.split([' ', ',', ':']).next().unwrap_or_default().to_ascii_lowercase();
    match first.as_str() {
        "error" | "offline" | "failed" | "down" | "lost" | "absent" | "degraded" => Some(Color::Red),
        "warning" | "stale" | "resyncing" | "no" | "partial" => Some(Color::Yellow),
        _ => None,
    }
}

/// Names and values, one a line, the values below each other, without a newline at the end.
pub fn facts_text(facts: &[(String, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let lines = facts.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| format!("{name:width$}  {value}"));
    lines.collect::<Vec<_>>().join("\n")
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

    const PLAIN: Style = Style { headers: true, wide: false, colour: false, width: None };

    fn sizes<'a>(items: &'a [(&'a str, &'a str)]) -> Rows<'a, (&'a str, &'a str)> {
        Rows::of(items, "none").left("name", |i| i.0.into()).right("size", |i| i.1.into())
    }

    #[test]
    fn columns_are_aligned_and_lines_end_without_spaces() {
        let items = [("db", "10 GiB"), ("a-longer-name", "1.50 TiB")];
        let table = sizes(&items).left("id", |i| i.0.to_uppercase()).wide().table();
        assert_eq!(table.text(PLAIN), "NAME               SIZE\ndb               10 GiB\na-longer-name  1.50 TiB");
        assert_eq!(table.text(Style { headers: false, ..PLAIN }), "db               10 GiB\na-longer-name  1.50 TiB");
        assert!(table.text(Style { wide: true, ..PLAIN }).ends_with("1.50 TiB  A-LONGER-NAME"));
        assert_eq!(table.names(), ["db", "a-longer-name"]);
    }

    #[test]
    fn a_narrow_terminal_is_not_overrun() {
        let long = "nqn.2026-11.io.basalt:a-rather-long-name ".repeat(4);
        let text = sizes(&[("db", &long)]).table().text(Style { width: Some(80), ..PLAIN });
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    }

    #[test]
    fn nothing_is_said_once_to_people_and_not_to_scripts() {
        let table = sizes(&[]).table();
        assert_eq!((table.text(PLAIN).as_str(), table.text(Style { headers: false, ..PLAIN }).as_str()), ("none", ""));
    }

    #[test]
    fn colours_are_there_only_where_they_are_wanted_and_only_on_states() {
        let items = [("error", "1"), ("b", "2")];
        let of = |colour| sizes(&items).state("state", |i| i.0.into()).table().text(Style { colour, ..PLAIN });
        assert!(!of(false).contains('\x1b'));
        assert_eq!(of(true).matches("error").count(), 2);
        assert_eq!(of(true).matches("\x1b[38;5;9m").count(), 1, "{:?}", of(true));
    }

    #[test]
    fn times_are_civil() {
        assert_eq!(time(0), "1970-01-01 00:00:00Z");
        assert_eq!(time(951_782_400), "2000-02-29 00:00:00Z");
        assert_eq!(time(1_795_301_761), "2026-11-21 22:56:01Z");
    }
}
