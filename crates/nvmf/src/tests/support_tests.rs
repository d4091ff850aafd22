//! `docs/nvme-support.md` says what is true: it is written from the tables, a controller is asked for each code there is, and each test that
//! the tables name exists.

use super::client::{Client, Pdu};
use super::controller_tests::{Bench, bench};
use super::session_tests::Bench as Queue;
use super::support_statuses::{GIVEN, NAMED_ONLY};
use super::support_table::*;
use crate::admin::Answer;
use format::nvme::admin::{GetFeatures, Identify};
use format::nvme::fabrics::PropertyAccess;
use format::nvme::feature::Select;
use format::nvme::{Sgl, Sqe, StatusCode};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

const SECTIONS: &[(&str, &str, usize, &[Line])] = &[
    ("PDUs", "All nine, with header and data digests.", 2, PDUS),
    ("Properties", "", 2, PROPERTIES),
    ("Fabrics commands", "", 2, FABRICS),
    ("Admin commands", "Opcodes that are not in the table get INVALID_OPCODE.", 2, ADMIN),
    ("I/O commands", "Opcodes that are not in the table get INVALID_OPCODE.", 2, IO),
    ("Identify (CNS)", "Values that are not in the table get INVALID_FIELD. Discovery controllers have 01h only.", 2, CNS),
    ("Log pages", "Identifiers that are not in the table get INVALID_LOG_PAGE.", 2, LOGS),
    ("Log pages of discovery controllers", "", 2, DISCOVERY_LOGS),
    ("Features", "Identifiers that are not in the table get INVALID_FIELD.", 2, FEATURES),
    ("Features of discovery controllers", "", 2, DISCOVERY_FEATURES),
    ("Asynchronous events", "Type and information. An event is sent once until its log is read.", 4, EVENTS),
];

fn render() -> String {
    let mut out = String::from(
        "# What of NVMe is supported\n\
         \n\
         Find the code in its table. `since` is the first version of Basalt that supports it, or `no`. `section` names the\n\
         specification:\n\
         \n\
         | name | specification |\n\
         | --- | --- |\n\
         | base | NVM Express Base Specification 2.0 |\n\
         | nvm | NVM Command Set Specification 1.0 |\n\
         | tcp | NVMe TCP Transport Specification 1.0 |\n\
         \n\
         [nvme-tcp.md](nvme-tcp.md) says how commands behave and what the limits are.\n\
         \n\
         A test asks a controller for each code and compares the answers with this page. It also checks that the tests named\n\
         here exist. The page is written from `crates/nvmf/src/tests/support_table.rs`, which says how to change it.\n",
    );
    for (title, text, digits, lines) in SECTIONS {
        let _ = write!(out, "\n## {title}\n\n");
        if !text.is_empty() {
            let _ = write!(out, "{text}\n\n");
        }
        out.push_str("| code | what | section | since | what a client gets | tests |\n| --- | --- | --- | --- | --- | --- |\n");
        for l in *lines {
            let (since, gets, tests) = match l.state {
                Support::Since(since, notes, tests) => {
                    (since, notes.to_owned(), tests.iter().map(|t| format!("`{t}`")).collect::<Vec<_>>().join(", "))
                }
                Support::Refused(code, why) => ("no", format!("{code}: {why}"), String::new()),
                Support::Never(why) => ("no", format!("nothing: {why}"), String::new()),
            };
            let _ = writeln!(out, "| {:0w$X}h | {} | {} | {since} | {gets} | {tests} |", l.code, l.name, l.spec, w = *digits);
        }
    }
    out.push_str("\n## Statuses\n\n| status | when a client gets it |\n| --- | --- |\n");
    let all: BTreeMap<&str, StatusCode> = StatusCode::ALL.iter().map(|(code, name)| (*name, *code)).collect();
    for (name, when) in GIVEN {
        let _ = writeln!(out, "| {} {name} | {when} |", hex(all[name]));
    }
    let given: BTreeSet<&str> = GIVEN.iter().map(|(name, _)| *name).collect();
    let never = StatusCode::ALL.iter().filter(|(_, name)| !given.contains(name) && *name != "SUCCESS");
    out.push_str("\n## Statuses that are never given\n\n| status |\n| --- |\n");
    for (code, name) in never {
        let _ = writeln!(out, "| {} {name} |", hex(*code));
    }
    out
}

