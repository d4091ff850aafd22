//! The cases as pages: the summary that is kept as `docs/pdu-cases.md`, and the full table, which is made where and when it is wanted.
//!
//! Invariant: both follow from the table of the cases and from what other targets were observed to answer; no figure is written by hand.

use crate::pdu::case::Case;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What stands for another target that answers as we do; in its file only where a case checks more than one answer.
pub const SAME: &str = "=";

const HEAD: &str = "\
# PDU by PDU: what the target answers to what is wrong

";

const HOW: &str = "\
Run the cases after each change of what the target answers. Write this page anew when a case was added or an answer
changed; the test fails until it is.

    cargo test -p basalt --test whole pdu::                      # runs the cases
    PDU_WRITE=1 cargo test -p basalt --test whole the_page       # writes this page anew
    cargo test -p basalt --test whole the_page                   # writes the full table: target/tmp/pdu-cases.md

The full table has a row for each case: the state of the connection, the section of the specification, the answers of
Basalt, SPDK and Linux. This page has the counts.

## How a case runs

A hand-made client sends each case to a real daemon. The test checks the answer to the bit:

| answer | what is checked |
| --- | --- |
| a termination request | the reason (FES), the information (FEI) and the bytes of the faulty header that come back |
| a completion | identifier, status, DNR, result and submission queue head |
| a completion that says \"more\" | also the entry of the Error Information log |

After an error that ends nothing, the connection has to serve on. After a termination request, the daemon has to close
it. A second connection under verified load must notice nothing.
";

const OF_THE_TABLE: &str = "\
Sections: *tcp* is the NVMe TCP Transport Specification 1.0, *base* the NVM Express Base Specification 2.0, *nvm* the NVM Command Set Specification 1.0.
\"own\" marks what the specifications leave open and `docs/nvme-tcp.md` decides. `=` means the same answer.

";

/// How an answer ends, as far as its words say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// A termination request says why, then the connection closes.
    Terminated,
    /// The connection closes without a word.
    Closed,
    /// A command fails with a status, or an authentication with a reason.
    Failed,
    /// It is done, or goes on.
    Served,
    /// Several answers, which the case checks one by one.
    Several,
    /// Nothing comes, or nothing comes any more.
    Silent,
}

impl Ending {
    fn of(text: &str) -> Ending {
        let last = text.rsplit("; ").next().unwrap_or(text);
        let last = last.trim_start_matches("on the way: ").trim_start_matches("before: ");
        let is_data = last.starts_with("R2T ") || last.ends_with(" bytes");
        match last {
            _ if text.contains("serves no more") => Ending::Silent,
            "nothing" | "no answer" => Ending::Silent,
            "as it says" => Ending::Several,
            "closes" if text.starts_with("AUTH_Failure1") => Ending::Failed,
            "closes" => Ending::Closed,
            _ if last.starts_with("ends: ") => Ending::Terminated,
            _ if is_data || last.starts_with("success") || last.starts_with("ICResp") => Ending::Served,
            _ => Ending::Failed,
        }
    }
    fn is_refusal(self) -> bool {
        matches!(self, Ending::Terminated | Ending::Closed | Ending::Failed)
    }
}

/// How another target's answer compares with ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Difference {
    /// The same, to the bit.
    Same,
    /// It serves what we refuse.
    Lenient,
    /// It answers nothing, or serves nothing afterwards.
    Silent,
    /// It refuses what we serve.
    Strict,
    /// Both refuse; it closes without saying why.
    Speechless,
    /// Both refuse, with other words, or both serve, with another result.
    Words,
}

impl Difference {
    const ALL: [Difference; 6] =
        [Difference::Same, Difference::Lenient, Difference::Silent, Difference::Strict, Difference::Speechless, Difference::Words];

