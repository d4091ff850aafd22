//! Comma-separated values after RFC 4180, for spreadsheets and scripts: `cases.csv` and `seconds.csv`.
//!
//! Invariants: a head names each column with its unit; numbers have a point and no separators; a text can't be taken for a formula.
//! Never: rounds what the tables round.

use crate::report::analysis::Analysis;
use crate::report::figures::{Op, PERCENTILES};
use crate::report::load::Loaded;

/// A text as a field. Spreadsheets run what begins like a formula; a leading apostrophe keeps it text.
pub fn text(value: &str) -> String {
    let formula = value.starts_with(['=', '+', '-', '@', '\t', '\r']) && value.parse::<f64>().is_err();
    let value = if formula { format!("'{value}") } else { value.into() };
    if value.contains([',', '"', '\n', '\r']) { format!("\"{}\"", value.replace('"', "\"\"")) } else { value }
}

fn some<T: std::fmt::Display>(v: Option<T>) -> String {
    v.map_or_else(String::new, |v| v.to_string())
}

fn row(out: &mut String, fields: &[String]) {
    out.push_str(&fields.join(","));
    out.push_str("\r\n");
}

/// One row for each kind of operation and stream of each case.
pub fn cases(a: &Analysis) -> String {
    let mut keys: Vec<&str> = Vec::new();
    for (k, _) in a.cases.iter().flat_map(|c| &c.labels) {
        if !keys.contains(&k.as_str()) {
            keys.push(k);
        }
    }
    let mut head: Vec<String> = ["case", "workload", "engine"].map(String::from).to_vec();
    head.extend(keys.iter().map(|k| text(&format!("label {k}"))));
    head.extend(
        ["operations_kind", "measured_s", "requested_iops", "operations", "bytes", "errors", "iops", "mib_s", "mean_us"].map(String::from),
    );
    head.extend(PERCENTILES.iter().map(|p| format!("{}_us", p.1)));
    head.extend(
        ["max_us", "client_cores", "target_cores", "verified_blocks", "wrong_blocks", "unchecked_blocks", "cut_short"].map(String::from),
    );
    let mut out = String::new();
    row(&mut out, &head);
    for c in &a.cases {
        let streams = c.streams.iter().map(|o| (format!("stream {}", o.name), o));
        let ops: Vec<(String, &Op)> = std::iter::once(&c.all).chain(&c.kinds).map(|o| (o.name.clone(), o)).chain(streams).collect();
        for (name, op) in ops {
            let mut fields = vec![c.number.to_string(), text(&c.workload), text(&c.engine)];
            fields.extend(keys.iter().map(|k| text(c.label(k).unwrap_or_default())));
            fields.extend([text(&name), c.measured_s.to_string(), some(c.requested_iops), op.operations.to_string(), op.bytes.to_string()]);
            fields.extend([op.errors.to_string(), op.iops.to_string(), op.mib_s.to_string(), some(op.mean_us)]);
            fields.extend(op.percentiles_us.iter().map(|p| some(*p)));
            fields.extend([some(op.max_us), c.client_cores.to_string(), some(c.target_cores)]);
            let blocks = c.verified.map(|v| [v.checked, v.wrong, v.unknown]);
            fields.extend([0, 1, 2].map(|n| some(blocks.map(|b| b[n]))));
            fields.push(c.cut_short.to_string());
            row(&mut out, &fields);
        }
    }
    out
}

/// One row for each second of each case.
pub fn seconds(run: &Loaded) -> String {
    let head = "case,workload,labels,at_s,reads,writes,read_bytes,written_bytes,errors,p50_us,p99_us,max_us,\
                buffer_fill,destaged_bytes_s,device_read_bytes_s,device_written_bytes_s,target_cores";
    let mut out = String::new();
    row(&mut out, &[head.into()]);
    for (number, m) in &run.cases {
        let labels: Vec<String> = m.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let first = [number.to_string(), text(&m.workload.name), text(&labels.join("; "))];
        for s in &m.seconds {
            let mut fields = first.to_vec();
            fields.extend([
                s.at_s.to_string(),
                s.reads.to_string(),
                s.writes.to_string(),
                s.read_bytes.to_string(),
                s.written_bytes.to_string(),
            ]);
            fields.extend([s.errors.to_string(), s.p50_us.to_string(), s.p99_us.to_string(), s.max_us.to_string()]);
            let t = s.target.as_ref();
            fields.extend([some(t.map(|t| t.buffer_fill)), some(t.map(|t| t.destaged_bytes)), some(t.map(|t| t.device_read_bytes))]);
            fields.extend([some(t.map(|t| t.device_written_bytes)), some(t.map(|t| t.cores))]);
            row(&mut out, &fields);
        }
    }
    out
}

#[cfg(test)]
#[path = "csv_tests.rs"]
mod tests;
