use super::*;
use crate::report::example;
use proptest::prelude::*;

/// A reader after RFC 4180.
fn parse(csv: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = csv.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quoted) {
            ('"', true) if chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            ('"', _) => quoted = !quoted,
            (',', false) => row.push(std::mem::take(&mut field)),
            ('\r', false) if chars.peek() == Some(&'\n') => {
                chars.next();
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            (c, _) => field.push(c),
        }
    }
    assert!(field.is_empty() && row.is_empty() && !quoted, "the last line has an end");
    rows
}

#[test]
fn rows_hold_the_figures_exactly() {
    let (record, mut cases) = example::study();
    cases[0].streams = vec![("1-1, \"uniform\"".into(), cases[0].reads.clone())];
    let run = Loaded { record, cases: cases.into_iter().enumerate().collect() };
    let a = Analysis::new(&run);
    let rows = parse(&super::cases(&a));
    let column = |name: &str| rows[0].iter().position(|h| h == name).unwrap_or_else(|| panic!("no column {name}"));
    assert!(rows.iter().all(|r| r.len() == rows[0].len()));
    let expected: usize = a.cases.iter().map(|c| 1 + c.kinds.len() + c.streams.len()).sum();
    assert_eq!(rows.len(), 1 + expected);
    let first = &rows[1];
    assert_eq!(first[column("iops")].parse::<f64>().unwrap(), a.cases[0].all.iops);
    assert_eq!(first[column("p99_us")].parse::<f64>().unwrap(), a.cases[0].all.p99_us().unwrap());
    assert_eq!(first[column("label namespaces")], "none");
    assert!(rows.iter().any(|r| r[column("operations_kind")] == "stream 1-1, \"uniform\""));

    let seconds = parse(&super::seconds(&run));
    assert_eq!(seconds.len(), 1 + run.cases.iter().map(|c| c.1.seconds.len()).sum::<usize>());
    assert!(seconds.iter().all(|r| r.len() == seconds[0].len()));
    let (s, r) = (&run.cases[5].1.seconds[7], &seconds[1 + 30 * 5 + 7]);
    assert_eq!(r[3].parse::<f64>().unwrap(), s.at_s);
    assert_eq!(r[4].parse::<u64>().unwrap(), s.reads);
    assert_eq!(r[12].parse::<f64>().unwrap(), s.target.as_ref().unwrap().buffer_fill);
}

#[test]
fn a_formula_stays_a_text() {
    assert_eq!(text("=1+1"), "'=1+1");
    assert_eq!(text("@SUM(A1)"), "'@SUM(A1)");
    assert_eq!(text("-5"), "-5");
    assert_eq!(text("70 %"), "70 %");
}

proptest! {
    #[test]
    fn any_text_comes_back(words in proptest::collection::vec(".*", 1..5)) {
        let mut out = String::new();
        row(&mut out, &words.iter().map(|w| text(w)).collect::<Vec<_>>());
        let back = parse(&out);
        let as_written: Vec<String> = words.iter().map(|w| {
            let formula = w.starts_with(['=', '+', '-', '@', '\t', '\r']) && w.parse::<f64>().is_err();
            if formula { format!("'{w}") } else { w.clone() }
        }).collect();
        prop_assert_eq!(&back[0], &as_written);
    }
}
