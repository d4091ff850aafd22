//! The page: one HTML file that needs nothing else.
//!
//! Owns: structure and style sheet.
//! Invariants: everything is readable without scripts and without a network; what comes from files is escaped (by `maud`, by `chart::still` and by
//! `chart::live`); the page forbids browsers to load anything, and to run any script but the two that it has, by their hashes.
//! Never: computes a figure.

use crate::report::Report;
use crate::report::chart::still::{NARROW, WIDE};
use crate::report::chart::{Drawing, Picture, live};
use crate::report::charts;
use crate::report::figures::Case;
use crate::report::table::{self, Table};
use crate::report::text::{self, LatencyUnit};
use crate::results::{Measured, RunKind, RunState};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Cases with charts of their own; more than that are in tables and files only.
pub const DETAILS_MAX: usize = 40;
/// Up to so many rows, the table of all cases stands before the charts.
const TABLE_FIRST_MAX: usize = 14;
/// Up to so many, the cases are shown unfolded.
const UNFOLDED_MAX: usize = 4;

const STYLE: &str = include_str!("style.css");

/// Hashes of the scripts of the page, as a browser takes them: the library with its licence, and what hands it the data.
pub const SCRIPTS: [&str; 2] =
    ["sha256-2stb3H8YuGER6WDECCPwDlJbyCs7JTwsS3pyqk76xWY=", "sha256-pYf8Qjqf4jfGTlNQIIeRrbExo17ywH5JRHZxTLsk8oA="];

/// The library, with its licence before it.
pub fn library() -> String {
    format!("/*\n{}\n*/\n{}", live::LICENCE, live::LIBRARY)
}

/// The whole page.
pub fn page(r: &Report) -> String {
    let record = &r.run.record;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content={ "default-src 'none'; style-src 'unsafe-inline'; script-src" @for hash in SCRIPTS { " '" (hash) "'" } };
                meta name="generator" content={ "Basalt " (env!("CARGO_PKG_VERSION")) };
                title { (record.title) }
                style { (PreEscaped(STYLE)) (PreEscaped(live::STYLE)) }
            }
            body {
            main {
                (head(r))
                (verdict(r))
                (results(r))
                (published(r))
                (earlier(r))
                (details(r))
                (setting(r))
                footer { "Made by basalt lab report, version " (env!("CARGO_PKG_VERSION")) ", from the files of the run alone. cases.csv, seconds.csv and report.json beside it hold the figures. Charts: uPlot, © 2022 Leon Sorokin, MIT licence, in this page." }
            }
            script { (PreEscaped(library())) }
            script { (PreEscaped(live::GLUE)) }
            }
        }
    };
    page.into_string()
}

fn kind(k: RunKind) -> &'static str {
    match k {
        RunKind::Run => "Run",
        RunKind::Curve => "Load curve",
        RunKind::Sweep => "Sweep",
        RunKind::Compare => "Comparison of two systems",
        RunKind::Soak => "Soak",
        RunKind::Study => "Study",
    }
}

fn head(r: &Report) -> Markup {
    let began = r.run.cases.iter().map(|c| c.1.began_unix_s).min();
    let measured: f64 = r.run.cases.iter().map(|c| c.1.measured_s).sum();
    html! {
        header {
            h1 { (r.run.record.title) }
            p.soft {
                (kind(r.run.record.kind)) ", " (r.analysis.cases.len()) @if r.analysis.cases.len() == 1 { " case" } @else { " cases" }
                @if let Some(began) = began { ", " (text::date(began)) }
                ", " (text::duration(measured)) " measured"
                @for engine in engines(r) { ", engine " (engine) }
            }
            nav {
                a href="#results" { "Results" }
                @if !r.analysis.published.is_empty() { a href="#published" { "Published figures" } }
                @if r.earlier.is_some() { a href="#earlier" { "Earlier run" } }
                @if !r.run.cases.is_empty() { a href="#cases" { "Each case" } }
                a href="#setting" { "Configuration and machine" }
                a href="#repeat" { "How to repeat it" }
            }
        }
    }
}

fn engines(r: &Report) -> Vec<&str> {
    let mut list: Vec<&str> = Vec::new();
    for c in &r.analysis.cases {
        if !list.contains(&c.engine.as_str()) {
            list.push(&c.engine);
        }
    }
    list
}

