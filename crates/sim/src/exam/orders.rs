//! Commands about commands: aborts and what they say, notifications of reservations, commands that ask for nothing, and what the health log counts.

use super::*;
use format::nvme::admin::GetLogPage;
use format::nvme::log::{self, AsyncEvent, Health};
use format::nvme::reservation::Notification;
use initiator::reservation::Reservation;

impl Exam<'_> {
    pub(super) fn orders(&mut self) -> Held {
        let of = self.subject();
        let (mine, other) = (self.port(2, 0, feature::AEC_NAMESPACE)?, self.port(1, 0, 0)?);
        self.nothing_asked(&mine, &of)?;
        self.health(&mine, &of)?;
        self.aborted(&mine, &of)?;
        self.notified(&mine, &other, &of)?;
        self.empty(mine.io[0], &of)
    }

    /// Ranges of no length, and ranges that are not to be deallocated, leave all as it is.
    fn nothing_asked(&mut self, port: &Port, of: &Subject) -> Held {
        let lba = of.ns.lba_bytes;
        let values = [self.value(), self.value()];
        let (link, data) = (port.io[0], bytes_of(lba, &values));
        self.good(link, of, Io::Write { offset: 0, data: data.clone(), fua: false })?;
        self.good(link, of, Io::Deallocate(vec![(0, 0), (u64::from(lba), 0)]))?;
        let trim = Io::Deallocate(vec![(0, u64::from(2 * lba))]).request(&of.ns, 0);
        let asks_nothing = Request { sqe: Sqe { cdw11: 0, ..trim.sqe }, ..trim };
        let status = self.call(link, asks_nothing, "a Dataset Management command without deallocation")?.cqe.status;
        self.must(status.is_success(), || format!("a Dataset Management command without deallocation failed with {status:?}"))?;
        let found = self.good(link, of, Io::Read { offset: 0, len: 2 * lba })?.payload.into_bytes();
        self.must(found == data, || "blocks were trimmed that no command named".into())
    }

    /// The health log counts reads and writes.
    fn health(&mut self, port: &Port, of: &Subject) -> Held {
        let before = self.health_log(port)?;
        let (lba, link) = (of.ns.lba_bytes, port.io[1]);
        let (reads, writes) = (1 + self.rng.below(4), 1 + self.rng.below(4));
        for _ in 0..reads {
            self.good(link, of, Io::Read { offset: 0, len: lba })?;
        }
        for _ in 0..writes {
            self.good(link, of, Io::Write { offset: 0, data: vec![1; lba as usize], fua: false })?;
        }
        self.good(link, of, Io::Flush)?;
        self.good(link, of, Io::Deallocate(vec![(0, u64::from(lba))]))?;
        let after = self.health_log(port)?;
        let grown = (after.reads - before.reads, after.writes - before.writes, after.media_errors - before.media_errors);
        self.must(grown == (reads.into(), writes.into(), 0), || {
            format!("the health log counts {grown:?} reads, writes and media errors more, after {reads} reads and {writes} writes")
        })
    }
    fn health_log(&mut self, port: &Port) -> Result<Health, Stop> {
        let page = self.log(port, log::LID_HEALTH, Health::LEN)?;
        Health::parse(&page).ok_or_else(|| Stop::Wrong("a health log that cannot be read".into()))
    }
    fn log(&mut self, port: &Port, lid: u8, bytes: usize) -> Result<Vec<u8>, Stop> {
        let numd = bytes as u32 / 4 - 1;
        let page = GetLogPage { lid, lsp: 0, rae: false, lsi: 0, numd, offset: 0, index: false, csi: 0, nsid: u32::MAX };
        Ok(self.admin(port.admin, page.sqe(0), Payload::In(vec![0; bytes]))?.payload.into_bytes())
    }

    /// An Abort says whether it has aborted, and what it has aborted has no effect; what it has not is done.
    fn aborted(&mut self, port: &Port, of: &Subject) -> Held {
        let (lba, link) = (of.ns.lba_bytes, port.io[0]);
        // A request for events is aborted; the next one gets the event.
        let events = plain_sqe(AdminOpcode::AsyncEventRequest, 0);
        let (tag, cid) = self.send_known(port.admin, plain(events, Payload::None))?;
        self.abort(port, 0, cid, Some(true))?;
        let status = self.answer(port.admin, tag, "a request for events that was aborted")?.0.cqe.status;
        self.is(status, StatusCode::ABORT_REQUESTED, "a request for events that was aborted")?;
        self.abort(port, 1, 40, Some(false))?;
        let next = self.send(port.admin, plain(events, Payload::None))?;
        self.act(|volume| Act::Protect { volume, on: true }, of.at)?;
        self.answer(port.admin, next, "a change, after a request for events was aborted,")?;
        self.act(|volume| Act::Protect { volume, on: false }, of.at)?;
        // Writes that wait for their turn, and one whose data is not there.
        self.limit(of.at, Some(4), None)?;
        let mut sent = Vec::new();
        for at in 0..4 {
            let value = self.value();
            let io = Io::Write { offset: at * u64::from(lba), data: bytes_of(lba, &[value]), fua: false };
            let (tag, cid) = self.send_known(link, io.request(&of.ns, 0))?;
            sent.push((at, value, tag, cid));
        }
        self.pause(Duration::from_millis(50));
        let mut said = Vec::new();
        for (_, _, _, cid) in &sent[2..] {
            said.push(self.abort(port, 1, *cid, None)?);
        }
        self.limit(of.at, None, None)?;
        for (n, (at, value, tag, _)) in sent.into_iter().enumerate() {
            let status = self.answer(link, tag, "a write that waited for its turn")?.0.cqe.status;
            let aborted = n >= 2 && said[n - 2];
            let legal = if aborted { status.code == StatusCode::ABORT_REQUESTED } else { status.is_success() };
            self.must(legal, || {
                format!("a write that an Abort has {} was answered with {status:?}", if aborted { "aborted" } else { "left" })
            })?;
            let found = self.good(link, of, Io::Read { offset: at * u64::from(lba), len: lba })?.payload.into_bytes();
            self.must((found == bytes_of(lba, &[value])) != aborted, || {
                "a write that was aborted has come, or one that was not has not".into()
            })?;
        }
        Ok(())
    }
    pub(super) fn send_known(&mut self, link: usize, request: Request) -> Result<(u64, u16), Stop> {
        let sent = self.examiner.borrow_mut().submit_known(link, request);
        self.wake();
        sent.ok_or_else(|| Stop::Wrong(format!("link {link} takes no command")))
    }
    /// Whether it says that it has aborted the command.
    pub(super) fn abort(&mut self, port: &Port, sqid: u32, cid: u16, must: Option<bool>) -> Result<bool, Stop> {
        let sqe = Sqe { cdw10: sqid | u32::from(cid) << 16, ..plain_sqe(AdminOpcode::Abort, 0) };
        let done = self.admin(port.admin, sqe, Payload::None)?.cqe.result & 1 == 0;
        self.must(must.is_none_or(|must| must == done), || format!("an Abort says {done}"))?;
        Ok(done)
    }

    /// A host learns that its registration was preempted, and that a reservation was released; who did it does not.
    fn notified(&mut self, mine: &Port, other: &Port, of: &Subject) -> Held {
        let events = plain_sqe(AdminOpcode::AsyncEventRequest, 0);
        let quiet = self.send(other.admin, plain(events, Payload::None))?;
        self.take_notices(mine)?;
        for round in 0..2 {
            let heard = self.send(mine.admin, plain(events, Payload::None))?;
            self.reserve_as(mine, of, Reservation::Register { key: 1, cptpl: 0 })?;
            if round == 0 {
                self.reserve_as(other, of, Reservation::Register { key: 2, cptpl: 0 })?;
            }
            let kind = if self.rng.one_in(2) {
                self.reserve_as(mine, of, Reservation::Acquire { key: 1, rtype: 1 })?;
                self.reserve_as(other, of, Reservation::Preempt { key: 2, other: 1, rtype: 1, abort: self.now().is_multiple_of(2) })?;
                self.event(mine, heard)?;
                self.reserve_as(other, of, Reservation::Release { key: 2, rtype: 1 })?;
                1
            } else {
                self.reserve_as(other, of, Reservation::Acquire { key: 2, rtype: 3 })?;
                self.reserve_as(other, of, Reservation::Release { key: 2, rtype: 3 })?;
                self.event(mine, heard)?;
                self.reserve_as(mine, of, Reservation::Unregister { key: Some(1) })?;
                2
            };
            let heard = self.take_notices(mine)?;
            self.must(heard == [(kind, of.ns.nsid)], || format!("the notifications are {heard:?}, not of kind {kind}"))?;
        }
        // Of a reservation of all registrants each of them is a holder, and the others hear of its end.
        let heard = self.send(mine.admin, plain(events, Payload::None))?;
        self.reserve_as(mine, of, Reservation::Register { key: 1, cptpl: 0 })?;
        for rtype in [5, 6] {
            self.reserve_as(mine, of, Reservation::Acquire { key: 1, rtype })?;
            self.reserve_as(other, of, Reservation::Release { key: 2, rtype })?;
        }
        self.event(mine, heard)?;
        let heard = self.take_notices(mine)?;
        self.must(heard == [(2, of.ns.nsid); 2], || format!("the notifications are {heard:?}, after two releases"))?;
        self.reserve_as(mine, of, Reservation::Unregister { key: Some(1) })?;
        let none = self.wait(other.admin, quiet, Duration::from_millis(20)).is_none();
        self.must(none, || "a host is notified of what it has done itself".into())?;
        let heard = self.take_notices(other)?;
        self.must(heard.is_empty(), || format!("a host is notified of what it has done itself: {heard:?}"))?;
        self.reserve_as(other, of, Reservation::Clear { key: 2 })
    }
    pub(super) fn reserve_as(&mut self, port: &Port, of: &Subject, what: Reservation) -> Held {
        let (sqe, payload) = what.request(of.ns.nsid);
        let status = self.call(port.io[0], plain(sqe, payload), "a reservation command")?.cqe.status;
        self.must(status.is_success(), || format!("{what:?} failed with {status:?}"))
    }
    fn event(&mut self, port: &Port, tag: u64) -> Held {
        let done = self.answer(port.admin, tag, "a notification of a reservation")?.0;
        let event = AsyncEvent::parse(done.cqe.result as u32);
        let meant = (log::AER_IO_COMMAND, log::RESERVATION_LOG_AVAILABLE, log::LID_RESERVATION);
        self.must((event.kind, event.info, event.log) == meant, || format!("an event {event:?} came for a reservation"))
    }
    /// Reads all notifications: kinds and namespaces.
    fn take_notices(&mut self, port: &Port) -> Result<Vec<(u8, u32)>, Stop> {
        let mut heard = Vec::new();
        loop {
            let page = self.log(port, log::LID_RESERVATION, Notification::LEN)?;
            let notice = Notification::parse(&page).ok_or_else(|| Stop::Wrong("a notification that cannot be read".into()))?;
            if notice.kind == 0 || heard.len() > 8 {
                return Ok(heard);
            }
            heard.push((notice.kind, notice.nsid));
        }
    }
}
