//! Capacity devices that come and go.
//!
//! Never: touches a device on which a component lies.

use super::*;

impl ChunkTable {
    /// There is a new device at this number, with an empty table whose head has this generation.
    pub fn add_device(&mut self, index: u8, geometry: &CapacityGeometry, generation: u64) {
        let at = usize::from(index);
        if self.devices.len() <= at {
            self.devices.resize_with(at + 1, || DeviceTable::new(&CapacityGeometry::NONE));
        }
        assert!(self.devices[at].geometry.is_none(), "a number has one device at a time");
        let mut table = DeviceTable::new(geometry);
        (table.meta[0].generation, table.base) = (generation, base_of(generation));
        table.counted_in(self.usage.room(index));
        self.devices[at] = table;
    }

    /// Whether nothing of a device is in use, or is written just now.
    pub fn is_vacant(&self, index: u8) -> bool {
        let Some(d) = self.devices.get(usize::from(index)) else { return true };
        let none_there = self.components.values().all(|c| c.device != index) && self.dropped.iter().all(|(_, at, _)| at.device != index);
        none_there && d.free.free() == d.geometry.chunks_per_shard && !self.checkpoint_open
    }

    /// There is no device at this number any more; see [`ChunkTable::is_vacant`].
    pub fn remove_device(&mut self, index: u8) {
        assert!(self.is_vacant(index), "a device leaves with chunks in use");
        self.dirty.retain(|p| p.device != index);
        if let Some(d) = self.devices.get_mut(usize::from(index)) {
            d.room.say(&mut d.said, 0);
            *d = DeviceTable::new(&CapacityGeometry::NONE);
        }
    }
}