fn verdict(r: &Report) -> Markup {
    html! {
        @if !r.analysis.warnings.is_empty() {
            section.warning role="note" { @for w in &r.analysis.warnings { p { (w) } } }
        }
        section.verdict {
            h2 { "Verdict" }
            @for v in &r.analysis.verdict { p { (v) } }
        }
    }
}

fn results(r: &Report) -> Markup {
    let pictures = charts::overview(&r.run, &r.analysis);
    // A long table hides them; of a comparison, single rounds matter least.
    let before = !r.analysis.comparisons.is_empty() || r.analysis.cases.len() > TABLE_FIRST_MAX;
    html! {
        section id="results" {
            h2 { "Results" }
            @if r.analysis.cases.is_empty() { p { "No case has been measured." } }
            @else {
                @if !r.analysis.comparisons.is_empty() { (compared(r)) }
                @if before { @for p in &pictures { (picture(p)) } }
                (table_of(&table::cases(&r.analysis)))
                p.note { "Percentiles are those of all operations of a case, from one merged histogram; – : fewer than ten operations beyond it. "
                    "One operation in a hundred took longer than p99, one in ten thousand longer than p99.99." }
                @if !before { @for p in &pictures { (picture(p)) } }
            }
        }
    }
}

fn compared(r: &Report) -> Markup {
    let list = &r.analysis.comparisons;
    html! {
        @if let Some(c) = list.first() { p { (c.names.0) " against " (c.names.1) ". Both were measured in turn, round by round." } }
        (table_of(&table::comparisons(list)))
        p.note { "Ratios are geometric means over the rounds, each round of B against the same round of A; intervals by Student's t on their logarithms." }
    }
}

fn published(r: &Report) -> Markup {
    let list = &r.analysis.published;
    html! {
        @if !list.is_empty() {
            section id="published" {
                h2 { "Beside published figures" }
                @if !r.run.record.source.is_empty() { p { "Published in: " (r.run.record.source) } }
                (table_of(&table::beside(list, "published")))
                @for b in charts::beside(list, "ours", "published") { (picture(&Picture::Bars(b))) }
            }
        }
    }
}

fn earlier(r: &Report) -> Markup {
    html! {
        @if let Some(e) = &r.earlier {
            section id="earlier" {
                h2 { "Beside an earlier run" }
                p { "The earlier run: " (e.title) @if let Some(b) = e.began_unix_s { ", " (text::date(b)) } ", Basalt " (e.basalt) "." }
                @if e.beside.is_empty() { p { "The two have no case in common: cases are taken for the same when workload and labels have the same names." } }
                @else {
                    (table_of(&table::beside(&e.beside, "earlier")))
                    @for b in charts::beside(&e.beside, "this run", "earlier run").into_iter().take(2) { (picture(&Picture::Bars(b))) }
                }
            }
        }
    }
}

fn details(r: &Report) -> Markup {
    let all = r.run.cases.len();
    html! {
        @if all > 0 {
            section id="cases" {
                h2 { "Each case" }
                @if all > DETAILS_MAX { p.note { "The first " (DETAILS_MAX) " of " (all) " cases; cases.csv and seconds.csv have all." } }
                @for ((_, m), c) in r.run.cases.iter().zip(&r.analysis.cases).take(DETAILS_MAX) {
                    details id={ "case-" (c.number) } open[all <= UNFOLDED_MAX] {
                        summary { "Case " (c.number) ": " (c.name) }
                        (one_case(m, c, r.analysis.unit))
                    }
                }
            }
        }
    }
}

