use super::*;
use crate::{Client, ControlVerb, InProcess, RequestedBy};
use object::{IoOp, VolumeRef};
use rt::sim::World;
use rt::{App, Progress};
use std::collections::BTreeSet;
use std::convert::Infallible;

struct Idle;
impl App for Idle {
    fn poll(&mut self, _: &Rt) -> Progress {
        Progress::Idle
    }
}

fn with_rt(test: impl FnOnce(&Rt)) {
    let mut world = World::new(1);
    let host = world.add_host(1, |_| Box::new(Idle));
    test(&world.rt(host, 0));
}

/// Puts requests with tokens of its own, and keeps the tokens of the answers.
#[derive(Default)]
struct Tokens {
    put: Vec<u64>,
    came: Vec<u64>,
}

impl Client for Tokens {
    fn poll(&mut self, rt: &Rt, backend: &mut dyn Backend) -> bool {
        let busy = !self.put.is_empty();
        for token in self.put.drain(..) {
            backend.submit(rt, IoRequest::new(token, VolumeRef(0), IoOp::Read { offset: 0, len: 512 }));
        }
        self.came.extend(std::iter::from_fn(|| backend.pop()).map(|done| done.token));
        busy
    }
}

/// Answers in the order that a draw gives.
struct Shuffled(Vec<IoDone>, rt::sim::Rng);

impl Backend for Shuffled {
    fn submit(&mut self, _: &Rt, request: IoRequest) {
        self.0.push(IoDone { token: request.token, result: Ok(()), data: Default::default() });
    }
    fn pop(&mut self) -> Option<IoDone> {
        let at = self.1.below(self.0.len().max(1) as u64) as usize;
        (at < self.0.len()).then(|| self.0.swap_remove(at))
    }
}

type One = InProcess<Tokens>;

fn tokens(n: u64) -> One {
    InProcess(Some(Tokens { put: (0..50).map(|i| i * 3 + n + (i << 50)).collect(), came: vec![] }))
}

fn all(one: &One) -> BTreeSet<u64> {
    one.0.as_ref().unwrap().came.iter().copied().collect()
}

#[test]
fn each_gets_the_answers_to_its_own_requests_also_in_a_pair_of_pairs() {
    with_rt(|rt| {
        let mut pair = Pair::new(tokens(0), Pair::new(tokens(1), Pair::new(InProcess::<Tokens>(None), tokens(2))));
        let mut door = Shuffled(vec![], rt::sim::Rng::new(7));
        for _ in 0..5 {
            pair.poll(rt, &mut door);
        }
        let (first, second, third) = (&pair.first, &pair.second.first, &pair.second.second.second);
        for (n, one) in [first, second, third].into_iter().enumerate() {
            assert_eq!(all(one), (0..50).map(|i| i * 3 + n as u64 + (i << 50)).collect(), "{n}");
            assert_eq!(one.0.as_ref().unwrap().came.len(), 50, "each once");
        }
    });
}

/// Asks the control plane, and keeps the answers.
#[derive(Default)]
struct Asker {
    asks: Vec<u64>,
    answered: Vec<u64>,
}

impl FrontEnd for Asker {
    type Shared = ();
    type Desired = u8;
    type View = u8;
    type Listener = u8;
    type Listening = u8;
    type Msg = Infallible;
    type Figures = usize;
    fn start(_: &Rt, _: Arc<()>) -> Self {
        Self::default()
    }
    fn resolve(desired: &u8, _: Volumes) -> Result<u8, UnknownVolume> {
        Ok(*desired)
    }
    fn serve(&mut self, _: &Rt, view: Arc<u8>) {
        self.asks.push(u64::from(*view));
    }
    fn listen(&mut self, _: &Rt, at: u8) -> Result<u8, ListenError> {
        Ok(at)
    }
    fn poll<B: Backend>(&mut self, _: &Rt, _: &mut B) -> bool {
        false
    }
    fn may_begin(&mut self, _: &Rt, token: u64) -> bool {
        self.answered.contains(&token)
    }
    fn has_reports(&self) -> bool {
        true
    }
    fn pop_control_request(&mut self) -> Option<ControlRequest> {
        let by = RequestedBy { host: "h".into(), host_id: [1; 16], export: "e".into(), session: 1, ports: Default::default() };
        let what = ControlVerb::DeleteUnit { unit: None };
        Some(ControlRequest { id: ControlRequestId { core: 3, serial: self.asks.pop()? }, by, what })
    }
    fn on_answer(&mut self, _: &Rt, id: ControlRequestId, _: Result<Reply, Refused>) {
        self.answered.push(id.serial);
    }
    fn pop_audit(&mut self) -> Option<AuditEvent> {
        None
    }
    fn audit_lost(&mut self) {}
    fn pop_work(&mut self) -> Option<(WorkId, Work)> {
        None
    }
    fn on_work_done(&mut self, _: &Rt, _: WorkId, _: WorkDone) {}
    fn pop_msg(&mut self) -> Option<(usize, Infallible)> {
        None
    }
    fn on_msg(&mut self, _: &Rt, msg: Infallible) {
        match msg {}
    }
    fn begin_shutdown(&mut self, _: &Rt) {}
    fn is_quiet(&self) -> bool {
        self.asks.is_empty()
    }
    fn figures(&self) -> usize {
        self.answered.len()
    }
}

