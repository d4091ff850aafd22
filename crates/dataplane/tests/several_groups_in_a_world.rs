//! Several disk groups on the real cores of a host in a simulated world: commands to one touch no other, each command reaches every shard, and
//! after any sequence of them what is served is what they have said. A front end in the process reads and writes on every core.

mod exchange;

use base::unit::PIECE_BYTES;
use base::{ClusterId, ComponentId, CopyState, Duration, Epoch, GroupId, NodeId, ObjectId, ResyncPace, VolumeId, WriteProtect, crc32c};
use dataplane::*;
use exchange::{Exchange, Hosts};
use frontend::{Data, InProcess, IoDone, IoError, IoOp, IoRequest, VolumeRef};
use rt::Buf;
use rt::sim::{HostId, SimDeviceOptions, World};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

type CommandSender = dataplane::CommandSender<InProcess<Hosts>>;
type CoreSeed = dataplane::CoreSeed<InProcess<Hosts>>;
type Desired = dataplane::Desired<()>;

const CORES: usize = 3;
const SHARDS: u8 = 4;
const BLOCK: usize = 4096;
/// Of every volume; a piece lies on each lane more than once.
const PIECES: u64 = 24;

/// A host with devices for some groups, and the door to its newest life.
struct Lab {
    world: World,
    host: HostId,
    commands: Rc<RefCell<Option<CommandSender>>>,
    exchanges: Vec<Rc<RefCell<Exchange>>>,
    devices: Vec<Vec<Device>>,
    desired: Desired,
    /// The place of each volume, in the order in which they were first served in this life.
    refs: Vec<VolumeId>,
}

impl Lab {
    fn new(seed: u64, groups: u8) -> Self {
        let mut world = World::new(seed);
        let device = |world: &mut World, mib: u64| world.device(mib << 20, SimDeviceOptions::default());
        let devices = (0..groups).map(|_| vec![device(&mut world, 32), device(&mut world, 64)]).collect();
        let commands = Rc::new(RefCell::new(None));
        let exchanges: Vec<Rc<RefCell<Exchange>>> = (0..CORES).map(|_| Rc::default()).collect();
        let seeds: Rc<RefCell<Vec<Option<CoreSeed>>>> = Rc::default();
        let (newest, fronts) = (Rc::clone(&commands), exchanges.clone());
        let host = world.add_host(CORES, move |rt| {
            if rt.core() == 0 {
                let (commands, _events, made) = core_seeds(CORES, Settings::default(), ());
                *newest.borrow_mut() = Some(commands);
                *seeds.borrow_mut() = made.into_iter().map(Some).collect();
            }
            let seed = seeds.borrow_mut()[rt.core()].take();
            let exchange = Rc::clone(&fronts[rt.core()]);
            *exchange.borrow_mut() = Exchange::default();
            seed.expect("core 0 starts first, each core once").start_with(&rt, InProcess(Some(Hosts(exchange))))
        });
        if !world.is_up(host) {
            world.start(host);
        }
        let mut lab = Self { world, host, commands, exchanges, devices, desired: Desired::default(), refs: vec![] };
        for n in 0..groups {
            let (cache, capacity) = (lab.devices[usize::from(n)][0].clone(), vec![lab.devices[usize::from(n)][1].clone()]);
            let spec =
                FormatSpec { cluster: cluster(), group: group(n), name: format!("g{n}"), shards: SHARDS, created_unix_s: 1, force: false };
            lab.must(|o| o.format_group(spec, cache, capacity));
        }
        lab
    }

