//! Who watches: what a host does is in `iostat`, `top` and the metrics, and what an administrator does is in the audit log.

use crate::harness::{Daemon, USUAL, until};
use initiator::Controller;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A daemon with the volume `v`, which a host has written 16 times 64 KiB to, and read once.
pub fn used() -> Daemon {
    let daemon = Daemon::started(&USUAL);
    daemon.ok("group create g --cache memory:256MiB --capacity memory:512MiB");
    daemon.ok("volume create v --size 256MiB");
    let controller = Controller::connect(daemon.options()).expect("it connects");
    let mut queue = controller.open_queue(1, 8, controller.namespace(1).expect("the volume")).expect("a queue");
    for n in 0..16 {
        queue.write(n * (64 << 10), vec![7; 64 << 10], false).expect("it is written");
    }
    queue.read(0, 4096).expect("it is read");
    // Figures may be half a second old.
    until("its figures are there", || daemon.metrics().contains("basalt_volume_operations_total").then_some(()));
    daemon
}

/// The lines of the newest report.
fn lines(daemon: &Daemon, line: &str) -> Vec<serde_json::Value> {
    daemon.json(line)["lines"].as_array().expect("lines").clone()
}

#[test]
fn what_a_host_does_is_shown_by_volume_host_and_device() {
    let daemon = used();
    let volumes = lines(&daemon, "iostat");
    assert_eq!(volumes.len(), 1, "{volumes:?}");
    assert_eq!(volumes[0]["name"], "v");
    let rate = |of: &str| volumes[0][of].as_f64().expect("a number");
    assert!((rate("writes_per_s") / rate("reads_per_s") - 16.0).abs() < 1e-6, "{volumes:?}");
    assert!((rate("write_bytes_per_s") / rate("read_bytes_per_s") - 256.0).abs() < 1e-6 && rate("errors_per_s") == 0.0, "{volumes:?}");
    assert!(rate("write_p99_us") >= rate("write_p50_us") && rate("write_p50_us") > 0.0, "{volumes:?}");
    let hosts = lines(&daemon, "iostat host");
    assert!(hosts.len() == 1 && hosts[0]["writes_per_s"].as_f64() > Some(0.0), "{hosts:?}");
    let devices = lines(&daemon, "iostat device");
    assert!(devices.len() == 2 && devices.iter().any(|device| device["write_bytes_per_s"].as_f64() > Some(0.0)), "{devices:?}");
    // Nothing happens any more.
    let quiet = lines(&daemon, "iostat volume 0.2 1");
    assert_eq!((quiet[0]["writes_per_s"].as_f64(), &quiet[0]["write_p99_us"]), (Some(0.0), &serde_json::Value::Null));
    assert!(daemon.ok("top host 0.2").contains("hosts on"), "one report where there is no terminal");
    let statistics = daemon.fails("iostat disk", 2);
    assert!(statistics.contains("no volume, device or host"), "{statistics}");
}

#[test]
fn alerts_and_dashboard_ask_for_what_is_served_and_promtool_finds_nothing() {
    let daemon = used();
    let answer = daemon.metrics();
    let (_, page) = answer.split_once("\r\n\r\n").expect("a head and a page");
    // HTTP may have cut it into chunks: their sizes are lines of hexadecimal digits.
    let size = |line: &&str| line.ends_with('\r') || line.is_empty();
    let whole: String = page.split('\n').filter(|line| !size(line)).map(|line| format!("{line}\n")).collect();
    fs::write(daemon.path("page"), whole).expect("it is written");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/monitoring");
    let output = Command::new(script).arg(daemon.path("page")).output().expect("scripts/monitoring runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_administrators_do_is_in_the_audit_log_with_who_and_what_came_of_it() {
    let daemon = Daemon::started(&USUAL);
    daemon.ok("policy create bronze --iops-limit 2000");
    daemon.fails("volume create v --size 1GiB", 1);
    daemon.ok("policy list");
    let all = daemon.json("audit --since 1h");
    let all: Vec<_> = all.as_array().expect("a list").iter().filter(|one| one["event"] == "administrator").collect();
    assert_eq!(all.len(), 2, "what only reads is not noted: {all:?}");
    let text = |n: usize, of: &str| all[n][of].as_str().expect("text").to_owned();
    assert!(text(0, "by").starts_with("uid ") && text(0, "by").contains("pid "), "{all:?}");
    assert!(text(0, "action").starts_with("POST /api/v1/policies") && text(0, "action").contains("bronze"), "{all:?}");
    assert_eq!(text(0, "result"), "done: /api/v1/policies/bronze");
    assert!(text(1, "action").contains("name=\"v\"") && text(1, "result").starts_with("refused ("), "{all:?}");
    assert!(daemon.json("audit --until 1h").as_array().expect("a list").is_empty());
}
