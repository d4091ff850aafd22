//! The components of a group: the table that each capacity device keeps of those that have it as their home.
//!
//! Owns: the table in memory, which record goes where, numbers.
//! Invariants: a number is given once, whatever became of the attempt; a change is in memory only once it is durable; a
//! record is only ever overwritten by a later version of itself or, once deleted, by one with a higher number, so the
//! highest number ever given can always be found.
//! Never: does I/O (see `group`).

use crate::geometry::CapacityGeometry;
use base::{ComponentId, ObjectId};
use core::fmt;
use format::disk::log::COMPONENT_NO_MAX;
use format::disk::page::{Newest, PAGE_BYTES, TableHead};
use format::disk::{
    COMPONENTS_PER_PAGE, ComponentRecord, ComponentState, DiskError, FormatTag, PageAddress, PageHeader, PageKind, component,
};
use std::collections::BTreeMap;

/// Local number of a component in its group, from 1: given once, never reused (26 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentNo(pub u32);

impl fmt::Display for ComponentNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a component is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentSpec {
    /// Its name in the cluster.
    pub id: ComponentId,
    /// The object it is a part of.
    pub object: ObjectId,
    /// Number of its home device in the group.
    pub capacity_index: u8,
    /// Bytes of address space it covers (for information; the store checks no bounds).
    pub bytes: u64,
    /// Chunks promised to it, rounded up to a multiple of the shards.
    pub reserve_chunks: u64,
    /// What the layers above keep with it; at most 384 bytes.
    pub descriptor: Vec<u8>,
}

/// What may change of a component; `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComponentUpdate {
    /// New size.
    pub bytes: Option<u64>,
    /// New promise.
    pub reserve_chunks: Option<u64>,
    /// New descriptor.
    pub descriptor: Option<Vec<u8>>,
}

/// What is known of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentInfo {
    /// Its number.
    pub no: ComponentNo,
    /// Its name in the cluster.
    pub id: ComponentId,
    /// The object it is a part of.
    pub object: ObjectId,
    /// Number of its home device in the group.
    pub capacity_index: u8,
    /// Bytes of address space it covers.
    pub bytes: u64,
    /// Chunks promised to it.
    pub reserve_chunks: u64,
    /// What the layers above keep with it.
    pub descriptor: Vec<u8>,
    /// It is one copy of several.
    pub copy: bool,
}

/// The generation that the pages of a device's tables begin behind, by that of one of its heads: what the device had when it was of the group
/// before is below it (`docs/on-disk-format.md`).
pub(crate) const fn base_of(generation: u64) -> u64 {
    generation & !(u32::MAX as u64)
}

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    device: u8,
    page: u32,
    slot: usize,
}

struct Page {
    records: [Option<ComponentRecord>; COMPONENTS_PER_PAGE],
    /// Of the newest version that was ever tried.
    generation: u64,
    /// Slot of the newest committed version.
    slot: u8,
}

impl Page {
    const NEW: Page = Page { records: [const { None }; COMPONENTS_PER_PAGE], generation: 0, slot: 1 };
}

struct DevicePages {
    geometry: CapacityGeometry,
    head_generation: u64,
    head_slot: u8,
    /// Pages from 1 on.
    pages: Vec<Page>,
    /// For a page that is not yet in use: what was tried.
    next_generation: u64,
    /// Every page that the device had when it was of the group before has a generation at or below this.
    base: u64,
}

impl DevicePages {
    fn new(geometry: &CapacityGeometry) -> Self {
        Self { geometry: *geometry, head_generation: 1, head_slot: 0, pages: Vec::new(), next_generation: 0, base: 0 }
    }
}

/// A change that is not durable yet.
#[derive(Debug)]
#[must_use]
pub(crate) struct Change {
    place: Place,
    record: ComponentRecord,
    /// The page was not in use: the head must follow.
    pub(crate) grows: bool,
}

impl Change {
    pub(crate) fn device(&self) -> u8 {
        self.place.device
    }
    pub(crate) fn number(&self) -> ComponentNo {
        ComponentNo(self.record.number)
    }
}

/// No room for a record, or no number left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableFull;

/// The component tables of all devices of a group.
pub(crate) struct ComponentTable {
    tag: FormatTag,
    devices: Vec<DevicePages>,
    active: BTreeMap<u32, Place>,
    by_id: BTreeMap<ComponentId, u32>,
    number_next: u32,
}

impl ComponentTable {
    pub(crate) fn new(tag: FormatTag, capacity: &[CapacityGeometry]) -> Self {
        let devices = capacity.iter().map(DevicePages::new).collect();
        Self { tag, devices, active: BTreeMap::new(), by_id: BTreeMap::new(), number_next: 1 }
    }

