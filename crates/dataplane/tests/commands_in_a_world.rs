//! The commands of the control plane, carried out by the real cores of a host in a simulated world, with power cuts between and within them.

use base::{
    ClusterId, ComponentId, Duration, Epoch, GroupId, Incarnation, NodeId, ObjectId, OwnerId, Ownership, Security, Visibility, VolumeId,
};
use dataplane::*;
use nvmf::{NamespaceDesired, Options, SubsystemDesired, Target, TargetShared};
use rt::sim::{HostId, SimDeviceOptions, World};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

type CommandSender = dataplane::CommandSender<Target>;
type CoreSeed = dataplane::CoreSeed<Target>;
type Desired = dataplane::Desired<nvmf::Desired>;

const CORES: usize = 3;

/// A host that can be started again, and the door to its newest life.
struct Lab {
    world: World,
    host: HostId,
    commands: Rc<RefCell<Option<CommandSender>>>,
    devices: Vec<Device>,
}

impl Lab {
    fn new(seed: u64) -> Self {
        let mut world = World::new(seed);
        let devices = vec![world.device(32 << 20, SimDeviceOptions::default()), world.device(64 << 20, SimDeviceOptions::default())];
        let commands = Rc::new(RefCell::new(None));
        let seeds: Rc<RefCell<Vec<Option<CoreSeed>>>> = Rc::default();
        let newest = Rc::clone(&commands);
        let host = world.add_host(CORES, move |rt| {
            if rt.core() == 0 {
                let (commands, _events, made) = core_seeds(CORES, Settings::default(), TargetShared::new(Options::default()));
                *newest.borrow_mut() = Some(commands);
                *seeds.borrow_mut() = made.into_iter().map(Some).collect();
            }
            let seed = seeds.borrow_mut()[rt.core()].take();
            seed.expect("core 0 starts first, each core once").start(&rt)
        });
        if !world.is_up(host) {
            world.start(host);
        }
        Self { world, host, commands, devices }
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

    fn fence(&mut self, fence: FenceCopy) -> Result<(), CopyRefused> {
        self.give(|o| o.fence_copy(fence)).unwrap().map(|fenced| {
            assert_eq!((fenced.from, fenced.epoch), (fence.component, fence.epoch));
        })
    }

    /// Of the only copy: the epoch that it has accepted, whose that is, and the lowest that a shard has.
    fn accepted(&mut self, group: GroupId) -> (u32, Option<OwnerId>, u32) {
        let mut accepted = self.give(|o| o.accepted_epochs(group)).unwrap();
        accepted.retain(|a| a.epoch > Epoch(0));
        let [AcceptedEpoch { component: id, object, epoch, by, lowest, .. }] = accepted[..] else { panic!("{accepted:?}") };
        assert_eq!((id, object), (component(1).id, component(1).object));
        (epoch.0, by, lowest.0)
    }

    fn power_cycle(&mut self) {
        self.world.kill(self.host);
        self.world.start(self.host);
    }

    fn format(&mut self) -> GroupInfo {
        let (cache, capacity) = (self.devices[0].clone(), vec![self.devices[1].clone()]);
        self.give(|o| o.format_group(format_spec(), cache, capacity)).unwrap()
    }

    fn open(&mut self) -> Result<(GroupInfo, Vec<ComponentInfo>), DataPlaneError> {
        let devices = self.devices.clone();
        self.give(|o| o.open_group(Some(cluster()), devices))
    }
}

fn cluster() -> ClusterId {
    ClusterId::from_bytes([1; 16])
}

fn format_spec() -> FormatSpec {
    let group = GroupId::from_bytes([2; 16]);
    FormatSpec { cluster: cluster(), group, name: "g0".into(), shards: 4, created_unix_s: 1, force: false }
}

fn component(n: u8) -> ComponentSpec {
    let (id, object) = (ComponentId::from_bytes([n; 16]), ObjectId::from_bytes([n; 16]));
    ComponentSpec { id, object, capacity_index: 0, bytes: 8 << 20, reserve_chunks: 0, descriptor: vec![n] }
}

fn desired(group: GroupId, no: ComponentNo) -> Desired {
    let mirror = MirrorDesired::of_one(ComponentRef { id: ComponentId::from_bytes([9; 16]), group, no });
    let volume = VolumeDesired::plain(
        VolumeId::from_bytes([7; 16]),
        "v".into(),
        8 << 20,
        ObjectLayout { object: ObjectId::from_bytes([9; 16]), ownership: Ownership::FIRST, mirrors: vec![mirror] },
    );
    let subsystem = SubsystemDesired {
        nqn: "nqn.2026-11.io.basalt:test".into(),
        serial: "S1".into(),
        model: "Basalt".into(),
        allow_any_host: true,
        hosts: vec![],
        namespaces: BTreeMap::from([(1, NamespaceDesired { volume: volume.id, hosts: Visibility::All, ana: nvmf::Ana::default() })]),
        security: Security::Plain,
        manage_namespaces: false,
    };
    let exports = nvmf::Desired { subsystems: vec![subsystem], ..nvmf::Desired::default() };
    Desired { generation: 1, volumes: vec![volume], held: Vec::new(), objects: Vec::new(), exports, ..Desired::default() }
}

#[test]
fn a_group_is_formatted_opened_served_closed_and_found_again_after_a_power_cut() {
    let mut lab = Lab::new(1);
    let group = lab.format().group;
    let (_, components) = lab.open().unwrap();
    assert!(components.is_empty());
    let no = lab.give(|o| o.create_component(group, component(9))).unwrap();
    assert_eq!(lab.give(|o| o.create_component(group, component(9))).unwrap(), no, "idempotent by id");
    lab.give(|o| o.apply(desired(group, no))).unwrap();
    lab.give(|o| o.apply(desired(group, no))).unwrap();
    let stats = lab.give(|o| o.stats()).unwrap();
    assert_eq!(stats.cores.len(), CORES);
    assert_eq!(stats.cores.iter().map(|c| c.shards.len()).sum::<usize>(), 4, "every shard runs on one core");
    assert!(stats.cores.iter().all(|c| !c.shards.is_empty()), "one group uses every core");

    lab.power_cycle();
    let (_, components) = lab.open().unwrap();
    assert_eq!(components.len(), 1);
    assert_eq!((components[0].no, components[0].descriptor.as_slice()), (no, [9].as_slice()));
    lab.give(|o| o.delete_component(group, no)).unwrap();
    lab.give(|o| o.close_group(group)).unwrap();
    assert!(matches!(lab.give(|o| o.close_group(group)), Err(DataPlaneError::NoGroup(_))));
    let (_, components) = lab.open().unwrap();
    assert!(components.is_empty(), "a deleted component stays deleted");
    lab.give(|o| o.shutdown()).unwrap();
    let (world, host) = (&mut lab.world, lab.host);
    world.run_for(Duration::from_secs(1));
    assert!(world.has_stopped(host));
}

/// A shutdown that took a full inbox for a data plane that has ended would wait for cores that have no command to end.
#[test]
fn a_full_inbox_is_busy_and_not_stopped_and_the_host_can_be_shut_down_after_it() {
    let mut lab = Lab::new(3);
    let commands = lab.commands.borrow().clone().expect("the host is up");
    let waiting: Vec<_> = (0..rt::INBOX_DEPTH).map(|_| commands.stats()).collect();
    assert!(matches!(commands.stats().try_take(), Some(Err(DataPlaneError::Busy))));
    assert!(matches!(commands.shutdown().try_take(), Some(Err(DataPlaneError::Busy))));
    lab.world.run_for(Duration::from_secs(1));
    assert!(!lab.world.has_stopped(lab.host), "what was not taken is not done");
    assert!(waiting.iter().all(|t| matches!(t.try_take(), Some(Ok(_)))), "what was taken is");
    lab.give(|o| o.shutdown()).unwrap();
    lab.world.run_for(Duration::from_secs(1));
    assert!(lab.world.has_stopped(lab.host));
    assert!(matches!(commands.stats().try_take(), Some(Err(DataPlaneError::Stopped))));
}

#[test]
fn an_order_that_cannot_be_done_changes_nothing() {
    let mut lab = Lab::new(2);
    let group = lab.format().group;
    let (cache, capacity) = (lab.devices[0].clone(), vec![lab.devices[1].clone()]);
    assert!(
        matches!(lab.give(|o| o.format_group(format_spec(), cache, capacity)), Err(DataPlaneError::Group(_))),
        "devices that hold a group"
    );
    assert!(matches!(lab.give(|o| o.apply(desired(group, ComponentNo(1)))), Err(DataPlaneError::GroupOfVolume { .. })));
    lab.open().unwrap();
    assert!(lab.open().is_err(), "open already");
    let mut dangling = desired(group, ComponentNo(1));
    dangling.volumes.clear();
    assert!(matches!(lab.give(|o| o.apply(dangling)), Err(DataPlaneError::UnknownVolume(_))));
    let mut mirrored = desired(group, ComponentNo(1));
    let copy = mirrored.volumes[0].object.mirrors[0].copies[0];
    mirrored.volumes[0].object.mirrors[0].copies.push(copy);
    assert!(matches!(lab.give(|o| o.apply(mirrored)), Err(DataPlaneError::CopiesOnNode { .. })));
    let other = vec![lab.devices[1].clone()];
    assert!(lab.give(|o| o.open_group(None, other)).is_err(), "an incomplete set of devices");
}

#[test]
fn a_power_cut_within_an_order_leaves_it_done_or_not_done() {
    for seed in 0..40 {
        let mut lab = Lab::new(100 + seed);
        let group = lab.format().group;
        lab.open().unwrap();
        let kept = lab.give(|o| o.create_component(group, component(1))).unwrap();
        let completion = lab.commands.borrow().as_ref().unwrap().create_component(group, component(2));
        lab.world.run_for(Duration::from_micros(seed * 9));
        let acknowledged = matches!(completion.try_take(), Some(Ok(_)));
        lab.power_cycle();
        let (_, components) = lab.open().unwrap();
        assert!(components.iter().any(|c| c.no == kept));
        let found = components.iter().any(|c| c.id == component(2).id);
        assert!(found || !acknowledged, "seed {seed}: an acknowledged component is gone");
        let again = lab.give(|o| o.create_component(group, component(2))).unwrap();
        assert_ne!(again, kept, "numbers are given once");
    }
}

fn owner(n: u8) -> OwnerId {
    OwnerId { node: NodeId::from_bytes([n; 16]), incarnation: Incarnation(1) }
}

fn fence(epoch: u32, by: u8) -> FenceCopy {
    FenceCopy { component: component(1).id, epoch: Epoch(epoch), period_start: Epoch(1), by: owner(by), sync: CopySync::InSync }
}

#[test]
fn a_copy_accepts_no_lower_epoch_and_one_epoch_of_one_owner() {
    let mut lab = Lab::new(4);
    let group = lab.format().group;
    lab.open().unwrap();
    assert_eq!(lab.fence(fence(1, 1)), Err(CopyRefused::NoComponent));
    lab.give(|o| o.create_component(group, component(1))).unwrap();
    lab.give(|o| o.create_component(group, component(2))).unwrap();
    let accepted = lab.give(|o| o.accepted_epochs(group)).unwrap();
    assert!(accepted.len() == 2 && accepted.iter().all(|a| (a.epoch, a.by, a.resyncing) == (Epoch(0), None, false)), "none is a copy");
    assert_eq!(lab.fence(FenceCopy { by: OwnerId { incarnation: Incarnation(0), ..owner(1) }, ..fence(3, 1) }), Err(CopyRefused::Unsound));
    for _ in 0..2 {
        assert_eq!(lab.fence(fence(3, 1)), Ok(()));
        assert_eq!(lab.fence(fence(2, 1)), Err(CopyRefused::StaleEpoch(Epoch(3))));
        assert_eq!(lab.fence(fence(3, 2)), Err(CopyRefused::StaleEpoch(Epoch(3))), "of another owner");
        assert_eq!(lab.accepted(group), (3, Some(owner(1)), 3));
        lab.power_cycle();
        lab.open().unwrap();
    }
    assert_eq!(lab.fence(fence(4, 2)), Ok(()));
    let join = FenceCopy { sync: CopySync::Join, ..fence(5, 2) };
    assert_eq!(lab.give(|o| o.fence_copy(join)).unwrap().unwrap().resync, Some(Default::default()), "nothing is complete");
    assert_eq!(lab.accepted(group), (5, Some(owner(2)), 5));
    lab.give(|o| o.close_group(group)).unwrap();
    assert_eq!(lab.fence(fence(6, 2)), Err(CopyRefused::NoComponent), "its group is not open");
    assert_eq!(lab.give(|o| o.list_copy(component(1).id, 0, 8)).unwrap(), Err(CopyRefused::NoComponent));
}

/// Two that fence at once: who is answered has it on all shards, until the other one is.
#[test]
fn of_two_fences_under_way_the_higher_one_stays() {
    for seed in 0..20 {
        let mut lab = Lab::new(seed + 300);
        let group = lab.format().group;
        lab.open().unwrap();
        lab.give(|o| o.create_component(group, component(1))).unwrap();
        let commands = lab.commands.borrow().clone().expect("the host is up");
        let first = commands.fence_copy(fence(2, 1));
        lab.world.run_for(Duration::from_micros(seed * 20));
        let second = commands.fence_copy(fence(3, 2));
        lab.world.run_for(Duration::from_secs(1));
        assert!(matches!(second.try_take(), Some(Ok(Ok(_)))), "seed {seed}");
        let first = first.try_take().expect("answered").expect("no failure");
        assert!(first.as_ref().is_ok_and(|f| f.epoch == Epoch(2)) || first == Err(CopyRefused::StaleEpoch(Epoch(3))), "{first:?}");
        assert_eq!(lab.accepted(group), (3, Some(owner(2)), 3));
    }
}

#[test]
fn a_power_cut_within_a_fence_leaves_the_highest_epoch_and_nothing_below_goes_to_any_shard() {
    let mut partly = 0;
    for seed in 0..60 {
        let mut lab = Lab::new(400 + seed);
        let group = lab.format().group;
        lab.open().unwrap();
        lab.give(|o| o.create_component(group, component(1))).unwrap();
        assert_eq!(lab.fence(fence(1, 1)), Ok(()));
        let completion = lab.commands.borrow().as_ref().unwrap().fence_copy(fence(3, 1));
        // At once when it is answered, or somewhere on the way.
        let mut answered = false;
        lab.world.run_until(Duration::from_micros(seed * 5), || {
            answered |= matches!(completion.try_take(), Some(Ok(Ok(_))));
            answered
        });
        lab.power_cycle();
        lab.open().unwrap();
        let found = lab.accepted(group);
        assert!(!answered || found == (3, Some(owner(1)), 3), "seed {seed}: {found:?} after the answer");
        if found.0 == 3 {
            partly += u32::from(found.2 < 3);
            assert_eq!(lab.fence(fence(2, 2)), Err(CopyRefused::StaleEpoch(Epoch(3))), "seed {seed}");
            assert_eq!(lab.accepted(group), found, "seed {seed}: a refused epoch went to some shards");
        }
        assert_eq!(lab.fence(fence(3, 1)), Ok(()));
        assert_eq!(lab.accepted(group), (3, Some(owner(1)), 3));
    }
    assert!(partly > 0, "no power cut came in between");
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    use base::hooks::{SeededFault, notices};
    let within = a_power_cut_within_a_fence_leaves_the_highest_epoch_and_nothing_below_goes_to_any_shard;
    notices(SeededFault::FenceNotAwaited, within);
    notices(SeededFault::FenceGoesToSomeShards, within);
}

#[test]
fn a_device_comes_and_goes_on_all_cores_and_power_may_go_between() {
    for seed in 0..12 {
        let mut lab = Lab::new(seed);
        lab.devices.push(lab.world.device(48 << 20, SimDeviceOptions::default()));
        let (group, new) = (lab.format().group, lab.devices[2].clone());
        let (cache, old) = (lab.devices[0].clone(), lab.devices[1].clone());
        let open = |lab: &mut Lab| {
            let devices = store::GroupDevices { devices: vec![cache.clone(), old.clone()], maybe: vec![new.clone()], ..Default::default() };
            lab.give(|o| o.open_group_with(Some(cluster()), devices)).unwrap()
        };
        open(&mut lab);
        let on_new = |n| ComponentSpec { capacity_index: 1, ..component(n) };
        let first = lab.give(|o| o.create_component(group, component(1))).unwrap();
        assert!(lab.give(|o| o.create_component(group, on_new(2))).is_err(), "there is no such device yet");
        // Components are made at once, and power goes at some instant of all that.
        let (add, d) = (lab.commands.borrow().clone().unwrap(), new.clone());
        let adding = add.add_capacity(group, 1, d, false);
        lab.world.run_for(Duration::from_nanos(seed * 250_000));
        let added = adding.try_take();
        lab.power_cycle();
        let (_, found) = open(&mut lab);
        assert_eq!(found.iter().map(|c| c.no).collect::<Vec<_>>(), [first]);
        let numbers = lab.give(|o| o.capacity_numbers(group)).unwrap();
        assert!(numbers.contains(&1) || added.is_none(), "seed {seed}: it was added");
        if !numbers.contains(&1) {
            let d = new.clone();
            lab.give(|o| o.add_capacity(group, 1, d, true)).unwrap();
        }
        let second = lab.give(|o| o.create_component(group, on_new(2))).unwrap();
        let refused = lab.give(|o| o.remove_capacity(group, 1)).unwrap_err();
        assert!(refused.to_string().contains("holds 1 component(s)"), "{refused}");
        lab.give(|o| o.check()).unwrap();
        let stats = lab.give(|o| o.stats()).unwrap();
        assert_eq!((stats.groups[0].devices.len(), stats.groups[0].info.numbers().count()), (3, 2));
        let shards: Vec<_> = stats.cores.iter().flat_map(|c| &c.shards).collect();
        assert!(shards.len() == 4 && shards.iter().all(|s| s.stats.space.len() == 2 && s.stats.space[1].total > 0), "each shard knows it");
        lab.give(|o| o.delete_component(group, second)).unwrap();
        lab.give(|o| o.remove_capacity(group, 1)).unwrap();
        assert!(lab.give(|o| o.create_component(group, on_new(3))).is_err());
        lab.give(|o| o.check()).unwrap();
        lab.power_cycle();
        lab.devices.truncate(2);
        let (info, found) = lab.open().unwrap();
        assert_eq!((info.numbers().collect::<Vec<_>>(), found.len()), (vec![0], 1));
        assert!(lab.give(|o| o.create_component(group, component(4))).unwrap().0 > second.0, "seed {seed}: a number is given again");
    }
}
