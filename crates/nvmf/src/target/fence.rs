//! Fences: a reservation command that takes rights away from hosts is answered when what those had under way has ended, on every core.
//!
//! By then all cores serve the new picture, so nothing new begins. Each core notes the commands that are with the volume, and tells the core
//! that asks when the last of them has come back, also of connections that are gone.
//!
//! Invariant: no write that a reservation forbids takes effect after the command that made the reservation was answered.
//! Never: makes a command wait that began after the fence.

use super::*;
use crate::session::{Left, settle};
use base::HostId;
use object::VolumeRef;
use std::collections::BTreeSet;

/// What a core must do for a fence.
#[derive(Clone)]
pub(super) struct FenceCommand {
    id: u64,
    home: usize,
    volume: VolumeRef,
    by: HostId,
    abort: Arc<BTreeSet<HostId>>,
}

/// The fences of a core.
#[derive(Default)]
pub(super) struct Fences {
    serial: u64,
    /// Of commands of this core: connection, slot, cores that have not answered.
    waiting: BTreeMap<u64, (u64, u16, usize)>,
    /// Of any core: commands of this core that have not come back.
    standing: Vec<(u64, usize, BTreeSet<u64>)>,
    /// Of connections that are gone.
    left: Vec<Left>,
}

impl Target {
    /// Answers the command in this slot when what other hosts have under way on the volume has ended.
    pub(super) fn fence(&mut self, rt: &Rt, token: u64, slot: u16, volume: VolumeId, abort: BTreeSet<HostId>) {
        let Some(at) = self.view.volumes.iter().position(|v| v.as_ref().is_some_and(|v| v.id == volume)) else {
            return self.fence_done(rt, token, slot); // Gone, and with it all that was under way.
        };
        let conn = &self.conns[place_of(token)];
        let by = HostId::from_bytes(conn.session.controller().map_or([0; 16], |c| c.host_id));
        self.fences.serial += 1;
        let id = self.fences.serial;
        self.fences.waiting.insert(id, (token, slot, self.cores));
        let order = FenceCommand { id, home: self.core, volume: VolumeRef(at as u32), by, abort: Arc::new(abort) };
        for core in 0..self.cores {
            self.post(rt, core, Msg::Fence(order.clone()));
        }
    }

    /// Notes what this core has under way on the volume.
    pub(super) fn on_fence(&mut self, rt: &Rt, order: FenceCommand) {
        let mut under_way = BTreeSet::new();
        for (_, conn) in &mut self.conns {
            self.fences.left.extend(conn.session.take_left());
            let Kind::Io(c, _) = conn.session.kind() else { continue };
            let host = HostId::from_bytes(c.host_id);
            if order.abort.contains(&host) {
                conn.session.abort_on(order.volume, Status::dnr(StatusCode::ABORTED_PREEMPT));
            }
            if host != order.by {
                under_way.extend(conn.session.under_way_on(order.volume));
            }
        }
        let left = self.fences.left.iter().filter(|l| l.volume == order.volume).map(|l| l.token);
        under_way.extend(left.inspect(|_| hooks::reached(CoverageMark::FenceWaitsForLeft)));
        if under_way.is_empty() {
            return self.post(rt, order.home, Msg::Fenced { id: order.id });
        }
        hooks::reached(CoverageMark::FenceWaits);
        self.fences.standing.push((order.id, order.home, under_way));
    }

    /// Whether answers of volumes must be looked at: something waits for them.
    #[inline]
    pub(super) fn is_fencing(&self) -> bool {
        !self.fences.standing.is_empty() || !self.fences.left.is_empty()
    }

    /// A request with this token came back, and its session has seen it.
    pub(super) fn fence_step(&mut self, rt: &Rt, token: u64) {
        let gone = settle(&mut self.fences.left, token);
        let conn = self.conns.get(place_of(token)).filter(|c| c.token == token >> SLOT_BITS << SLOT_BITS);
        let still = conn.is_some_and(|c| c.session.is_under_way(token)) || !gone && self.fences.left.iter().any(|l| l.token == token);
        if still {
            return;
        }
        let mut ended = Vec::new();
        self.fences.standing.retain_mut(|(id, home, under_way)| {
            under_way.remove(&token);
            if under_way.is_empty() {
                ended.push((*home, *id));
            }
            !under_way.is_empty()
        });
        for (home, id) in ended {
            self.post(rt, home, Msg::Fenced { id });
        }
    }

    /// A core has nothing of the fence under way any more.
    pub(super) fn on_fenced(&mut self, rt: &Rt, id: u64) {
        let Some((token, slot, cores)) = self.fences.waiting.get_mut(&id) else { return };
        *cores -= 1;
        if *cores == 0 {
            let (token, slot) = (*token, *slot);
            self.fences.waiting.remove(&id);
            self.fence_done(rt, token, slot);
        }
    }

    fn fence_done(&mut self, rt: &Rt, token: u64, slot: u16) {
        let place = place_of(token);
        let Some(conn) = self.conns.get_mut(place).filter(|c| c.token == token && !c.closed) else { return };
        conn.session.complete(&mut cx!(self, rt), slot, Status::SUCCESS, 0);
        mark(&mut self.dirty, conn, place);
        rt.wake(self.core);
    }

    /// Takes over what a session has left behind: its place may be given to another connection.
    pub(super) fn inherit(&mut self, place: usize) {
        let left = self.conns[place].session.take_left();
        self.fences.left.extend(left);
    }
}