    /// Every number below this one was given.
    pub(crate) fn numbers_from(&mut self, number: u32) {
        self.number_next = self.number_next.max(number);
    }
    /// The next number.
    pub(crate) fn number_next(&self) -> u32 {
        self.number_next
    }
    /// There is a device with an empty table at this number, or none any more. No component is there.
    pub(crate) fn set_device(&mut self, device: u8, geometry: &CapacityGeometry, head: Newest) {
        debug_assert_eq!(self.on_device(device), 0);
        let index = usize::from(device);
        if self.devices.len() <= index {
            self.devices.resize_with(index + 1, || DevicePages::new(&CapacityGeometry::NONE));
        }
        self.devices[index] = DevicePages::new(geometry);
        self.set_head(device, head);
    }
    /// How many components lie on a device.
    pub(crate) fn on_device(&self, device: u8) -> usize {
        self.active.values().filter(|at| at.device == device).count()
    }

    /// Where the head or a page belongs.
    pub(crate) fn address(device: u8, page: u32) -> PageAddress {
        let kind = if page == 0 { PageKind::ComponentHead } else { PageKind::Component };
        PageAddress { kind, device, shard: 0, index: u64::from(page) }
    }

    pub(crate) fn set_head(&mut self, device: u8, newest: Newest) {
        let d = &mut self.devices[usize::from(device)];
        (d.head_generation, d.head_slot) = (newest.generation, newest.slot);
        d.base = base_of(newest.generation);
        d.next_generation = d.base;
    }

    /// Takes the next page of a device, from page 1 on.
    pub(crate) fn take_page(&mut self, device: u8, newest: Newest, bytes: &[u8]) -> Result<(), DiskError> {
        let mut page = Page { generation: newest.generation, slot: newest.slot, ..Page::NEW };
        let number = self.devices[usize::from(device)].pages.len() as u32 + 1;
        for i in 0..COMPONENTS_PER_PAGE {
            let Some(r) = component::get_record(bytes, i)? else { continue };
            self.number_next = self.number_next.max(r.number + 1);
            if r.state == ComponentState::Active {
                let place = Place { device, page: number, slot: i };
                let twice = self.active.insert(r.number, place).is_some() || self.by_id.insert(r.id, r.number).is_some();
                if twice {
                    return Err(DiskError::Value { field: "component present twice" });
                }
            }
            page.records[i] = Some(r);
        }
        self.devices[usize::from(device)].pages.push(page);
        Ok(())
    }

    fn record(&self, at: Place) -> &ComponentRecord {
        let record = &self.devices[usize::from(at.device)].pages[at.page as usize - 1].records[at.slot];
        record.as_ref().expect("active components have records")
    }

    pub(crate) fn info(&self, no: ComponentNo) -> Option<ComponentInfo> {
        let at = *self.active.get(&no.0)?;
        let r = self.record(at);
        Some(ComponentInfo {
            no,
            id: r.id,
            object: r.object,
            capacity_index: at.device,
            bytes: r.bytes,
            reserve_chunks: r.reserve_chunks,
            descriptor: r.descriptor.clone(),
            copy: r.copy,
        })
    }
    pub(crate) fn by_id(&self, id: ComponentId) -> Option<ComponentInfo> {
        self.info(ComponentNo(*self.by_id.get(&id)?))
    }
    pub(crate) fn all(&self) -> Vec<ComponentInfo> {
        self.active.keys().filter_map(|no| self.info(ComponentNo(*no))).collect()
    }
    /// Chunks promised in each shard of a device, without component `but`.
    pub(crate) fn promised_per_shard(&self, device: u8, shards: u8, but: Option<ComponentNo>) -> u64 {
        let here = self.active.iter().filter(|(no, at)| at.device == device && Some(ComponentNo(**no)) != but);
        here.map(|(_, at)| self.record(*at).reserve_chunks.div_ceil(u64::from(shards))).sum()
    }

    /// Begins to add a component. Its number is spent, whatever comes of it.
    pub(crate) fn begin_create(&mut self, spec: &ComponentSpec) -> Result<Change, TableFull> {
        if self.number_next > COMPONENT_NO_MAX {
            return Err(TableFull);
        }
        let place = self.free_place(spec.capacity_index).ok_or(TableFull)?;
        let number = self.number_next;
        self.number_next += 1;
        let record = ComponentRecord {
            id: spec.id,
            object: spec.object,
            number,
            state: ComponentState::Active,
            copy: false,
            bytes: spec.bytes,
            reserve_chunks: spec.reserve_chunks,
            parent: 0,
            descriptor: spec.descriptor.clone(),
        };
        Ok(self.begin(place, record))
    }