    fn give<T>(&mut self, command: impl FnOnce(&CommandSender) -> Completion<T>) -> Result<T, DataPlaneError> {
        let completion = command(self.commands.borrow().as_ref().expect("the host is up"));
        let mut answer = None;
        self.world.run_until(Duration::from_secs(60), || {
            answer = answer.take().or_else(|| completion.try_take());
            answer.is_some()
        });
        answer.expect("a command is answered within a minute")
    }
    fn must<T>(&mut self, command: impl FnOnce(&CommandSender) -> Completion<T>) -> T {
        self.give(command).expect("it can be done")
    }
    fn open(&mut self, n: u8) -> Vec<ComponentInfo> {
        let devices = self.devices[usize::from(n)].clone();
        let (info, components) = self.must(|o| o.open_group(Some(cluster()), devices));
        assert_eq!(info.group, group(n));
        components
    }
    fn power_cycle(&mut self) {
        self.world.kill(self.host);
        self.world.start(self.host);
        self.refs.clear();
    }
    /// Serves what is desired.
    fn apply(&mut self) {
        self.desired.generation += 1;
        let mut ids: Vec<VolumeId> = self.desired.volumes.iter().map(|v| v.id).collect();
        ids.sort();
        ids.retain(|id| !self.refs.contains(id));
        self.refs.extend(ids);
        let desired = self.desired.clone();
        self.must(|o| o.apply(desired));
    }
    fn make(&mut self, n: u8, id: u8, reserve_chunks: u64) -> ComponentNo {
        let spec = component(id, reserve_chunks);
        self.must(|o| o.create_component(group(n), spec))
    }
    /// A component in each of these groups, and a volume over them.
    fn volume(&mut self, id: u8, groups: &[u8]) -> VolumeId {
        let made: Vec<_> = groups.iter().enumerate().map(|(at, n)| (*n, id * 4 + at as u8)).collect();
        let mirrors = made.into_iter().map(|(n, of)| mirror(n, of, self.make(n, of, 0))).collect();
        let layout = ObjectLayout { object: ObjectId::from_bytes([id; 16]), ownership: base::Ownership::FIRST, mirrors };
        let volume = VolumeDesired::plain(VolumeId::from_bytes([id; 16]), format!("v{id}"), PIECES * PIECE_BYTES, layout);
        self.desired.volumes.push(volume);
        self.apply();
        VolumeId::from_bytes([id; 16])
    }
    fn submit(&mut self, core: usize, token: u64, volume: VolumeId, op: IoOp) {
        let volume = VolumeRef(self.refs.iter().position(|v| *v == volume).expect("served once") as u32);
        self.exchanges[core].borrow_mut().todo.push_back(IoRequest::new(token, volume, op));
        self.world.rt(self.host, core).wake(core);
    }
    fn answer(&mut self, core: usize) -> IoDone {
        let exchange = Rc::clone(&self.exchanges[core]);
        let answered = self.world.run_until(Duration::from_secs(20), || !exchange.borrow().done.is_empty());
        assert!(answered, "never answered");
        let done = exchange.borrow_mut().done.pop_front();
        done.expect("just seen")
    }
    fn io(&mut self, core: usize, volume: VolumeId, op: IoOp) -> IoDone {
        self.submit(core, 1, volume, op);
        self.answer(core)
    }
    fn write(&mut self, core: usize, volume: VolumeId, piece: u64, stamp: u8) -> Result<(), IoError> {
        self.io(core, volume, write(piece, stamp)).result
    }
    fn read(&mut self, core: usize, volume: VolumeId, piece: u64) -> Result<u8, IoError> {
        let done = self.io(core, volume, IoOp::Read { offset: piece * PIECE_BYTES, len: BLOCK as u32 });
        done.result.map(|()| {
            let bytes = &done.data[0].buf;
            assert!(bytes.iter().all(|b| *b == bytes[0]), "a torn block");
            bytes[0]
        })
    }
    fn shards(&mut self, n: u8) -> Vec<ShardStats> {
        let stats = self.must(|o| o.stats());
        let mut shards: Vec<_> = stats.shards().filter(|s| s.group == group(n)).map(|s| (s.shard, s.stats.clone())).collect();
        shards.sort_by_key(|(no, _)| *no);
        assert!(shards.iter().map(|(no, _)| *no).eq(0..SHARDS), "each shard of group {n} is on one core");
        shards.into_iter().map(|(_, stats)| stats).collect()
    }
    fn promised(&mut self, n: u8) -> u64 {
        self.shards(n).iter().map(|s| s.space[0].promised).sum()
    }
    fn fill(&mut self, volume: VolumeId, stamp: u8) {
        (0..PIECES).for_each(|piece| self.write(piece as usize % CORES, volume, piece, stamp).expect("written"));
    }
    fn holds(&mut self, volume: VolumeId, stamp: u8) {
        for piece in 0..PIECES {
            assert_eq!(self.read(piece as usize % CORES, volume, piece), Ok(stamp), "piece {piece}");
        }
    }
}

fn cluster() -> ClusterId {
    ClusterId::from_bytes([1; 16])
}
fn group(n: u8) -> GroupId {
    GroupId::from_bytes([n + 10; 16])
}
fn component(id: u8, reserve_chunks: u64) -> ComponentSpec {
    let (id, object, descriptor) = (ComponentId::from_bytes([id; 16]), ObjectId::from_bytes([id; 16]), vec![id]);
    ComponentSpec { id, object, capacity_index: 0, bytes: PIECES * PIECE_BYTES, reserve_chunks, descriptor }
}
fn mirror(n: u8, id: u8, no: ComponentNo) -> MirrorDesired {
    MirrorDesired::of_one(ComponentRef { id: ComponentId::from_bytes([id; 16]), group: group(n), no })
}
fn write(piece: u64, stamp: u8) -> IoOp {
    let mut buf = Buf::alloc(BLOCK);
    buf.fill(stamp);
    let crcs = std::iter::once(crc32c(&buf)).collect();
    IoOp::Write { offset: piece * PIECE_BYTES, data: std::iter::once(Data { buf, crcs }).collect() }
}

#[test]
fn settings_reach_every_shard_and_groups_that_are_opened_later() {
    let mut lab = Lab::new(1, 3);
    let live = |lab: &mut Lab, n: u8| lab.shards(n).iter().map(|s| s.log_live_bytes).collect::<Vec<_>>();
    (0..2).for_each(|n| drop(lab.open(n)));
    for n in 0..2 {
        let volume = lab.volume(n + 1, &[n]);
        lab.fill(volume, 7);
    }
    lab.world.run_for(Duration::from_secs(1));
    assert!((0..2).all(|n| live(&mut lab, n).iter().all(|bytes| *bytes > 0)), "as is usual, it is kept in the log for a while");
    lab.must(|o| o.set_settings(Settings { idle_drain: Duration::from_millis(1), ..Settings::default() }));
    lab.world.run_for(Duration::from_secs(1));
    for n in 0..2 {
        assert_eq!(live(&mut lab, n), [0; SHARDS as usize], "every shard of group {n} has other settings");
    }
    // One that is opened for the first time, and one that is opened again.
    lab.must(|o| o.close_group(group(0)));
    lab.desired.volumes.remove(0);
    for n in [2, 0] {
        lab.open(n);
        let volume = lab.volume(n + 10, &[n]);
        lab.fill(volume, 8);
        lab.world.run_for(Duration::from_secs(1));
        assert_eq!(live(&mut lab, n), [0; SHARDS as usize], "group {n} was opened later");
    }
}

