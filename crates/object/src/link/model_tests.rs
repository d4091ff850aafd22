//! Every order of events of a small model: a requester and an owner, two requests, sessions that are cut and replaced, messages that come late or
//! never, a restart of the owner, cancels, time. The rules of `docs/peer-link.md` hold in all of them, and each rule that is taken out breaks one.

use arrayvec::ArrayVec;
use hashbrown::HashSet;

/// How much happens.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    requests: usize,
    sessions: u8,
    time: u8,
    incarnations: u8,
}
/// Two requests, or more of everything else.
const BOUNDS: [Bounds; 2] =
    [Bounds { requests: 2, sessions: 2, time: 2, incarnations: 1 }, Bounds { requests: 1, sessions: 2, time: 3, incarnations: 2 }];
const REQUESTS: usize = 2;
const SESSIONS: usize = 2;
/// The oldest stamp that lets a request begin.
const AGE_MAX: u8 = 1;
/// Requests that the owner lets the requester have under way.
const WINDOW: u8 = 1;

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    Nothing,
    StampCompared,
    AgeAtBegin,
    SessionLooked,
    CancelLooked,
    CreditReturned,
    SentIsPerhaps,
    StampOfIncarnation,
    StampAtArrival,
    NewerSessionWins,
    LeftCounted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Answer {
    Done,
    DidNotHappen,
    Perhaps,
}

/// A request at the requester. `born` is the true time at which it came, `stamp` the owner's incarnation and clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Requested {
    Idle,
    /// In the host's connection, not read.
    Came {
        born: u8,
        stamp: (u8, u8),
    },
    Waiting {
        born: u8,
        stamp: (u8, u8),
    },
    Sent {
        born: u8,
        session: u8,
        cancelled: bool,
    },
    Answered(Answer),
}

