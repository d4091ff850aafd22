//! Commands that wait for the control plane, and events for the audit log: what goes out, what comes back.
//!
//! Invariant: an answer to a command that is gone does nothing.
//! Never: waits.

use super::*;

impl Target {
    /// The command in this slot waits for what the control plane says.
    pub(super) fn request_control(&mut self, rt: &Rt, place: usize, slot: u16, what: ControlVerb) {
        let conn = &mut self.conns[place];
        let Some(c) = conn.session.controller() else { return };
        let by = RequestedBy {
            host: c.host_nqn.clone(),
            host_id: c.host_id,
            export: c.subsystem.clone(),
            session: c.cntlid,
            ports: BTreeMap::new(),
        };
        self.control_requests.push(self.core, (conn.token, slot), by, what);
        rt.wake(self.core);
    }

    /// The next question for the control plane.
    pub fn pop_control_request(&mut self) -> Option<ControlRequest> {
        self.control_requests.pop()
    }

    /// Whether there is anything for the control plane or a worker.
    #[inline]
    pub fn has_reports(&self) -> bool {
        !(self.audit.is_empty() && self.control_requests.is_empty() && self.works.is_empty())
    }

    /// The control plane's answer to an ask of this core. Nothing happens when the command is gone.
    pub fn on_answer(&mut self, rt: &Rt, id: ControlRequestId, result: Result<Reply, Refused>) {
        let Some((token, slot)) = self.control_requests.answered(id) else { return };
        let place = place_of(token);
        if self.conns.by_token(token).is_none_or(Conn::is_closed) {
            return;
        }
        if let Ok(Reply::Fenced { volume, abort }) = result {
            return self.fence(rt, token, slot, volume, abort);
        }
        let conn = &mut self.conns[place];
        let cx = &mut cx!(self, rt);
        match result {
            Ok(Reply::Done | Reply::Fenced { .. }) => conn.session.complete(cx, slot, Status::SUCCESS, 0),
            Ok(Reply::Value(value)) => conn.session.complete(cx, slot, Status::SUCCESS, value.into()),
            Ok(Reply::Data(data)) => {
                let bytes = conn.session.sqe(slot).map_or(0, |sqe| sqe.sgl.len() as usize);
                let mut buf = Buf::zeroed(bytes);
                let n = bytes.min(data.len());
                buf[..n].copy_from_slice(&data[..n]);
                conn.session.complete_with(cx, slot, buf);
            }
            Err(refused) => conn.session.complete(cx, slot, status_of_refusal(refused), 0),
        }
        self.conns.mark(place);
        self.on_calls(rt);
        rt.wake(self.core);
    }

    /// The next event for the audit log.
    pub fn pop_audit(&mut self) -> Option<AuditEvent> {
        self.audit.pop()
    }

    /// An event that was popped could not be handed on.
    pub fn audit_lost(&mut self) {
        self.audit.lost();
    }
}
