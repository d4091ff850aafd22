//! Overload of a cluster: hosts write faster than any node's capacity takes it, and every write buffer is full. Paced is not late: no copy leaves.
//!
//! Fifteen seconds in `make test`; `OVERLOAD_SECONDS=60 cargo test -p basalt --test whole overload:: -- --nocapture` for longer.

use crate::harness::load::{Load, assert_clean};
use crate::harness::throttle::Throttle;
use crate::harness::{DESTAGE_AT_ONCE, Daemon, PATIENCE, number, until};
use crate::mirrors::{cluster_of, make};
use lab::verified::{self, LoadSpec, Mix};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

const SECONDS: u64 = 15;
/// What the capacity of each node takes.
const BYTES_PER_S: u64 = 2 << 20;
/// A buffer that has more in use is full: above it writes are paced, by the configuration here.
const FULL_PERCENT: u64 = 50;
/// No command may take longer; Linux gives one up after 30 s.
const LONGEST: Duration = Duration::from_secs(20);

/// A volume with one copy on each node, whatever is chosen: how many there are then.
fn one_on_each(at: &Daemon) -> usize {
    let mut nodes = BTreeSet::new();
    for made in 1..=12 {
        make(at, &format!("d{made}"), "default");
        nodes.insert(at.json(&format!("volume show d{made}"))["owner"].to_string());
        if nodes.len() == 3 {
            return made;
        }
    }
    panic!("only {nodes:?} get copies")
}

/// Who owns each volume, how many of its copies are in sync, and what says that one was not, in between.
fn placed(at: &Daemon, pages: &[String]) -> Vec<String> {
    let list = at.json("volume list");
    let shown = |v: &Value| format!("{} of {}, {} of {} copies in sync", v["name"], v["owner"], v["copies_in_sync"], v["copies"]);
    let resynced = |page: &String| figure(page, "basalt_object_resynced_ranges_total") + figure(page, "basalt_object_agreed_ranges_total");
    let resynced: u64 = pages.iter().map(resynced).sum();
    list.as_array().expect("a list").iter().map(shown).chain([format!("{resynced} ranges resynced")]).collect()
}

/// A host of a volume, which mostly writes.
fn writes(node: &Daemon, nsid: u32) -> Load {
    let mix = Mix { read: 10, zero: 0, trim: 0, flush: 0, fua: 0 };
    let spec = LoadSpec { seed: u64::from(nsid), queues: 1, depth: 24, mix, ..LoadSpec::new(node.options(), nsid) };
    let once = || verified::run(LoadSpec { ops: Some(1), read_back: false, ..spec.clone() }, |_| ()).ok().filter(|r| r.0.is_clean());
    until("it is served", once);
    Load::start(LoadSpec { time: Duration::from_secs(24 * 3600), before: verified::Before::Unknown, ..spec })
}

fn pages(nodes: &[Daemon]) -> Vec<String> {
    nodes.iter().map(Daemon::metrics).collect()
}

/// A figure of a page of metrics.
fn figure(page: &str, name: &str) -> u64 {
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in\n{page}")).parse::<f64>().expect("a number") as u64
}

/// Of the write buffer of a node: how much of it is full, in percent, and how many writes have waited to enter it, and have entered.
fn buffer(page: &str, group: &str) -> (u64, u64, u64) {
    let figure = |name: &str| figure(page, &format!("basalt_{name}{{group=\"{group}\"}}"));
    let fill = figure("buffer_used_bytes") * 100 / figure("buffer_size_bytes");
    (fill, figure("store_delayed_writes_total"), figure("store_writes_total"))
}

#[test]
fn every_buffer_is_full_and_no_copy_leaves() {
    let (seconds, groups) = (number("OVERLOAD_SECONDS").unwrap_or(SECONDS), ["ga", "gb", "gc"]);
    let mut nodes = cluster_of(DESTAGE_AT_ONCE, |_| "memory:256MiB".into(), "1GiB");
    let slow = |node: &Daemon| Throttle::of(Path::new(&node.at("")), node.id(), BYTES_PER_S);
    let Some(throttles) = nodes.iter().map(slow).collect::<Option<Vec<_>>>() else {
        println!("skipped");
        return;
    };
    nodes[0].ok("policy create three --failures-to-tolerate 2");
    make(&nodes[0], "three", "three");
    make(&nodes[0], "two", "two");
    let volumes = 2 + one_on_each(&nodes[0]);
    let loads: Vec<Load> = (0..volumes).map(|volume| writes(&nodes[volume % 3], volume as u32 + 1)).collect();
    let full = || pages(&nodes).iter().zip(groups).all(|(page, group)| buffer(page, group).0 >= FULL_PERCENT);
    until("all buffers are full", || full().then_some(()));
    let (began, before) = (Instant::now(), placed(&nodes[0], &pages(&nodes)));
    let mut seen: Vec<Vec<(u64, u64, u64)>> = groups.map(|_| Vec::new()).into();
    while began.elapsed() < Duration::from_secs(seconds) {
        let pages = pages(&nodes);
        pages.iter().zip(groups).zip(&mut seen).for_each(|((page, group), seen)| seen.push(buffer(page, group)));
        loads.iter().for_each(|load| load.assert_running(&nodes[0]));
        assert_eq!(placed(&nodes[0], &pages), before, "after {:?}", began.elapsed());
        sleep(Duration::from_millis(500));
    }
    println!("{before:?} after {:?}", began.elapsed());
    for (group, seen) in groups.iter().zip(&seen) {
        assert!(seen.len() > 3, "{seen:?}");
        let (least, most) = (seen.iter().map(|s| s.0).min().expect("looked at"), seen.iter().map(|s| s.0).max());
        let full = seen.iter().filter(|s| s.0 >= FULL_PERCENT).count();
        let held = seen.windows(2).filter(|two| two[1].1 > two[0].1).count();
        let went_on = seen.windows(2).filter(|two| two[1].2 > two[0].2).count();
        println!("{group}: {least} to {most:?} % full, in {full} of {} looks; held back in {held}, went on in {went_on}", seen.len());
        assert!(full * 10 >= seen.len() * 9 && held * 10 >= (seen.len() - 1) * 9, "{group} is not full: {seen:?}");
        assert!(went_on * 10 >= (seen.len() - 1) * 9, "{group} stands still: {seen:?}");
    }
    drop(throttles);
    for (volume, load) in loads.into_iter().enumerate() {
        let node = &nodes[volume % 3];
        let (summary, _) = load.finish(node);
        assert_clean(&summary, node);
        let longest = Duration::from_micros(summary.latency_us[3]);
        println!("namespace {}: {} bytes written, the longest command took {longest:?}", volume + 1, summary.bytes_written);
        assert!(summary.bytes_written > 0 && summary.units_checked > 0 && longest < LONGEST.min(PATIENCE), "{summary:?}");
    }
    assert_eq!(placed(&nodes[0], &pages(&nodes)), before);
    nodes.iter_mut().for_each(Daemon::stop);
}
