//! What a simulated disk holds: blocks of 4096 bytes, by number; what is missing is all zeroes.
//!
//! Owns: the blocks and, for modelled drives, a pool in which equal blocks are one, so that a disk of many GiB fits in memory when the load writes few
//! contents.
//! Invariant: what was put is what is got, whether blocks are shared or not.
//! Never: decides what survives (`disk`).

use base::BLOCK_BYTES;
use core::ops::Range;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The content of a block; `None` is zeroes.
pub(crate) type Block = Option<Rc<[u8; BLOCK_BYTES]>>;

/// Blocks that are found by one step of the tree.
const PAGE: u64 = 64;
/// Contents that the pool remembers.
const POOL: usize = 4096;

type Page = Box<[Block; PAGE as usize]>;

/// See the module.
#[derive(Default)]
pub(crate) struct Contents {
    pages: BTreeMap<u64, Page>,
    pool: Vec<Block>,
}

/// All blocks of a disk at a time.
#[derive(Clone)]
pub(crate) struct Image(BTreeMap<u64, Page>);

impl Image {
    /// Another content of a block.
    pub(crate) fn put(&mut self, block: u64, data: Block) {
        if let Some(page) = self.0.get_mut(&(block / PAGE)) {
            page[(block % PAGE) as usize] = data;
        }
    }
}

impl Contents {
    /// Nothing but zeroes; `shared`: equal blocks are kept once, where that is noticed.
    pub(crate) fn new(shared: bool) -> Contents {
        Contents { pages: BTreeMap::new(), pool: if shared { vec![None; POOL] } else { Vec::new() } }
    }
    /// A block with this content.
    pub(crate) fn make(&mut self, data: &[u8]) -> Block {
        let data: &[u8; BLOCK_BYTES] = data.try_into().expect("a whole block");
        if self.pool.is_empty() {
            return Some(Rc::new(*data));
        }
        // Sixteen places of the block tell the patterns of a load apart; what they do not tell is compared in full.
        let mut hash = 0u64;
        for word in data.chunks_exact(8).step_by(32) {
            hash = (hash ^ u64::from_le_bytes(word.try_into().expect("eight bytes"))).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23);
        }
        let slot = &mut self.pool[(hash >> 32) as usize % POOL];
        match slot {
            Some(known) if **known == *data => {}
            _ => *slot = Some(Rc::new(*data)),
        }
        slot.clone()
    }
    /// What a block holds.
    pub(crate) fn get(&self, block: u64) -> Option<&Rc<[u8; BLOCK_BYTES]>> {
        self.pages.get(&(block / PAGE))?[(block % PAGE) as usize].as_ref()
    }
    /// Copies blocks from `first` on.
    pub(crate) fn read(&self, first: u64, out: &mut [u8]) {
        let mut page: (u64, Option<&Page>) = (u64::MAX, None);
        for (i, part) in out.chunks_mut(BLOCK_BYTES).enumerate() {
            let block = first + i as u64;
            if page.0 != block / PAGE {
                page = (block / PAGE, self.pages.get(&(block / PAGE)));
            }
            match page.1.and_then(|p| p[(block % PAGE) as usize].as_ref()) {
                Some(data) => part.copy_from_slice(&data[..part.len()]),
                None => part.fill(0),
            }
        }
    }
    /// Puts a content there; gives back what was there.
    pub(crate) fn put(&mut self, block: u64, data: Block) -> Block {
        if data.is_none() && !self.pages.contains_key(&(block / PAGE)) {
            return None;
        }
        let page = self.pages.entry(block / PAGE).or_insert_with(|| Box::new([const { None }; PAGE as usize]));
        core::mem::replace(&mut page[(block % PAGE) as usize], data)
    }
    /// The bytes of a block, to change them.
    pub(crate) fn bytes_mut(&mut self, block: u64) -> &mut [u8; BLOCK_BYTES] {
        let page = self.pages.entry(block / PAGE).or_insert_with(|| Box::new([const { None }; PAGE as usize]));
        Rc::make_mut(page[(block % PAGE) as usize].get_or_insert_with(|| Rc::new([0; BLOCK_BYTES])))
    }
    /// The blocks of a range that hold something, in order.
    pub(crate) fn held(&self, range: Range<u64>) -> Vec<u64> {
        let pages = self.pages.range(range.start / PAGE..range.end.div_ceil(PAGE));
        let blocks = pages.flat_map(|(n, page)| (n * PAGE..).zip(page.iter()).filter(|(_, b)| b.is_some()).map(|(at, _)| at));
        blocks.filter(|at| range.contains(at)).collect()
    }
    /// All of it.
    pub(crate) fn image(&self) -> Image {
        Image(self.pages.clone())
    }
    /// As it was.
    pub(crate) fn restore(&mut self, image: &Image) {
        self.pages = image.0.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_got_shared_or_not() {
        for shared in [false, true] {
            let mut c = Contents::new(shared);
            for block in [0, 63, 64, 1 << 40] {
                let data = c.make(&[block as u8 + 1; BLOCK_BYTES]);
                assert_eq!(c.put(block, data), None);
            }
            let mut out = vec![9; 3 * BLOCK_BYTES];
            c.read(62, &mut out);
            assert_eq!([out[0], out[BLOCK_BYTES], out[2 * BLOCK_BYTES]], [0, 64, 65]);
            assert_eq!(c.held(1..65), [63, 64]);
            let image = c.image();
            c.bytes_mut(63)[7] = 1;
            assert_eq!((c.get(63).unwrap()[7], c.get(63).unwrap()[8]), (1, 64));
            c.restore(&image);
            assert_eq!(c.get(63).unwrap()[7], 64, "what was changed is not what others hold");
        }
    }

    #[test]
    fn equal_blocks_are_kept_once_and_others_are_distinguished() {
        let mut c = Contents::new(true);
        for block in 0..1000 {
            let data = c.make(&[(block % 4) as u8; BLOCK_BYTES]);
            c.put(block, data);
        }
        let first = c.get(0).unwrap();
        assert!(Rc::strong_count(first) >= 250);
        let mut other = [0u8; BLOCK_BYTES];
        other[9] = 1; // where the hash does not look
        let other = c.make(&other).unwrap();
        assert_eq!(other[9], 1);
    }
}
