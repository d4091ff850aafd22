//! Fences: a reservation command that takes rights away from hosts is answered when what those had under way has ended, on every core.
//!
//! By then all cores serve the new picture, so nothing new begins. Each core notes the commands that are with the volume, and tells the core
//! that asks when the last of them has come back, also of connections that are gone.
//!
//! Invariant: no write that a reservation forbids takes effect after the command that made the reservation was answered.
//! Never: makes a command wait that began after the fence.

use super::*;
use base::HostId;
use object::VolumeRef;
use std::collections::BTreeSet;

impl Target {
    /// Answers the command in this slot when what other hosts have under way on the volume has ended.
    pub(super) fn fence(&mut self, rt: &Rt, token: u64, slot: u16, volume: VolumeId, abort: BTreeSet<HostId>) {
        let Some(at) = self.view.volumes.iter().position(|v| v.as_ref().is_some_and(|v| v.id == volume)) else {
            return self.fence_done(rt, token, slot); // Gone, and with it all that was under way.
        };
        let conn = &self.conns[place_of(token)];
        let by = HostId::from_bytes(conn.session.controller().map_or([0; 16], |c| c.host_id));
        let id = self.fences.begin(token, slot, self.cores);
        let command = FenceCommand { id, home: self.core, volume: VolumeRef(at as u32), by, abort: Arc::new(abort) };
        for core in 0..self.cores {
            self.post(rt, core, Msg::Fence(command.clone()));
        }
    }

    /// Notes what this core has under way on the volume.
    pub(super) fn on_fence(&mut self, rt: &Rt, command: FenceCommand) {
        let mut under_way = BTreeSet::new();
        for (_, conn) in self.conns.iter_mut() {
            self.fences.adopt(conn.session.take_left());
            let Some(QueueKind::Io(queue)) = conn.session.kind() else { continue };
            let host = HostId::from_bytes(queue.controller().host_id);
            if command.abort.contains(&host) {
                conn.session.abort_on(command.volume, Status::dnr(StatusCode::ABORTED_PREEMPT));
            }
            if host != command.by {
                under_way.extend(conn.session.under_way_on(command.volume));
            }
        }
        under_way.extend(self.fences.left_on(command.volume).inspect(|_| hooks::reached(CoverageMark::FenceWaitsForLeft)));
        if under_way.is_empty() {
            return self.post(rt, command.home, Msg::Fenced { id: command.id });
        }
        hooks::reached(CoverageMark::FenceWaits);
        self.fences.stand(command.id, command.home, under_way);
    }

    /// A request with this token came back, and its session has seen it.
    pub(super) fn fence_step(&mut self, rt: &Rt, token: u64) {
        let settled = self.fences.settle(token);
        let conn = self.conns.by_token(token_of_request(token));
        if !settled || conn.is_some_and(|c| c.session.is_under_way(token)) {
            return;
        }
        for (home, id) in self.fences.ended_with(token) {
            self.post(rt, home, Msg::Fenced { id });
        }
    }

    /// A core has nothing of the fence under way any more.
    pub(super) fn on_fenced(&mut self, rt: &Rt, id: u64) {
        if let Some((token, slot)) = self.fences.core_is_done(id) {
            self.fence_done(rt, token, slot);
        }
    }

    fn fence_done(&mut self, rt: &Rt, token: u64, slot: u16) {
        let place = place_of(token);
        let Some(conn) = self.conns.by_token_mut(token).filter(|c| !c.is_closed()) else { return };
        conn.session.complete(&mut cx!(self, rt), slot, Status::SUCCESS, 0);
        self.conns.mark(place);
        rt.wake(self.core);
    }

    /// What is served has changed: notes what is under way and may not be any more.
    pub(super) fn note_forbidden(&mut self, rt: &Rt) {
        let view = Arc::clone(&self.view);
        if !(0..view.volumes.len()).any(|at| view.is_restricted(VolumeRef(at as u32))) {
            return;
        }
        let mut forbidden = Vec::new();
        for (_, conn) in self.conns.iter_mut() {
            self.fences.adopt(conn.session.take_left());
            if matches!(conn.session.kind(), Some(QueueKind::Io(_))) {
                forbidden.extend(conn.session.forbidden(&cx!(self, rt)));
            }
        }
        self.fences.forbid(forbidden, |volume| view.is_restricted(volume));
    }

    /// Whether this half goes by this revision of a volume's view, or a later one, and has nothing under way on the volume that is forbidden since:
    /// what a reservation command of a host of another front end waits for.
    pub fn is_settled(&self, volume: VolumeRef, revision: u64) -> bool {
        self.view.volume(volume).is_none_or(|v| v.revision >= revision) && !self.fences.has_forbidden(volume)
    }

    /// Takes over what a session has left behind: its place may be given to another connection.
    pub(super) fn adopt_left(&mut self, place: usize) {
        let left = self.conns[place].session.take_left();
        self.fences.adopt(left);
    }
}