/// Status code type and status code.
fn hex(code: StatusCode) -> String {
    format!("{:X}h/{:02X}h", code.sct(), code.sc())
}

#[test]
fn support_page_is_written_from_the_tables() {
    let path = root().join("docs/nvme-support.md");
    let wanted = render();
    if std::env::var_os("UPDATE_SUPPORT").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == wanted, "docs/nvme-support.md is not what the tables say: UPDATE_SUPPORT=1 cargo test -p nvmf support");
}

fn sources(dir: &Path, ends: &str, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, ends, out);
        } else if path.to_string_lossy().ends_with(ends) {
            out.push(path);
        }
    }
}

#[test]
fn support_tests_that_are_named_exist() {
    let mut files = Vec::new();
    sources(&root().join("crates"), ".rs", &mut files);
    let text: String = files.iter().map(|f| std::fs::read_to_string(f).unwrap()).collect();
    for line in SECTIONS.iter().flat_map(|(_, _, _, lines)| *lines) {
        let Support::Since(_, _, tests) = line.state else { continue };
        assert!(!tests.is_empty(), "{} is held by no test", line.name);
        for test in tests {
            let case = root().join(format!("tests/vm/cases/{test}.sh")).exists();
            assert!(case || text.contains(&format!("fn {test}(")), "{} names {test}, which is nowhere", line.name);
        }
    }
}

#[test]
fn support_of_every_status_is_as_listed() {
    let mut files = Vec::new();
    sources(&root().join("crates/nvmf/src"), ".rs", &mut files);
    let mut named = BTreeSet::new();
    for file in files.iter().filter(|f| !f.to_string_lossy().contains("/tests")) {
        let text = std::fs::read_to_string(file).unwrap();
        for part in text.split("StatusCode::").skip(1) {
            let name: String = part.chars().take_while(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == '_').collect();
            if name.len() > 1 {
                named.insert(name);
            }
        }
    }
    let listed: BTreeSet<String> = GIVEN.iter().map(|(n, _)| n.to_string()).collect();
    let known: BTreeSet<String> = listed.iter().cloned().chain(NAMED_ONLY.iter().map(ToString::to_string)).collect();
    let unlisted: Vec<&String> = named.difference(&known).collect();
    let ungiven: Vec<&String> = listed.difference(&named).collect();
    assert!(unlisted.is_empty() && ungiven.is_empty(), "not listed: {unlisted:?}; listed but nowhere in the sources: {ungiven:?}");
}

fn granted(discovery: bool) -> Bench {
    let mut b = bench(discovery, 0);
    b.view.subsystems[0].manage_namespaces = true;
    b.enable();
    b
}

/// Compares what a table says of each code with what a probe gets: `None` when the code is supported, the status otherwise.
fn compare(table: &[Line], codes: impl Iterator<Item = u16>, unlisted: StatusCode, mut probe: impl FnMut(u16) -> Option<StatusCode>) {
    for code in codes {
        let wanted = match table.iter().find(|l| l.code == code).map(|l| l.state) {
            Some(Support::Since(..)) => None,
            Some(Support::Refused(status, _)) => Some(status),
            Some(Support::Never(_)) => panic!("{code:#x} can be asked for"),
            None => Some(unlisted),
        };
        assert_eq!(probe(code), wanted, "{code:#x}");
    }
    let mut all: Vec<u16> = table.iter().map(|l| l.code).collect();
    all.dedup();
    assert!(all.len() == table.len() && all.is_sorted(), "lines ascend, each code once");
}

/// The status of an answer that says "not supported": `code`, at byte `at` of the command when one is named.
fn unsupported(answer: Answer, code: StatusCode, at: Option<u16>) -> Option<StatusCode> {
    match answer {
        Answer::Refuse(s, place) if s.code == code && at.is_none_or(|at| at == place.0) => Some(code),
        _ => None,
    }
}

