//! How many chunks each component has, over all shards of its group, and how much space its device has left: what a front end reports to hosts of a
//! thin volume, at any moment and on any core, without asking one.
//!
//! Owns: a count for each component and one for each device, which the chunk tables of all shards keep and anybody may read.
//! Invariant: a count is the sum of what the tables of the group's shards say.
//! Never: decides anything; what is free or promised is the table's own.

use crate::ComponentNo;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The chunks of one component. A clone is the same count.
#[derive(Clone, Debug, Default)]
pub struct ChunksUsed {
    count: Arc<AtomicU64>,
    room: Room,
}

impl ChunksUsed {
    /// Of a component on a device of so many chunks, of which so many are open to all.
    pub fn on_device(chunks: u64, open: u64) -> Self {
        let (of, mut said) = (Self::default(), 0);
        of.room.add(chunks);
        of.room.say(&mut said, open as i64);
        of
    }
    /// How many it has.
    pub fn get(&self) -> u64 {
        self.count.load(Relaxed)
    }
    /// It has got one.
    pub fn more(&self) {
        self.count.fetch_add(1, Relaxed);
    }
    /// It has one fewer.
    pub fn fewer(&self) {
        self.count.fetch_sub(1, Relaxed);
    }
    /// What of its device is open to all: neither taken nor promised to another component, in percent. `None`: its device is not known.
    pub fn open_percent(&self) -> Option<u64> {
        let open = u64::try_from(self.room.0.open.load(Relaxed)).unwrap_or(0);
        (open * 100).checked_div(self.room.0.chunks.load(Relaxed))
    }
}

impl PartialEq for ChunksUsed {
    /// Whether it is the same count, whatever it says.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.count, &other.count)
    }
}
impl Eq for ChunksUsed {}

/// The space of a device, over all shards. A clone is the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room(Arc<RoomCounts>);

#[derive(Debug, Default)]
struct RoomCounts {
    chunks: AtomicU64,
    /// Free, and not promised.
    open: AtomicI64,
}

impl Room {
    /// A shard has so many chunks of it.
    pub(crate) fn add(&self, chunks: u64) {
        self.0.chunks.fetch_add(chunks, Relaxed);
    }
    /// So many of a shard's are open now; `said`: what it has said before.
    pub(crate) fn say(&self, said: &mut i64, open: i64) {
        let more = open - std::mem::replace(said, open);
        if more != 0 {
            self.0.open.fetch_add(more, Relaxed);
        }
    }
}

/// The counts of a group's components and devices. A clone is the same; the lock is taken when components come and go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    components: BTreeMap<u32, ChunksUsed>,
    rooms: BTreeMap<u8, Room>,
}

impl Usage {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The count of a component of this device.
    pub(crate) fn of(&self, no: ComponentNo, device: u8) -> ChunksUsed {
        let mut counts = self.counts();
        let room = counts.rooms.entry(device).or_default().clone();
        counts.components.entry(no.0).or_insert_with(|| ChunksUsed { room, ..ChunksUsed::default() }).clone()
    }
    /// The space of a device.
    pub(crate) fn room(&self, device: u8) -> Room {
        self.counts().rooms.entry(device).or_default().clone()
    }
    /// A device has left: one that gets its number has a count of its own.
    pub(crate) fn forget_room(&self, device: u8) {
        self.counts().rooms.remove(&device);
    }
    /// A component is no more, and its number is never given again.
    pub(crate) fn forget(&self, no: ComponentNo) {
        self.counts().components.remove(&no.0);
    }
}
