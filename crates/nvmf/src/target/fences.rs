//! The fences of a core: which of its commands wait for other cores, and what of its connections' commands other cores' fences wait for.
//!
//! Invariant: a fence that stands has something under way; when the last of it has come back, it has ended.

use crate::session::{Left, settle};
use object::VolumeRef;
use std::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Default)]
pub(super) struct Fences {
    serial: u64,
    /// Of commands of this core: connection, slot, cores that have not answered.
    waiting: BTreeMap<u64, (u64, u16, usize)>,
    /// Of any core: commands of this core that have not come back.
    standing: Vec<(u64, usize, BTreeSet<u64>)>,
    /// Of connections that are gone.
    left: Vec<Left>,
    /// What is under way and may not be any more by what is served now, by token: until it has come back.
    forbidden: BTreeMap<u64, VolumeRef>,
    /// Tokens of these, for the door into volumes: nobody waits for their answers.
    gone: Vec<u64>,
}

impl Fences {
    /// The command in this slot of a connection waits for so many cores. The number of its fence.
    pub(super) fn begin(&mut self, token: u64, slot: u16, cores: usize) -> u64 {
        self.serial += 1;
        self.waiting.insert(self.serial, (token, slot, cores));
        self.serial
    }
    /// A core has nothing of a fence under way any more. When it is the last: the connection and slot of the command that waits.
    pub(super) fn core_is_done(&mut self, id: u64) -> Option<(u64, u16)> {
        let (token, slot, cores) = self.waiting.get_mut(&id)?;
        *cores -= 1;
        if *cores > 0 {
            return None;
        }
        let of = (*token, *slot);
        self.waiting.remove(&id);
        Some(of)
    }
    /// Takes over what sessions that have ended left behind.
    pub(super) fn adopt(&mut self, left: Vec<Left>) {
        self.gone.extend(left.iter().map(|l| l.token));
        self.left.extend(left);
    }
    /// The token of something that was taken over.
    #[inline]
    pub(super) fn pop_gone(&mut self) -> Option<u64> {
        self.gone.pop()
    }
    /// Tokens of what such sessions have under way on a volume.
    pub(super) fn left_on(&self, volume: VolumeRef) -> impl Iterator<Item = u64> + '_ {
        self.left.iter().filter(move |l| l.volume == volume).map(|l| l.token)
    }
    /// What is served has changed: these are under way, and may not be any more; of what sessions left behind on a volume that is `restricted` it
    /// is not known who had it.
    pub(super) fn forbid(&mut self, under_way: Vec<(u64, VolumeRef)>, restricted: impl Fn(VolumeRef) -> bool) {
        self.forbidden.extend(under_way);
        self.forbidden.extend(self.left.iter().filter(|l| restricted(l.volume)).map(|l| (l.token, l.volume)));
    }
    /// Whether something is under way on a volume that may not be any more.
    pub(super) fn has_forbidden(&self, volume: VolumeRef) -> bool {
        self.forbidden.values().any(|v| *v == volume)
    }
    /// A fence of the core `home` waits for what is under way here.
    pub(super) fn stand(&mut self, id: u64, home: usize, under_way: BTreeSet<u64>) {
        self.standing.push((id, home, under_way));
    }
    /// Whether answers of volumes must be looked at: something waits for them.
    #[inline]
    pub(super) fn are_waiting(&self) -> bool {
        !self.standing.is_empty() || !self.left.is_empty() || !self.forbidden.is_empty()
    }
    /// A request came back. Whether no more of its command is under way among what was left behind.
    pub(super) fn settle(&mut self, token: u64) -> bool {
        settle(&mut self.left, token) || !self.left.iter().any(|l| l.token == token)
    }
    /// A command has wholly come back: the fences that ended with it, each with its home.
    pub(super) fn ended_with(&mut self, token: u64) -> Vec<(usize, u64)> {
        self.forbidden.remove(&token);
        let mut ended = Vec::new();
        self.standing.retain_mut(|(id, home, under_way)| {
            under_way.remove(&token);
            if under_way.is_empty() {
                ended.push((*home, *id));
            }
            !under_way.is_empty()
        });
        ended
    }
}
