//! The one way from an answer to what is printed: a table, a wider one, JSON, YAML, or names alone.
//!
//! Invariants: JSON and YAML are what the API gives; what is for people is a [`Page`], which says as well what it is called; colours go to terminals only.
//! Never: decides what a page says; that is [`crate::show`]'s.

use crate::table::{Rows, Style, Table, facts_text, tone};
use serde::Serialize;
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{IsTerminal, stdout};

/// What is printed.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people
    #[default]
    Table,
    /// For people, with more columns
    Wide,
    /// As the API gives it
    Json,
    /// The same as YAML
    Yaml,
}

/// How a command prints.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    format: Format,
    names_only: bool,
    style: Style,
}

/// What is printed for a person: text, facts and tables, one below the other.
#[derive(Default)]
pub struct Page {
    parts: Vec<Part>,
    names: Option<Vec<String>>,
}

enum Part {
    Line(String),
    Facts(Vec<(String, String)>),
    Table(Table),
}

impl Page {
    pub fn new() -> Self {
        Self::default()
    }
    /// A line, or some.
    pub fn line(mut self, text: impl Into<String>) -> Self {
        self.parts.push(Part::Line(text.into()));
        self
    }
    /// Names and values; one without a value is left out.
    pub fn facts<'a>(mut self, facts: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        self.parts.push(Part::Facts(facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()));
        self
    }
    /// A table.
    pub fn rows<T>(mut self, rows: Rows<'_, T>) -> Self {
        self.parts.push(Part::Table(rows.table()));
        self
    }
    /// What `-q` prints, where that is neither the first fact nor what the first table's lines are called.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.names.get_or_insert_default().push(name.into());
        self
    }

    fn names(&self) -> Vec<String> {
        let first = |part: &Part| match part {
            Part::Line(_) => None,
            Part::Facts(facts) => Some(facts.first().map(|(_, value)| value.clone()).into_iter().collect()),
            Part::Table(table) => Some(table.names().to_vec()),
        };
        self.names.clone().or_else(|| self.parts.iter().find_map(first)).unwrap_or_default()
    }

    /// Facts and tables begin below an empty line, where something is above them.
    fn text(&self, style: Style) -> String {
        let mut text = String::new();
        for part in &self.parts {
            let (said, apart) = match part {
                Part::Line(line) => (line.clone(), false),
                Part::Facts(facts) => (facts_text(facts), true),
                Part::Table(table) => (table.text(style), true),
            };
            // A line may be empty; a table of nothing that says nothing is not there.
            if said.is_empty() && apart {
                continue;
            }
            if apart && !text.is_empty() {
                text.push('\n');
            }
            text += &said;
            text.push('\n');
        }
        text
    }
}

impl<T> From<Rows<'_, T>> for Page {
    fn from(rows: Rows<'_, T>) -> Self {
        Self::new().rows(rows)
    }
}

/// Whether colours are wanted: NO_COLOR (no-color.org) and dumb terminals want none.
fn wants_colour(terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    terminal && no_color.is_none_or(OsStr::is_empty) && term != Some(OsStr::new("dumb"))
}

impl Output {
    /// As the command line wants it.
    pub fn new(format: Format, headers: bool, names_only: bool) -> Self {
        let terminal = stdout().is_terminal();
        let width = terminal.then(|| comfy_table::Table::new().width().unwrap_or(100));
        let colour = wants_colour(terminal, std::env::var_os("NO_COLOR").as_deref(), std::env::var_os("TERM").as_deref());
        Self { format, names_only, style: Style { headers, wide: format == Format::Wide, colour, width } }
    }

    /// Whether a program reads it.
    pub fn is_data(&self) -> bool {
        matches!(self.format, Format::Json | Format::Yaml)
    }

    /// A state in its colour.
    pub fn coloured(&self, state: &str) -> String {
        use comfy_table::Color::Red;
        match tone(state).filter(|_| self.style.colour) {
            Some(colour) => format!("\x1b[1;{}m{state}\x1b[0m", if colour == Red { 31 } else { 33 }),
            None => state.to_owned(),
        }
    }

    fn text<T: Serialize>(&self, value: &T, page: impl FnOnce(&T) -> Page, one_of_many: bool) -> String {
        let plain = "answers are plain data";
        match self.format {
            Format::Json if one_of_many => serde_json::to_string(value).expect(plain) + "\n",
            Format::Json => serde_json::to_string_pretty(value).expect(plain) + "\n",
            Format::Yaml => {
                let text = yaml(&serde_json::to_value(value).expect(plain));
                if one_of_many { format!("---\n{text}") } else { text }
            }
            Format::Table | Format::Wide if self.names_only => page(value).names().iter().map(|name| format!("{name}\n")).collect(),
            Format::Table | Format::Wide => page(value).text(self.style),
        }
    }

    /// Prints an answer.
    pub fn print<T: Serialize>(&self, value: &T, page: impl FnOnce(&T) -> Page) {
        print!("{}", self.text(value, page, false));
    }

    /// Prints one of several that come one after the other: as JSON one a line, as YAML a document each.
    pub fn print_next<T: Serialize>(&self, value: &T, page: impl FnOnce(&T) -> Page) {
        print!("{}", self.text(value, page, true));
    }

    /// Says that something is done, where there is no answer to print.
    pub fn done(&self, line: impl AsRef<str>) {
        if !self.is_data() && !self.names_only {
            println!("{}", line.as_ref());
        }
    }
}

/// The value as YAML 1.2, in blocks.
fn yaml(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(members) if !members.is_empty() => block(value, 0, &mut text),
        Value::Array(items) if !items.is_empty() => block(value, 0, &mut text),
        scalar => text = scalar_text(scalar) + "\n",
    }
    text
}

/// A map or list that is not empty. The cursor stands where its first line begins.
fn block(value: &Value, indent: usize, text: &mut String) {
    let filled = |value: &Value| match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    let begin = |text: &mut String, first: bool| {
        if !first {
            *text += &" ".repeat(indent);
        }
    };
    match value {
        Value::Object(members) => {
            for (n, (name, member)) in members.iter().enumerate() {
                begin(text, n == 0);
                *text += &scalar_text(&Value::String(name.clone()));
                if filled(member) {
                    *text += ":\n";
                    *text += &" ".repeat(indent + 2);
                    block(member, indent + 2, text);
                } else {
                    *text += &format!(": {}\n", scalar_text(member));
                }
            }
        }
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                begin(text, n == 0);
                *text += "- ";
                if filled(item) {
                    block(item, indent + 2, text);
                } else {
                    *text += &scalar_text(item);
                    text.push('\n');
                }
            }
        }
        _ => {}
    }
}

/// Everything that could be taken for something else than text stands in quotes, as JSON has them.
fn scalar_text(value: &Value) -> String {
    let Value::String(text) = value else { return value.to_string() };
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_/.- ".contains(c))
        && !text.ends_with(' ')
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if plain { text.clone() } else { value.to_string() }
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
