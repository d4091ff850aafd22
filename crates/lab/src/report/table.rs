//! Tables: the same rows for the page and for Markdown.
//!
//! Invariants: each row has a cell for each column; units stand in the heads.
//! Never: markup.

use crate::report::analysis::{Analysis, Beside, REQUESTED};
use crate::report::compare::Comparison;
use crate::report::figures::{Case, Op, PERCENTILES};
use crate::report::text::{LatencyUnit, change, number, whole};
use crate::results::Measured;

/// Labels that have columns of their own; beyond that they are joined in one.
const LABEL_COLUMNS_MAX: usize = 5;

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its head.
    pub name: String,
    /// Its unit, or nothing.
    pub unit: String,
    /// Words, set to the left; otherwise numbers, set to the right.
    pub words: bool,
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// What stands in it.
    pub text: String,
    /// Good (true) or bad (false) news, or neither.
    pub mood: Option<bool>,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Its columns.
    pub columns: Vec<Column>,
    /// Rows: (number of the case that the row stands for, cells).
    pub rows: Vec<(Option<usize>, Vec<Cell>)>,
}

impl Table {
    fn column(&mut self, name: &str, unit: &str, words: bool) {
        self.columns.push(Column { name: name.into(), unit: unit.into(), words });
    }
}

fn cell(text: impl Into<String>) -> Cell {
    Cell { text: text.into(), mood: None }
}

fn time_cell(unit: LatencyUnit, us: Option<f64>) -> Cell {
    cell(us.map_or_else(|| "–".into(), |v| number(v / unit.us())))
}

fn op_columns(t: &mut Table, unit: LatencyUnit) {
    t.column("IOPS", "", false);
    t.column("data", "MiB/s", false);
    t.column("mean", unit.name(), false);
    for (_, name) in PERCENTILES {
        t.column(name, unit.name(), false);
    }
    t.column("longest", unit.name(), false);
}

fn op_cells(op: &Op, unit: LatencyUnit) -> Vec<Cell> {
    let mut row = vec![cell(number(op.iops)), cell(number(op.mib_s)), time_cell(unit, op.mean_us)];
    row.extend(op.percentiles_us.iter().map(|p| time_cell(unit, *p)));
    row.push(time_cell(unit, op.max_us));
    row
}

fn errors_cell(errors: u64) -> Cell {
    Cell { text: whole(errors), mood: (errors > 0).then_some(false) }
}

/// All cases.
pub fn cases(a: &Analysis) -> Table {
    let (mut t, unit) = (Table::default(), a.unit);
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in a.cases.iter().flat_map(|c| &c.labels) {
        // What stands in a column of its own anyway.
        let twice = key == REQUESTED || a.cases.iter().all(|c| c.label(key).is_none_or(|value| value == c.workload));
        if !keys.contains(&key.as_str()) && !twice {
            keys.push(key);
        }
    }
    let joined = keys.len() > LABEL_COLUMNS_MAX;
    let several = a.cases.windows(2).any(|w| w[0].workload != w[1].workload) || keys.is_empty();
    t.column("case", "", false);
    if several {
        t.column("workload", "", true);
    }
    if joined {
        t.column("labels", "", true);
    } else {
        keys.iter().for_each(|k| t.column(k, "", true));
    }
    let requested = a.cases.iter().any(|c| c.requested_iops.is_some());
    if requested {
        t.column("requested", "IOPS", false);
    }
    op_columns(&mut t, unit);
    let errors = a.cases.iter().any(|c| c.all.errors > 0);
    let cores = a.cases.iter().any(|c| c.target_cores.is_some());
    if cores {
        t.column("target", "cores", false);
        t.column("IOPS per", "target core", false);
    }
    t.column("client", "cores", false);
    if errors {
        t.column("errors", "", false);
    }
    for c in &a.cases {
        let mut row = vec![cell(c.number.to_string())];
        if several {
            row.push(cell(&c.workload));
        }
        if joined {
            let shown = c.labels.iter().filter(|l| keys.contains(&l.0.as_str()));
            row.push(cell(shown.map(|(k, v)| format!("{k} {v}")).collect::<Vec<_>>().join(", ")));
        } else {
            row.extend(keys.iter().map(|k| cell(c.label(k).unwrap_or("–"))));
        }
        if requested {
            row.push(cell(c.requested_iops.map_or("–".into(), number)));
        }
        let mut figures = op_cells(&c.all, unit);
        if c.delivered().is_some_and(|share| share < crate::report::analysis::DELIVERED_MIN) {
            figures[0].mood = Some(false);
        }
        row.extend(figures);
        if cores {
            row.push(cell(c.target_cores.map_or("–".into(), number)));
            row.push(cell(c.iops_per_target_core.map_or("–".into(), number)));
        }
        row.push(cell(number(c.client_cores)));
        if errors {
            row.push(errors_cell(c.all.errors));
        }
        t.rows.push((Some(c.number), row));
    }
    t
}