/// The same at the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ServedAt {
    Nowhere,
    Queued { session: u8, stamp: u8, born: u8, wanted: bool },
    Begun { session: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ToOwner {
    Hello,
    Forward { request: u8, stamp: u8, born: u8 },
    Cancel { request: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ToRequester {
    Welcome { incarnation: u8, clock: u8, allowed: u8 },
    Tick { clock: u8, allowed: u8 },
    Done { request: u8, answer: Answer, allowed: u8 },
}

/// A connection. What is on its way may come late, also after one end has given it up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Wire {
    up: bool,
    to_owner: ArrayVec<ToOwner, 4>,
    to_requester: ArrayVec<ToRequester, 4>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    now: u8,
    wires: [Wire; SESSIONS],
    requests: [Requested; REQUESTS],
    acted: [bool; REQUESTS],
    // the requester
    dialed: u8,
    session: Option<u8>,
    open: bool,
    newest: (u8, u8),
    allowed: u8,
    spent: u8,
    // the owner
    incarnation: u8,
    began_at: u8,
    current: Option<u8>,
    last: Option<u8>,
    served: [ServedAt; REQUESTS],
    granted: u8,
    arrived: u8,
}

type Broken = &'static str;
/// Something that happens.
type Change<'a> = &'a dyn Fn(&mut World) -> Result<(), Broken>;

impl World {
    fn new() -> World {
        World {
            now: 0,
            wires: Default::default(),
            requests: [Requested::Idle; REQUESTS],
            acted: [false; REQUESTS],
            dialed: 0,
            session: None,
            open: false,
            newest: (0, 0),
            allowed: 0,
            spent: 0,
            incarnation: 1,
            began_at: 0,
            current: None,
            last: None,
            served: [ServedAt::Nowhere; REQUESTS],
            granted: 0,
            arrived: 0,
        }
    }
    /// The owner's clock begins anew with each of its lives.
    fn clock(&self) -> u8 {
        self.now - self.began_at
    }
    fn under_way(&self, of_current: bool) -> u8 {
        let counts = |s: &ServedAt| match *s {
            ServedAt::Nowhere => false,
            ServedAt::Queued { session, .. } | ServedAt::Begun { session } => (Some(session) == self.current) == of_current,
        };
        self.served.iter().filter(|s| counts(s)).count() as u8
    }
    /// The owner sends to the requester, if it still can.
    fn say(&mut self, session: u8, message: ToRequester) {
        let wire = &mut self.wires[usize::from(session)];
        if wire.up {
            wire.to_requester.push(message);
        }
    }
    fn answer(&mut self, request: usize, answer: Answer) -> Result<(), Broken> {
        match (self.requests[request], answer) {
            (Requested::Idle | Requested::Answered(_), _) => return Err("answered twice"),
            (_, Answer::DidNotHappen) if self.acted[request] => return Err("it happened"),
            (_, Answer::Done) if !self.acted[request] => return Err("it did not happen"),
            _ => self.requests[request] = Requested::Answered(answer),
        }
        Ok(())
    }
    /// The requester gives its session up.
    fn lose(&mut self, without: Without) -> Result<(), Broken> {
        let Some(session) = self.session.take() else { return Ok(()) };
        self.wires[usize::from(session)].up = false;
        self.open = false;
        for n in 0..REQUESTS {
            match self.requests[n] {
                Requested::Waiting { .. } => self.answer(n, Answer::DidNotHappen)?,
                Requested::Sent { .. } if without == Without::SentIsPerhaps => self.answer(n, Answer::DidNotHappen)?,
                Requested::Sent { .. } => self.answer(n, Answer::Perhaps)?,
                _ => {}
            }
        }
        Ok(())
    }
    /// A request is over at the owner.
    fn end(&mut self, request: usize, answer: Answer, without: Without) {
        let (session, begun) = match self.served[request] {
            ServedAt::Nowhere => return,
            ServedAt::Queued { session, .. } => (session, false),
            ServedAt::Begun { session } => (session, true),
        };
        self.served[request] = ServedAt::Nowhere;
        if self.current == Some(session) {
            self.granted += u8::from(begun || without != Without::CreditReturned);
            let allowed = self.granted;
            self.say(session, ToRequester::Done { request: request as u8, answer, allowed });
        } else if self.current.is_some() && without != Without::LeftCounted {
            self.granted += 1;
        }
    }
    /// The owner is about to begin a request.
    fn begin(&mut self, request: usize, without: Without) -> Result<(), Broken> {
        let ServedAt::Queued { session, stamp, born, wanted } = self.served[request] else { return Ok(()) };
        let age = self.clock().checked_sub(stamp).unwrap_or(if without == Without::StampOfIncarnation { 0 } else { u8::MAX });
        let fresh = age <= AGE_MAX || matches!(without, Without::StampCompared | Without::AgeAtBegin);
        let lasts = self.current == Some(session) || without == Without::SessionLooked;
        if !lasts || !fresh || !(wanted || without == Without::CancelLooked) {
            self.end(request, Answer::DidNotHappen, without);
            return Ok(());
        }
        if self.acted[request] {
            return Err("acted twice");
        }
        self.acted[request] = true;
        self.served[request] = ServedAt::Begun { session };
        if self.now - born > AGE_MAX {
            return Err("acted too late");
        }
        if self.requests[request] == Requested::Answered(Answer::DidNotHappen) {
            return Err("acted after it was said that it did not happen");
        }
        if self.open && self.session > Some(session) {
            return Err("acted after a newer session was open");
        }
        if matches!(self.requests[request], Requested::Sent { cancelled: true, .. }) && !wanted {
            return Err("acted after it was cancelled");
        }
        Ok(())
    }
    fn deliver_to_owner(&mut self, session: u8, without: Without) -> Result<(), Broken> {
        let message = self.wires[usize::from(session)].to_owner.remove(0);
        match message {
            ToOwner::Hello => {
                if self.last >= Some(session) {
                    return if without == Without::NewerSessionWins {
                        Err("an older session took the place of a newer one")
                    } else {
                        Ok(())
                    };
                }
                if let Some(older) = self.current {
                    self.wires[usize::from(older)].up = false;
                }
                (self.current, self.last) = (Some(session), Some(session));
                let left = if without == Without::LeftCounted { 0 } else { self.under_way(false) };
                (self.granted, self.arrived) = (WINDOW - left, 0);
                let (incarnation, clock, allowed) = (self.incarnation, self.clock(), self.granted);
                self.say(session, ToRequester::Welcome { incarnation, clock, allowed });
            }
            // The link of another session is closed: nothing of it has effect.
            _ if self.current != Some(session) => {}
            ToOwner::Forward { request, stamp, born } => {
                self.arrived += 1;
                self.served[usize::from(request)] = ServedAt::Queued { session, stamp, born, wanted: true };
                let too_old = self.clock().saturating_sub(stamp) > AGE_MAX;
                if without == Without::AgeAtBegin && too_old {
                    self.end(usize::from(request), Answer::DidNotHappen, without);
                }
            }
            ToOwner::Cancel { request } => {
                if let ServedAt::Queued { wanted, .. } = &mut self.served[usize::from(request)] {
                    *wanted = false;
                }
            }
        }
        Ok(())
    }
    fn deliver_to_requester(&mut self, session: u8) -> Result<(), Broken> {
        let message = self.wires[usize::from(session)].to_requester.remove(0);
        if self.session != Some(session) {
            return Ok(());
        }
        let (ToRequester::Welcome { allowed, .. } | ToRequester::Tick { allowed, .. } | ToRequester::Done { allowed, .. }) = message;
        match message {
            ToRequester::Welcome { incarnation, clock, .. } => {
                (self.open, self.newest, self.spent) = (true, (incarnation, clock), 0);
            }
            ToRequester::Tick { clock, .. } => self.newest.1 = clock,
            ToRequester::Done { request, answer, .. } => self.answer(request.into(), answer)?,
        }
        self.allowed = allowed;
        if self.allowed > self.spent + WINDOW { Err("more allowed than the window") } else { Ok(()) }
    }

    /// All that can happen next.
    fn next(&self, bounds: Bounds, without: Without) -> Result<Vec<World>, Broken> {
        let mut out = Vec::new();
        let mut can = |change: Change<'_>| -> Result<(), Broken> {
            let mut world = self.clone();
            change(&mut world)?;
            world.check(without)?;
            out.push(world);
            Ok(())
        };
        if self.now < bounds.time {
            can(&|w| {
                w.now += 1;
                Ok(())
            })?;
        }
        if self.session.is_none() && self.dialed < bounds.sessions {
            can(&|w| {
                (w.session, w.dialed) = (Some(w.dialed), w.dialed + 1);
                let wire = &mut w.wires[usize::from(w.dialed - 1)];
                wire.up = true;
                wire.to_owner.push(ToOwner::Hello);
                Ok(())
            })?;
        }
        if self.session.is_some() {
            can(&|w| w.lose(without))?;
        }
        if self.incarnation < bounds.incarnations {
            can(&|w| {
                (w.incarnation, w.began_at, w.current, w.last) = (w.incarnation + 1, w.now, None, None);
                w.served = [ServedAt::Nowhere; REQUESTS];
                for wire in &mut w.wires {
                    wire.up = false;
                    wire.to_owner.clear();
                }
                Ok(())
            })?;
        }
        if let Some(session) = self.current {
            // The owner hears of a cut, or of silence, at any time.
            can(&|w| {
                w.wires[usize::from(session)].up = false;
                w.current = None;
                Ok(())
            })?;
            let wire = &self.wires[usize::from(session)];
            if wire.up && wire.to_requester.is_empty() {
                can(&|w| {
                    w.say(session, ToRequester::Tick { clock: w.clock(), allowed: w.granted });
                    Ok(())
                })?;
            }
        }
        for session in 0..SESSIONS as u8 {
            let wire = &self.wires[usize::from(session)];
            if !wire.to_owner.is_empty() {
                can(&|w| w.deliver_to_owner(session, without))?;
                if !wire.up {
                    can(&|w| {
                        w.wires[usize::from(session)].to_owner.clear();
                        Ok(())
                    })?;
                }
            }
            if !wire.to_requester.is_empty() {
                can(&|w| w.deliver_to_requester(session))?;
                if !wire.up {
                    can(&|w| {
                        w.wires[usize::from(session)].to_requester.clear();
                        Ok(())
                    })?;
                }
            }
        }
        for n in 0..bounds.requests {
            self.next_of(n, without, &mut can)?;
        }
        Ok(out)
    }
    fn next_of(&self, n: usize, without: Without, can: &mut dyn FnMut(Change<'_>) -> Result<(), Broken>) -> Result<(), Broken> {
        match self.requests[n] {
            Requested::Idle if self.newest.0 > 0 && (n == 0 || self.requests[n - 1] != Requested::Idle) => {
                can(&|w| {
                    w.requests[n] = Requested::Came { born: w.now, stamp: w.newest };
                    Ok(())
                })?;
            }
            Requested::Came { born, stamp } if self.open => {
                can(&|w| {
                    w.requests[n] = Requested::Waiting { born, stamp };
                    Ok(())
                })?;
            }
            Requested::Waiting { born, stamp } => {
                if self.open && self.spent < self.allowed && self.wires.iter().all(|w| w.to_owner.len() < 4) {
                    can(&|w| w.send(n, born, stamp, without))?;
                }
                can(&|w| w.answer(n, Answer::DidNotHappen))?;
            }
            Requested::Sent { born, session, cancelled: false } if self.wires.iter().all(|w| w.to_owner.len() < 4) => {
                can(&|w| {
                    w.requests[n] = Requested::Sent { born, session, cancelled: true };
                    let wire = &mut w.wires[usize::from(session)];
                    wire.to_owner.push(ToOwner::Cancel { request: n as u8 });
                    Ok(())
                })?;
            }
            _ => {}
        }
        match self.served[n] {
            ServedAt::Nowhere => Ok(()),
            ServedAt::Queued { .. } => can(&|w| w.begin(n, without)),
            ServedAt::Begun { .. } => can(&|w| {
                w.end(n, Answer::Done, without);
                Ok(())
            }),
        }
    }
    fn send(&mut self, n: usize, born: u8, stamp: (u8, u8), without: Without) -> Result<(), Broken> {
        let stamp = if without == Without::StampAtArrival { self.newest } else { stamp };
        if stamp.0 != self.newest.0 && without != Without::StampOfIncarnation {
            return self.answer(n, Answer::DidNotHappen);
        }
        let session = self.session.expect("it is open");
        self.spent += 1;
        self.requests[n] = Requested::Sent { born, session, cancelled: false };
        self.wires[usize::from(session)].to_owner.push(ToOwner::Forward { request: n as u8, stamp: stamp.1, born });
        Ok(())
    }
    /// What holds in every state.
    fn check(&self, without: Without) -> Result<(), Broken> {
        if self.current.is_none() {
            return Ok(());
        }
        let (own, left) = (self.under_way(true), self.under_way(false));
        if own + left > WINDOW {
            return Err("more under way than the window");
        }
        let open = self.granted - self.arrived;
        let counted = if without == Without::LeftCounted { 0 } else { left };
        if open + own + counted != WINDOW { Err("credits leak") } else { Ok(()) }
    }
}

/// Looks at every state that can be reached; how many there are, or what is broken.
fn explore(bounds: Bounds, without: Without) -> Result<usize, Broken> {
    let mut seen: HashSet<World, foldhash::fast::FixedState> = HashSet::default();
    let mut todo = vec![World::new()];
    seen.insert(World::new());
    while let Some(world) = todo.pop() {
        for next in world.next(bounds, without)? {
            if seen.insert(next.clone()) {
                todo.push(next);
            }
        }
    }
    Ok(seen.len())
}

#[test]
fn no_order_of_events_breaks_a_promise() {
    for bounds in BOUNDS {
        let states = explore(bounds, Without::Nothing).unwrap();
        println!("{bounds:?}: {states} states");
        assert!(states > 100_000, "only {states} states: the model is too small to mean anything");
    }
}

#[test]
fn each_rule_is_needed() {
    let [requests, lives] = BOUNDS;
    for (without, bounds, broken) in [
        (Without::StampCompared, requests, "acted too late"),
        (Without::AgeAtBegin, requests, "acted too late"),
        (Without::SessionLooked, requests, "acted after a newer session was open"),
        (Without::CancelLooked, requests, "acted after it was cancelled"),
        (Without::CreditReturned, requests, "credits leak"),
        (Without::SentIsPerhaps, requests, "it happened"),
        (Without::StampOfIncarnation, lives, "acted too late"),
        (Without::StampAtArrival, requests, "acted too late"),
        (Without::NewerSessionWins, requests, "an older session took the place of a newer one"),
        (Without::LeftCounted, requests, "more under way than the window"),
    ] {
        assert_eq!(explore(bounds, without).err(), Some(broken), "{without:?}");
    }
}
