//! What must hold within the chunk table, and what tests and the simulator look at in it.
//!
//! Never: changes anything.

use super::*;

impl ChunkTable {
    /// Of the pages in use on each device: the generation of the newest committed version, its slot, and the newest generation that was tried.
    #[cfg(feature = "hooks")]
    pub fn pages(&self) -> Vec<Vec<(u64, u8, u64)>> {
        // One that was never written has the generation that those of its device begin behind.
        let committed = |d: &DeviceTable, m: &Meta| Some(m.generation - u64::from(m.tries)).filter(|is| *is > d.base).unwrap_or(0);
        let pages = |d: &DeviceTable| d.meta.iter().map(|m| (committed(d, m), m.slot, m.generation)).collect();
        self.devices.iter().map(pages).collect()
    }

    /// Of each component: its number, its chunks here, and what is reported for all shards.
    #[cfg(feature = "hooks")]
    pub fn usage(&self) -> impl Iterator<Item = (u32, u64, u64)> + '_ {
        self.components.iter().map(|(no, c)| (*no, c.allocated, c.used.get()))
    }

    /// Of each chunk that has content on capacity or in the log: the epoch of its last change, and which blocks have changed.
    #[cfg(feature = "hooks")]
    pub fn changes_of_chunks(&self) -> BTreeMap<(u32, u64), (Epoch, u16)> {
        let chunks = self.devices.iter().flat_map(|d| &d.bodies).flatten().flat_map(|body| &body.entries);
        chunks.filter(|e| e.component != 0).map(|e| ((e.component, e.chunk()), (e.epoch, e.changed))).collect()
    }

    /// This shard's part of what is promised to a component.
    #[cfg(feature = "hooks")]
    pub fn reserve_of(&self, no: ComponentNo) -> Option<u64> {
        self.components.get(&no.0).map(|c| c.reserve)
    }

    /// Checks all invariants: for tests, and after recovery in the simulator. Looks at every chunk.
    pub fn check(&self) -> Result<(), Inconsistent> {
        let bad = |what, at| Err(Inconsistent { what, at });
        let mut owned = 0usize;
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        for (device, d) in self.devices.iter().enumerate() {
            let mut used = 0;
            for (page, body) in d.bodies.iter().enumerate() {
                let Some(body) = body else { continue };
                let mut in_page = 0;
                for (i, e) in body.entries.iter().enumerate() {
                    let at = Phys { device: device as u8, chunk: (page * CHUNKS_PER_PAGE + i) as u32 };
                    if e.component == 0 {
                        if at.chunk < d.geometry.chunks_per_shard && !d.free.is_free(at.chunk) {
                            return bad("a chunk is neither free nor owned", Some(at));
                        }
                        continue;
                    }
                    in_page += 1;
                    *counts.entry(e.component).or_default() += 1;
                    if d.free.is_free(at.chunk) {
                        return bad("a chunk is both free and owned", Some(at));
                    }
                    if self.forward.get(e.component, e.chunk()) != Some(at) {
                        return bad("the forward map does not name the chunk", Some(at));
                    }
                    if e.unchecked & !e.written != 0 {
                        return bad("a block without checksum is not written", Some(at));
                    }
                    if (0..16).any(|i| e.written >> i & 1 == 0 && e.crcs[i] != 0) {
                        return bad("a block that is not written has a checksum", Some(at));
                    }
                    if e.written != 0 && page + 1 >= d.meta.len() && !d.failed {
                        return bad("a chunk with content lies past the pages in use", Some(at));
                    }
                    if self.components.get(&e.component).is_some_and(|c| usize::from(c.device) != device) {
                        return bad("a chunk lies away from its component's device", Some(at));
                    }
                }
                if in_page != usize::from(body.used) {
                    return bad("the count of a page is wrong", None);
                }
                used += in_page as u32;
            }
            if d.free.free() + used != d.geometry.chunks_per_shard {
                return bad("free and used chunks do not add up", None);
            }
            owned += used as usize;
            let promised: u64 = self.components.values().filter(|c| usize::from(c.device) == device).map(Component::unfulfilled).sum();
            if promised != d.promised {
                return bad("the sum of promises is wrong", None);
            }
            if !self.checkpoint_open && d.meta.iter().any(|m| m.writing) {
                return bad("a page is being written, and no checkpoint is open", None);
            }
            if !self.checkpoint_open && d.meta.iter().any(|m| m.generation == u64::from(m.tries) && !m.queued) && !d.failed {
                return bad("a page in use was never written, and is not dirty", None);
            }
            let queued = d.meta.iter().filter(|m| m.queued).count();
            if queued != self.dirty.iter().filter(|p| usize::from(p.device) == device).count() {
                return bad("the list of dirty pages is wrong", None);
            }
        }
        if owned != self.forward.len() {
            return bad("the forward map has more than the pages", None);
        }
        for (no, c) in &self.components {
            if c.allocated != counts.get(no).copied().unwrap_or(0) {
                return bad("the count of a component is wrong", None);
            }
        }
        Ok(())
    }
}