#[test]
fn a_scrub_goes_over_every_shard_of_its_group_and_no_other() {
    let mut lab = Lab::new(2, 2);
    (0..2).for_each(|n| drop(lab.open(n)));
    for scrubbed in [1, 0] {
        let before: Vec<_> = (0..2).map(|n| lab.shards(n).iter().map(|s| s.scrub_passes).collect::<Vec<_>>()).collect();
        lab.must(|o| o.scrub(group(scrubbed)));
        lab.world.run_for(Duration::from_secs(20));
        for n in 0..2u8 {
            let passes = lab.shards(n).iter().zip(&before[usize::from(n)]).map(|(s, b)| s.scrub_passes - b).collect::<Vec<_>>();
            assert_eq!(passes, [u64::from(n == scrubbed); SHARDS as usize], "group {n}");
        }
    }
    assert!(matches!(lab.give(|o| o.scrub(group(9))), Err(DataPlaneError::NoGroup(_))));
}

#[test]
fn a_component_is_of_its_group_though_one_of_another_group_has_the_same_number() {
    let mut lab = Lab::new(3, 2);
    (0..2).for_each(|n| drop(lab.open(n)));
    let nos = [0, 1].map(|n| lab.make(n, 1 + n, 16));
    assert_eq!(nos[0], nos[1]);
    assert_eq!((lab.promised(0), lab.promised(1)), (16, 16));
    lab.make(0, 3, 32);
    assert_eq!((lab.promised(0), lab.promised(1)), (48, 16), "a promise of one group takes no space in another");
    lab.must(|o| o.update_component(group(1), nos[1], PIECES * PIECE_BYTES, 8, vec![5, 5]));
    assert_eq!((lab.promised(0), lab.promised(1)), (48, 8));
    let volumes = [0, 1].map(|n| lab.volume(50 + n, &[n]));
    volumes.iter().zip([4, 5]).for_each(|(v, stamp)| lab.fill(*v, stamp));
    let lost = lab.desired.volumes.remove(0).object.mirrors[0].here().next().unwrap().no;
    assert_eq!(lost, lab.desired.volumes[0].object.mirrors[0].here().next().unwrap().no.0.checked_add(1).map(ComponentNo).unwrap());
    // The one with its number in the other group is there already.
    let twin = lab.volume(60, &[1]);
    lab.fill(twin, 6);
    assert_eq!(lab.desired.volumes[1].object.mirrors[0].here().next().unwrap().no, lost);
    lab.must(|o| o.delete_component(group(0), lost));
    lab.holds(twin, 6);
    lab.holds(volumes[1], 5);
    assert_eq!((lab.promised(0), lab.promised(1)), (48, 8));
    for shard in lab.shards(0) {
        assert!(shard.component_chunks.iter().all(|(no, chunks)| *no != lost || *chunks == 0), "its space is free on every core");
    }
    lab.power_cycle();
    let found = lab.open(1);
    let changed = found.iter().find(|c| c.no == nos[1]).expect("it is still there");
    assert_eq!((changed.bytes, changed.reserve_chunks, changed.descriptor.as_slice()), (PIECES * PIECE_BYTES, 8, [5, 5].as_slice()));
    assert_eq!(lab.promised(1), 8);
}

/// A directory that came back from a backup may name an epoch that is over.
#[test]
fn a_component_that_is_no_copy_says_which_epoch_its_changes_came_with() {
    let mut lab = Lab::new(9, 1);
    lab.open(0);
    let volume = lab.volume(1, &[0]);
    let serve = |lab: &mut Lab, epoch: u32| {
        lab.desired.volumes[0].object.ownership = base::Ownership { epoch: Epoch(epoch), term: Epoch(epoch), ..base::Ownership::FIRST };
        lab.apply();
    };
    let said =
        |lab: &mut Lab| -> Vec<_> { lab.must(|o| o.accepted_epochs(group(0))).iter().map(|a| (a.epoch.0, a.taken.0, a.by)).collect() };
    assert_eq!(said(&mut lab), [(0, 0, None)]);
    serve(&mut lab, 7);
    // On one lane of one shard.
    assert_eq!(lab.write(1, volume, 3, 1), Ok(()));
    assert_eq!(said(&mut lab), [(0, 7, None)]);
    let volumes = std::mem::take(&mut lab.desired.volumes);
    lab.apply();
    lab.power_cycle();
    lab.open(0);
    assert_eq!(said(&mut lab), [(0, 7, None)], "found in the log");
    lab.desired.volumes = volumes;
    serve(&mut lab, 5);
    assert_eq!(lab.write(1, volume, 3, 2), Err(IoError::NotOwner), "an epoch that is over");
    serve(&mut lab, 8);
    assert_eq!(lab.write(1, volume, 3, 3), Ok(()));
}

#[test]
fn a_component_s_size_reservation_and_descriptor_change_together_and_are_found_again() {
    let mut lab = Lab::new(4, 1);
    lab.open(0);
    let no = lab.make(0, 1, 4);
    for (bytes, reserve, descriptor) in [(40 << 20, 8, vec![1, 2]), (8 << 20, 0, vec![]), (16 << 20, 100, vec![3; 300])] {
        lab.must(|o| o.update_component(group(0), no, bytes, reserve, descriptor.clone()));
        assert_eq!(lab.promised(0), reserve);
        lab.power_cycle();
        let found = lab.open(0).remove(0);
        assert_eq!((found.no, found.bytes, found.reserve_chunks, &found.descriptor), (no, bytes, reserve, &descriptor));
        assert_eq!(lab.promised(0), reserve);
    }
    let all = 1 << 20;
    assert!(lab.give(|o| o.update_component(group(0), no, 8 << 20, all, vec![])).is_err(), "there is not so much");
    assert_eq!(lab.promised(0), 100, "refused, it changes nothing");
}