fn one_case(m: &Measured, c: &Case, unit: LatencyUnit) -> Markup {
    html! {
        p.soft {
            @if !m.workload.description.is_empty() { (m.workload.description.trim_end_matches('.')) ". " }
            (text::duration(m.measured_s)) " measured after " (text::duration(m.warm_up_s)) " of warm-up, " (text::date(m.began_unix_s)) ", engine " (m.engine)
            @if let Some(v) = c.verified {
                ", " (text::whole(v.checked)) " blocks verified, "
                @if v.wrong > 0 { span.bad { (text::whole(v.wrong)) " wrong" } } @else { "none wrong" }
                @if v.unknown > 0 { ", " (text::whole(v.unknown)) " not checked" }
            }
            @if m.cut_short { ", " span.bad { "ended before its time" } }
            "."
        }
        @for n in &m.notes { p.note { (n) } }
        @if let Some(n) = &m.noise { p.note.bad[n.is_bad()] { "The machine meanwhile: " (n.words()) } }
        @if let Some(n) = &m.target_noise { p.note.bad[n.is_bad()] { "The machine of the target meanwhile: " (n.words()) } }
        (table_of(&table::operations(c, unit)))
        @if !m.clients.is_empty() {
            (table_of(&table::clients(m, c, unit)))
            @for (name, n) in m.clients.iter().filter_map(|c| Some((&c.name, c.noise.as_ref()?))) {
                p.note.bad[n.is_bad()] { "The machine of " (name) " meanwhile: " (n.words()) }
            }
        }
        @for p in charts::case(m, unit) { (picture(&p)) }
    }
}

fn setting(r: &Report) -> Markup {
    let record = &r.run.record;
    let machine = &record.machine;
    html! {
        section id="setting" {
            h2 { "Configuration and machine" }
            dl {
                dt { "Basalt" } dd { (record.basalt) }
                dt { "Processor" } dd { (machine.processor) ", " (machine.processors) " logical" }
                dt { "Memory" } dd { (text::bytes(machine.memory_bytes as f64)) }
                dt { "Kernel" } dd { (machine.kernel) }
                dt { "State of the run" } dd { (state(record.state)) }
                @for (name, size) in disks(r) { dt { "Disk" } dd { (name) ", " (text::bytes(size as f64)) } }
            }
            pre { (record.configuration) }
        }
        section id="repeat" {
            h2 { "How to repeat it" }
            pre { (command(&record.command)) }
        }
    }
}

fn state(s: RunState) -> &'static str {
    match s {
        RunState::Running => "running, or its process died",
        RunState::Interrupted => "interrupted; it can go on",
        RunState::Complete => "complete",
    }
}

/// Disks of all cases, each once; the first few hundred.
fn disks(r: &Report) -> Vec<(&str, u64)> {
    let mut seen = std::collections::BTreeSet::new();
    r.run.cases.iter().flat_map(|c| &c.1.disks).filter(|d| seen.insert(*d)).map(|d| (d.0.as_str(), d.1)).take(256).collect()
}

/// A command line that a shell takes as it was.
pub fn command(words: &[String]) -> String {
    let plain = |w: &str| !w.is_empty() && w.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=,+@%?".contains(c));
    let quoted = |w: &String| if plain(w) { w.clone() } else { format!("'{}'", w.replace('\'', "'\\''")) };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn table_of(t: &Table) -> Markup {
    html! {
        div.scroll tabindex="0" {
            table {
                thead { tr { @for c in &t.columns { th.l[c.words] scope="col" { (c.name) @if !c.unit.is_empty() { small { (c.unit) } } } } } }
                tbody {
                    @for (case, cells) in &t.rows {
                        tr data-case=[*case] {
                            @for (cell, column) in cells.iter().zip(&t.columns) {
                                td.l[column.words].k[column.words && cell.text.chars().count() <= 28].good[cell.mood == Some(true)].bad[cell.mood == Some(false)] { (cell.text) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn picture(p: &Picture) -> Markup {
    let drawing = p.drawing();
    html! {
        figure {
            script type="application/json" { (PreEscaped(drawing.data())) }
            figcaption { h3 { (p.title()) } (legend(&drawing)) }
            (PreEscaped(drawing.svg(WIDE, p.note()))) (PreEscaped(drawing.svg(NARROW, p.note())))
            @if !p.note().is_empty() { p.note { (p.note()) } }
        }
    }
}

/// Beside the static picture; the live one has its own.
fn legend(drawing: &Drawing) -> Markup {
    let entries = drawing.legend();
    html! {
        @if !entries.is_empty() {
            ul.legend {
                @for (name, look, filled) in entries {
                    li {
                        svg viewBox="0 0 26 10" aria-hidden="true" {
                            @if filled { rect class={ "f s" (look) } x="2" y="0" width="22" height="10" {} }
                            @else { path class={ "l s" (look) } d="M1 5L25 5" {} }
                        }
                        (name)
                    }
                }
            }
        }
    }
}
