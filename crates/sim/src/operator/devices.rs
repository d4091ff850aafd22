//! Capacity devices that come and go while hosts use the group, in the order in which `control` has it (`engine/group_devices.rs`).
//!
//! Owns: the devices of the machine, and the change of the group that is under way.
//! Invariants: the directory says first what is to come, then what has come; what a death has cut is settled by what the node says of its group;
//! nothing is placed on a device that is not in use.
//! Never: moves data: a volume that lies on a device that is to leave is deleted, and another one is made elsewhere.

use super::control::{ModelledControl, place_in_machine};
use super::ids::group;
use super::task::{self, Task};
use super::{Operator, Step};
use crate::acts::Act;
use crate::node_types::CommandSender;
use crate::workload::Workload;
use cluster::record::{DeviceChange, GroupRecord};
use dataplane::{Completion, DataPlaneError, Device};
use std::cell::RefCell;
use std::collections::BTreeSet;
use store::{GroupDevices, GroupError};

/// See the module.
pub struct Devices {
    /// The cache device, the capacity devices that the group is made of, then spare ones.
    all: Vec<Device>,
    /// Those that were in the group some time: they hold something.
    used: BTreeSet<usize>,
    /// There are spare ones: volumes are made where there is a device in use then.
    change: bool,
    under_way: Option<UnderWay>,
}

/// A change of the group, with the number of the device.
enum UnderWay {
    Adds(u8, Completion<()>),
    Removes(u8, Completion<()>),
    /// It is to be refused, for volumes lie there.
    RemovesInUse(u8, Completion<()>),
}

impl Devices {
    /// Those of a machine, whose group is made of so many capacity devices.
    pub fn new(all: Vec<Device>, capacity: usize) -> Devices {
        let change = all.len() > capacity + 1;
        Devices { all, used: (1..=capacity).collect(), change, under_way: None }
    }
    /// The node is gone.
    pub fn node_died(&mut self) {
        self.under_way = None;
    }
    /// Whether nothing changes just now.
    pub fn is_idle(&self) -> bool {
        self.under_way.is_none()
    }
}

/// The numbers of those that are neither added nor on their way out.
fn in_use(group: &GroupRecord) -> Vec<u8> {
    group.numbered().filter(|(.., change)| change.is_none()).map(|(number, ..)| number).collect()
}

/// What becomes of a device is said in the record of its group.
fn note(control: &mut ModelledControl, number: u8, change: Option<DeviceChange>) {
    control.change_group(|group| match change {
        Some(DeviceChange::Gone) => group.has_left(number),
        Some(change) => _ = group.changes.insert(number, change),
        None => _ = group.changes.remove(&number),
    });
}

impl Operator {
    /// The devices that the group is opened with.
    pub fn group_devices(&mut self) -> GroupDevices {
        let mut given = GroupDevices { devices: vec![self.devices.all[0].clone()], ..GroupDevices::default() };
        for (_, device, change) in self.control.group().numbered() {
            let list = if change.is_none() { &mut given.devices } else { &mut given.maybe };
            list.push(self.devices.all[place_in_machine(device)].clone());
        }
        given
    }
    /// Whether it is known which devices the group has.
    pub fn knows_devices(&mut self) -> bool {
        self.devices.is_idle() && !self.control.group().changes.values().any(|change| *change == DeviceChange::Joins)
    }
    /// The numbers of the devices on which a volume can be made instead of another one; empty: where that was.
    pub(super) fn places(&mut self) -> Vec<u8> {
        if self.devices.change { in_use(&self.control.group()) } else { Vec::new() }
    }

    /// Begins to add a spare device, if there is one and nothing else changes.
    pub(super) fn add_device(&mut self, commands: &CommandSender, spare: u64, workload: &RefCell<Workload>, now: u64) {
        let group_is = self.control.group();
        let taken: BTreeSet<usize> = group_is.numbered().map(|(_, device, _)| place_in_machine(device)).collect();
        let spares: Vec<usize> = (1..self.devices.all.len()).filter(|place| !taken.contains(place)).collect();
        if spares.is_empty() || !self.devices.is_idle() {
            return;
        }
        let place = spares[spare as usize % spares.len()];
        workload.borrow_mut().acting(now, &format!("device {place}"), Act::AddDevice { spare });
        let mut number = 0;
        self.control.change_group(|group| number = group.joins(super::control::device_record(place)));
        let (device, force) = (self.devices.all[place].clone(), !self.devices.used.insert(place));
        self.devices.under_way = Some(UnderWay::Adds(number, commands.add_capacity(group(), number, device, force)));
    }