/// What is asked of a mirror with a copy on another node waits until its owner says who gets changes. Nothing else does.
#[test]
fn a_mirror_with_a_copy_on_another_node_waits_for_its_owner_and_holds_nothing_else_up() {
    let mut lab = Lab::new(6, 1);
    lab.open(0);
    let [mirrored, other] = [lab.volume(1, &[0, 0]), lab.volume(2, &[0])];
    lab.fill(mirrored, 4);
    let place = CopyPlace::On { node: NodeId::from_bytes([1; 16]), component: ComponentId::from_bytes([2; 16]) };
    lab.desired.volumes[0].object.mirrors[1].copies.push(CopyAt { state: CopyState::Stale, place });
    for state in [CopyState::Active, CopyState::Stale, CopyState::Resyncing, CopyState::Absent] {
        lab.desired.volumes[0].object.mirrors[1].copies[1].state = state;
        lab.apply();
        lab.exchanges[0].borrow_mut().todo.push_back(IoRequest::new(9999, VolumeRef(0), IoOp::Read { offset: PIECE_BYTES, len: 4096 }));
        lab.world.rt(lab.host, 0).wake(0);
        lab.world.run_for(Duration::from_secs(1));
        assert!(lab.exchanges[0].borrow().done.is_empty(), "{state:?}");
        for piece in (0..PIECES).step_by(2) {
            let core = piece as usize % CORES;
            assert_eq!(lab.write(core, mirrored, piece, 5), Ok(()), "{state:?}, piece {piece}");
            assert_eq!(lab.read(core, mirrored, piece), Ok(5), "{state:?}, piece {piece}");
        }
        lab.fill(other, 6);
    }
}

#[test]
fn a_group_that_is_closed_takes_nothing_else_out_of_service() {
    let mut lab = Lab::new(5, 3);
    (0..3).for_each(|n| drop(lab.open(n)));
    let volumes = [lab.volume(1, &[0]), lab.volume(2, &[1]), lab.volume(3, &[2, 1])];
    volumes.iter().zip([4, 5, 6]).for_each(|(v, stamp)| lab.fill(*v, stamp));
    lab.must(|o| o.close_group(group(0)));
    for piece in 0..PIECES {
        let core = piece as usize % CORES;
        assert_eq!(lab.read(core, volumes[0], piece), Err(IoError::Failed), "it is still served, and its group is closed");
        assert_eq!(lab.write(core, volumes[0], piece, 1), Err(IoError::Failed));
    }
    let trim = lab.io(1, volumes[0], IoOp::Trim { offset: 0, len: PIECES * PIECE_BYTES });
    assert_eq!(trim.result, Err(IoError::Failed));
    lab.fill(volumes[1], 7);
    lab.fill(volumes[2], 8);
    assert!(matches!(lab.give(|o| o.close_group(group(0))), Err(DataPlaneError::NoGroup(_))));
    let stats = lab.must(|o| o.stats());
    let open: Vec<GroupId> = stats.groups.iter().map(|g| g.info.group).collect();
    assert_eq!(open, [group(1), group(2)]);
    assert!(stats.groups.iter().all(|g| g.devices.len() == 2) && stats.shards().count() == 2 * usize::from(SHARDS));
    // Opened again, and another beside it: each has a place of its own.
    lab.open(0);
    lab.apply();
    lab.holds(volumes[0], 4);
    lab.must(|o| o.close_group(group(2)));
    assert_eq!(lab.read(0, volumes[2], 0), Err(IoError::Failed));
    assert_eq!(lab.read(0, volumes[2], 1), Ok(8), "that mirror is in another group");
    lab.open(2);
    lab.apply();
    lab.holds(volumes[1], 7);
    lab.holds(volumes[2], 8);
    let devices = lab.devices[1].clone();
    assert!(matches!(lab.give(|o| o.open_group(None, devices)), Err(DataPlaneError::GroupOpen(g)) if g == group(1)));
    lab.holds(volumes[1], 7);
}

#[test]
fn every_kind_of_write_protection_refuses_changes_and_a_volume_that_is_formatted_everything() {
    let mut lab = Lab::new(6, 1);
    lab.open(0);
    let volume = lab.volume(1, &[0]);
    lab.fill(volume, 3);
    for protect in [WriteProtect::Protected, WriteProtect::UntilRestart, WriteProtect::Permanent] {
        lab.desired.volumes[0].write_protect = protect;
        lab.apply();
        for core in 0..CORES {
            assert_eq!(lab.write(core, volume, 1, 9), Err(IoError::ReadOnly), "{protect:?}");
            assert_eq!(lab.io(core, volume, IoOp::Trim { offset: 0, len: PIECE_BYTES }).result, Err(IoError::ReadOnly), "{protect:?}");
        }
        lab.holds(volume, 3);
    }
    lab.desired.volumes[0].write_protect = WriteProtect::None;
    lab.desired.volumes[0].formatting = true;
    lab.apply();
    (0..CORES).for_each(|core| assert_eq!(lab.read(core, volume, 0), Err(IoError::OutOfRange)));
    lab.must(|o| o.free_behind(volume, PIECES * PIECE_BYTES));
    lab.desired.volumes[0].formatting = false;
    lab.apply();
    lab.holds(volume, 0);
}

/// Reads of so many bytes, all at once on all cores: how long until all are answered, in seconds.
fn reads(lab: &mut Lab, volume: VolumeId, count: u64, bytes: u32) -> f64 {
    let started = lab.world.rt(lab.host, 0).now();
    for n in 0..count {
        lab.submit(n as usize % CORES, n, volume, IoOp::Read { offset: 0, len: bytes });
    }
    for n in 0..count {
        assert_eq!(lab.answer(n as usize % CORES).result, Ok(()));
    }
    lab.world.rt(lab.host, 0).now().since(started).as_secs_f64()
}

