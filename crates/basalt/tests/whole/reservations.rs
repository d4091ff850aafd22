//! Reservations against the real daemon: two hosts, every rule that a cluster's fencing relies on, the log of notifications, and what
//! is left after kill -9 with and without Persist Through Power Loss.

use crate::harness::{Daemon, USUAL, status};
use format::nvme::feature::{FID_RESERVATION_MASK, FID_RESERVATION_PERSISTENCE};
use format::nvme::log::{AER_IO_COMMAND, LID_RESERVATION};
use format::nvme::reservation::{Notification, Report};
use format::nvme::{StatusCode, admin::SetFeatures};
use initiator::queue::Payload;
use initiator::reservation::Reservation;
use initiator::{Controller, ControllerOptions, HostIdentity, Io, IoQueue};
use std::time::Duration;

const WRITE_EXCLUSIVE: u8 = 1;
const EXCLUSIVE_ACCESS: u8 = 2;
const WRITE_EXCLUSIVE_REGISTRANTS: u8 = 3;

fn with_volume() -> Daemon {
    let daemon = Daemon::started(&USUAL);
    daemon.group_on_files(2, "256MiB", "512MiB");
    daemon.ok("volume create v --size 64MiB");
    daemon
}

impl Daemon {
    fn host(&self, n: u64) -> Host {
        let controller = Controller::connect(ControllerOptions { host: HostIdentity::numbered(n), ..self.discovered() }).unwrap();
        let namespace = controller.namespace(1).unwrap();
        let queues = [1, 2].map(|qid| controller.open_queue(qid, 16, namespace).unwrap());
        Host { n, controller, queues }
    }
}

/// A host with a controller and two I/O queues; its key is its number.
struct Host {
    n: u64,
    controller: Controller,
    queues: [IoQueue; 2],
}

impl Host {
    fn reserve(&mut self, what: Reservation) -> StatusCode {
        status(self.queues[0].reserve(what))
    }
    fn must(&mut self, what: Reservation) {
        self.queues[0].reserve(what).unwrap_or_else(|e| panic!("host {}: {what:?}: {e}", self.n));
    }
    fn register(&mut self) {
        self.must(Reservation::Register { key: self.n, cptpl: 0 });
    }
    /// Which of reading and writing commands the other queue may do: `RW`, `R-`, `--`. Each of a group must say the same.
    fn may(&mut self) -> String {
        let conflicts = |q: &mut IoQueue, io: Io| match q.execute(io).unwrap().status.code {
            StatusCode::SUCCESS => false,
            StatusCode::RESERVATION_CONFLICT => true,
            other => panic!("{other}"),
        };
        let q = &mut self.queues[1];
        let reads = [conflicts(q, Io::Read { offset: 0, len: 4096 }), {
            let now = q.execute(Io::Read { offset: 1 << 20, len: 4096 }).unwrap();
            let data = if now.status.is_success() { now.data } else { vec![0; 4096] };
            conflicts(q, Io::Compare { offset: 1 << 20, data })
        }];
        let writes = [
            conflicts(q, Io::Write { offset: 0, data: vec![self.n as u8; 4096], fua: false }),
            conflicts(q, Io::Write { offset: 4096, data: vec![self.n as u8; 256 << 10], fua: true }),
            conflicts(q, Io::WriteZeroes { offset: 8 << 20, len: 4096, deallocate: true }),
            conflicts(q, Io::Deallocate(vec![(9 << 20, 8192), (12 << 20, 4096)])),
            conflicts(q, Io::Flush),
        ];
        assert!(reads.iter().all(|c| *c == reads[0]) && writes.iter().all(|c| *c == writes[0]), "{reads:?} {writes:?}");
        format!("{}{}", if reads[0] { '-' } else { 'R' }, if writes[0] { '-' } else { 'W' })
    }
    /// Type, (key, holder) of each registrant, PTPL.
    fn report(&mut self) -> (u8, Vec<(u64, bool)>, bool) {
        let (head, list) = self.queues[1].reservation_report().unwrap();
        assert_eq!(usize::from(head.regctl), list.len());
        let mut list: Vec<(u64, bool)> = list.iter().map(|r| (r.rkey, r.rcsts & 1 == 1)).collect();
        list.sort();
        (head.rtype, list, head.ptpls == 1)
    }
    /// Waits for the event, then reads the log to its end: the types.
    fn notifications(&mut self) -> Vec<u8> {
        let event = self.controller.wait_event(Duration::from_secs(20)).expect("an event");
        assert_eq!((event.kind, event.info, event.log), (AER_IO_COMMAND, 0, LID_RESERVATION));
        let mut all = Vec::new();
        loop {
            let page = Notification::parse(&self.controller.controller_log(LID_RESERVATION, 64).unwrap()).unwrap();
            if page.count == 0 {
                return all;
            }
            assert_eq!(page.nsid, 1);
            all.push(page.kind);
        }
    }
}

