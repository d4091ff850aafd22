//! The named drives do what their makers, or the studies, say of them.

use super::*;
use base::Duration;
use rt::sim::{SimDeviceOptions, TasksOnly, World};
use rt::{Buf, BufVec, Durability};
use std::cell::Cell;
use std::rc::Rc;

/// Of [`rates`]: every loop reads and writes in turn.
const IN_TURN: usize = usize::MAX;

/// (reads, writes) a second of `depth` closed loops; of them `readers` only read, or all do both [`IN_TURN`]; in the second half of `ms` milliseconds.
fn rates(name: &str, depth: usize, readers: usize, bytes: usize, sequential: bool, ms: u64) -> (f64, f64) {
    let mut world = World::new(5);
    let drive = world.drive(find(name).unwrap().speed);
    let options = SimDeviceOptions { drive: Some(drive), compact: true, volatile_cache: false, ..Default::default() };
    let device = world.device(64 << 30, options);
    let host = world.add_host(1, |_| Box::new(TasksOnly));
    let counts = [Rc::new(Cell::new(0u64)), Rc::new(Cell::new(0u64))];
    let next = Rc::new(Cell::new(0u64));
    for task in 0..depth {
        let (dev, mut write) = (device.clone(), if readers == IN_TURN { task % 2 == 0 } else { task >= readers });
        let (counts, next) = (counts.clone(), Rc::clone(&next));
        world.spawn(host, 0, |rt| async move {
            loop {
                let places = (64 << 30) / bytes as u64;
                let at = if sequential { next.get() } else { rt.random_u64() };
                next.set(next.get() + 1);
                let (offset, buf) = (at % places * bytes as u64, Buf::zeroed(bytes));
                if write {
                    rt.write_at(&dev, offset, BufVec::from_iter([buf]), Durability::Durable).await.0.unwrap();
                } else {
                    rt.read_at(&dev, offset, buf).await.0.unwrap();
                }
                let count = &counts[usize::from(write)];
                count.set(count.get() + 1);
                write ^= readers == IN_TURN;
            }
        });
    }
    world.run_for(Duration::from_millis(ms / 2));
    let half = [counts[0].get(), counts[1].get()];
    world.run_for(Duration::from_millis(ms / 2));
    let rate = |k: usize| (counts[k].get() - half[k]) as f64 * 2000.0 / ms as f64;
    (rate(0), rate(1))
}

fn near(what: &str, is: f64, should: f64, within: f64) {
    assert!((is / should - 1.0).abs() <= within, "{what}: {is:.0} instead of {should:.0}");
}

#[test]
fn random_reads_reach_the_iops_of_the_maker_and_one_alone_takes_the_latency() {
    for (name, iops, latency_us) in [
        ("kioxia-cm6-7680", 1.4e6, 95.0),
        ("micron-9300-15360", 850e3, 92.0),
        ("intel-s4600-960", 72e3, 110.0),
        ("optane-p5800x-400", 1.5e6, 6.0),
    ] {
        near(name, rates(name, 512, 512, 4096, false, 20).0, iops, 0.05);
        near(name, rates(name, 1, 1, 4096, false, 200).0, 1e6 / latency_us, 0.15);
        let at_32 = rates(name, 32, 32, 4096, false, 40).0;
        let bound = (32e6 / latency_us).min(iops);
        assert!(at_32 > bound * 0.75 && at_32 < bound * 1.1, "{name}: {at_32} at depth 32, {bound} expected");
    }
}

#[test]
fn large_transfers_reach_the_bandwidth_of_the_maker() {
    for (name, read, write) in [
        ("kioxia-cm6-7680", 6.9e9, 4.2e9),
        ("micron-9300-15360", 3.5e9, 3.5e9),
        ("intel-s4600-960", 0.5e9, 0.49e9),
        ("sas-nand-800", 1.1e9, 750.0 * MIB),
    ] {
        near(name, rates(name, 32, 32, 128 << 10, true, 400).0 * 131_072.0, read, 0.05);
        near(name, rates(name, 32, 0, 128 << 10, true, 400).1 * 131_072.0, write, 0.05);
    }
}

#[test]
fn random_writes_for_long_reach_what_the_maker_promises() {
    near("cm6", rates("kioxia-cm6-7680", 128, 0, 4096, false, 1000).1, 170e3, 0.07);
    near("s4600", rates("intel-s4600-960", 32, 0, 4096, false, 1000).1, 65e3, 0.07);
}

#[test]
fn cache_drives_mix_reads_and_writes_as_in_the_study() {
    for (name, read, write) in [("sas-nand-800", 368.0, 439.0), ("optane-p5800x-400-study", 965.0, 1019.0)] {
        let (r, w) = rates(name, 64, IN_TURN, 32 << 10, false, 800);
        near(name, (r + w) * 32.0 / 1024.0, read + write, 0.06);
        let alone = rates(name, 32, 0, 32 << 10, false, 400).1 * 32.0 / 1024.0;
        near(name, alone, if name.starts_with("sas") { 750.0 } else { 1100.0 }, 0.03);
    }
}

#[test]
fn every_drive_says_where_its_figures_are_from_and_names_are_unique() {
    let all = all();
    for drive in &all {
        assert!(!drive.sources.is_empty() && drive.sources.iter().all(|(a, b, c)| !a.is_empty() && !b.is_empty() && !c.is_empty()));
        assert_eq!(all.iter().filter(|d| d.name == drive.name).count(), 1);
    }
}
