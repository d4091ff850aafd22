//! Two nodes with the real machine at both ends, from seeds: connections that are slow, cut at any byte, replaced, damaged; pieces of any length;
//! nodes that pause and restart with another clock; requests that wait at the owner, and cancels. What must hold is asserted as it happens.

use super::limits::STAMP_AGE_MAX;
use super::*;
use crate::io::{Data, Extent, IoError, IoOp, extents};
use base::unit::BLOCK_BYTES;
use base::{ClusterId, HostId, VolumeId, crc32c};
use format::peer::{Issuer, LinkClass, Revision, Versions, WINDOW_BYTES_MIN};
use rt::Buf;
use rt::sim::Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const MS: u64 = 1_000_000;
const WINDOW: Window = Window { ops: 3, bytes: WINDOW_BYTES_MIN };

fn node_id(n: usize) -> NodeId {
    NodeId::from_bytes([n as u8 + 1; 16])
}

fn place_of(class: usize) -> LinkPlace {
    LinkPlace { class: LinkClass::ALL[class], lane: 0 }
}

/// Data that only this request has.
fn data_of(token: u64, offset: u64, len: u32) -> DataVec {
    let one = |extent: &Extent| {
        let mut buf = Buf::alloc(extent.len as usize);
        buf.fill((token % 251) as u8);
        for part in buf.chunks_mut(512) {
            part[..8].copy_from_slice(&token.to_le_bytes());
        }
        let crcs = if extent.is_aligned() { buf.chunks(BLOCK_BYTES).map(crc32c).collect() } else { Default::default() };
        Data { buf, crcs }
    };
    extents(offset, len).iter().map(one).collect()
}

fn same(a: &DataVec, b: &DataVec) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.buf[..] == b.buf[..] && a.crcs == b.crcs)
}

/// What is known of a request.
struct Record {
    by: usize,
    class: usize,
    /// True time at which its host sent it.
    born: u64,
    offset: u64,
    len: u32,
    reads: bool,
    acted: bool,
    /// What the owner has answered.
    said: Option<Result<(), ForwardError>>,
    /// Nobody waits for it any more.
    over: bool,
    did_not_happen: bool,
}

struct Running {
    class: usize,
    id: ServedId,
    token: u64,
}

struct Node {
    peer: Peer,
    incarnation: u64,
    /// True time at its start, and what its clock was then.
    started: (u64, u64),
    asleep_until: u64,
    revision: u64,
    inbox: VecDeque<u64>,
    /// Stamps from when the inbox was last seen empty.
    stamps: [Option<Stamp>; 3],
    queued: Vec<(usize, Forwarded)>,
    running: Vec<Running>,
    cancelled: BTreeSet<(usize, ServedId)>,
    opened: [Option<SessionId>; 3],
    drained: usize,
}

/// A connection, dialed by node 0.
struct Conn {
    class: usize,
    up: bool,
    delay: u64,
    /// At node 1, until its Hello is judged.
    accepting: Option<Link>,
    ends: [Option<SessionId>; 2],
    /// To each node: when it arrives, and what.
    pipes: [VecDeque<(u64, Vec<u8>)>; 2],
}

struct World {
    rng: Rng,
    now: u64,
    nodes: [Node; 2],
    conns: Vec<Conn>,
    records: BTreeMap<u64, Record>,
    /// Whether things go wrong.
    wild: bool,
    /// Links are dialed.
    dials: bool,
}