    /// A device is to leave: the deletion of a volume that lies there, with the act that goes on with it. When none does, it begins to leave.
    pub(super) fn remove_device(
        &mut self,
        commands: &CommandSender,
        device: u64,
        workload: &RefCell<Workload>,
        now: u64,
    ) -> Option<(Task, Act)> {
        let group_is = self.control.group();
        let leaving = group_is.numbered().find(|(.., change)| *change == Some(DeviceChange::Leaves)).map(|(number, ..)| number);
        let number = match (leaving, in_use(&group_is)) {
            _ if !self.devices.is_idle() => return None,
            (Some(number), _) => number,
            (None, in_use) if in_use.len() < 2 => return None,
            (None, in_use) => {
                let number = in_use[device as usize % in_use.len()];
                workload.borrow_mut().acting(now, &format!("capacity device {number}"), Act::RemoveDevice { device });
                note(&mut self.control, number, Some(DeviceChange::Leaves));
                number
            }
        };
        let live = (0..self.records.len()).filter(|at| !self.records[*at].is_gone());
        match live.clone().position(|at| self.records[at].plan.stripes.contains(&number)) {
            // Now and then the node is asked too early.
            Some(_) if leaving.is_none() && device.is_multiple_of(4) => {
                self.devices.under_way = Some(UnderWay::RemovesInUse(number, commands.remove_capacity(group(), number)));
                None
            }
            Some(volume) => {
                let act = Act::Replace { volume: volume as u64 };
                let task = task::task(act, &self.records, &mut self.nsid_last)?;
                self.acts.push_front(Act::RemoveDevice { device });
                Some((task, act))
            }
            None => {
                self.devices.under_way = Some(UnderWay::Removes(number, commands.remove_capacity(group(), number)));
                None
            }
        }
    }

    /// Looks whether the change under way has come to its end.
    pub(super) fn look_at_devices(&mut self, workload: &RefCell<Workload>, now: u64) {
        let (number, change, outcome) = match &self.devices.under_way {
            None => return,
            Some(UnderWay::Adds(number, completion)) => (*number, None, completion.try_take()),
            Some(UnderWay::Removes(number, completion) | UnderWay::RemovesInUse(number, completion)) => {
                (*number, Some(DeviceChange::Gone), completion.try_take())
            }
        };
        let Some(outcome) = outcome else { return };
        let in_use = matches!(self.devices.under_way.take(), Some(UnderWay::RemovesInUse(..)));
        let mut workload = workload.borrow_mut();
        match outcome {
            Ok(()) if in_use => workload.fail(format!("capacity device {number} has left, and volumes lie there"), None),
            Err(DataPlaneError::Group(GroupError::NotVacated { .. })) if in_use => {}
            Ok(()) => {
                workload.changed_devices(now, number, change.is_none());
                note(&mut self.control, number, change);
            }
            // What has become of it is known after the next start.
            Err(DataPlaneError::Stopped | DataPlaneError::Group(GroupError::Undecided { .. })) => {}
            Err(error) => {
                if change.is_none() {
                    note(&mut self.control, number, Some(DeviceChange::Gone));
                }
                workload.devices_stay(now, number, &error.to_string());
            }
        }
    }

    /// The group is open: whether it is to be seen which devices it has, for a death may have cut a change.
    pub(super) fn asks_for_devices(&mut self, commands: &CommandSender) -> Option<Step> {
        let undecided = |change: &DeviceChange| matches!(change, DeviceChange::Joins | DeviceChange::Leaves);
        let ask = self.control.group().changes.values().any(undecided);
        ask.then(|| Step::SeeingDevices(commands.capacity_numbers(group())))
    }
    /// The group has these devices: a change that was cut has happened, or has not.
    pub(super) fn devices_are(&mut self, has: &BTreeSet<u8>) {
        for (number, change) in self.control.group().changes {
            match (change, has.contains(&number)) {
                (DeviceChange::Joins, true) => note(&mut self.control, number, None),
                (DeviceChange::Joins | DeviceChange::Leaves, false) => note(&mut self.control, number, Some(DeviceChange::Gone)),
                _ => {}
            }
        }
    }
}
