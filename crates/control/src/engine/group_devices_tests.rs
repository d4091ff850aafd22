use super::super::control_requests::tests::{Bench, bench};
use super::*;
use crate::fake;
use dataplane::DataPlaneError;
use rt::DeviceError;

fn bytes(name: &str) -> api::AddedDevice {
    api::AddedDevice { path: name.into(), bytes: Some(1 << 30), force: false }
}

impl Bench {
    fn device(&self, name: &str) -> String {
        self.at(name).display().to_string()
    }
    fn add(&self, name: &str) -> Result<api::Group, Problem> {
        self.control.add_device("g1", &bytes(&self.device(name)))
    }
    fn remove(&self, name: &str) -> Result<api::Group, Problem> {
        self.control.remove_device("g1", &self.device(name), api::Removal::default())
    }
    /// How each of the group's devices is: its number and state.
    fn states(&self) -> Vec<(u8, api::DeviceState)> {
        let group = self.control.group("g1").unwrap();
        group.capacity.iter().map(|d| (d.number.unwrap(), d.state)).collect()
    }
    /// What the reconciler sees to every few seconds.
    fn look(&self) {
        self.control.records_for_test();
        self.control.look_after_moves();
    }
    fn create(&self, name: &str) {
        let volume = serde_json::json!({"name": name, "bytes": 1 << 20});
        self.control.create_volume(&serde_json::from_value(volume).unwrap()).unwrap();
    }
    fn record(&self) -> Versioned<GroupRecord> {
        self.control.group_record("g1").unwrap()
    }
}

const IN_USE: api::DeviceState = api::DeviceState::InUse;

#[test]
fn a_device_that_cannot_be_added_leaves_no_trace() {
    let b = bench();
    let before = b.record().value;
    b.fail("add_capacity");
    b.add("d1").unwrap_err();
    assert_eq!(b.record().value, before);
    assert!(!b.at("d1").exists(), "the file that was made for it is gone");
    let group = b.add("d1").unwrap();
    assert_eq!((group.capacity.len(), group.capacity_bytes), (2, 9 << 30));
    let twice = b.add("d1").unwrap_err();
    assert!(twice.message.contains("belongs to disk group g1"), "{}", twice.message);
    (2..7).for_each(|n| _ = b.add(&format!("d{n}")).unwrap());
    let eighth = b.add("d7").unwrap_err();
    assert!(eighth.message.contains("as many as it can have"), "{}", eighth.message);
}

#[test]
fn what_a_crash_leaves_of_adding_is_settled_by_what_the_group_has() {
    for added in [false, true] {
        let b = bench();
        let mut group = b.record();
        let device = DeviceRecord::File { path: b.device("d1"), bytes: 1 << 30 };
        assert_eq!(group.value.joins(device.clone()), 1);
        b.control.commit(Transaction::new().update(&group)).unwrap();
        if added {
            b.control.plane.add_capacity(group.id, 1, &device, false).unwrap();
        }
        assert_eq!(b.states(), [(0, IN_USE), (1, api::DeviceState::Joining)]);
        b.look();
        let there: &[_] = if added { &[(0, IN_USE), (1, IN_USE)] } else { &[(0, IN_USE)] };
        assert_eq!(b.states(), there, "added: {added}");
        assert!(b.record().changes.is_empty());
    }
}

#[test]
fn whether_it_was_added_may_not_be_known_until_it_is_tried_again() {
    let b = bench();
    let error = GroupError::Undecided { device: "cache".into(), error: DeviceError::Media };
    b.plane.fail_next("add_capacity", DataPlaneError::from(error).into());
    b.add("d1").unwrap_err();
    b.look();
    assert_eq!(b.states(), [(0, IN_USE), (1, api::DeviceState::Joining)], "it may be one of the group");
    b.add("d1").unwrap();
    assert_eq!(b.states(), [(0, IN_USE), (1, IN_USE)]);
}