#[test]
fn two_hosts_reserve_fence_and_preempt() {
    let daemon = with_volume();
    let (mut a, mut b) = (daemon.host(11), daemon.host(22));
    assert_eq!((a.may(), b.may()), ("RW".into(), "RW".into()));
    let id = a.controller.identify_namespace(1).unwrap();
    assert_eq!((id.rescap, id.nmic & 1, a.controller.identify().oncs >> 5 & 1), (0xFF, 1, 1));

    assert_eq!(a.reserve(Reservation::Acquire { key: 11, rtype: WRITE_EXCLUSIVE }), StatusCode::RESERVATION_CONFLICT, "not registered");
    a.register();
    b.register();
    a.must(Reservation::Acquire { key: 11, rtype: WRITE_EXCLUSIVE });
    assert_eq!((a.may(), b.may()), ("RW".into(), "R-".into()));
    assert_eq!(b.report(), (WRITE_EXCLUSIVE, vec![(11, true), (22, false)], false));
    assert_eq!(b.reserve(Reservation::Acquire { key: 22, rtype: WRITE_EXCLUSIVE }), StatusCode::RESERVATION_CONFLICT);
    assert_eq!(b.reserve(Reservation::Acquire { key: 22, rtype: 7 }), StatusCode::INVALID_FIELD);
    assert!(daemon.ok("volume show v").contains("Write Exclusive"));

    b.must(Reservation::Preempt { key: 22, other: 11, rtype: EXCLUSIVE_ACCESS, abort: true });
    assert_eq!((a.may(), b.may()), ("--".into(), "RW".into()));
    assert_eq!(a.notifications(), [1], "registration preempted");
    assert_eq!(a.reserve(Reservation::Release { key: 11, rtype: EXCLUSIVE_ACCESS }), StatusCode::RESERVATION_CONFLICT);
    b.must(Reservation::Release { key: 22, rtype: EXCLUSIVE_ACCESS });
    assert_eq!(a.may(), "RW");

    a.register();
    a.must(Reservation::Acquire { key: 11, rtype: WRITE_EXCLUSIVE_REGISTRANTS });
    let mut c = daemon.host(33);
    assert_eq!((b.may(), c.may()), ("RW".into(), "R-".into()));
    a.must(Reservation::Unregister { key: None });
    assert_eq!(b.notifications(), [2], "reservation released");
    assert_eq!(c.may(), "RW");
    a.register();
    a.must(Reservation::Clear { key: 11 });
    assert_eq!(b.notifications(), [3], "reservation preempted");
    assert_eq!(a.report(), (0, vec![], false));

    // A host that does not want to hear of it hears nothing, and one that left keeps its place.
    let mask = |value| SetFeatures { fid: FID_RESERVATION_MASK, save: false, cdw11: value, nsid: 1 }.sqe(0);
    b.controller.admin(mask(1 << 3), Payload::None, "Set Features").unwrap();
    a.register();
    b.register();
    a.must(Reservation::Clear { key: 11 });
    let page = b.controller.controller_log(LID_RESERVATION, 64).unwrap();
    assert!(page.iter().all(|x| *x == 0), "masked");
    b.register();
    b.must(Reservation::Acquire { key: 22, rtype: EXCLUSIVE_ACCESS });
    drop(b);
    assert_eq!(a.may(), "--", "the reservation survives its host's connections");
    let mut b = daemon.host(22);
    assert_eq!(b.may(), "RW", "one registrant, whatever controller it comes by");
    let short = Report { numd: 0, eds: false }.sqe(0, 1);
    b.queues[0].submit_raw(7, short, Payload::In(vec![0; 4])).unwrap();
    let done = loop {
        b.queues[0].poll(Duration::from_millis(10)).unwrap();
        if let Some(done) = b.queues[0].pop() {
            break done;
        }
    };
    assert_eq!(done.status.code, StatusCode::HOST_ID_INCONSISTENT);

    daemon.ok("volume clear-reservation v --yes");
    assert_eq!((a.may(), a.report().1.len()), ("RW".into(), 0));
    assert_eq!(b.notifications(), [3]);
    let audit = daemon.ok("audit --limit 200 --json");
    for words in ["register key 0xb", "preempt and abort key 0xb", "cleared by an administrator"] {
        assert!(audit.contains(words), "{words}: {audit}");
    }
}

#[test]
fn what_persists_is_there_after_kill_9_and_what_does_not_is_gone() {
    let mut daemon = with_volume();
    let (mut a, mut b) = (daemon.host(11), daemon.host(22));
    a.must(Reservation::Register { key: 11, cptpl: 3 });
    b.register();
    a.must(Reservation::Acquire { key: 11, rtype: WRITE_EXCLUSIVE });
    let (before, written) = (a.report(), vec![0xA5; 4096]);
    assert!(before.2, "PTPL");
    a.queues[0].write(0, written.clone(), false).unwrap();
    drop((a, b));
    daemon.kill_and_start();
    let (mut a, mut b) = (daemon.host(11), daemon.host(22));
    assert_eq!(b.report(), before);
    assert_eq!(b.queues[0].read(0, 4096).unwrap(), written);
    assert_eq!((a.may(), b.may()), ("RW".into(), "R-".into()), "nobody slipped in");
    b.must(Reservation::Preempt { key: 22, other: 11, rtype: WRITE_EXCLUSIVE, abort: false });
    drop((a, b));
    daemon.kill_and_start();
    let (mut a, mut b) = (daemon.host(11), daemon.host(22));
    assert_eq!((a.may(), b.may()), ("R-".into(), "RW".into()), "the preempt was durable when it was answered");
    let persist = |value| SetFeatures { fid: FID_RESERVATION_PERSISTENCE, save: false, cdw11: value, nsid: 1 }.sqe(0);
    b.controller.admin(persist(0), Payload::None, "Set Features").unwrap();
    assert!(!b.report().2);
    drop((a, b));
    daemon.kill_and_start();
    let mut a = daemon.host(11);
    assert_eq!((a.may(), a.report()), ("RW".into(), (0, vec![], false)), "without PTPL it went with the power");
}