#[test]
fn support_of_every_admin_command_is_as_listed() {
    let mut b = granted(false);
    let codes = (0..256).filter(|op| *op != 0x7F);
    compare(ADMIN, codes, StatusCode::INVALID_OPCODE, |op| {
        unsupported(b.run(Sqe { opcode: op as u8, ..Sqe::default() }), StatusCode::INVALID_OPCODE, None)
    });
}

#[test]
fn support_of_every_io_command_is_as_listed() {
    let mut q = Queue::io_queue(Client::new(false, false, 0), 8);
    let codes = (0..256).filter(|op| *op != 0x7F);
    compare(IO, codes, StatusCode::INVALID_OPCODE, |op| {
        let bytes = q.client.capsule(Sqe { opcode: op as u8, nsid: 1, cid: op, ..Sqe::default() }, &[]);
        q.feed(&bytes);
        let status = std::iter::from_fn(|| q.next()).find_map(|p| if let Pdu::Response(cqe) = p { Some(cqe.status.code) } else { None });
        status.filter(|s| *s == StatusCode::INVALID_OPCODE)
    });
}

#[test]
fn support_of_every_fabrics_command_is_as_listed() {
    let mut b = granted(false);
    // Connect comes before there is a controller; authentication is the queue's, not the controller's.
    let codes = (0..256).filter(|t| !matches!(*t, 0x01 | 0x05 | 0x06));
    compare(FABRICS, codes, StatusCode::INVALID_OPCODE, |t| {
        let sqe = Sqe { opcode: 0x7F, nsid: u32::from(t), cdw10: 1, cdw11: 0xFFF0, ..Sqe::default() };
        unsupported(b.run(sqe), StatusCode::INVALID_OPCODE, None)
    });
}

#[test]
fn support_of_every_property_is_as_listed() {
    let mut b = granted(false);
    compare(PROPERTIES, (0..0x100).step_by(4), StatusCode::INVALID_FIELD, |at| {
        let of = |b: &mut Bench, wide| b.status(PropertyAccess::get_sqe(1, at.into(), wide)).0;
        [of(&mut b, false), of(&mut b, true)].iter().all(|s| *s == StatusCode::INVALID_FIELD).then_some(StatusCode::INVALID_FIELD)
    });
}

#[test]
fn support_of_every_identify_structure_is_as_listed() {
    let at = Some(40);
    let sqe = |cns: u16| {
        let id = Identify { cns: cns as u8, cntid: 0xFFFF, nsid: 1, csi: 0, cnssid: 0 };
        Sqe { sgl: Sgl::transport(4096), ..id.sqe(1) }
    };
    let mut b = granted(false);
    compare(CNS, 0..256, StatusCode::INVALID_FIELD, |cns| unsupported(b.run(sqe(cns)), StatusCode::INVALID_FIELD, at));
    let mut b = granted(true);
    for cns in 0..256 {
        assert_eq!(unsupported(b.run(sqe(cns)), StatusCode::INVALID_FIELD, at).is_none(), cns == 1, "{cns:#x} of a discovery controller");
    }
}

#[test]
fn support_of_every_log_is_as_listed() {
    for (table, discovery) in [(LOGS, false), (DISCOVERY_LOGS, true)] {
        let mut b = granted(discovery);
        compare(table, 0..256, StatusCode::INVALID_LOG_PAGE, |lid| {
            unsupported(b.run(Bench::log(lid as u8, 0, 4, true)), StatusCode::INVALID_LOG_PAGE, None)
        });
    }
}

#[test]
fn support_of_every_feature_is_as_listed() {
    for (table, discovery) in [(FEATURES, false), (DISCOVERY_FEATURES, true)] {
        let mut b = granted(discovery);
        compare(table, 0..256, StatusCode::INVALID_FIELD, |fid| {
            let get = GetFeatures { fid: fid as u8, select: Some(Select::Supported), cdw11: 0, nsid: 1 };
            unsupported(b.run(get.sqe(1)), StatusCode::INVALID_FIELD, Some(40))
        });
    }
}
