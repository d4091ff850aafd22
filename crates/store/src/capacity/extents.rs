//! The free chunks of one shard on one device: a bitmap that finds a free chunk, or a whole free extent, quickly.
//!
//! Invariant: the two summary levels say for each word whether it has a free chunk, a free extent.
//! Cost: one bit a chunk, and two more for each 64.

use crate::geometry::EXTENT_CHUNKS;

const WORD: u32 = 64;
const _: () = assert!(WORD.is_multiple_of(EXTENT_CHUNKS) && EXTENT_CHUNKS == 16);

/// See the module.
pub(super) struct FreeMap {
    /// Bit set: free.
    words: Vec<u64>,
    /// Bit w: word w has a free chunk.
    any: Vec<u64>,
    /// Bit w: word w has a free extent (16 aligned chunks).
    whole: Vec<u64>,
    chunks: u32,
    free: u32,
}

fn free_extent_of(word: u64) -> Option<u32> {
    (0..4).find(|e| (word >> (e * 16)) & 0xFFFF == 0xFFFF).map(|e| e * 16)
}

fn first_set(words: &[u64]) -> Option<u32> {
    words.iter().position(|&w| w != 0).map(|i| i as u32 * WORD + words[i].trailing_zeros())
}

impl FreeMap {
    /// All free.
    pub(super) fn new(chunks: u32) -> Self {
        let words = chunks.div_ceil(WORD) as usize;
        let mut map = Self {
            words: vec![u64::MAX; words],
            any: vec![0; words.div_ceil(64)],
            whole: vec![0; words.div_ceil(64)],
            chunks,
            free: chunks,
        };
        if !chunks.is_multiple_of(WORD) {
            map.words[words - 1] = (1 << (chunks % WORD)) - 1;
        }
        for w in 0..words {
            map.summarise(w);
        }
        map
    }

    fn summarise(&mut self, w: usize) {
        let (at, bit) = (w / 64, 1u64 << (w % 64));
        let set = |v: &mut u64, on: bool| *v = if on { *v | bit } else { *v & !bit };
        set(&mut self.any[at], self.words[w] != 0);
        set(&mut self.whole[at], free_extent_of(self.words[w]).is_some());
    }

    /// How many are free.
    pub(super) fn free(&self) -> u32 {
        self.free
    }
    /// Whether chunk `i` is free; false past the end.
    pub(super) fn is_free(&self, i: u32) -> bool {
        i < self.chunks && self.words[(i / WORD) as usize] >> (i % WORD) & 1 == 1
    }
    /// Takes a free chunk.
    pub(super) fn take(&mut self, i: u32) {
        assert!(self.is_free(i), "chunk {i} is taken twice");
        self.words[(i / WORD) as usize] &= !(1 << (i % WORD));
        self.free -= 1;
        self.summarise((i / WORD) as usize);
    }
    /// Gives a chunk back.
    pub(super) fn give(&mut self, i: u32) {
        assert!(i < self.chunks && !self.is_free(i), "chunk {i} is freed twice");
        self.words[(i / WORD) as usize] |= 1 << (i % WORD);
        self.free += 1;
        self.summarise((i / WORD) as usize);
    }
    /// The lowest free chunk.
    pub(super) fn first(&self) -> Option<u32> {
        let w = first_set(&self.any)?;
        Some(w * WORD + self.words[w as usize].trailing_zeros())
    }
    /// The first chunk of the lowest free extent.
    pub(super) fn first_extent(&self) -> Option<u32> {
        let w = first_set(&self.whole)?;
        free_extent_of(self.words[w as usize]).map(|e| w * WORD + e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_agrees_with_a_plain_list(chunks in 1u32..600, ops in prop::collection::vec((any::<bool>(), 0u32..600), 0..800)) {
            agrees(chunks, 0, ops)?;
        }

        // More than a word of each summary (4096 chunks), nearly all taken.
        #[test]
        fn it_agrees_with_a_plain_list_where_the_summaries_are_long(
            chunks in 4000u32..14_000,
            free in 0u32..700,
            ops in prop::collection::vec((any::<bool>(), 0u32..14_000), 0..100),
        ) {
            agrees(chunks, chunks.saturating_sub(free), ops)?;
        }
    }

    /// The first `taken` chunks are taken, then each operation is done to both.
    fn agrees(chunks: u32, taken: u32, ops: Vec<(bool, u32)>) -> Result<(), TestCaseError> {
        let mut map = FreeMap::new(chunks);
        let mut model = vec![true; chunks as usize];
        for i in 0..taken {
            map.take(i);
            model[i as usize] = false;
        }
        for (take, i) in ops {
            let i = i % chunks;
            match (take, model[i as usize]) {
                (true, true) => map.take(i),
                (false, false) => map.give(i),
                _ => continue,
            }
            model[i as usize] = !take;
            prop_assert_eq!(map.free() as usize, model.iter().filter(|f| **f).count());
            prop_assert_eq!(map.first(), model.iter().position(|f| *f).map(|i| i as u32));
            let extent = model.chunks_exact(16).position(|e| e.iter().all(|f| *f)).map(|e| e as u32 * 16);
            prop_assert_eq!(map.first_extent(), extent);
        }
        Ok(())
    }
}