#[test]
fn a_limit_counts_from_when_it_is_set_and_goes_on_when_something_else_is_changed() {
    let mut lab = Lab::new(7, 1);
    lab.open(0);
    let (volume, other) = (lab.volume(1, &[0]), lab.volume(2, &[0]));
    let mib = Some(1 << 20);
    // The limits; reads and their size; how long they take: new limits begin with what 100 ms give.
    type Step = (Option<u64>, Option<u64>, u64, u32, f64);
    let steps: [Step; 10] = [
        (None, None, 100, 4096, 0.0),
        (Some(100), None, 20, 4096, 0.09),
        (Some(100), None, 10, 4096, 0.1),
        (Some(100), None, 10, 4096, 0.1),
        (Some(1000), None, 200, 4096, 0.099),
        (Some(1000), mib, 10, 65536, 0.4625),
        (Some(1000), mib, 4, 65536, 0.25),
        (Some(1000), Some(2 << 20), 10, 65536, 0.18125),
        (None, Some(2 << 20), 10, 65536, 0.18125),
        (None, None, 100, 65536, 0.0),
    ];
    for (step, (iops, bandwidth, count, bytes, takes)) in steps.into_iter().enumerate() {
        lab.desired.volumes[0].limits = VolumeLimits { iops_max: iops, bytes_per_s_max: bandwidth };
        lab.desired.volumes[0].name = format!("v{step}");
        lab.apply();
        let took = reads(&mut lab, volume, count, bytes);
        assert!((took - takes).abs() < 0.012, "step {step}: it took {took} s, and should take {takes} s");
        assert!(reads(&mut lab, other, 50, 65536) < 0.01, "step {step}: another volume has no limit");
        if (iops, bandwidth) == (Some(100), None) && step == 1 {
            lab.apply();
        }
    }
}

#[test]
fn a_shutdown_answers_what_is_under_way_as_if_there_was_none() {
    let mut lab = Lab::new(8, 1);
    lab.open(0);
    let volume = lab.volume(1, &[0]);
    lab.world.disk(&lab.devices[0][0]).stall(Duration::from_millis(50));
    for piece in 0..PIECES {
        lab.submit(piece as usize % CORES, piece, volume, write(piece, 9));
    }
    let shutdown = lab.commands.borrow().as_ref().unwrap().shutdown();
    for piece in 0..PIECES {
        assert_eq!(lab.answer(piece as usize % CORES).result, Ok(()), "piece {piece}");
    }
    lab.world.run_for(Duration::from_secs(1));
    assert!(matches!(shutdown.try_take(), Some(Ok(()))) && lab.world.has_stopped(lab.host));
    lab.power_cycle();
    lab.open(0);
    lab.apply();
    lab.holds(volume, 9);
}

/// The log of one shard cannot be read: the group is not open, and no part of it; when it can be read, all of it is.
#[test]
fn a_group_is_open_when_every_shard_of_it_is() {
    let mut lab = Lab::new(9, 1);
    lab.open(0);
    let volume = lab.volume(1, &[0]);
    lab.fill(volume, 9);
    let cache = lab.devices[0][0].clone();
    let part = cache.info().bytes / 16;
    let mut failed = 0;
    for n in 1..16 {
        lab.power_cycle();
        lab.world.disk(&cache).fail_reads(n * part..(n + 1) * part, None);
        let devices = lab.devices[0].clone();
        let opened = lab.give(|o| o.open_group(Some(cluster()), devices));
        lab.world.disk(&cache).heal();
        if opened.is_err() {
            failed += 1;
            assert!(matches!(lab.give(|o| o.scrub(group(0))), Err(DataPlaneError::NoGroup(_))), "part {n}");
            let stats = lab.must(|o| o.stats());
            assert_eq!((stats.groups.len(), stats.shards().count()), (0, 0), "part {n}: some of it is open");
            lab.open(0);
        }
        assert_eq!(lab.shards(0).len(), usize::from(SHARDS));
        lab.apply();
        lab.holds(volume, 9);
    }
    assert!(failed > 1, "it tests nothing");
}

/// A byte changes on the capacity device.
#[test]
fn damage_is_an_error_where_blocks_keep_a_checksum_and_shows_where_they_do_not() {
    for checksum in [true, false] {
        let mut lab = Lab::new(10, 1);
        lab.open(0);
        let volume = lab.volume(1, &[0]);
        lab.desired.volumes[0].checksum = checksum;
        lab.apply();
        lab.fill(volume, 0xa7);
        lab.must(|o| o.set_settings(Settings { idle_drain: Duration::from_millis(1), ..Settings::default() }));
        lab.world.run_for(Duration::from_secs(2));
        lab.must(|o| o.close_group(group(0)));
        let disk = lab.world.disk(&lab.devices[0][1]);
        let image = disk.peek(0, disk.bytes() as usize);
        let blocks: Vec<usize> = (0..image.len()).step_by(BLOCK).filter(|at| image[*at..at + BLOCK].iter().all(|b| *b == 0xa7)).collect();
        assert_eq!(blocks.len() as u64, PIECES, "all of it is on capacity");
        let mut other = [0xa7; BLOCK];
        other[5] = 0xa6;
        blocks.iter().for_each(|at| disk.poke(*at as u64, &other));
        lab.open(0);
        lab.apply();
        for piece in 0..PIECES {
            let done = lab.io(piece as usize % CORES, volume, IoOp::Read { offset: piece * PIECE_BYTES, len: BLOCK as u32 });
            match done.result {
                Ok(()) => assert!(!checksum && done.data[0].buf[5] == 0xa6, "piece {piece}"),
                Err(error) => assert!(checksum && error == IoError::Media { offset: piece * PIECE_BYTES }, "piece {piece}: {error}"),
            }
        }
    }
}

