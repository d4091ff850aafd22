//! Modelled clusters under load: limits come out as the drives say, results repeat, bad jobs are refused.

use super::*;
use lab::engine::Watch;
use lab::workload::Skew;

struct Silent;
impl Watch for Silent {
    fn second(&mut self, _: &Second) {}
    fn progress(&mut self, _: &str, _: u64, _: u64) {}
    fn stopped(&self) -> bool {
        false
    }
}

fn cluster(cost: &str, rate: f64) -> Cluster {
    let size = 4000.0 / rate;
    let text = format!(
        r#"
name = "test"
[scale]
rate = {rate}
size = {size}
[[nodes]]
cores = 2
core_cost = "{cost}"
drives = [{{ name = "nvme0", model = "kioxia-cm6-7680" }}]
[[nodes.groups]]
cache = {{ drive = "nvme0", gib = 1000 }}
capacity = [{{ drive = "nvme0", gib = 1500, count = 2 }}]
shards = 2
[volumes]
count = 4
gib = 200
"#
    );
    toml::from_str(&text).unwrap()
}

fn random(bytes: u32, reads: f64, depth: u32) -> Workload {
    Workload::simple("random", bytes, reads, Access::Random { skew: Skew::Uniform }, depth)
}

fn job(workload: Workload, measure_ms: u64) -> Job {
    Job { workload, warm_up: Duration::from_millis(20), measure: Duration::from_millis(measure_ms), seed: 3 }
}

fn prepared(cost: &str, rate: f64) -> Simulated {
    let mut engine = Simulated::new(&cluster(cost, rate), 1).unwrap();
    engine.prepare(&random(4096, 1.0, 1), Fill::Random, &mut Silent).unwrap();
    engine.rest(60); // destaging ends, so that nothing else is under way on the drive
    engine
}

#[test]
fn free_cores_read_as_fast_as_the_drive_and_costly_ones_as_fast_as_they_can() {
    let iops = |cost| prepared(cost, 4.0).run(&job(random(4096, 1.0, 128), 100), &mut Silent).unwrap().iops();
    let (free, costly) = (iops("free"), iops("measured"));
    assert!((1.2e6..1.45e6).contains(&free), "{free} of 1.4 million");
    // two cores; docs/performance.md: about 118,000 each
    assert!((180e3..300e3).contains(&costly), "{costly}");
}

#[test]
fn latency_at_depth_one_is_what_drive_and_network_take() {
    let mut engine = prepared("free", 4.0);
    let mut one = random(4096, 1.0, 1);
    one.working_set = 0.9;
    let measured = engine.run(&job(one, 200), &mut Silent).unwrap();
    let mean = measured.reads.latency.mean_ns() / 1e3;
    assert!((115.0..145.0).contains(&mean), "{mean} µs: 95 of the drive, 30 of the network");
}

#[test]
fn an_open_loop_gets_its_rate_and_a_limit_is_kept() {
    let mut engine = prepared("free", 4.0);
    for arrivals in [Arrivals::Open { iops: 40_000.0, spacing: Default::default() }, Arrivals::Limited { iops: 40_000.0 }] {
        let mut load = random(8192, 0.5, 32);
        load.arrivals = arrivals;
        let measured = engine.run(&job(load, 400), &mut Silent).unwrap();
        assert!((measured.iops() / 40_000.0 - 1.0).abs() < 0.06, "{arrivals:?}: {}", measured.iops());
        let seconds: u64 = measured.seconds.iter().filter(|s| s.at_s > -1e-9).map(|s| s.reads + s.writes).sum();
        let total = measured.total().operations;
        assert!(seconds.abs_diff(total) <= 40, "seconds add up: {seconds} and {total}");
    }
}

#[test]
fn the_same_cluster_jobs_and_seed_give_the_same_run() {
    let run = || {
        let mut engine = prepared("measured", 16.0);
        let measured = engine.run(&job(random(16_384, 0.6, 8), 60), &mut Silent).unwrap();
        (engine.trace(), measured.reads, measured.writes)
    };
    assert_eq!(run(), run());
}

#[test]
fn writes_fill_the_buffer_and_the_pace_holds_it() {
    let mut engine = prepared("free", 16.0);
    let measured = engine.run(&job(random(32 << 10, 0.0, 16), 1000), &mut Silent).unwrap();
    let last = measured.seconds.last().unwrap().target.clone().unwrap();
    assert!(last.buffer_fill > 0.5 && last.buffer_fill < 0.95, "{last:?}");
    assert!(last.destaged_bytes > 1e8 && last.device_written_bytes > last.destaged_bytes, "{last:?}");
    assert_eq!(measured.writes.errors, 0);
    assert!(measured.notes.iter().any(|n| n.contains("scaled by 16")), "{:?}", measured.notes);
    assert!(measured.notes.iter().any(|n| n.contains("blocks of data in a batch")), "{:?}", measured.notes);
}

#[test]
fn what_a_model_cannot_do_is_refused() {
    let mut engine = Simulated::new(&cluster("free", 16.0), 1).unwrap();
    let mut load = random(4096, 0.5, 1);
    load.verify = true;
    assert!(engine.run(&job(load, 50), &mut Silent).unwrap_err().to_string().contains("verify"));
    let error = engine.run(&job(random(2 << 20, 0.5, 1), 50), &mut Silent).unwrap_err();
    assert!(error.to_string().contains("1 MiB"), "{error}");
}