#[test]
fn a_device_leaves_when_what_lies_there_has_gone_elsewhere() {
    let b = bench();
    let last = b.remove("data").unwrap_err();
    assert!(last.message.contains("the last capacity device"), "{}", last.message);
    b.add("d1").unwrap();
    let lies_on = || b.control.directory.all::<ObjectRecord>().unwrap().iter().map(|o| o.mirrors[0][0].capacity_index).collect::<Vec<_>>();
    assert_eq!(lies_on(), [0]);
    let group = b.remove("data").unwrap();
    assert_eq!((group.capacity[0].state, group.capacity[0].components), (api::DeviceState::Leaving, 1));
    // Nothing is placed there.
    b.create("v2");
    let mut on = lies_on();
    on.sort_unstable();
    assert_eq!(on, [0, 1]);
    b.control.records_for_test();
    b.control.look_after_devices();
    assert_eq!(b.control.group("g1").unwrap().capacity.len(), 2, "a volume lies on it");
    let settled = || {
        b.look();
        b.control.group("g1").unwrap().capacity.len() == 1
    };
    assert!((0..12).any(|_| settled()), "{:?}", b.control.group("g1").unwrap());
    assert_eq!(b.states(), [(1, IN_USE)]);
    assert_eq!(lies_on(), [1, 1]);
    // Its number is free, and its file.
    let there = api::AddedDevice { bytes: None, ..bytes(&b.device("data")) };
    let group = b.control.add_device("g1", &there).unwrap();
    assert_eq!(group.capacity.iter().map(|d| d.number).collect::<Vec<_>>(), [Some(0), Some(1)]);
}

#[test]
fn a_volume_that_cannot_go_elsewhere_is_named_and_its_device_stays() {
    let b = bench();
    b.add("d1").unwrap();
    let reserved = serde_json::json!({"name": "full", "space_reservation_percent": 100});
    b.control.create_policy(&serde_json::from_value(reserved).unwrap()).unwrap();
    let large = serde_json::json!({"name": "large", "bytes": 4u64 << 30, "policy": "full"});
    b.control.create_volume(&serde_json::from_value(large).unwrap()).unwrap();
    let refused = b.remove("data").unwrap_err();
    assert!(refused.message.contains("large cannot go elsewhere") && refused.code == crate::Code::NoSpace, "{}", refused.message);
    assert!(b.record().changes.is_empty());
    b.control.delete_volume("large", false).unwrap();
    b.remove("data").unwrap();
    let keep = b.control.remove_device("g1", &b.device("data"), api::Removal { keep: true, ..Default::default() }).unwrap();
    assert_eq!(keep.capacity[0].state, IN_USE);
}

#[test]
fn a_group_is_opened_without_a_device_that_is_lost_and_what_ends_is_said_before() {
    let b = bench();
    b.add("d1").unwrap();
    let keep = api::Removal { keep: true, ..Default::default() };
    b.remove("data").unwrap();
    b.create("v2");
    b.control.remove_device("g1", &b.device("data"), keep).unwrap();
    let lost = api::Removal { lost: true, ..Default::default() };
    let online = b.control.remove_device("g1", &b.device("d1"), lost).unwrap_err();
    assert!(online.message.contains("is online"), "{}", online.message);
    b.plane.fail_next("open_group", fake::missing("d1"));
    let (plane, control) = b.restart();
    let state = || control.group("g1").unwrap().state;
    assert_eq!(state(), api::GroupState::Offline);
    let refused = control.remove_device("g1", &b.device("d1"), lost).unwrap_err();
    assert!(refused.message.contains("1 volume(s) that have no other copy of it: v2"), "{}", refused.message);
    let group = control.remove_device("g1", &b.device("d1"), api::Removal { force: true, ..lost }).unwrap();
    assert_eq!((group.state, group.capacity.len()), (api::GroupState::Online, 1));
    assert_eq!(control.volumes().unwrap().iter().map(|v| v.name.clone()).collect::<Vec<_>>(), ["v1"]);
    assert_eq!(plane.components().len(), 1);
    assert!(!plane.desired().volumes[0].object.mirrors.is_empty(), "the other one is served");
}