fn start(n: usize, incarnation: u64, other: u64, now: u64, clock: u64, revision: u64) -> Node {
    let own =
        Own { cluster: ClusterId::from_bytes([9; 16]), node: node_id(n), incarnation: Incarnation(incarnation), versions: Versions::OURS };
    let peer = Peer::new(own, node_id(1 - n), Incarnation(other), 1, Protection::Plain).with_windows([WINDOW; 3]);
    Node {
        peer,
        incarnation,
        started: (now, clock),
        asleep_until: 0,
        revision,
        inbox: VecDeque::new(),
        stamps: [None; 3],
        queued: Vec::new(),
        running: Vec::new(),
        cancelled: BTreeSet::new(),
        opened: [None; 3],
        drained: 0,
    }
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let clocks = [rng.below(1 << 40), rng.below(1 << 40)];
        let nodes = [start(0, 1, 0, 0, clocks[0], 1), start(1, 1, 0, 0, clocks[1], 1)];
        World { rng, now: 0, nodes, conns: Vec::new(), records: BTreeMap::new(), wild: true, dials: true }
    }
    fn clock(&self, n: usize) -> Instant {
        let (at, clock) = self.nodes[n].started;
        Instant(self.now - at + clock)
    }
    /// The link of this end of a connection.
    fn link(&mut self, conn: usize, n: usize) -> Option<&mut Link> {
        let conn = &mut self.conns[conn];
        if n == 1 && conn.accepting.is_some() {
            return conn.accepting.as_mut();
        }
        let session = conn.ends[n]?;
        self.nodes[n].peer.link(place_of(conn.class)).filter(|link| link.session() == Some(session))
    }

    fn step(&mut self) {
        self.now += self.rng.below(15 * MS);
        if self.wild {
            self.trouble();
        }
        let first = self.rng.below(2) as usize;
        for n in [first, 1 - first] {
            if self.now >= self.nodes[n].asleep_until {
                self.turn(n);
            }
        }
    }
    /// Something happens to the connections and nodes, and hosts send requests.
    fn trouble(&mut self) {
        for n in 0..2 {
            if self.rng.one_in(4) {
                self.host_sends(n);
            }
            if self.rng.one_in(400) {
                self.nodes[n].asleep_until = self.now + self.rng.below(1500 * MS);
            }
            if self.rng.one_in(40) {
                self.nodes[n].revision += 1;
            }
            if self.rng.one_in(500) {
                self.restart(n);
            }
        }
        if self.conns.is_empty() {
            return;
        }
        let at = self.rng.below(self.conns.len() as u64) as usize;
        let conn = &mut self.conns[at];
        match self.rng.below(150) {
            0 if conn.up => {
                conn.up = false;
                for pipe in &mut conn.pipes {
                    let keep = self.rng.below(pipe.len() as u64 + 1) as usize;
                    pipe.truncate(keep + 1);
                    if let Some((_, last)) = pipe.back_mut() {
                        last.truncate(self.rng.below(last.len() as u64 + 1) as usize);
                    }
                }
            }
            // One end gives it up; what is on its way to the other arrives.
            3 => {
                let n = self.rng.below(2) as usize;
                if let Some(link) = self.link(at, n) {
                    link.close(CloseReason::Lost);
                }
                self.conns[at].up = false;
            }
            1 => {
                let (way, for_ns) = (self.rng.below(2) as usize, self.rng.below(1200 * MS));
                conn.pipes[way].iter_mut().for_each(|(at, _)| *at = (*at).max(self.now) + for_ns);
            }
            2 => {
                let way = self.rng.below(2) as usize;
                if let Some((_, bytes)) = conn.pipes[way].back_mut().filter(|(_, bytes)| !bytes.is_empty()) {
                    let byte = self.rng.below(bytes.len() as u64) as usize;
                    bytes[byte] ^= 1 << self.rng.below(8);
                }
            }
            _ => {}
        }
    }
    fn host_sends(&mut self, n: usize) {
        let token = self.records.len() as u64 + 1;
        let len = if self.rng.one_in(12) { 1 + self.rng.below(800) } else { 1 + self.rng.below(24) } as u32 * 512;
        // Some lie over the border of a piece, some are made of whole blocks.
        let offset = match self.rng.below(3) {
            0 => (1 << 20) - self.rng.below(8) * 512,
            1 => self.rng.below(64) * 4096,
            _ => self.rng.below(999) * 512,
        };
        let class = self.rng.below(3) as usize;
        let (reads, born) = (self.rng.one_in(2), self.now);
        let record = Record { by: n, class, born, offset, len, reads, acted: false, said: None, over: false, did_not_happen: false };
        self.records.insert(token, record);
        self.nodes[n].inbox.push_back(token);
    }
    fn restart(&mut self, n: usize) {
        let (incarnation, other) = (self.nodes[n].incarnation + 1, self.nodes[1 - n].incarnation);
        let other = if self.rng.one_in(2) { other } else { 0 };
        let clock = self.rng.below(1 << 40);
        self.nodes[n] = start(n, incarnation, other, self.now, clock, self.nodes[n].revision);
        self.records.values_mut().filter(|r| r.by == n).for_each(|r| r.over = true);
        for conn in &mut self.conns {
            (conn.up, conn.ends[n]) = (false, None);
            conn.pipes[n].clear();
            if n == 1 {
                conn.accepting = None;
            }
        }
    }

    /// A turn of the loop of a node.
    fn turn(&mut self, n: usize) {
        let now = self.clock(n);
        while let Some(token) = self.nodes[n].inbox.pop_front() {
            self.submit(n, token);
        }
        for class in 0..3 {
            self.nodes[n].stamps[class] = self.nodes[n].peer.link(place_of(class)).and_then(|link| link.stamp());
        }
        for conn in 0..self.conns.len() {
            self.read(conn, n);
        }
        if self.wild && self.rng.one_in(4) && !self.records.is_empty() {
            let token = 1 + self.rng.below(self.records.len() as u64);
            let record = &self.records[&token];
            if record.by == n && !record.over {
                let place = place_of(record.class);
                if let Some(link) = self.nodes[n].peer.link(place) {
                    link.cancel(token);
                }
            }
        }
        let chance = self.rng.next_u64() as u32;
        self.nodes[n].peer.poll(now, || chance);
        while let Some(place) = self.dials.then(|| self.nodes[n].peer.due(now)).flatten() {
            self.dial(n, place);
        }
        while let Some(event) = self.nodes[n].peer.pop_event(now) {
            self.on_event(n, event);
        }
        self.serve(n);
        while let Some(event) = self.nodes[n].peer.pop_event(now) {
            self.on_event(n, event);
        }
        for conn in 0..self.conns.len() {
            self.write(conn, n);
        }
        self.conns.retain(|c| c.up || c.accepting.is_some() || c.ends.iter().any(Option::is_some));
    }
    fn submit(&mut self, n: usize, token: u64) {
        let record = self.records.get_mut(&token).expect("it was recorded");
        let Some(stamp) = self.nodes[n].stamps[record.class] else {
            record.over = true;
            return;
        };
        let &mut Record { offset, len, .. } = record;
        let op = if record.reads { IoOp::Read { offset, len } } else { IoOp::Write { offset, data: data_of(token, offset, len) } };
        let mut volume = [0; 16];
        volume[..8].copy_from_slice(&token.to_le_bytes());
        let place = place_of(record.class);
        let revision = Revision(self.nodes[1 - n].revision);
        let issuer = Issuer { host: HostId::from_bytes([7; 16]), controller: 3 };
        let op = ForwardOp::Io(op);
        let request = ForwardRequest { token, volume: VolumeId::from_bytes(volume), revision, stamp, issuer, op };
        match self.nodes[n].peer.link(place) {
            Some(link) => link.submit(request),
            None => self.records.get_mut(&token).expect("it was recorded").over = true,
        }
    }
    fn dial(&mut self, n: usize, place: LinkPlace) {
        let (now, chance) = (self.clock(n), self.rng.next_u64() as u32);
        if self.wild && self.rng.one_in(10) {
            return self.nodes[n].peer.not_connected(place, now, chance);
        }
        self.nodes[n].peer.connected(place, now);
        let session = self.nodes[n].peer.link(place).and_then(|link| link.session());
        let delay = if self.wild && self.rng.one_in(4) { self.rng.below(900 * MS) } else { self.rng.below(3 * MS) };
        let accepting = Some(Link::accept(self.clock(1), Protection::Plain));
        self.conns.push(Conn { class: place.class as usize, up: true, delay, accepting, ends: [session, None], pipes: Default::default() });
    }
    /// Bytes of a connection arrive, in pieces of any length.
    fn read(&mut self, conn: usize, n: usize) {
        let (now, time) = (self.clock(n), self.now);
        while self.conns[conn].pipes[n].front().is_some_and(|(at, _)| *at <= time) {
            let (_, bytes) = self.conns[conn].pipes[n].pop_front().expect("seen above");
            let mut bytes = &bytes[..];
            while !bytes.is_empty() {
                let (some, lands) = (1 + self.rng.below(bytes.len() as u64) as usize, self.rng.one_in(2));
                let Some(link) = self.link(conn, n) else { break };
                let (part, rest) = match lands.then(|| link.land()).flatten() {
                    Some((mut buf, room)) => {
                        let take = some.min(room.len());
                        buf[room.start..room.start + take].copy_from_slice(&bytes[..take]);
                        link.landed(now, buf, take);
                        (take, &bytes[take..])
                    }
                    None => {
                        link.receive(now, &bytes[..some]);
                        (some, &bytes[some..])
                    }
                };
                assert!(part > 0);
                bytes = rest;
            }
            if n == 1 {
                self.judge(conn);
            }
        }
        if n == 1 {
            self.judge(conn);
        }
        // An end hears of a cut sooner or later, and seldom before what was sent ahead of it.
        if !self.conns[conn].up && self.rng.one_in(20) && (self.conns[conn].pipes[n].is_empty() || self.wild && self.rng.one_in(4)) {
            if let Some(link) = self.link(conn, n) {
                link.close(CloseReason::Lost);
            }
            self.conns[conn].ends[n] = None;
            self.conns[conn].pipes[n].clear();
            if n == 1 {
                self.conns[conn].accepting = None;
            }
        }
    }
    /// Node 1 judges a Hello.
    fn judge(&mut self, conn: usize) {
        let now = self.clock(1);
        let Some(link) = &mut self.conns[conn].accepting else { return };
        link.poll(now);
        match link.pop_event() {
            Some(LinkEvent::Greeted(hello, session)) => {
                let link = self.conns[conn].accepting.take().expect("seen above");
                match self.nodes[1].peer.admit(link, &hello, session, Standing::Member, now) {
                    Ok(_) => self.conns[conn].ends[1] = Some(session),
                    Err(mut link) => {
                        let bytes = link.take_output().map(|list| list.slices(0).collect::<Vec<_>>().concat());
                        let at = self.now + self.conns[conn].delay;
                        self.conns[conn].pipes[0].extend(bytes.map(|bytes| (at, bytes)));
                        self.conns[conn].up = false;
                    }
                }
            }
            Some(_) => (self.conns[conn].accepting, self.conns[conn].up) = (None, false),
            None => {}
        }
    }
    fn write(&mut self, conn: usize, n: usize) {
        let at = self.now + self.conns[conn].delay;
        let Some(link) = self.link(conn, n) else {
            // The session was replaced: its connection is closed.
            self.conns[conn].up &= self.conns[conn].ends[n].is_none();
            return;
        };
        let mut out = Vec::new();
        while let Some(list) = link.take_output() {
            out.push(list.slices(0).collect::<Vec<_>>().concat());
            link.sent(list);
        }
        let closed = link.is_closed();
        let conn = &mut self.conns[conn];
        if conn.up {
            conn.pipes[1 - n].extend(out.into_iter().map(|bytes| (at, bytes)));
        }
        conn.up &= !closed;
    }

    fn on_event(&mut self, n: usize, event: PlaceEvent) {
        let class = event.place.class as usize;
        match event.event {
            LinkEvent::Greeted(..) => unreachable!("judged before it has a place"),
            LinkEvent::Opened { .. } => {
                assert!(event.session > self.nodes[n].opened[class], "an older session took the place of a newer one");
                self.nodes[n].opened[class] = event.session;
            }
            LinkEvent::Forwarded(forwarded) => {
                self.check_arrived(&forwarded);
                let node = &mut self.nodes[n];
                node.queued.push((class, forwarded));
                let ops = node.queued.iter().filter(|q| q.0 == class).count() + node.running.iter().filter(|r| r.class == class).count();
                assert!(ops <= WINDOW.ops as usize, "more requests under way than the window");
            }
            LinkEvent::Cancelled(id) => {
                self.nodes[n].cancelled.insert((class, id));
                if self.rng.one_in(2) {
                    self.nodes[n].queued.retain(|(of, f)| (*of, f.id) != (class, id));
                    self.nodes[n].peer.let_go(event.place, id);
                }
            }
            LinkEvent::Answered(answered) => self.on_answered(n, &answered),
            LinkEvent::CopyAsked(..) | LinkEvent::CopyAnswered(..) => unreachable!("nothing is asked of copies"),
            LinkEvent::Control(_) => unreachable!("no link of that class is there"),
            LinkEvent::Closed(reason) => self.nodes[n].drained += usize::from(reason == CloseReason::Drained),
        }
    }
    /// A request is at the owner as its requester has sent it.
    fn check_arrived(&self, forwarded: &Forwarded) {
        let token = u64::from_le_bytes(*forwarded.volume.as_bytes().first_chunk().expect("8 bytes"));
        let record = &self.records[&token];
        match &forwarded.op {
            ForwardOp::Io(IoOp::Read { offset, len }) => assert!(record.reads && (*offset, *len) == (record.offset, record.len)),
            ForwardOp::Io(IoOp::Write { offset, data }) => {
                assert!(
                    !record.reads && *offset == record.offset && same(data, &data_of(token, record.offset, record.len)),
                    "other data came"
                );
            }
            other => panic!("nobody sent {other:?}"),
        }
    }
    fn on_answered(&mut self, n: usize, answered: &Answered) {
        let record = self.records.get_mut(&answered.request.token).expect("a request of ours");
        assert!(record.by == n && !record.over, "answered twice");
        record.over = true;
        match answered.result {
            Err(ForwardError::LinkLost) => {}
            Err(error) if error.did_not_happen() => {
                assert!(!record.acted, "{error:?}, and it happened");
                record.did_not_happen = true;
            }
            result => {
                assert_eq!(record.said, Some(result), "not what the owner said");
                if record.reads && result.is_ok() {
                    assert!(same(&answered.data, &data_of(answered.request.token, record.offset, record.len)), "other data was read");
                }
            }
        }
    }
    /// The owner begins some of what waits, and ends some of what it has begun.
    fn serve(&mut self, n: usize) {
        let patience = if self.wild { 1 + self.rng.below(16) } else { 1 };
        for at in (0..self.nodes[n].queued.len()).rev() {
            if self.rng.one_in(patience) {
                let (class, forwarded) = self.nodes[n].queued.swap_remove(at);
                self.begin(n, class, &forwarded);
            }
        }
        for at in (0..self.nodes[n].running.len()).rev() {
            if self.rng.one_in(patience) {
                let running = self.nodes[n].running.swap_remove(at);
                self.end(n, &running);
            }
        }
    }
    fn begin(&mut self, n: usize, class: usize, forwarded: &Forwarded) {
        let (id, now, revision) = (forwarded.id, self.clock(n), Revision(self.nodes[n].revision));
        if self.rng.one_in(30) {
            return self.nodes[n].peer.answer(place_of(class), id, Err(ForwardError::NotOwner), DataVec::new());
        }
        if self.nodes[n].peer.may_begin(place_of(class), id, now, revision).is_err() {
            return;
        }
        let token = u64::from_le_bytes(*forwarded.volume.as_bytes().first_chunk().expect("8 bytes"));
        let record = self.records.get_mut(&token).expect("it was recorded");
        assert!(!record.acted, "acted twice");
        assert!(!record.did_not_happen, "acted after it was said that it did not happen");
        assert!(self.now - record.born <= STAMP_AGE_MAX.as_nanos() as u64, "acted {} ms after it came", (self.now - record.born) / MS);
        assert!(!self.nodes[n].cancelled.contains(&(class, id)), "acted after it was cancelled");
        assert_eq!(forwarded.revision, revision, "acted by another view");
        assert!(self.nodes[1 - n].opened[class] <= Some(id.session), "acted after a newer session was open");
        record.acted = true;
        self.nodes[n].running.push(Running { class, id, token });
    }
    fn end(&mut self, n: usize, running: &Running) {
        let record = self.records.get_mut(&running.token).expect("it was recorded");
        let (result, data) = match self.rng.below(8) {
            0 => (Err(ForwardError::Miscompare { offset: running.token }), DataVec::new()),
            1 => (Err(ForwardError::Io(IoError::Media { offset: running.token })), DataVec::new()),
            _ if record.reads => (Ok(()), data_of(running.token, record.offset, record.len)),
            _ => (Ok(()), DataVec::new()),
        };
        record.said = Some(result);
        self.nodes[n].peer.answer(place_of(running.class), running.id, result, data);
    }

    /// Nothing goes wrong any more: everything is answered, all links are open, and all credits are back.
    fn settle(&mut self) {
        self.wild = false;
        self.nodes.iter_mut().for_each(|node| node.asleep_until = 0);
        let end = self.now + 6_000 * MS;
        while self.now < end {
            self.step();
        }
        let open: Vec<u64> = self.records.iter().filter(|(_, r)| !r.over).map(|(token, _)| *token).collect();
        assert!(open.is_empty(), "never answered: {open:?}");
        for n in 0..2 {
            for class in 0..3 {
                let link = self.nodes[n].peer.link(place_of(class)).expect("a link");
                assert!(link.is_open(), "a link is not open at node {n}, class {class}");
                assert!(link.is_idle(), "credits are not back at node {n}, class {class}: {:?}", link.phase);
            }
            self.nodes[n].drained = 0;
        }
    }
    /// Both ends of each link close in order.
    fn drain(&mut self) {
        self.dials = false;
        for class in 0..3 {
            let n = self.rng.below(2) as usize;
            self.nodes[n].peer.link(place_of(class)).expect("a link").drain();
        }
        let end = self.now + 3_000 * MS;
        while self.now < end {
            self.step();
        }
        let drained = [0, 1].map(|n: usize| self.nodes[n].drained);
        assert_eq!(drained, [3; 2], "links that drain close in order");
    }
}