    fn of(ours: &str, theirs: &str) -> Difference {
        let (we, they) = (Ending::of(ours), Ending::of(theirs));
        match (we, they) {
            _ if theirs == SAME => Difference::Same,
            (we, Ending::Silent) if we != Ending::Silent => Difference::Silent,
            (we, Ending::Served) if we.is_refusal() => Difference::Lenient,
            (we, Ending::Closed) if we.is_refusal() => Difference::Speechless,
            (we, they) if they.is_refusal() && !we.is_refusal() => Difference::Strict,
            _ => Difference::Words,
        }
    }
    fn title(self) -> &'static str {
        match self {
            Difference::Same => "same answer",
            Difference::Lenient => "serves what Basalt refuses",
            Difference::Silent => "no answer, or serves no more",
            Difference::Strict => "refuses what Basalt serves",
            Difference::Speechless => "closes without a reason",
            Difference::Words => "other status or result",
        }
    }
    /// Why a reader may care; `None`: the counts say it all.
    fn why(self) -> Option<&'static str> {
        match self {
            Difference::Lenient => Some(
                "A host that sends this works there and is refused here. The specification forbids what it sends, reserves it or leaves\n\
                 it open.",
            ),
            Difference::Silent => Some("A host that sends this waits there, or has to connect anew. Here it gets an answer."),
            Difference::Strict => Some("A host that sends this works here and is refused there."),
            Difference::Same | Difference::Speechless | Difference::Words => None,
        }
    }
}

fn observed(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split_once('\t')).collect()
}

/// Another target, and what it was observed to answer.
struct Peer {
    name: &'static str,
    /// What it was.
    about: String,
    seen: BTreeMap<&'static str, &'static str>,
}

impl Peer {
    fn new(name: &'static str, file: &'static str) -> Peer {
        let about: Vec<&str> = file.lines().filter_map(|l| l.strip_prefix("# ")).collect();
        Peer { name, about: about.join(" "), seen: observed(file) }
    }
    /// SPDK and the Linux kernel's target.
    fn all() -> [Peer; 2] {
        [Peer::new("SPDK", include_str!("observed/spdk.txt")), Peer::new("nvmet", include_str!("observed/nvmet.txt"))]
    }
    /// What it answered, or that it was the same; `None`: not observed.
    fn answer(&self, case: &Case) -> Option<&'static str> {
        let text = *self.seen.get(case.name.as_str())?;
        Some(if text == crate::pdu::expected(case) { SAME } else { text })
    }
    fn difference(&self, case: &Case) -> Option<Difference> {
        let theirs = self.answer(case).filter(|text| !text.starts_with("not tried"))?;
        Some(Difference::of(&crate::pdu::expected(case), theirs))
    }
}