    /// Begins to change a component.
    pub(crate) fn begin_update(&mut self, no: ComponentNo, update: &ComponentUpdate) -> Option<Change> {
        let place = *self.active.get(&no.0)?;
        let mut record = self.record(place).clone();
        record.bytes = update.bytes.unwrap_or(record.bytes);
        record.reserve_chunks = update.reserve_chunks.unwrap_or(record.reserve_chunks);
        if let Some(descriptor) = &update.descriptor {
            record.descriptor.clone_from(descriptor);
        }
        Some(self.begin(place, record))
    }

    /// Begins to make a component one copy of several.
    pub(crate) fn begin_make_copy(&mut self, no: ComponentNo) -> Option<Change> {
        let place = *self.active.get(&no.0)?;
        let record = ComponentRecord { copy: true, ..self.record(place).clone() };
        Some(self.begin(place, record))
    }

    /// Begins to delete a component: what stays is its number.
    pub(crate) fn begin_delete(&mut self, no: ComponentNo) -> Option<Change> {
        let place = *self.active.get(&no.0)?;
        let mut record = self.record(place).clone();
        record.state = ComponentState::Deleted;
        record.reserve_chunks = 0;
        record.descriptor.clear();
        Some(self.begin(place, record))
    }

    fn free_place(&self, device: u8) -> Option<Place> {
        let d = &self.devices[usize::from(device)];
        let deleted = |r: &Option<ComponentRecord>| r.as_ref().is_some_and(|r| r.state == ComponentState::Deleted);
        let find = |wanted: &dyn Fn(&Option<ComponentRecord>) -> bool| {
            d.pages.iter().enumerate().find_map(|(page, p)| {
                let slot = p.records.iter().position(wanted)?;
                Some(Place { device, page: page as u32 + 1, slot })
            })
        };
        let page = d.pages.len() as u32 + 1;
        find(&|r| r.is_none())
            .or_else(|| find(&deleted))
            .or_else(|| (page < d.geometry.component_pages).then_some(Place { device, page, slot: 0 }))
    }

    fn begin(&mut self, place: Place, record: ComponentRecord) -> Change {
        let d = &mut self.devices[usize::from(place.device)];
        let grows = place.page as usize > d.pages.len();
        match d.pages.get_mut(place.page as usize - 1) {
            Some(page) => page.generation += 1,
            None => d.next_generation += 1,
        }
        if grows {
            d.head_generation += 1;
        }
        Change { place, record, grows }
    }

    /// Fills `out` with the page that has the change; returns where on its device to write it.
    pub(crate) fn encode_page(&self, change: &Change, out: &mut [u8]) -> u64 {
        let d = &self.devices[usize::from(change.place.device)];
        let page = d.pages.get(change.place.page as usize - 1);
        for i in 0..COMPONENTS_PER_PAGE {
            let old = page.and_then(|p| p.records[i].as_ref());
            component::put_record(out, i, if i == change.place.slot { Some(&change.record) } else { old });
        }
        let (generation, slot) = page.map_or((d.next_generation, 1), |p| (p.generation, p.slot));
        let address = Self::address(change.place.device, change.place.page);
        PageHeader { tag: self.tag, address, generation }.seal(&mut out[..PAGE_BYTES]);
        d.geometry.component_page_offset(change.place.page, slot ^ 1)
    }

    /// Fills `out` with the head for a change that grows the table.
    pub(crate) fn encode_head(&self, change: &Change, out: &mut [u8]) -> u64 {
        let d = &self.devices[usize::from(change.place.device)];
        TableHead { pages_used: u64::from(change.place.page) + 1 }.build(out);
        let address = Self::address(change.place.device, 0);
        PageHeader { tag: self.tag, address, generation: d.head_generation }.seal(&mut out[..PAGE_BYTES]);
        d.geometry.component_page_offset(0, d.head_slot ^ 1)
    }

    /// The change is durable.
    pub(crate) fn apply(&mut self, change: Change) {
        let Change { place, record, grows } = change;
        let d = &mut self.devices[usize::from(place.device)];
        if grows {
            d.head_slot ^= 1;
            d.pages.push(Page { generation: core::mem::replace(&mut d.next_generation, d.base), ..Page::NEW });
        }
        let page = &mut d.pages[place.page as usize - 1];
        page.slot ^= 1;
        match record.state {
            ComponentState::Active => {
                self.active.insert(record.number, place);
                self.by_id.insert(record.id, record.number);
            }
            ComponentState::Deleted => {
                self.active.remove(&record.number);
                self.by_id.remove(&record.id);
            }
        }
        page.records[place.slot] = Some(record);
    }
}
