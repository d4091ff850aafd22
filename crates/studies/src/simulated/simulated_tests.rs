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
    engine.rest(60).unwrap(); // destaging ends, so that nothing else is under way on the drive
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

/// What the play before left to come does not make an operation come before its time.
#[test]
fn a_slow_open_loop_after_another_gets_its_rate_and_no_operation_ends_before_it_came() {
    let mut engine = prepared("free", 4.0);
    for seed in 0..8 {
        let mut load = random(8192, 0.5, 32);
        load.arrivals = Arrivals::Open { iops: 4_000.0, spacing: Default::default() };
        let measured = engine.run(&Job { seed, ..job(load, 400) }, &mut Silent).unwrap();
        assert!((measured.iops() / 4_000.0 - 1.0).abs() < 0.2, "{seed}: {}", measured.iops());
        assert!(measured.total().latency.percentile_ns(1.0) > 25_000, "{seed}: sooner than the network takes");
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
    let scale = |n: &String| n.contains("scaled by 16") && n.contains("one operation outstanding stands for 16");
    assert!(measured.notes.iter().any(scale), "{:?}", measured.notes);
    assert!(measured.notes.iter().any(|n| n.contains("blocks of data in a batch")), "{:?}", measured.notes);
}

/// So many nodes as the one of `cluster`, with mirrored volumes on them.
fn mirrored(cost: &str, nodes: usize, network: &str) -> Cluster {
    let mut all = cluster(cost, 16.0);
    all.nodes = vec![all.nodes[0].clone(); nodes];
    (all.volumes.count, all.volumes.failures_to_tolerate) = (2 * nodes, 1);
    all.network = toml::from_str(network).unwrap();
    all
}

fn mirrored_engine(cost: &str, nodes: usize, network: &str) -> Simulated {
    let mut engine = Simulated::new(&mirrored(cost, nodes, network), 1).unwrap();
    engine.prepare(&random(4096, 1.0, 1), Fill::Random, &mut Silent).unwrap();
    engine.rest(60).unwrap();
    engine
}

#[test]
fn writes_of_four_nodes_go_to_two_copies_and_reads_to_one() {
    let mut engine = mirrored_engine("free", 4, "");
    let written = |engine: &mut Simulated| engine.world.figures().unwrap().logged_blocks * 4096;
    let prepared = 2 * Engine::disks(&engine).iter().map(|(_, bytes)| bytes).sum::<u64>();
    assert!((prepared..prepared + prepared / 20).contains(&written(&mut engine)), "{prepared}: all data is there twice");
    let before = (written(&mut engine), engine.world.figures().unwrap());
    let measured = engine.run(&job(random(32 << 10, 0.5, 4), 200), &mut Silent).unwrap();
    assert_eq!((measured.total().errors, measured.writes.operations > 1_000), (0, true), "{measured:?}");
    let after = (written(&mut engine), engine.world.figures().unwrap());
    // What was under way in warm-up and end counts at the devices only.
    let seconds = &measured.seconds;
    let (write, read) = (seconds.iter().map(|s| s.written_bytes).sum::<u64>() / 16, seconds.iter().map(|s| s.read_bytes).sum::<u64>() / 16);
    let (logged, times_read) =
        ((after.0 - before.0) as f64 / write as f64, (after.1.device_read - before.1.device_read) as f64 / read as f64);
    assert!((1.95..2.15).contains(&logged), "{logged} bytes in write buffers for each that a host wrote");
    assert!((0.8..1.3).contains(&times_read), "{times_read} bytes read from devices for each that a host read");
    let each = engine.world.node_writes();
    let mean = each.iter().sum::<u64>() / 4;
    assert!(each.iter().all(|node| node.abs_diff(mean) < mean / 10), "as much on each node: {each:?}");
}

#[test]
fn mirrors_pay_for_the_way_between_nodes() {
    let run = |cost: &str, network: &str, (bytes, depth): (u32, u32), arrivals: Arrivals| {
        let mut engine = Simulated::new(&mirrored(cost, 2, network), 1).unwrap();
        let measured = engine.run(&job(Workload { arrivals, ..random(bytes, 0.0, depth) }, 400), &mut Silent).unwrap();
        assert_eq!(measured.total().errors, 0, "{:?}", measured.notes);
        let iops = measured.iops();
        (measured.writes.latency.mean_ns() / 1e3, iops * f64::from(bytes) / 1e9, measured.target_cpu_s.unwrap() / iops)
    };
    // There and back, for the client and for the copy, with a load that leaves the drives idle.
    let latency = |network| run("free", network, (4096, 1), Arrivals::Limited { iops: 20_000.0 }).0;
    let (near, far) = (latency("round_trip_us = 20"), latency("round_trip_us = 220"));
    assert!((380.0..440.0).contains(&(far - near)), "{near} and {far} µs");
    // Of two nodes each way carries what hosts write to one, and the copies of what they write to the other.
    let narrow = run("free", "gbit_per_s = 2", (32 << 10, 2), Arrivals::Closed).1;
    assert!((0.2..0.26).contains(&narrow), "{narrow} GB/s of two nodes with 0.25 each way");
    let mut alone = mirrored("measured", 1, "");
    alone.volumes.failures_to_tolerate = 0;
    let mut alone = Simulated::new(&alone, 1).unwrap();
    let alone = alone.run(&job(random(4096, 0.0, 4), 100), &mut Silent).unwrap();
    let (alone, both) = (alone.target_cpu_s.unwrap() / alone.iops(), run("measured", "", (4096, 4), Arrivals::Closed).2);
    assert!(both > alone * 1.5, "{both} and {alone} seconds of cores: two nodes work for each write, and what is between them");
}

#[test]
fn several_nodes_give_the_same_run_again_and_serve_what_is_not_mirrored() {
    let run = |failures: u8| {
        let mut cluster = mirrored("measured", 3, "");
        cluster.volumes.failures_to_tolerate = failures;
        let mut engine = Simulated::new(&cluster, 1).unwrap();
        engine.prepare(&random(4096, 1.0, 1), Fill::Random, &mut Silent).unwrap();
        engine.rest(60).unwrap(); // while destaging goes on, one operation may take as long as all that is measured
        let measured = engine.run(&job(random(16_384, 0.6, 4), 40), &mut Silent).unwrap();
        assert_eq!(measured.total().errors, 0, "{:?}", measured.notes);
        (engine.trace(), measured.reads, measured.writes)
    };
    assert_eq!(run(2), run(2));
    let (_, reads, writes) = run(0);
    assert!(reads.operations > 100 && writes.operations > 100, "{} reads, {} writes", reads.operations, writes.operations);
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

fn over(transport: &str, cost: &str, round_trip_us: u32) -> Simulated {
    let mut cluster = cluster(cost, 1.0);
    cluster.network.round_trip_us = round_trip_us.into();
    cluster.clients = Some(toml::from_str(&format!("transport = \"{transport}\"\nhosts = 2")).unwrap());
    let mut engine = Simulated::new(&cluster, 1).unwrap();
    engine.prepare(&random(4096, 1.0, 1), Fill::Random, &mut Silent).unwrap();
    engine.rest(60).unwrap();
    engine
}

#[test]
fn clients_over_a_protocol_read_and_write_as_fast_as_the_cores_can_and_the_same_each_time() {
    for transport in ["nvme-tcp", "iscsi"] {
        let run = || {
            let mut engine = over(transport, "measured", 30);
            let m = engine.run(&job(random(4096, 0.7, 32), 50), &mut Silent).unwrap();
            assert!(m.notes.iter().all(|n| !n.contains("failed")), "{:?}", m.notes);
            (m.iops(), engine.trace())
        };
        let (iops, trace) = run();
        // Two cores; docs/performance.md: 90,000 to 118,000 each.
        assert!((160e3..260e3).contains(&iops), "{transport}: {iops}");
        assert_eq!(run(), (iops, trace), "{transport}");
    }
}

/// What the protocols say differently: a write of more than a capsule takes is asked for over NVMe/TCP, and goes with its command over iSCSI.
#[test]
fn a_write_takes_as_many_round_trips_as_its_protocol_has() {
    let write_us = |transport, bytes| {
        let mut engine = over(transport, "free", 500);
        let m = engine.run(&job(random(bytes, 0.0, 1), 100), &mut Silent).unwrap();
        m.writes.latency.mean_ns() / 1e3
    };
    for (transport, bytes, trips) in [
        ("nvme-tcp", 4096, 1.0),
        ("iscsi", 4096, 1.0),
        ("nvme-tcp", 65_536, 2.0),
        ("iscsi", 65_536, 1.0),
        ("nvme-tcp", 131_072, 2.0),
        ("iscsi", 131_072, 2.0),
    ] {
        let us = write_us(transport, bytes);
        assert!((500.0 * trips..500.0 * trips + 250.0).contains(&us), "{transport}, {bytes} bytes: {us} us");
    }
}

#[test]
fn over_a_protocol_a_load_that_a_connection_cannot_take_is_refused() {
    let error = over("iscsi", "free", 30).run(&job(random(4096, 1.0, 129), 50), &mut Silent).unwrap_err().to_string();
    assert!(error.contains("at most 128"), "{error}");
}

impl lab::run::Follow for Silent {
    fn folder(&mut self, _: &lab::results::folder::Folder) {}
    fn case_begins(&mut self, _: usize, _: &lab::run::Case, _: &lab::run::Config) {}
    fn case_done(&mut self, _: usize, _: &Measured) {}
}

#[test]
fn reads_of_volumes_that_nobody_wrote_are_refused_on_a_model_as_on_storage() {
    let mut load = random(4096, 1.0, 4);
    let mut engine = Simulated::new(&cluster("free", 16.0), 1).unwrap();
    assert_eq!(engine.unwritten(&load).unwrap(), Some(1.0));
    let half = Workload { working_set: 0.5, ..load.clone() };
    engine.prepare(&half, Fill::Random, &mut Silent).unwrap();
    assert_eq!(engine.unwritten(&half).unwrap(), Some(0.0));
    assert!((engine.unwritten(&load).unwrap().unwrap() - 0.5).abs() < 0.01);

    let dir = tempfile::tempdir().unwrap();
    let run = |load: &Workload, prepare: Option<Fill>, unwritten: bool| {
        let system =
            lab::engine::open::System { simulate: Some(cluster("free", 16.0).to_table()), ..lab::engine::open::System::of(Vec::new()) };
        let config = lab::run::Config {
            kind: lab::results::RunKind::Run,
            title: "t".into(),
            seed: 1,
            warm_up_s: 0.01,
            measure_s: 0.05,
            cool_down_s: 0.0,
            prepare,
            unwritten,
            errors_max: None,
            search: None,
            curve: Default::default(),
            sweep: Vec::new(),
            rounds: 0,
            systems: vec![system],
            workloads: vec![load.clone()],
        };
        lab::run::start(&config, dir.path(), false, &crate::ModelledClusters, Vec::new(), &mut Silent)
    };
    let error = run(&load, None, false).map(drop).unwrap_err().to_string();
    assert!(
        error.contains("100 % of what would be read") && error.contains("--prepare random") && error.contains("--unwritten"),
        "{error}"
    );
    let verdict = run(&load, None, true).unwrap().record().unwrap().verdict.join("\n");
    assert!(verdict.contains("was never written when the run began"), "{verdict}");
    let verdict = run(&load, Some(Fill::Random), false).unwrap().record().unwrap().verdict.join("\n");
    assert!(!verdict.contains("never written"), "{verdict}");
    // Who only writes reads nothing.
    load.streams[0].reads = 0.0;
    run(&load, None, false).unwrap();
}