fn play(seed: u64) -> (usize, usize) {
    let buffers = rt::buffers_outstanding();
    let mut world = World::new(seed);
    while world.now < 4_000 * MS {
        world.step();
    }
    world.settle();
    world.drain();
    let acted = world.records.values().filter(|r| r.acted).count();
    let out = (world.records.len(), acted);
    drop(world);
    assert_eq!(rt::buffers_outstanding(), buffers, "seed {seed}: buffers leak");
    out
}

fn play_many(seeds: std::ops::Range<u64>) {
    let (mut all, mut acted) = (0, 0);
    for seed in seeds {
        println!("seed {seed}");
        let (records, done) = play(seed);
        (all, acted) = (all + records, acted + done);
    }
    // Otherwise nothing of this means much.
    assert!(acted * 5 > all, "{acted} of {all} requests were carried out");
}

#[test]
fn whatever_the_wire_does_requests_act_once_in_time_and_are_answered_once() {
    let seeds = std::env::var("LINK_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(150);
    play_many(0..seeds);
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    use SeededFault::*;
    for fault in [
        StampNotCompared,
        AgeJudgedOnArrival,
        OldSessionBegins,
        CancelledBegins,
        ViewRevisionNotCompared,
        LinkCreditKept,
        AnswerToWrongRequest,
        SentTakenForUnsent,
        OlderSessionReplaces,
        LeftForgotten,
        LinkDataUnverified,
    ] {
        hooks::notices(fault, || play_many(0..150));
    }
}
