//! The list of the cases as a page.

use crate::pdu::case::Case;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What stands for another target that answers as we do; in its file only where a case checks more than one answer.
pub const SAME: &str = "=";

const HEAD: &str = "\
# PDU by PDU: what the target answers to what is wrong

This page is written by `crates/basalt/tests/whole/pdu` from the table that the test runs; a test compares the two. Each case was sent by a hand-made
client to a real daemon, and its answer checked to the bit: for a termination request the reason (FES), the information (FEI) and the bytes of the
faulty header that come back; for a completion the identifier, status, DNR, result and submission queue head, and where it says \"more\", the entry of the Error Information log. After an error that ends nothing, the
connection has to serve on; after a termination request, the daemon has to close it. All the while a second connection under verified load must notice nothing.

    cargo test -p basalt --test whole pdu::                      # runs them
    PDU_WRITE=1 cargo test -p basalt --test whole the_page       # writes this page

Sections: *tcp* is the NVMe TCP Transport Specification 1.0, *base* the NVM Express Base Specification 2.0, *nvm* the NVM Command Set Specification 1.0.
\"own\" marks what the specifications leave open and `docs/nvme-tcp.md` decides. `=` means the same answer.

";

fn observed(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split_once('\t')).collect()
}

/// What another target answered, or that it was the same.
fn compared<'a>(seen: &BTreeMap<&str, &'a str>, case: &Case) -> Option<&'a str> {
    let text = *seen.get(case.name.as_str())?;
    Some(if text == crate::pdu::expected(case) { SAME } else { text })
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The whole page.
pub fn render(cases: &[(&'static str, Case)]) -> String {
    let (spdk_file, nvmet_file) = (include_str!("observed/spdk.txt"), include_str!("observed/nvmet.txt"));
    let (spdk, nvmet) = (observed(spdk_file), observed(nvmet_file));
    let mut out = HEAD.to_owned();
    for (name, file, seen) in [("SPDK", spdk_file, &spdk), ("nvmet", nvmet_file, &nvmet)] {
        let reported: Vec<&str> = file.lines().filter_map(|l| l.strip_prefix("# ")).collect();
        let known: Vec<&str> = cases.iter().filter_map(|(_, c)| compared(seen, c)).collect();
        let same = known.iter().filter(|text| **text == SAME).count();
        let tried = known.iter().filter(|text| !text.starts_with("not tried")).count();
        writeln!(out, "**{name}**: {} {same} of {tried} answers are the same.\n", reported.join(" ")).expect("a string takes all");
    }
    let mut subject = "";
    writeln!(out, "{} cases.", cases.len()).expect("a string takes all");
    for (of, case) in cases {
        if *of != subject {
            subject = of;
            write!(out, "\n## {subject}\n\n| case | where | section | answer | SPDK | nvmet |\n| --- | --- | --- | --- | --- | --- |\n")
                .expect("a string takes all");
        }
        let of = |seen: &BTreeMap<&str, &str>| cell(compared(seen, case).unwrap_or(""));
        let answer = cell(&crate::pdu::expected(case));
        let row = [cell(&case.name), case.state.text(), case.section.to_owned(), answer, of(&spdk), of(&nvmet)];
        writeln!(out, "| {} |", row.join(" | ")).expect("a string takes all");
    }
    out
}