/// What a volume should be.
struct Volume {
    groups: Vec<u8>,
    holds: [u8; PIECES as usize],
}

#[test]
fn after_any_commands_what_is_served_is_what_they_have_said() {
    for seed in 0..8u64 {
        let mut lab = Lab::new(100 + seed, 3);
        let mut chance = seed * 77 + 1;
        let mut random = move |below: usize| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (chance >> 33) as usize % below
        };
        let mut open = [false; 3];
        let mut volumes: BTreeMap<u8, Volume> = BTreeMap::new();
        // Of a volume that is offline: where it lies.
        let mut places: BTreeMap<u8, Vec<MirrorDesired>> = BTreeMap::new();
        let mut next = 1;
        for step in 0..60 {
            let n = random(3) as u8;
            match random(10) {
                0 | 1 if !open[usize::from(n)] => {
                    let found = lab.open(n).iter().map(|c| c.id).collect::<std::collections::BTreeSet<_>>();
                    let here = places.values().flatten().flat_map(MirrorDesired::here).filter(|c| c.group == group(n));
                    assert_eq!(found, here.map(|c| c.id).collect(), "seed {seed}, step {step}: group {n}");
                    open[usize::from(n)] = true;
                }
                0 if random(3) == 0 => {
                    lab.must(|o| o.close_group(group(n)));
                    open[usize::from(n)] = false;
                }
                2 if random(4) == 0 => {
                    lab.power_cycle();
                    open = [false; 3];
                }
                2 | 3 if next < 60 && volumes.len() < 6 => {
                    let mut groups = vec![n, random(3) as u8, random(3) as u8];
                    groups.truncate(1 + random(3));
                    if groups.iter().all(|g| open[usize::from(*g)]) {
                        lab.volume(next, &groups);
                        places.insert(next, lab.desired.volumes.last().expect("just made").object.mirrors.clone());
                        volumes.insert(next, Volume { groups, holds: [0; PIECES as usize] });
                        next += 1;
                    }
                }
                4 => {
                    let gone = volumes.iter().find(|(_, v)| v.groups.iter().all(|g| open[usize::from(*g)])).map(|(id, _)| *id);
                    if let Some(id) = gone {
                        lab.desired.volumes.retain(|v| v.id != VolumeId::from_bytes([id; 16]));
                        lab.apply();
                        volumes.remove(&id);
                        for c in places.remove(&id).expect("placed").iter().flat_map(MirrorDesired::here) {
                            lab.must(|o| o.delete_component(c.group, c.no));
                        }
                    }
                }
                _ => {}
            }
            for volume in &mut lab.desired.volumes {
                let id = volume.id.as_bytes()[0];
                let is_open = volumes[&id].groups.iter().all(|g| open[usize::from(*g)]);
                if is_open && volume.object.mirrors.is_empty() {
                    // who serves an object again begins a term: within one, numbers of changes do not go back
                    volume.object.ownership = volume.object.ownership.next_term().expect("few terms");
                }
                volume.object.mirrors = if is_open { places[&id].clone() } else { vec![] };
            }
            lab.apply();
            for (id, volume) in &mut volumes {
                let of = VolumeId::from_bytes([*id; 16]);
                let is_open = volume.groups.iter().all(|g| open[usize::from(*g)]);
                let (core, piece, stamp) = (random(CORES), random(PIECES as usize), 1 + random(250) as u8);
                let written = lab.write(core, of, piece as u64, stamp);
                assert_eq!(written, if is_open { Ok(()) } else { Err(IoError::Failed) }, "seed {seed}, step {step}: volume {id}");
                if is_open {
                    volume.holds[piece] = stamp;
                }
                for piece in [piece, random(PIECES as usize)] {
                    let read = lab.read(random(CORES), of, piece as u64);
                    let want = if is_open { Ok(volume.holds[piece]) } else { Err(IoError::Failed) };
                    assert_eq!(read, want, "seed {seed}, step {step}: volume {id}, piece {piece}");
                }
            }
            let stats = lab.must(|o| o.stats());
            let here: Vec<GroupId> = (0..3).filter(|n| open[usize::from(*n)]).map(group).collect();
            assert_eq!(stats.groups.iter().map(|g| g.info.group).collect::<Vec<_>>(), here);
            assert_eq!(stats.shards().count(), here.len() * usize::from(SHARDS));
        }
        lab.must(|o| o.check());
        lab.must(|o| o.shutdown());
    }
}

#[cfg(feature = "hooks")]
#[test]
fn a_group_that_comes_back_on_other_cores_is_noticed() {
    use base::hooks::{SeededFault, notices};
    notices(SeededFault::EpochOfChangesUnsaid, a_component_that_is_no_copy_says_which_epoch_its_changes_came_with);
    notices(SeededFault::GroupMovesCores, a_group_that_is_closed_takes_nothing_else_out_of_service);
}

/// Writes on all cores, one at a time on each, to whatever block; what is answered is known.
struct Writers {
    written: BTreeMap<u64, u8>,
    under_way: Vec<Option<(u64, u8)>>,
    count: u64,
}

impl Writers {
    const BLOCKS: u64 = PIECES * PIECE_BYTES / BLOCK as u64;

