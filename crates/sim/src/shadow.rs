//! What another start would find, if the power went now: a second world is given what is durable on the devices of the first, opens the group there, and what
//! it finds must be what the host has in memory, but for changes under way.
//!
//! Owns: when that is looked at, and what is compared. Builds with `hooks` only.
//! Invariants: the world of the run does not notice; marks that are passed here do not count.
//! Never: looks where devices lose what is durable, or damage it.

use crate::faults::Class;
use base::Duration;
use base::hooks;
use rt::Rt;
use rt::sim::{SimDeviceOptions, SimDisk, SimImage, TasksOnly, World};
use std::cell::RefCell;
use std::rc::Rc;
use store::probe::{self, Picture};
use store::{GroupDevices, Settings, Shard};

/// The first look, in events of the run; later ones come ever more rarely.
const FIRST: u64 = 400;
/// After a fault that was aimed has hit, so many events later.
const AFTER_HIT: [u64; 5] = [20, 60, 150, 400, 1500];
/// Looks of a run at most.
const LOOKS_MAX: u64 = 60;
/// What an opening or a scrub may take, in virtual time.
const TIME_MAX: Duration = Duration::from_secs(600);

/// When to look.
#[derive(Debug)]
pub struct Looks {
    wanted: bool,
    events: u64,
    step: u64,
    next: u64,
    hit: u64,
    left: u64,
}

impl Looks {
    /// For a run of that class.
    pub fn new(class: Class) -> Looks {
        Looks { wanted: class <= Class::Errors, events: 0, step: FIRST, next: FIRST, hit: u64::MAX / 2, left: LOOKS_MAX }
    }
    /// An event has passed: whether to look now.
    pub fn is_due(&mut self) -> bool {
        self.events += 1;
        if self.events.is_multiple_of(4) {
            probe::check_quickly();
        }
        let due = self.events >= self.next || AFTER_HIT.iter().any(|after| self.events == self.hit + after);
        if self.events >= self.next {
            self.step += self.step / 2;
            self.next = self.events + self.step;
        }
        due && self.wanted && self.left > 0
    }
    /// A fault that was aimed has hit.
    pub fn hit(&mut self) {
        self.hit = self.events;
    }
}

/// Looks at the shards of the host, if all of them are open, and at what the devices of its group would give back, while it is known which those are.
pub fn look(looks: &mut Looks, world: &World, devices: Option<&GroupDevices>, shards: usize) -> Result<(), String> {
    if !looks.wanted {
        return Ok(());
    }
    probe::check(shards);
    let Some(devices) = devices else { return Ok(()) };
    let pictures = probe::pictures();
    if pictures.len() != shards || pictures.iter().any(|p| p.unsure) || looks.left == 0 {
        return Ok(());
    }
    looks.left -= 1;
    // Now and then as if only the process ended.
    let kept = looks.left.is_multiple_of(4);
    let image = |disk: SimDisk| if kept { disk.image() } else { disk.durable_image() };
    let all = devices.devices.iter().chain(&devices.maybe);
    let images: Vec<_> = all.map(|d| (d.bytes(), image(world.disk(d)))).collect();
    let marks = hooks::take_coverage_marks();
    let found = open(&images, devices.devices.len(), pictures);
    drop(hooks::take_coverage_marks());
    marks.into_iter().for_each(hooks::reached);
    found.map_err(|what| format!("{what} (if the {} had gone then)", if kept { "process" } else { "power" }))
}

/// The first `sure` devices are the group's, the others may be.
fn open(images: &[(u64, SimImage)], sure: usize, pictures: Vec<Picture>) -> Result<(), String> {
    let mut world = World::new(1);
    let host = world.add_host(1, |_| Box::new(TasksOnly));
    let mut devices: Vec<_> = images.iter().map(|(bytes, _)| world.device(*bytes, SimDeviceOptions::default())).collect();
    for (device, (_, image)) in devices.iter().zip(images) {
        world.disk(device).restore(image);
    }
    let maybe = devices.split_off(sure);
    let given = GroupDevices { devices, maybe, ..GroupDevices::default() };
    let answer = Rc::new(RefCell::new(None));
    let slot = Rc::clone(&answer);
    world.spawn(host, 0, move |rt| async move {
        let result = compare(&rt, &given, &pictures).await;
        *slot.borrow_mut() = Some(result);
    });
    world.run_until(TIME_MAX, || answer.borrow().is_some());
    answer.take().unwrap_or_else(|| Err("the group does not open in time".into()))
}

/// Never destages by itself, and scrubs as fast as it can.
fn settings() -> Settings {
    Settings {
        fill_low: 0.98,
        fill_high: 0.99,
        idle_drain: Duration::from_secs(100_000),
        scrub_bytes_per_s: 1 << 40,
        ..Settings::default()
    }
}

async fn compare(rt: &Rt, devices: &GroupDevices, pictures: &[Picture]) -> Result<(), String> {
    let group = store::open_group_with(rt, None, devices).await.map_err(|e| format!("the group does not open: {e}"))?;
    for picture in pictures {
        let shard = Shard::open(rt, &group, picture.shard, settings()).await;
        let mut shard = shard.map_err(|e| format!("shard {} does not open: {e}", picture.shard))?;
        shard.check();
        if let Some(what) = picture.differs(&shard, &group) {
            return Err(format!("shard {}: {what}", picture.shard));
        }
        shard.start_scrub(rt);
        while shard.stats().scrub_passes == 0 {
            rt.sleep(Duration::from_micros(100)).await;
        }
        let stats = shard.stats();
        if stats.checksum_errors > 0 {
            return Err(format!("shard {}: blocks are lost: {:?}", picture.shard, stats.bad_blocks));
        }
    }
    Ok(())
}
