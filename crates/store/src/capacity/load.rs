//! Brings a chunk table from the devices.
//!
//! Reads the head of each table, then the pages below its mark, in large reads with several in flight.
//! Never: writes; takes a damaged table for an empty one.

use super::phys::Phys;
use super::table::{ChunkTable, PageRef};
use crate::components::ComponentInfo;
use crate::geometry::CapacityGeometry;
use crate::group::GroupError;
use crate::join::join_all;
use crate::slots;
use crate::usage::Usage;
use base::hooks::{self, SeededFault};
use base::lane::Lane;
use base::unit::CHUNK_BLOCKS;
use base::{BLOCK_BYTES, BlockNo};
use format::disk::page::{self, Newest, PAGE_SLOTS_BYTES, TableHead};
use format::disk::{CHUNKS_PER_PAGE, DiskError, FormatTag, PageAddress, PageKind, chunk};
use rt::{Buf, Device, Rt};

/// Pages of one read (1 MiB with both slots).
const PAGES_PER_READ: u32 = (rt::BUF_BYTES_MAX as u64 / PAGE_SLOTS_BYTES) as u32;
/// Reads in flight on a device.
const READS_MAX: usize = 8;

impl ChunkTable {
    /// Loads the part of `shard` from all capacity devices. Entries of components that are not among `components` (deleted
    /// ones) are free.
    pub(crate) async fn load(
        rt: &Rt,
        tag: FormatTag,
        (shard, shards): (u8, u8),
        geometry: &[CapacityGeometry],
        devices: &[Device],
        (components, usage): (&[ComponentInfo], &Usage),
    ) -> Result<ChunkTable, GroupError> {
        assert!(geometry.len() == devices.len());
        let mut table = ChunkTable::new(tag, shard, shards, geometry).counted_in(usage);
        for c in components {
            table.add_component(c.no, c.capacity_index, c.reserve_chunks);
        }
        for (index, (device, geometry)) in devices.iter().zip(geometry).enumerate().filter(|(_, (_, geometry))| !geometry.is_none()) {
            let loader = Loader { rt, tag, shard, shards, index: index as u8, device, geometry };
            loader.load(&mut table).await?;
        }
        Ok(table)
    }
}

struct Loader<'a> {
    rt: &'a Rt,
    tag: FormatTag,
    shard: u8,
    shards: u8,
    index: u8,
    device: &'a Device,
    geometry: &'a CapacityGeometry,
}

impl Loader<'_> {
    fn damaged(&self, page: u32, cause: DiskError) -> GroupError {
        GroupError::TableDamaged { device: self.device.name().into(), table: "chunk", shard: self.shard, page, cause }
    }

    async fn read(&self, first: u32, count: u32) -> Result<Buf, GroupError> {
        let buf = Buf::alloc(count as usize * PAGE_SLOTS_BYTES as usize);
        let (result, buf) = self.rt.read_at(self.device, self.geometry.chunk_page_offset(self.shard, first, 0), buf).await;
        match result {
            Ok(()) => Ok(buf),
            Err(error) => Err(GroupError::Device { device: self.device.name().into(), error }),
        }
    }

    async fn load(&self, table: &mut ChunkTable) -> Result<(), GroupError> {
        let mut head = self.read(0, 1).await?;
        let newest = self.newest(PageKind::ChunkHead, 0, &mut head).await?;
        let used = TableHead::parse(page::slot_bytes(&head, newest.slot)).map_err(|e| self.damaged(0, e))?.pages_used;
        if used > u64::from(self.geometry.chunk_pages_per_shard) {
            return Err(self.damaged(0, DiskError::Value { field: "pages used" }));
        }
        let used = used as u32;
        table.set_loaded_pages(self.index, used);
        table.set_loaded_page(PageRef { device: self.index, page: 0 }, newest.slot, newest.generation);
        let per_read = hooks::tiny(PAGES_PER_READ, 2);
        let starts: Vec<u32> = (1..used).step_by(per_read as usize).collect();
        let last = starts.len() - usize::from(starts.len() > 1 && hooks::seeded(SeededFault::LastPagesUnread));
        let starts = &starts[..last];
        for group in starts.chunks(hooks::tiny(READS_MAX, 2)) {
            let reads = group.iter().map(|&first| async move { (first, self.read(first, per_read.min(used - first)).await) });
            for (first, read) in join_all(reads.map(Box::pin)).await {
                self.take_pages(table, first, &mut read?).await?;
                self.rt.yield_now().await;
            }
        }
        Ok(())
    }

    async fn newest(&self, kind: PageKind, page: u32, slots: &mut [u8]) -> Result<Newest, GroupError> {
        let address = PageAddress { kind, device: self.index, shard: self.shard, index: u64::from(page) };
        let offset = self.geometry.chunk_page_offset(self.shard, page, 0);
        slots::newest(self.rt, self.device, offset, slots, self.tag, address).await.map_err(|e| self.damaged(page, e))
    }

    async fn take_pages(&self, table: &mut ChunkTable, first: u32, bytes: &mut [u8]) -> Result<(), GroupError> {
        for (i, slots) in bytes.chunks_exact_mut(2 * BLOCK_BYTES).enumerate() {
            let page = first + i as u32;
            let newest = self.newest(PageKind::Chunk, page, slots).await?;
            table.set_loaded_page(PageRef { device: self.index, page }, newest.slot, newest.generation);
            self.take_entries(table, page, page::slot_bytes(slots, newest.slot)).map_err(|e| self.damaged(page, e))?;
        }
        Ok(())
    }

    fn take_entries(&self, table: &mut ChunkTable, page: u32, bytes: &[u8]) -> Result<(), DiskError> {
        for i in 0..CHUNKS_PER_PAGE {
            let Some(e) = chunk::get_entry(bytes, i)? else { continue };
            let at = Phys { device: self.index, chunk: (page - 1) * CHUNKS_PER_PAGE as u32 + i as u32 };
            let bad = |field| Err(DiskError::Value { field });
            if at.chunk >= self.geometry.chunks_per_shard {
                return bad("entry past the last chunk");
            }
            if Lane::of(BlockNo(e.chunk * CHUNK_BLOCKS)).shard(usize::from(self.shards)) != usize::from(self.shard) {
                return bad("chunk of another shard");
            }
            if !table.knows_component(e.component) {
                continue;
            }
            if !table.has_component_at(e.component, self.index) {
                return bad("chunk of a component of another device");
            }
            table.insert_loaded(at, &e);
        }
        Ok(())
    }
}