type Cases = [(&'static str, Case)];

/// The cases of each subject, in their order.
fn subjects(cases: &Cases) -> Vec<(&'static str, Vec<&Case>)> {
    let mut out: Vec<(&str, Vec<&Case>)> = Vec::new();
    for (of, case) in cases {
        match out.last_mut().filter(|(subject, _)| subject == of) {
            Some((_, cases)) => cases.push(case),
            None => out.push((of, vec![case])),
        }
    }
    out
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn row(out: &mut String, cells: &[String]) {
    writeln!(out, "| {} |", cells.join(" | ")).expect("a string takes all");
}

fn head(out: &mut String, columns: &[&str]) {
    row(out, &columns.iter().map(|c| (*c).to_owned()).collect::<Vec<_>>());
    row(out, &columns.iter().map(|_| "---".to_owned()).collect::<Vec<_>>());
}

/// `0` is left out: what is there is what counts.
fn count(n: usize) -> String {
    if n == 0 { String::new() } else { n.to_string() }
}

/// The page that is kept: classes of cases, how they are answered, and where other targets differ so that a host notices.
pub fn summary(cases: &Cases) -> String {
    let peers = Peer::all();
    let subjects = subjects(cases);
    let mut out = format!("{HEAD}{} cases: malformed PDUs, PDUs and commands out of place, values out of range.\n\n{HOW}", cases.len());
    out += "\n## What Basalt answers\n\n";
    let endings = [
        (Ending::Terminated, "termination request"),
        (Ending::Closed, "closes"),
        (Ending::Failed, "error status"),
        (Ending::Served, "served"),
        (Ending::Several, "several answers"),
        (Ending::Silent, "waits"),
    ];
    head(&mut out, &[&["cases", "in all"][..], &endings.map(|(_, name)| name)].concat());
    let all: Vec<&Case> = cases.iter().map(|(_, c)| c).collect();
    for (subject, of) in subjects.iter().map(|(s, of)| (*s, of)).chain([("**all**", &all)]) {
        let n = |ending| of.iter().filter(|c| Ending::of(&crate::pdu::expected(c)) == ending).count();
        row(&mut out, &[vec![subject.to_owned(), of.len().to_string()], endings.map(|(e, _)| count(n(e))).to_vec()].concat());
    }
    out += "\n## Beside SPDK and Linux\n\n";
    head(&mut out, &["peer", "what it was"]);
    for peer in &peers {
        row(&mut out, &[peer.name.to_owned(), cell(&peer.about)]);
    }
    out += "\nA case without an answer of a peer in the full table was not tried there.\n\n";
    head(&mut out, &["how the peer answers", "SPDK", "nvmet"]);
    let n = |peer: &Peer, d| cases.iter().filter(|(_, c)| peer.difference(c) == Some(d)).count();
    for d in Difference::ALL {
        row(&mut out, &[d.title().to_owned(), n(&peers[0], d).to_string(), n(&peers[1], d).to_string()]);
    }
    let tried = |peer: &Peer| cases.iter().filter(|(_, c)| peer.difference(c).is_some()).count().to_string();
    row(&mut out, &["cases tried".to_owned(), tried(&peers[0]), tried(&peers[1])]);
    out += "\n## Differences that a host notices\n\nEach row has the counts and one example. The full table has them all.\n";
    for d in Difference::ALL {
        let Some(why) = d.why() else { continue };
        write!(
            out,
            "\n### The peer {}\n\n{why}\n\n",
            if d == Difference::Silent { "gives no answer, or serves no more" } else { d.title() }
        )
        .expect("a string takes all");
        head(&mut out, &["cases", "SPDK", "nvmet", "example", "Basalt", "SPDK", "nvmet"]);
        for (subject, of) in &subjects {
            let n = |peer: &Peer| of.iter().filter(|c| peer.difference(c) == Some(d)).count();
            // The example shows both peers differing, where there is one.
            let differ = |c: &Case| peers.iter().filter(|p| p.difference(c) == Some(d)).count();
            let Some(example) = of.iter().rev().max_by_key(|c| differ(c)).filter(|c| differ(c) > 0) else { continue };
            let of_peer = |p: &Peer| cell(p.answer(example).unwrap_or(""));
            let ours = cell(&crate::pdu::expected(example));
            let counts = [(*subject).to_owned(), count(n(&peers[0])), count(n(&peers[1]))];
            row(&mut out, &[&counts[..], &[cell(&example.name), ours, of_peer(&peers[0]), of_peer(&peers[1])]].concat());
        }
    }
    out
}

/// The full table: every case with every answer.
pub fn table(cases: &Cases) -> String {
    let peers = Peer::all();
    let mut out = format!("{HEAD}{} cases. `docs/pdu-cases.md` says how they are run.\n\n{OF_THE_TABLE}", cases.len());
    for peer in &peers {
        writeln!(out, "**{}**: {}\n", peer.name, peer.about).expect("a string takes all");
    }
    for (subject, of) in subjects(cases) {
        write!(out, "\n## {subject}\n\n").expect("a string takes all");
        head(&mut out, &["case", "where", "section", "answer", "SPDK", "nvmet"]);
        for case in of {
            let of = |peer: &Peer| cell(peer.answer(case).unwrap_or(""));
            let answer = cell(&crate::pdu::expected(case));
            row(&mut out, &[cell(&case.name), case.state.text(), case.section.to_owned(), answer, of(&peers[0]), of(&peers[1])]);
        }
    }
    out
}