    fn new() -> Self {
        Self { written: BTreeMap::new(), under_way: vec![None; CORES], count: 0 }
    }
    /// Each core writes what is next, or trims; the blocks of two cores are never the same.
    fn submit(&mut self, lab: &mut Lab, volume: VolumeId) {
        for core in 0..CORES {
            if self.under_way[core].is_some() {
                continue;
            }
            self.count += 1;
            let (block, stamp) = (self.count * 7919 % (Self::BLOCKS / 16) * 16 + core as u64, (self.count % 5 * 50) as u8);
            let op = if stamp == 0 { IoOp::Trim { offset: 0, len: BLOCK as u64 } } else { write(0, stamp) };
            let offset = block * BLOCK as u64;
            let op = match op {
                IoOp::Write { data, .. } => IoOp::Write { offset, data },
                _ => IoOp::Trim { offset, len: BLOCK as u64 },
            };
            self.under_way[core] = Some((block, stamp));
            lab.submit(core, self.count, volume, op);
        }
    }
    /// Takes the answers that there are.
    fn take(&mut self, lab: &Lab) -> usize {
        let mut taken = 0;
        for (core, under_way) in self.under_way.iter_mut().enumerate() {
            while let Some(done) = lab.exchanges[core].borrow_mut().done.pop_front() {
                assert_eq!(done.result, Ok(()));
                let (block, stamp) = under_way.take().expect("one at a time");
                self.written.insert(block, stamp);
                taken += 1;
            }
        }
        taken
    }
    fn check(&self, lab: &mut Lab, volume: VolumeId) {
        assert!(self.under_way.iter().all(Option::is_none));
        for (block, stamp) in &self.written {
            let done = lab.io(*block as usize % CORES, volume, IoOp::Read { offset: block * BLOCK as u64, len: BLOCK as u32 });
            assert_eq!(done.result, Ok(()));
            assert!(done.data[0].buf.iter().all(|b| b == stamp), "block {block} has {}, not {stamp}", done.data[0].buf[0]);
        }
    }
}

/// The volume is moved from one group to stripes over two others, while it is written on all cores.
#[test]
fn the_data_of_a_volume_goes_to_another_place_while_it_is_written_and_then_it_goes_by_that() {
    for (seed, pace) in [(11, ResyncPace::Normal), (12, ResyncPace::High), (13, ResyncPace::Low)] {
        let mut lab = Lab::new(seed, 3);
        (0..3).for_each(|n| drop(lab.open(n)));
        let volume = lab.volume(1, &[0]);
        let mut writers = Writers::new();
        for _ in 0..300 {
            writers.submit(&mut lab, volume);
            lab.world.run_for(Duration::from_micros(500));
            writers.take(&lab);
        }
        let other = lab.volume(2, &[1, 2]);
        assert!(!lab.must(|o| o.hold_filled(volume)), "nothing is there");
        let mut states = vec![];
        while states.last() != Some(&FillState::Whole) {
            writers.submit(&mut lab, volume);
            lab.world.run_for(Duration::from_micros(500));
            writers.take(&lab);
            let state = lab.must(|o| o.fill(volume, other, pace));
            assert!(!matches!(state, FillState::Over(_)), "{state:?}");
            if states.last() != Some(&state) {
                states.push(state);
            }
        }
        assert!(states.contains(&FillState::Copying(16 * PIECE_BYTES)), "{states:?}");
        for _ in 0..100 {
            writers.submit(&mut lab, volume);
            lab.world.run_for(Duration::from_micros(500));
            writers.take(&lab);
        }
        writers.submit(&mut lab, volume);
        assert!(lab.must(|o| o.hold_filled(volume)));
        writers.take(&lab);
        writers.submit(&mut lab, volume);
        lab.world.run_for(Duration::from_secs(1));
        assert_eq!(writers.take(&lab), 0, "it is held");
        let [mut first, mut second] = <[VolumeDesired; 2]>::try_from(std::mem::take(&mut lab.desired.volumes)).expect("two");
        std::mem::swap(&mut first.object, &mut second.object);
        lab.desired.volumes = vec![first];
        lab.apply();
        assert_eq!(writers.take(&lab), 0, "it is still held");
        let before: u64 = lab.shards(0).iter().map(|s| s.log_live_bytes).sum();
        lab.must(|o| o.end_fill(volume));
        lab.world.run_for(Duration::from_secs(1));
        assert_eq!(writers.take(&lab), CORES);
        for _ in 0..300 {
            writers.submit(&mut lab, volume);
            lab.world.run_for(Duration::from_micros(500));
            writers.take(&lab);
        }
        lab.world.run_for(Duration::from_secs(1));
        writers.take(&lab);
        assert!(lab.shards(0).iter().map(|s| s.log_live_bytes).sum::<u64>() <= before, "nothing goes to the first group any more");
        lab.must(|o| o.delete_component(group(0), second.object.mirrors[0].here().next().unwrap().no));
        writers.check(&mut lab, volume);
        lab.must(|o| o.check());
    }
}