#[test]
fn each_is_served_what_it_is_to_serve_and_hears_what_it_has_asked() {
    with_rt(|rt| {
        let mut pair: Pair<Asker, Pair<Asker, Asker>> = FrontEnd::start(rt, Arc::new(Default::default()));
        let view = <Pair<Asker, Pair<Asker, Asker>> as FrontEnd>::resolve(&(4, (5, 6)), Volumes::default()).unwrap();
        pair.serve(rt, Arc::new(view));
        assert!(!pair.is_quiet());
        for request in std::iter::from_fn(|| pair.pop_control_request()).collect::<Vec<_>>() {
            assert_eq!(request.id.core, 3);
            pair.on_answer(rt, request.id, Ok(Reply::Done));
        }
        assert_eq!((&pair.first.answered, &pair.second.first.answered, &pair.second.second.answered), (&vec![4], &vec![5], &vec![6]));
        assert_eq!((pair.is_quiet(), pair.figures()), (true, (1, (1, 1))));
        let may_begin = [8, 9, 21, 27].map(|token| pair.may_begin(rt, token));
        assert_eq!(may_begin, [true, false, true, true], "token 4 of the first, 2 and 5 of the second, 6 of the third");
        assert!(matches!(pair.listen(rt, Of::Second(Of::First(9))), Ok(Of::Second(Of::First(9)))));
    });
}

/// Cancels one request.
struct Cancels(u64);

impl Client for Cancels {
    fn poll(&mut self, _: &Rt, backend: &mut dyn Backend) -> bool {
        backend.cancel(self.0);
        false
    }
}

/// Keeps what is cancelled.
#[derive(Default)]
struct Door {
    cancelled: Vec<u64>,
}

impl Backend for Door {
    fn submit(&mut self, _: &Rt, request: IoRequest) {
        unreachable!("{request:?}")
    }
    fn pop(&mut self) -> Option<IoDone> {
        None
    }
    fn may_answer(&self, _: &Rt, volume: VolumeRef) -> bool {
        volume != VolumeRef(7)
    }
    fn cancel(&mut self, token: u64) {
        self.cancelled.push(token);
    }
}

/// Asks which of two volumes may be answered for.
#[derive(Default)]
struct Asks([bool; 2]);

impl Client for Asks {
    fn poll(&mut self, rt: &Rt, backend: &mut dyn Backend) -> bool {
        self.0 = [6, 7].map(|volume| backend.may_answer(rt, VolumeRef(volume)));
        false
    }
}

#[test]
fn each_hears_of_the_door_what_may_be_answered_for() {
    with_rt(|rt| {
        let half = || InProcess(Some(Asks::default()));
        let mut pair = Pair::new(half(), half());
        pair.poll(rt, &mut Door::default());
        assert_eq!([pair.first, pair.second].map(|half| half.0.map(|asks| asks.0)), [Some([true, false]); 2]);
    });
}

#[test]
fn what_one_cancels_is_its_own() {
    with_rt(|rt| {
        let half = |token| InProcess(Some(Cancels(token)));
        let mut pair = Pair::new(half(5), Pair::new(half(5), half(6)));
        let mut door = Door::default();
        pair.poll(rt, &mut door);
        assert_eq!(door.cancelled, [0b1010, 0b10101, 0b11011]);
    });
}
