//! What ends because time passed: handshakes, half-received PDUs, silent hosts.
//!
//! Invariants: the tick runs while there is a connection, also when the core is saturated. A core that could not look for a while gives
//! everybody that time: what a host sent meanwhile is still to be read.
//! Never: shortens what the standard gives a host.

use super::*;
use crate::limits::{AUDIT_REFUSALS_A_TICK, PDU_MAX};
use frontend::AuditKind;

impl Target {
    pub(super) fn arm_tick(&mut self, rt: &Rt) {
        if self.tick.is_none() && !self.conns.is_empty() {
            self.tick_at = rt.now() + TICK;
            self.tick = Some(rt.timer(&self.queue, COOKIE_TICK, self.tick_at));
        }
    }

    /// Looks at the deadlines.
    pub(super) fn on_tick(&mut self, rt: &Rt) {
        self.tick = None;
        let now = rt.now();
        let late = now.since(self.tick_at);
        if late > TICK {
            self.stats.late_ticks += 1;
            self.give_time(late);
        }
        self.close_late(rt, now);
        self.authentication_deadlines(rt);
        let expired: Vec<u16> = self.controllers.iter_mut().filter_map(|(id, c)| c.is_expired(now).then_some(*id)).collect();
        for id in expired {
            hooks::reached(CoverageMark::KeepAliveExpired);
            self.stats.keep_alive_expired += 1;
            if let Some(c) = self.controllers.get(&id) {
                let (host, subsystem) = (&c.shared.host_nqn, &c.shared.subsystem);
                tracing::info!(peer = %c.peer, host, subsystem, cntlid = id, "keep-alive expired: the host was silent");
            }
            self.end_controller(rt, id, "keep-alive expired");
        }
        self.retry_connects(rt);
        self.note_refusals();
        self.refusal_log.report_the_rest(now);
        self.controllers.values_mut().for_each(|c| c.end_reserve(now));
        for (_, c) in self.conns.iter_mut() {
            c.session.trim_lease();
        }
        for c in self.controllers.values_mut().filter(|c| !c.shared.discovery) {
            c.look_at_health();
        }
        self.send_events(rt);
        if self.listeners_generation != self.shared.listeners_generation() {
            self.discovery_check(rt);
        }
        self.arm_tick(rt);
    }

    /// This core did not look for so long.
    fn give_time(&mut self, late: base::Duration) {
        for (_, c) in self.conns.iter_mut() {
            c.give_time_to_all(late);
        }
        for c in self.controllers.values_mut() {
            c.give_time(late);
        }
    }

    /// Closes what was given up, handshakes and PDUs that take too long, discovery connections that nobody uses.
    fn close_late(&mut self, rt: &Rt, now: Instant) {
        let mut late = Vec::new();
        for (place, c) in self.conns.iter() {
            if c.is_closed() {
                continue;
            }
            if c.is_over(now) {
                late.push((place, None));
                continue;
            }
            let handshake = c.session.is_handshaking() && c.admitting.is_late(now);
            let partial = c.socket.is_receiving() && c.part_began().is_some_and(|at| now.since(at) > PDU_MAX);
            let idle = c.session.controller().is_some_and(|x| x.discovery)
                && now.since(c.socket.last_bytes()) > DISCOVERY_IDLE_MAX
                && self.controllers.values().any(|x| x.admin == c.token && x.kato_ms() == 0);
            match (handshake, partial, idle) {
                (true, ..) => late.push((place, Some("handshake took too long"))),
                (_, true, _) => late.push((place, Some("half a PDU"))),
                (.., true) => late.push((place, Some("idle discovery"))),
                _ => {}
            }
        }
        for (place, why) in late {
            self.stats.timeouts += u64::from(why.is_some());
            if self.conns.contains(place) {
                self.close(rt, place, why.unwrap_or("ended"));
            }
        }
    }

    /// Refusals beyond those that were noted one by one.
    fn note_refusals(&mut self) {
        let more = core::mem::take(&mut self.refusals).saturating_sub(AUDIT_REFUSALS_A_TICK);
        let evicted = core::mem::take(&mut self.evicted);
        for (count, what) in [(more, "Connect commands refused"), (evicted, "connections without a Connect made room for others")] {
            if count > 0 {
                let (host_nqn, subsystem) = Default::default();
                let detail = format!("{count} {what}");
                self.audit.push(AuditEvent {
                    kind: AuditKind::Refused,
                    peer: None,
                    host: host_nqn,
                    export: subsystem,
                    session: None,
                    detail,
                });
            }
        }
    }
}