/// Kinds of operations and streams of one case.
pub fn operations(c: &Case, unit: LatencyUnit) -> Table {
    let mut t = Table::default();
    let ops: Vec<(&str, &Op)> = c
        .kinds
        .iter()
        .map(|o| ("", o))
        .chain((c.kinds.iter().filter(|o| o.name != "flushes").count() > 1).then_some(("", &c.all)))
        .chain(c.streams.iter().map(|o| ("stream ", o)))
        .collect();
    t.column("operations", "", true);
    t.column("ended", "", false);
    op_columns(&mut t, unit);
    t.column("errors", "", false);
    for (prefix, op) in ops {
        let mut row = vec![cell(format!("{prefix}{}", op.name)), cell(whole(op.operations))];
        row.extend(op_cells(op, unit));
        row.push(errors_cell(op.errors));
        t.rows.push((None, row));
    }
    t
}

/// What each of several clients did of a case.
pub fn clients(m: &Measured, c: &Case, unit: LatencyUnit) -> Table {
    let mut t = Table::default();
    t.column("client", "", true);
    t.column("disks", "", false);
    t.column("ended", "", false);
    op_columns(&mut t, unit);
    t.column("cores", "", false);
    t.column("errors", "", false);
    for (client, op) in m.clients.iter().zip(&c.clients) {
        let mut row = vec![cell(&op.name), cell(client.disks.to_string()), cell(whole(op.operations))];
        row.extend(op_cells(op, unit));
        row.push(cell(number(client.cpu_s / client.measured_s.max(1e-9))));
        row.push(errors_cell(op.errors));
        t.rows.push((None, row));
    }
    t
}

/// Comparisons with their intervals.
pub fn comparisons(list: &[Comparison]) -> Table {
    let mut t = Table::default();
    t.column("load", "", true);
    t.column("figure", "", true);
    t.column("rounds", "", false);
    t.column("B / A", "", false);
    t.column("change", "", false);
    t.column("95 % interval", "of B / A", false);
    t.column("difference", "", true);
    for c in list {
        for r in &c.ratios {
            // More IOPS and less latency are good.
            let better = (r.figure == "IOPS") == (r.ratio > 1.0);
            let said = match (r.interval, r.significant()) {
                (None, _) => Cell { text: "one round can't tell".into(), mood: None },
                (_, false) => Cell { text: "no difference shown".into(), mood: None },
                (_, true) => Cell { text: if better { "real: B is better" } else { "real: B is worse" }.into(), mood: Some(better) },
            };
            let interval = r.interval.map_or("–".into(), |(l, h)| format!("{l:.3} to {h:.3}"));
            t.rows.push((
                None,
                vec![
                    cell(&c.group),
                    cell(r.figure),
                    cell(r.rounds.to_string()),
                    cell(format!("{:.3}", r.ratio)),
                    cell(change(r.ratio - 1.0)),
                    cell(interval),
                    said,
                ],
            ));
        }
    }
    t
}

/// Ours beside others'.
pub fn beside(list: &[Beside], theirs: &str) -> Table {
    let mut t = Table::default();
    t.column("case", "", true);
    t.column("figure", "", true);
    t.column("ours", "", false);
    t.column(theirs, "", false);
    t.column("ours / other", "", false);
    let remarks = list.iter().any(|b| !b.remark.is_empty());
    if remarks {
        t.column("remark", "", true);
    }
    for b in list {
        let mut row = vec![
            cell(&b.case),
            cell(&b.figure),
            cell(b.ours.map_or("–".into(), number)),
            cell(number(b.theirs)),
            cell(b.ratio.map_or("–".into(), |r| format!("{r:.2}"))),
        ];
        if remarks {
            row.push(cell(&b.remark));
        }
        t.rows.push((None, row));
    }
    t
}
