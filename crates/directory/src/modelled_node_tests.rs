//! A node on a directory that loses requests and answers: what its records say is made, once each, and known after a
//! start.

use super::*;
use crate::modelled::Faults;
use crate::record::DeviceRecord;
use base::{ClusterId, VolumeId};
use cluster::{Layout, MirrorSlots, Slot};

/// Devices on which everything works, and what was done on them.
#[derive(Default)]
struct Memory {
    made: BTreeMap<ComponentId, u32>,
    done: Vec<&'static str>,
}

impl NodeDevices for Memory {
    type Error = String;
    fn format_group(&mut self, _: &GroupRecord) -> Result<(), String> {
        self.made.clear();
        self.done.push("format");
        Ok(())
    }
    fn open_group(&mut self, _: &GroupRecord) -> Result<BTreeMap<ComponentId, u32>, String> {
        self.done.push("open");
        Ok(self.made.clone())
    }
    fn create_component(&mut self, _: &VolumeRecord, object: &ObjectRecord, mirror: usize, copy: usize) -> Result<u32, String> {
        self.done.push("create");
        let next = self.made.len() as u32 + 1;
        Ok(*self.made.entry(object.mirrors[mirror][copy].id).or_insert(next))
    }
}

fn group(device: DeviceRecord, stage: Stage) -> GroupRecord {
    let (id, capacity) = (GroupId::from_bytes([1; 16]), vec![device.clone()]);
    GroupRecord {
        id,
        name: "g".into(),
        node: "a".into(),
        stage,
        cache: device,
        capacity,
        changes: Default::default(),
        shards: 1,
        created_unix_s: 1,
    }
}

/// Writes a volume of two mirrors that is to be made.
fn write_volume(node: &mut ModelledNode, group: GroupId) -> VolumeId {
    let (id, object) = (VolumeId::from_bytes([2; 16]), ObjectId::from_bytes([3; 16]));
    let slot = Slot { node: "a".into(), group, capacity_index: 0, bytes: 1 << 20, reserve_chunks: 0 };
    let layout = Layout { mirrors: vec![MirrorSlots { copies: vec![slot] }; 2] };
    let object = ObjectRecord::planned(object, id, &layout, |mirror, _| ComponentId::from_bytes([4 + mirror as u8; 16]));
    let volume = VolumeRecord::planned(id, "v".into(), 2 << 20, "default".into(), object.id, 1);
    node.write_volume(&volume, &object).unwrap();
    id
}

#[test]
fn groups_and_volumes_are_made_from_their_records_and_opened_again_by_the_next_start() {
    for seed in 0..50 {
        let directory = Modelled::new(seed, ClusterId::from_bytes([9; 16]), Faults::MANY);
        let (mut node, mut devices) = (ModelledNode::new("a", directory), Memory::default());
        let on_block = DeviceRecord::Block { path: "/dev/x".into(), bytes: 1 << 30 };
        let group = group(on_block, Stage::Creating);
        node.commit(Transaction::new().create(&group)).unwrap();
        node.work(&mut devices).unwrap();
        let volume = write_volume(&mut node, group.id);
        node.work(&mut devices).unwrap();
        assert_eq!(devices.done, ["open", "create", "create"], "seed {seed}");
        let records = node.records();
        assert_eq!((records.groups[0].stage, records.volumes[0].stage), (Stage::Ready, Stage::Ready));
        assert_eq!(records.objects[0].components().map(|c| c.no).collect::<Vec<_>>(), [Some(1), Some(2)]);
        assert!(cluster::serving(&records.objects[0], node.observed()).is_ok());

        node.begin_start();
        node.work(&mut devices).unwrap();
        assert_eq!(devices.done.split_off(3), ["open"], "nothing is made twice");
        let object = node.find::<ObjectRecord>(records.objects[0].id).unwrap();
        assert!(object.ownership.term > records.objects[0].ownership.term, "a start begins a term");
        assert!(cluster::serving(&object, node.observed()).is_ok());
        assert!(node.find::<VolumeRecord>(volume).is_some());
    }
}

#[test]
fn a_group_in_memory_is_made_at_each_start_and_its_volumes_with_it() {
    let directory = Modelled::new(1, ClusterId::from_bytes([9; 16]), Faults::NONE);
    let (mut node, mut devices) = (ModelledNode::new("a", directory), Memory::default());
    let group = group(DeviceRecord::Memory { bytes: 1 << 30, populated: false }, Stage::Ready);
    node.commit(Transaction::new().create(&group)).unwrap();
    write_volume(&mut node, group.id);
    node.work(&mut devices).unwrap();
    assert_eq!(devices.done, ["format", "open", "create", "create"]);
    node.begin_start();
    node.work(&mut devices).unwrap();
    assert_eq!(devices.done[4..], ["format", "open", "create", "create"]);
    let object = &node.records().objects[0];
    assert!(cluster::serving(object, node.observed()).is_ok());
}
