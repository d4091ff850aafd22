//! Every malformed thing in every state, by hand, against a real daemon: the exact answer is checked each time, while a second connection
//! under verified load must never notice. `docs/pdu-cases.md` sums them up; both that page and the full table are written from the same cases.
//!
//! ```text
//! cargo test -p basalt --test whole pdu::                                        # all cases
//! PDU_CASE='H2CData' cargo test -p basalt --test whole pdu:: -- --nocapture      # those with this in their name, with all that went over
//! cargo test -p basalt --test whole the_page                                     # writes the full table into the build folder
//! PDU_WRITE=1 cargo test -p basalt --test whole the_page                         # writes docs/pdu-cases.md
//! PDU_PEER=127.0.0.1:4420 PDU_NQN=nqn… PDU_OUT=crates/basalt/tests/whole/pdu/observed/spdk.txt \
//!     cargo test -p basalt --test whole -- --ignored observe                     # records what another target answers
//! ```

mod case;
mod cases;
mod page;
mod run;
mod target;

use self::case::Case;
use self::run::{Run, Stop};
use self::target::{Env, LOAD_NSID};
use crate::harness::load::{Load, assert_clean};
use initiator::{ControllerOptions, Digests, HostIdentity};
use lab::verified::LoadSpec;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Cases at a time.
const AT_A_TIME: usize = 24;

/// Runs a case. Gives what went over when it did not go as it must.
fn run_case(env: &Env, case: &Case) -> Result<(), (Stop, String)> {
    let log = Rc::new(RefCell::new(Vec::new()));
    let result = Run::begin(env, case.state, &log).and_then(|mut run| {
        log.borrow_mut().push("------ the state is reached".into());
        (case.act)(&mut run).map_err(|stop| match stop {
            Stop::Differs(what) if !case.answers.is_empty() => Stop::Differs(format!("on the way: {what}")),
            other => other,
        })?;
        for answer in &case.answers {
            run.conn.expect(answer)?;
        }
        run.finish(case.answers.last())
    });
    if std::env::var("PDU_CASE").is_ok() {
        println!("=== {}\n{}", case.name, log.borrow().join("\n"));
    }
    result.map_err(|stop| (stop, log.borrow().join("\n")))
}

fn expected(case: &Case) -> String {
    match &case.answers[..] {
        [] => "as it says".into(),
        answers => answers.iter().map(case::Answer::text).collect::<Vec<_>>().join("; "),
    }
}

fn chosen() -> Vec<(&'static str, Case)> {
    let wanted = std::env::var("PDU_CASE").unwrap_or_default();
    cases::all().into_iter().filter(|(_, c)| c.name.contains(&wanted)).collect()
}

#[test]
fn every_case_gets_its_exact_answer_and_a_second_connection_never_notices() {
    let mut daemon = target::start();
    let env = target::ours(&daemon);
    let mut options = ControllerOptions::new(daemon.addr(), target::NQN);
    options.host = HostIdentity::numbered(2);
    options.digests = Digests { header: true, data: true };
    let load = Load::start(LoadSpec { time: Duration::from_secs(3600), depth: 4, ..LoadSpec::new(options, LOAD_NSID) });
    let cases = chosen();
    let (slow, quick): (Vec<&Case>, Vec<&Case>) = cases.iter().map(|(_, c)| c).partition(|c| c.slow);
    let (at, failed, begun) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Instant::now());
    let one = |case: &Case| {
        if let Err((stop, log)) = run_case(&env, case) {
            let text =
                format!("=== {}: {} ({})\nexpected {}, but: {stop:?}\n{log}", case.name, case.section, case.state.text(), expected(case));
            failed.lock().expect("no thread panics with it").push(text);
        }
    };
    std::thread::scope(|threads| {
        slow.iter().for_each(|case| drop(threads.spawn(|| one(case))));
        for _ in 0..AT_A_TIME.min(quick.len()) {
            threads.spawn(|| {
                while let Some(case) = quick.get(at.fetch_add(1, Ordering::Relaxed)) {
                    one(case);
                }
            });
        }
    });
    println!("{} cases in {:?}", cases.len(), begun.elapsed());
    let failed = failed.into_inner().expect("all threads have ended");
    assert!(failed.is_empty(), "{} of {} cases failed\n{}\n{}", failed.len(), cases.len(), failed.join("\n"), daemon.log_tail());
    let (summary, _) = load.finish(&daemon);
    assert_clean(&summary, &daemon);
    assert!(summary.reconnects == 0 && summary.bytes_written > 0, "the load noticed: {summary:?}");
    daemon.stop();
}

