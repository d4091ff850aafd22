//! The Abort command: from the admin queue to the queue of the command, which may be on another core, and back.
//!
//! Invariant: an Abort command is answered, also when its queue has gone; a controller has at most `ABORT_MAX` of them under way.
//! Never: aborts what has begun; see `session::abort`. What the control plane was asked for has begun.

use super::*;
use crate::session::Aborted;

impl Target {
    /// An Abort command in a slot of the admin queue at `place`, for command `cid` of queue `sqid`.
    pub(super) fn abort(&mut self, rt: &Rt, place: usize, slot: u16, (sqid, cid): (u16, u16)) {
        let conn = &mut self.conns[place];
        let Some(QueueKind::Admin(shared)) = conn.session.kind() else { return };
        let Some(c) = self.controllers.get_mut(&shared.cntlid) else { return };
        let admin = QueueAt { core: self.core, token: conn.token };
        let at = if sqid == 0 { Some(admin) } else { c.queues().get(&sqid).copied() };
        let Some(at) = at else { return conn.session.complete(&mut cx!(self, rt), slot, Status::SUCCESS, 1) };
        if !c.begin_abort() {
            return conn.session.complete(&mut cx!(self, rt), slot, StatusCode::ABORT_LIMIT_EXCEEDED.into(), 0);
        }
        self.post(rt, at.core, Msg::Abort { token: at.token, cid, admin, slot });
    }

    /// Aborts a command of a queue of this core, and tells the admin queue.
    pub(super) fn abort_here(&mut self, rt: &Rt, token: u64, cid: u16, (admin, slot): (QueueAt, u16)) {
        let place = place_of(token);
        let mut aborted = Aborted::No;
        if let Some(conn) = self.conns.by_token_mut(token).filter(|c| !c.is_closed()) {
            aborted = conn.session.abort(&mut cx!(self, rt), cid);
            if let (Aborted::Event(event), Some(QueueKind::Admin(shared))) = (aborted, conn.session.kind())
                && let Some(c) = self.controllers.get_mut(&shared.cntlid)
                && !hooks::seeded(SeededFault::AbortedRequestKept)
            {
                c.remove_request(event);
            }
            self.conns.mark(place);
            // What waited behind it may go on.
            self.on_calls(rt);
        }
        self.post(rt, admin.core, Msg::Aborted { token: admin.token, slot, aborted: aborted != Aborted::No });
    }

    /// What became of an Abort command of this core's admin queue.
    pub(super) fn aborted(&mut self, rt: &Rt, token: u64, slot: u16, aborted: bool) {
        let place = place_of(token);
        let Some(conn) = self.conns.by_token_mut(token).filter(|c| !c.is_closed()) else { return };
        if let Some(QueueKind::Admin(shared)) = conn.session.kind()
            && let Some(c) = self.controllers.get_mut(&shared.cntlid)
        {
            c.end_abort();
        }
        conn.session.complete(&mut cx!(self, rt), slot, Status::SUCCESS, u64::from(!aborted && !hooks::seeded(SeededFault::AbortSaysDone)));
        self.conns.mark(place);
        rt.wake(self.core);
    }
}
