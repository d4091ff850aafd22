//! The report as Markdown: verdict, tables, configuration; for tickets, wikis and version control.
//!
//! Invariants: no text from a file can begin markup or leave its cell.
//! Never: charts.

use crate::report::Report;
use crate::report::html::command;
use crate::report::table::{self, Table};
use crate::report::text;
use std::fmt::Write as _;

/// The whole text.
pub fn page(r: &Report) -> String {
    let record = &r.run.record;
    let a = &r.analysis;
    let mut out = format!("# {}\n\n", escape(&record.title));
    for w in &a.warnings {
        let _ = writeln!(out, "> **{}**\n", escape(w));
    }
    for v in &a.verdict {
        let _ = writeln!(out, "- {}", escape(v));
    }
    out.push_str("\n## Results\n\n");
    if a.cases.is_empty() {
        out.push_str("No case has been measured.\n");
    } else {
        table_of(&mut out, &table::cases(a));
        out.push_str("\n– : fewer than ten operations beyond that percentile.\n");
    }
    if !a.comparisons.is_empty() {
        out.push_str("\n## Comparison\n\n");
        table_of(&mut out, &table::comparisons(&a.comparisons));
    }
    if !a.published.is_empty() {
        out.push_str("\n## Beside published figures\n\n");
        if !record.source.is_empty() {
            let _ = writeln!(out, "Published in: {}\n", escape(&record.source));
        }
        table_of(&mut out, &table::beside(&a.published, "published"));
    }
    if let Some(e) = &r.earlier {
        let _ = writeln!(out, "\n## Beside an earlier run: {}\n", escape(&e.title));
        table_of(&mut out, &table::beside(&e.beside, "earlier"));
    }
    let notes: Vec<&String> = a.cases.iter().flat_map(|c| &c.notes).collect();
    if !notes.is_empty() {
        out.push_str("\n## Notes\n\n");
        let mut seen = std::collections::BTreeSet::new();
        for n in notes.into_iter().filter(|n| seen.insert(*n)) {
            let _ = writeln!(out, "- {}", escape(n));
        }
    }
    let m = &record.machine;
    let _ = writeln!(
        out,
        "\n## Machine\n\nBasalt {}; {}, {} logical processors; {} of memory; kernel {}.",
        escape(&record.basalt),
        escape(&m.processor),
        m.processors,
        text::bytes(m.memory_bytes as f64),
        escape(&m.kernel)
    );
    let _ = writeln!(
        out,
        "\n## Configuration\n\n{}\n\n## How to repeat it\n\n{}",
        block(&record.configuration),
        block(&command(&record.command))
    );
    out
}

/// Text that Markdown takes as text.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\n' | '\r' => out.push(' '),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// A code block, with a fence longer than any in the text.
fn block(text: &str) -> String {
    let mut run = 0;
    let longest = text.chars().fold(0, |most: usize, c| {
        run = if c == '`' { run + 1 } else { 0 };
        most.max(run)
    });
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}", text.trim_end())
}

fn table_of(out: &mut String, t: &Table) {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let head = |c: &table::Column| if c.unit.is_empty() { escape(&c.name) } else { format!("{}, {}", escape(&c.name), c.unit) };
    out.push_str(&row(t.columns.iter().map(head).collect()));
    out.push_str(&row(t.columns.iter().map(|c| if c.words { "---" } else { "---:" }.to_string()).collect()));
    for (_, cells) in &t.rows {
        out.push_str(&row(cells.iter().map(|c| escape(&c.text)).collect()));
    }
}