#[test]
fn the_page_is_what_the_cases_say() {
    let cases = cases::all();
    let mut names: Vec<&str> = cases.iter().map(|(_, c)| c.name.as_str()).collect();
    names.sort_unstable();
    names.windows(2).for_each(|w| assert_ne!(w[0], w[1], "two cases of one name"));
    let table = concat!(env!("CARGO_TARGET_TMPDIR"), "/pdu-cases.md");
    std::fs::write(table, page::table(&cases)).expect("the table is written");
    println!("the full table: {table}");
    let page = page::summary(&cases);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/pdu-cases.md");
    if std::env::var("PDU_WRITE").is_ok() {
        std::fs::write(path, &page).expect("the page is written");
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(there == page, "docs/pdu-cases.md is not what the cases say: PDU_WRITE=1 cargo test -p basalt --test whole the_page");
    let table = std::fs::read_to_string(table).expect("the table is there");
    for (_, case) in &cases {
        assert!(
            table.contains(&format!("| {} | {} |", case.name.replace('|', "\\|"), case.state.text())),
            "{} is not in the table",
            case.name
        );
    }
}

#[test]
fn the_readme_gives_the_number_of_cases() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).expect("the README");
    for line in readme.lines().filter(|l| l.contains("pdu-cases.md")) {
        for number in line.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<usize>().ok()).filter(|n| *n >= 100) {
            assert_eq!(number, cases::all().len(), "{line}");
        }
    }
}

/// Whether a target still takes connections; when not, waits for somebody to start it again.
fn is_there(addr: std::net::SocketAddr) -> bool {
    let there = || std::net::TcpStream::connect(addr).is_ok();
    if there() {
        return true;
    }
    for _ in 0..60 {
        std::thread::sleep(Duration::from_secs(1));
        if there() {
            std::thread::sleep(Duration::from_secs(3));
            break;
        }
    }
    false
}

/// Tries every case against another target and writes down what it answers.
#[test]
#[ignore = "needs another target: PDU_PEER, PDU_NQN, PDU_OUT"]
fn observe() {
    let var = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let (addr, nqn, out) = (var("PDU_PEER").parse().expect("an address"), var("PDU_NQN"), var("PDU_OUT"));
    let env = Env::probe(addr, addr, &nqn, 1, false);
    let mut lines = Vec::new();
    for (_, case) in chosen().iter().filter(|(_, c)| !c.slow) {
        let mut tries = 0;
        let text = loop {
            match run_case(&env, case) {
                Ok(()) if case.answers.is_empty() => break page::SAME.to_owned(),
                Ok(()) => break expected(case),
                Err((Stop::Differs(what), _)) => break what,
                // What earlier cases left may still be in the way.
                Err((Stop::Failed(_), _)) if tries < 3 => {
                    tries += 1;
                    std::thread::sleep(Duration::from_secs(3));
                }
                Err((Stop::Failed(why), log)) => {
                    eprintln!("=== {}: {why}\n{log}", case.name);
                    break format!("not tried: {why}");
                }
            }
        };
        let text = if is_there(addr) { text } else { "no answer".to_owned() };
        println!("{}\t{text}", case.name);
        lines.push(format!("{}\t{}", case.name, text.replace(['\n', '\t'], " ")));
        std::fs::write(&out, lines.join("\n") + "\n").expect("the answers are written");
    }
}
