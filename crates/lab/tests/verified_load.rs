//! Verified load against the fake target: clean on a good one, across kills, and loud on each seeded fault.
#![allow(clippy::disallowed_methods)]

#[path = "../../initiator/tests/fake/mod.rs"]
mod fake;

use fake::{Fake, Fault, NQN, Nature};
use format::nvme_tcp::Digests;
use initiator::ControllerOptions;
use initiator::rng::Rng;
use lab::verified::{Found, LoadSpec, file, run};
use std::time::Duration;

fn spec(fake: &Fake) -> LoadSpec {
    let target = ControllerOptions { kato: Duration::from_secs(5), ..ControllerOptions::new(fake.addr, NQN) };
    LoadSpec { ops: Some(1500), time: Duration::from_secs(60), seed: 3, ..LoadSpec::new(target, 1) }
}

#[test]
fn a_good_target_is_found_good_in_both_block_sizes() {
    for (lba, unit, digests) in [(4096, None, Digests::default()), (512, Some(512), Digests { header: true, data: true })] {
        let fake = Fake::start(lba, (8 << 20) / u64::from(lba), Nature::default());
        let mut spec = LoadSpec { unit_bytes: unit, ..spec(&fake) };
        spec.target.digests = digests;
        let (summary, _) = run(spec, |_| ()).unwrap();
        assert!(summary.is_clean(), "{summary:?}");
        assert_eq!(summary.ops.values().sum::<u64>(), 1500);
        assert_eq!(summary.ops.len(), 6, "every kind was done: {:?}", summary.ops);
        assert!(summary.units_checked >= (8 << 20) / u64::from(unit.unwrap_or(4096)), "the read-back covers everything");
    }
}

fn caught(fault: Fault) -> Vec<Found> {
    let fake = Fake::start(4096, 2048, Nature::default());
    {
        let mut disk = fake.disk.lock().unwrap();
        // Zeroes are few, and most of what they are to cover is written again before the end: all of them are lost, or none may show.
        (disk.fault, disk.every) = (fault, if fault == Fault::LostZero { 1 } else { 40 });
    }
    let (summary, _) = run(spec(&fake), |_| ()).unwrap();
    assert!(fake.disk.lock().unwrap().seeded > 2, "{fault:?} was seeded");
    assert!(summary.mismatches > 0 && !summary.is_clean(), "{fault:?} went unseen: {summary:?}");
    // Not of all: two reads that contradict each other, of which the first could have been right, leave nothing to be expected.
    assert!(summary.reports.iter().any(|r| !r.mismatch.expected.is_empty()));
    summary.reports.into_iter().map(|r| r.mismatch.found).collect()
}

#[test]
fn lost_writes_are_caught() {
    assert!(caught(Fault::LostWrite).iter().all(|f| matches!(f, Found::Zero | Found::Version(_))));
}

#[test]
fn torn_writes_are_caught_as_torn() {
    assert!(caught(Fault::TornWrite).iter().any(|f| matches!(f, Found::Torn(_))));
}

#[test]
fn misplaced_writes_are_caught_and_say_where_they_belong() {
    assert!(caught(Fault::Misplaced).iter().any(|f| matches!(f, Found::Misplaced { .. })));
}

#[test]
fn stale_reads_are_caught() {
    caught(Fault::StaleRead);
}

#[test]
fn corrupt_reads_are_caught_as_corrupt() {
    assert!(caught(Fault::Corrupt).iter().any(|f| matches!(f, Found::Corrupt { .. } | Found::Foreign { .. })));
}

#[test]
fn lost_zeroes_are_caught() {
    assert!(caught(Fault::LostZero).iter().any(|f| matches!(f, Found::Version(_))));
}

/// Loads while the target is killed and revived `kills` times; `forget` undoes an acknowledged write at a kill.
fn killed(fault: Fault, kills: u32) -> lab::verified::LoadSummary {
    let fake = Fake::start(4096, 2048, Nature::default());
    fake.disk.lock().unwrap().fault = fault;
    let spec = LoadSpec {
        ops: None,
        time: Duration::from_millis(150 * u64::from(kills) + 300),
        reconnect_for: Duration::from_secs(20),
        ..spec(&fake)
    };
    let load = std::thread::spawn(move || run(spec, |_| ()).unwrap().0);
    let mut rng = Rng::new(8);
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(80 + rng.below(60)));
        fake.kill();
        fake.disk.lock().unwrap().undo();
        std::thread::sleep(Duration::from_millis(20));
        fake.revive();
    }
    let summary = load.join().unwrap();
    assert!(fault == Fault::None || fake.disk.lock().unwrap().seeded > 0);
    assert!(summary.reconnects >= u64::from(kills) / 2, "{summary:?}");
    summary
}

#[test]
fn kills_with_maybes_are_forgiven_and_survived() {
    let summary = killed(Fault::None, 8);
    assert!(summary.is_clean(), "{summary:?}");
    assert!(summary.maybes > 0 && summary.outage_max > Duration::ZERO);
}

#[test]
fn a_write_that_was_acknowledged_and_lost_at_a_kill_is_caught() {
    assert!(killed(Fault::LostAtKill, 8).mismatches > 0);
}

#[test]
fn a_saved_model_checks_the_volume_later() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model");
    let fake = Fake::start(4096, 2048, Nature::default());
    let (_, saved) = run(LoadSpec { read_back: false, ..spec(&fake) }, |_| ()).unwrap();
    file::save(&path, &saved).unwrap();
    let check = |fake: &Fake| LoadSpec { ops: Some(0), resume: Some(file::load(&path).unwrap()), ..spec(fake) };
    assert!(run(check(&fake), |_| ()).unwrap().0.is_clean());
    fake.kill();
    fake.revive();
    {
        let mut disk = fake.disk.lock().unwrap();
        (disk.fault, disk.every) = (Fault::Corrupt, 5);
    }
    assert!(!run(check(&fake), |_| ()).unwrap().0.is_clean());
}

#[test]
fn a_loss_without_leave_to_reconnect_is_an_error() {
    let fake = Fake::start(4096, 2048, Nature::default());
    let spec = LoadSpec { ops: None, ..spec(&fake) };
    let load = std::thread::spawn(move || run(spec, |_| ()).is_err());
    std::thread::sleep(Duration::from_millis(100));
    fake.kill();
    assert!(load.join().unwrap());
}