/// It begins anew when it is asked for after it has failed; a volume that goes by the same place as before is released.
#[test]
fn a_volume_whose_other_place_goes_is_used_as_before_and_copied_anew() {
    let mut lab = Lab::new(21, 2);
    (0..2).for_each(|n| drop(lab.open(n)));
    let volume = lab.volume(1, &[0]);
    lab.fill(volume, 7);
    assert!(matches!(lab.must(|o| o.fill(volume, VolumeId::from_bytes([9; 16]), ResyncPace::High)), FillState::Over(_)), "there is none");
    let other = lab.volume(2, &[1]);
    let whole = |lab: &mut Lab| {
        for _ in 0..1000 {
            match lab.must(|o| o.fill(volume, other, ResyncPace::High)) {
                FillState::Whole => return,
                FillState::Over(error) => panic!("{error}"),
                FillState::Copying(_) => lab.world.run_for(Duration::from_millis(10)),
            }
        }
        panic!("it does not end");
    };
    whole(&mut lab);
    assert!(lab.must(|o| o.hold_filled(volume)));
    lab.must(|o| o.release(volume));
    lab.fill(volume, 8);
    let without = lab.desired.volumes.pop().expect("the other place");
    lab.apply();
    lab.fill(volume, 9);
    lab.holds(volume, 9);
    assert!(!lab.must(|o| o.hold_filled(volume)), "there is no other place");
    assert!(matches!(lab.must(|o| o.fill(volume, other, ResyncPace::High)), FillState::Over(_)), "it is over");
    lab.desired.volumes.push(without);
    lab.apply();
    whole(&mut lab);
    lab.holds(other, 9);
}

/// Whoever copied for the one that was given up does not copy for the next.
#[test]
fn a_fill_that_is_given_up_and_begun_again_at_once_misses_nothing() {
    let mut lab = Lab::new(41, 2);
    (0..2).for_each(|n| drop(lab.open(n)));
    let volume = lab.volume(1, &[0]);
    let other = lab.volume(2, &[1]);
    let mut writers = Writers::new();
    let mut looks = 0;
    while lab.must(|o| o.fill(volume, other, ResyncPace::High)) != FillState::Whole {
        writers.submit(&mut lab, volume);
        lab.world.run_for(Duration::from_micros(50));
        writers.take(&lab);
        looks += 1;
        if looks % 7 == 0 && looks < 700 {
            lab.must(|o| o.end_fill(volume));
        }
    }
    assert!(looks > 700 && lab.must(|o| o.hold_filled(volume)));
    lab.world.run_for(Duration::from_secs(1));
    writers.take(&lab);
    writers.check(&mut lab, other);
}

/// Blocks that cannot be read do not keep their volume from its other place, and do not become readable there.
#[test]
fn what_cannot_be_read_is_uncorrectable_in_the_other_place() {
    let mut lab = Lab::new(31, 2);
    (0..2).for_each(|n| drop(lab.open(n)));
    let volume = lab.volume(1, &[0]);
    lab.fill(volume, 7);
    let bad = [(3 * PIECE_BYTES, 1), (5 * PIECE_BYTES + (64 << 10), 16), (PIECES * PIECE_BYTES - BLOCK as u64, 1)];
    for (offset, blocks) in bad {
        assert_eq!(lab.io(0, volume, IoOp::Uncorrectable { offset, len: blocks * BLOCK as u64 }).result, Ok(()));
    }
    let other = lab.volume(2, &[1]);
    let whole = |lab: &mut Lab| lab.must(|o| o.fill(volume, other, ResyncPace::High)) == FillState::Whole;
    for _ in 0..1000 {
        if whole(&mut lab) {
            break;
        }
        lab.world.run_for(Duration::from_millis(10));
    }
    assert!(lab.must(|o| o.hold_filled(volume)), "all is there");
    lab.must(|o| o.end_fill(volume));
    for piece in 0..PIECES {
        let is_bad = bad[0].0 == piece * PIECE_BYTES;
        let offset = piece * PIECE_BYTES;
        assert_eq!(lab.read(0, other, piece), if is_bad { Err(IoError::Media { offset }) } else { Ok(7) }, "piece {piece}");
    }
    for (offset, blocks) in bad {
        for n in 0..blocks {
            let offset = offset + n * BLOCK as u64;
            assert_eq!(lab.io(1, other, IoOp::Read { offset, len: BLOCK as u32 }).result, Err(IoError::Media { offset }));
        }
    }
    let behind = lab.io(1, other, IoOp::Read { offset: bad[1].0 + bad[1].1 * BLOCK as u64, len: BLOCK as u32 });
    assert_eq!(behind.result, Ok(()));
}

/// A volume may be much larger than what it holds.
#[test]
fn only_what_holds_anything_is_copied() {
    let mut lab = Lab::new(41, 3);
    (0..3).for_each(|n| drop(lab.open(n)));
    let volume = lab.volume(1, &[0]);
    let has = [0, 7, 8, PIECES - 1];
    has.iter().for_each(|piece| lab.write(0, volume, *piece, 5).expect("written"));
    let other = lab.volume(2, &[1, 2]);
    let requests = |lab: &mut Lab| {
        let stats = lab.must(|o| o.stats());
        let sum = |pick: fn(&CoreSnapshot<()>) -> u64| stats.cores.iter().map(pick).sum::<u64>();
        [sum(|c| c.router.read.requests), sum(|c| c.router.write.requests), sum(|c| c.router.discard.requests)]
    };
    let before = requests(&mut lab);
    for _ in 0..1000 {
        if lab.must(|o| o.fill(volume, other, ResyncPace::High)) == FillState::Whole {
            break;
        }
        lab.world.run_for(Duration::from_millis(10));
    }
    assert!(lab.must(|o| o.hold_filled(volume)), "all is there");
    lab.must(|o| o.end_fill(volume));
    let after = requests(&mut lab);
    assert_eq!([0, 1, 2].map(|n| after[n] - before[n]), [4, 4, 0], "each is read and written once, and nothing is emptied");
    // Anew, what the other place has goes first.
    lab.must(|o| o.fill(volume, other, ResyncPace::High));
    lab.world.run_for(Duration::from_secs(1));
    assert_eq!(requests(&mut lab)[2] - after[2], 4);
    for piece in 0..PIECES {
        assert_eq!(lab.read(0, other, piece), Ok(if has.contains(&piece) { 5 } else { 0 }), "piece {piece}");
    }
}
