//! Which pieces of a window of a volume may hold something: what a long trim asks the cores before it sends a part for each piece.
//!
//! Owns: the set, and the messages that carry the question and the answer.
//! Invariant: a piece that is not in the set held nothing, and nothing was on its way into it, at one instant after the request came. So to
//! pass over it is to have trimmed it at that instant.
//! Never: names a piece outside of its window.

use crate::layout::VolumeLayout;
use base::hooks::{self, SeededFault};
use std::ops::Range;
use std::sync::Arc;

/// Pieces that are asked about at once (16 GiB of a volume): a bit each in the answer, and what a core looks through in one go.
pub(crate) const WINDOW_PIECES: u64 = 16 << 10;

/// Some of the pieces of a window.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pieces {
    first: u64,
    /// Bit `i` of all: piece `first + i`. As long as the highest that is in it needs.
    words: Vec<u64>,
}

impl Pieces {
    /// None of a window that begins at `first`.
    pub(crate) fn none(first: u64) -> Self {
        Self { first, words: Vec::new() }
    }
    /// All of a window.
    pub(crate) fn all(window: &Range<u64>) -> Self {
        let mut pieces = Self::none(window.start);
        window.clone().for_each(|piece| pieces.insert(piece));
        pieces
    }
    /// Where its window begins.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }
    pub(crate) fn insert(&mut self, piece: u64) {
        assert!(piece.wrapping_sub(self.first) < WINDOW_PIECES, "a piece outside of the window");
        let (word, bit) = ((piece - self.first) as usize / 64, (piece - self.first) % 64);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << bit;
    }
    /// Adds those of another part of the same window.
    pub(crate) fn merge(&mut self, other: &Pieces) {
        assert_eq!(self.first, other.first, "the same window");
        if self.words.len() < other.words.len() && !hooks::seeded(SeededFault::SurveyCutShort) {
            self.words.resize(other.words.len(), 0);
        }
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a |= b);
    }
    /// The first that is not before `piece`.
    pub(crate) fn next(&self, piece: u64) -> Option<u64> {
        let from = piece.saturating_sub(self.first);
        let word = from as usize / 64;
        let mut bits = self.words.get(word)? & (u64::MAX << (from % 64));
        for at in word.. {
            if bits != 0 {
                return Some(self.first + at as u64 * 64 + u64::from(bits.trailing_zeros()));
            }
            bits = *self.words.get(at + 1)?;
        }
        None
    }
}

/// Asks a core for the pieces of a window that its shards, or changes on their way to these, may have something in.
#[derive(Debug)]
pub struct Survey {
    pub(crate) origin: u8,
    pub(crate) request: u32,
    pub(crate) layout: Arc<VolumeLayout>,
    pub(crate) window: Range<u64>,
}

/// The answer to a [`Survey`].
#[derive(Debug)]
pub struct Surveyed {
    pub(crate) request: u32,
    pub(crate) found: Pieces,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_names_its_pieces_in_order_and_no_others() {
        let first = 1_000_003;
        let mut pieces = Pieces::none(first);
        assert_eq!(pieces.next(first), None);
        let of = [0, 1, 63, 64, 200, WINDOW_PIECES - 1].map(|i| first + i);
        of.iter().rev().for_each(|p| pieces.insert(*p));
        let mut other = Pieces::none(first);
        other.insert(first + 130);
        other.merge(&pieces);
        let mut all = of.to_vec();
        all.insert(4, first + 130);
        let mut named = vec![];
        let mut at = first;
        while let Some(piece) = other.next(at) {
            named.push(piece);
            at = piece + 1;
        }
        assert_eq!(named, all);
        assert_eq!(Pieces::all(&(first..first + 70)).next(first + 69), Some(first + 69));
        assert_eq!(Pieces::all(&(first..first + 70)).next(first + 70), None);
    }
}
