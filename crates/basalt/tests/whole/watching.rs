//! Who watches: what a host does is in `iostat`, `top` and the metrics, and what an administrator does is in the audit log.

use crate::harness::{Daemon, USUAL, body_of, exchanged, until, until_or};
use crate::token::over_tcp;
use initiator::Controller;
use serde_json::Value;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

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
    fs::write(daemon.path("page"), body_of(&daemon.metrics())).expect("it is written");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/monitoring");
    let output = Command::new(script).arg(daemon.path("page")).output().expect("scripts/monitoring runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A Prometheus that scrapes a daemon every second, with our rules. It is ended by its process id when it is dropped.
struct Prometheus {
    child: Child,
    addr: SocketAddr,
}

impl Prometheus {
    /// Its files are in the daemon's folder.
    fn of(daemon: &Daemon) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the source");
        let found = Command::new(root.join("scripts/programs-for-tests")).arg("prometheus").output().expect("it runs");
        assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
        let programs = PathBuf::from(String::from_utf8_lossy(&found.stdout).trim());
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [{rules:?}]\nscrape_configs:\n\
             - job_name: basalt\n  authorization: {{ credentials_file: {token:?} }}\n  static_configs: [{{ targets: [\"{target}\"] }}]\n",
            rules = root.join("packaging/prometheus/basalt.rules.yml"),
            token = daemon.path("token"),
            target = daemon.api_addr(),
        );
        fs::write(daemon.path("prometheus.yml"), config).expect("it is written");
        let log = File::create(daemon.path("prometheus.log")).expect("a file for what it says");
        let mut command = Command::new(programs.join("prometheus"));
        command.arg(format!("--config.file={}", daemon.at("prometheus.yml")));
        command.arg(format!("--storage.tsdb.path={}", daemon.at("prometheus"))).arg("--web.listen-address=127.0.0.1:0");
        command.env("GOMAXPROCS", "2").env("GOMEMLIMIT", "256MiB").current_dir(daemon.path(""));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("it starts");
        let mut started = Self { child, addr: ([127, 0, 0, 1], 0).into() };
        let said = || fs::read_to_string(daemon.path("prometheus.log")).unwrap_or_default();
        started.addr = until_or("Prometheus listens", said, || {
            let said = said();
            let line = said.lines().find(|line| line.contains("\"Listening on\"") || line.contains("TLS is disabled"))?;
            line.split_once("address=")?.1.split_whitespace().next()?.parse().ok()
        });
        started
    }
    /// `data` of what its API answers.
    fn data(&self, path: &str) -> Option<Value> {
        let mut api = TcpStream::connect(self.addr).ok()?;
        let (status, answer) = exchanged(&mut api, "GET", path, "", b"");
        // It is not ready at once.
        if status == 503 {
            return None;
        }
        assert_eq!(status, 200, "{path}: {answer}");
        let mut answer: Value = serde_json::from_str(&body_of(&answer)).expect("JSON");
        Some(answer["data"].take())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The real Prometheus, with the configuration of the user guide: it reads what is served (as OpenMetrics, for which it asks first), and the rules.
#[test]
fn prometheus_scrapes_the_daemon_with_its_token_and_raises_alerts_by_our_rules() {
    let mut daemon = over_tcp(&USUAL);
    daemon.ok("group create g --cache memory:256MiB --capacity memory:512MiB");
    daemon.ok("volume create v --size 64MiB");
    let prometheus = Prometheus::of(&daemon);
    let log = || fs::read_to_string(daemon.path("prometheus.log")).unwrap_or_default();
    let target = until_or("the target is up", log, || {
        let targets = prometheus.data("/api/v1/targets")?;
        let [target] = &targets["activeTargets"].as_array()?[..] else { return None };
        (target["health"] == "up").then(|| target.clone())
    });
    assert_eq!((&target["labels"]["job"], &target["lastError"]), (&"basalt".into(), &"".into()), "{target}");

    let published = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/prometheus/basalt.rules.yml"));
    let alerts = published.expect("the rules").matches("- alert: ").count();
    let rules = until_or("all rules are evaluated", log, || {
        let groups = prometheus.data("/api/v1/rules")?;
        let rules: Vec<Value> =
            groups["groups"].as_array()?.iter().flat_map(|g| g["rules"].as_array().cloned().unwrap_or_default()).collect();
        rules.iter().all(|rule| rule["health"] != "unknown").then_some(rules)
    });
    assert!(rules.iter().all(|rule| rule["health"] == "ok"), "{rules:?}");
    assert_eq!(rules.iter().filter(|rule| rule["type"] == "alerting").count(), alerts);
    // A disk group in memory is a warning, which becomes an alarm when it stays.
    until_or("an alert is pending", log, || {
        let alerts = prometheus.data("/api/v1/alerts")?;
        let pending = |one: &Value| one["labels"]["alertname"] == "BasaltHealthWarning" && one["labels"]["check"] == "group_volatile";
        alerts["alerts"].as_array()?.iter().any(pending).then_some(())
    });
    // Samples have the names that the text format has.
    for (query, value) in
        [("up", "1"), ("basalt_volume_online", "1"), ("basalt_volume_size_bytes", "67108864"), ("count(basalt_core_loops_total)", "2")]
    {
        let found = until_or("there is a sample", log, || {
            let result = prometheus.data(&format!("/api/v1/query?query={query}"))?;
            result["result"].as_array()?.first().map(|one| one["value"][1].clone())
        });
        assert_eq!(found, value, "{query}");
    }
    // Each query of the dashboard, as Grafana sends it when all nodes and volumes are chosen: Prometheus finds no fault, and what the daemon
    // counts without hosts is there.
    for query in dashboard_queries() {
        let found = until_or("there is an answer", log, || {
            let result = prometheus.data(&format!("/api/v1/query?query={}", encoded(&query)))?;
            assert_eq!(result["resultType"], "vector", "{query}");
            (!needs_nothing_but_a_daemon(&query) || result["result"].as_array().is_some_and(|all| !all.is_empty())).then_some(result)
        });
        assert!(found["result"].is_array(), "{query}: {found}");
    }
    drop(prometheus);
    daemon.stop();
}

/// Whether a query has an answer as soon as a daemon with a disk group runs: rates need two samples, and volumes a host.
fn needs_nothing_but_a_daemon(query: &str) -> bool {
    !query.contains("rate(") && !query.contains("basalt_volume_")
}

/// The text in a URL.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The queries of all panels of the dashboard, with what Grafana puts in the place of its variables.
fn dashboard_queries() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/grafana/basalt.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(path).expect("the dashboard")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let mut queries = Vec::new();
    for target in targets {
        let mut query = target["expr"].as_str().expect("a query").to_owned();
        for (variable, value) in [("$__rate_interval", "5s"), ("$instance", ".*"), ("$volume", ".*")] {
            query = query.replace(variable, value);
        }
        assert!(!query.contains('$'), "a variable that is not known here: {query}");
        queries.push(query);
    }
    assert!(queries.len() > 10, "the dashboard was read: {queries:?}");
    queries
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
