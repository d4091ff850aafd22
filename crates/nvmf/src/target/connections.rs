//! The connections of a core, and where something happened on them.
//!
//! A connection's token names its place and carries a serial number, so a late event of one that is gone meets nobody.
//!
//! Invariant: a place is not used again before the connection there was removed; a connection is on the list of marked ones at most once.

use super::conn::Conn;
use super::message::Door;
use crate::limits::{CONNECTIONS_MAX, HANDSHAKES_MAX};
use base::Instant;
use rt::ConnId;
use slab::Slab;
use std::net::SocketAddr;
use std::ops::{Index, IndexMut};

/// A token: 16 bits of slot, 20 of place, 28 of serial number.
pub(super) const SLOT_BITS: u32 = 16;
const PLACE_BITS: u32 = 20;

const _: () = assert!(CONNECTIONS_MAX + HANDSHAKES_MAX < 1 << PLACE_BITS);

/// See the module.
#[derive(Default)]
pub(super) struct Connections {
    slab: Slab<Conn>,
    serial: u64,
    dirty: Vec<usize>,
}

/// The place of a connection with this token, or of a command with it.
pub(super) const fn place_of(token: u64) -> usize {
    (token >> SLOT_BITS) as usize & ((1 << PLACE_BITS) - 1)
}
/// The token of the connection that a request belongs to.
pub(super) const fn token_of_request(request: u64) -> u64 {
    request >> SLOT_BITS << SLOT_BITS
}

impl Connections {
    /// Adds a connection, marked. Its token.
    pub(super) fn add(&mut self, id: ConnId, peer: SocketAddr, door: Door, now: Instant) -> u64 {
        self.serial += 1;
        let entry = self.slab.vacant_entry();
        let place = entry.key();
        let token = (self.serial << PLACE_BITS | place as u64) << SLOT_BITS;
        debug_assert!(place_of(token) == place && token_of_request(token) == token);
        entry.insert(Conn::new(id, token, peer, door, now));
        self.mark(place);
        token
    }
    /// Removes the connection at a place.
    pub(super) fn remove(&mut self, place: usize) -> Conn {
        let conn = self.slab.remove(place);
        debug_assert!(!conn.socket.has_operations(), "what is under way comes back first");
        conn
    }
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }
    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }
    /// Whether there is one at a place.
    pub(super) fn contains(&self, place: usize) -> bool {
        self.slab.contains(place)
    }
    /// The one at a place.
    #[inline]
    pub(super) fn get(&self, place: usize) -> Option<&Conn> {
        self.slab.get(place)
    }
    /// See [`Connections::get`].
    #[inline]
    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut Conn> {
        self.slab.get_mut(place)
    }
    /// The one with this token, if it is still there.
    #[inline]
    pub(super) fn by_token(&self, token: u64) -> Option<&Conn> {
        self.slab.get(place_of(token)).filter(|c| c.token == token)
    }
    /// See [`Connections::by_token`].
    #[inline]
    pub(super) fn by_token_mut(&mut self, token: u64) -> Option<&mut Conn> {
        self.slab.get_mut(place_of(token)).filter(|c| c.token == token)
    }
    /// All with their places.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Conn)> {
        self.slab.iter()
    }
    /// See [`Connections::iter`].
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Conn)> {
        self.slab.iter_mut()
    }
    /// Something happened on the connection at a place, if there is one.
    #[inline]
    pub(super) fn mark(&mut self, place: usize) {
        if let Some(conn) = self.slab.get_mut(place).filter(|c| !c.dirty) {
            conn.dirty = true;
            self.dirty.push(place);
        }
    }
    /// Whether something happened somewhere.
    #[inline]
    pub(super) fn any_marked(&self) -> bool {
        !self.dirty.is_empty()
    }
    /// The place of a connection where something happened, the last one first.
    #[inline]
    pub(super) fn pop_marked(&mut self) -> Option<usize> {
        while let Some(place) = self.dirty.pop() {
            if let Some(conn) = self.slab.get_mut(place) {
                conn.dirty = false;
                return Some(place);
            }
        }
        None
    }
}

impl Index<usize> for Connections {
    type Output = Conn;
    #[inline]
    fn index(&self, place: usize) -> &Conn {
        &self.slab[place]
    }
}
impl IndexMut<usize> for Connections {
    #[inline]
    fn index_mut(&mut self, place: usize) -> &mut Conn {
        &mut self.slab[place]
    }
}
