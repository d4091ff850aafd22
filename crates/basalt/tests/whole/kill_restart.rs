//! The daemon is killed with -9 at random moments under verified load, also while it recovers: nothing that was acknowledged is lost,
//! nothing that a read has shown goes back, and service returns by itself.
//!
//! `BASALT_KILLS` sets how often (default 5), `BASALT_SEED` the moments and the load (default: of the clock; printed).

use crate::harness::load::{Load, assert_clean};
use crate::harness::turn::Subject;
use crate::harness::{Daemon, number};
use initiator::rng::Rng;
use initiator::{Controller, ControllerOptions, Digests};
use lab::verified::{self, LoadSpec, file};
use std::thread;
use std::time::{Duration, SystemTime};

/// Bound on the time without a connection.
const OUTAGE_MAX: Duration = Duration::from_secs(60);
const VOLUME_BYTES: u64 = 128 << 20;

/// A disk group on two files and a volume, with `lba` bytes a block. Gives what to connect to.
fn provision(daemon: &Daemon, lba: u32) -> ControllerOptions {
    daemon.group_on_files(4, "256MiB", "512MiB");
    daemon.ok(&format!("volume create v --size {VOLUME_BYTES} --lba {lba}"));
    daemon.discovered()
}

fn seed() -> u64 {
    let seed = number("BASALT_SEED")
        .unwrap_or_else(|| SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64 % 1_000_000_007));
    println!("BASALT_SEED={seed}");
    seed
}

/// Kills at random moments; one in four strikes while the daemon recovers from the last.
fn kill_often(daemon: &mut Daemon, rng: &mut Rng, kills: u64, load: &Load) {
    for _ in 0..kills {
        thread::sleep(Duration::from_millis(100 + rng.below(1400)));
        load.assert_running(daemon);
        daemon.kill();
        if rng.percent(25) {
            daemon.spawn(daemon.serve());
            thread::sleep(Duration::from_millis(rng.below(150)));
            daemon.kill();
        }
        daemon.start();
        daemon.ok("status");
    }
}

fn kill_and_verify(lba: u32, digests: Digests, kills: u64) {
    let seed = seed();
    let mut rng = Rng::new(seed);
    let mut daemon = Daemon::kept(Subject::Faults, "[host]\nname = \"kill-test\"");
    let target = ControllerOptions { digests, ..provision(&daemon, lba) };
    let nsid = Controller::connect(target.clone()).and_then(|c| c.namespaces()).expect("the volume is a namespace")[0];
    let spec = LoadSpec {
        seed,
        depth: 16,
        queues: 2,
        time: Duration::from_secs(24 * 3600),
        reconnect_for: OUTAGE_MAX,
        unit_bytes: (lba == 512).then_some(512),
        ..LoadSpec::new(target.clone(), nsid)
    };
    let load = Load::start(spec);
    kill_often(&mut daemon, &mut rng, kills, &load);
    thread::sleep(Duration::from_millis(300));
    let (summary, saved) = load.finish(&daemon);
    println!("{kills} kills: {summary:?}");
    assert_clean(&summary, &daemon);
    assert!(summary.reconnects > 0 && summary.bytes_written > 0, "the load was under way: {summary:?}");

    // The same after one more kill at rest, and after a clean stop.
    let model = daemon.path("model");
    file::save(&model, &saved).expect("the model is saved");
    for clean in [false, true] {
        if clean {
            daemon.stop();
        } else {
            daemon.kill();
        }
        daemon.start();
        let check =
            LoadSpec { ops: Some(0), resume: Some(file::load(&model).expect("the model loads")), ..LoadSpec::new(target.clone(), nsid) };
        let (summary, _) = verified::run(check, |_| ()).expect("the check runs");
        assert!(summary.units_checked > 0);
        assert_clean(&summary, &daemon);
    }
    daemon.stop();
}

#[test]
fn kills_under_load_lose_nothing() {
    kill_and_verify(4096, Digests { header: false, data: true }, number("BASALT_KILLS").unwrap_or(5));
}

#[test]
fn kills_under_load_of_single_sectors_lose_nothing() {
    kill_and_verify(512, Digests::default(), number("BASALT_KILLS").map_or(3, |n| n.div_ceil(4)));
}
