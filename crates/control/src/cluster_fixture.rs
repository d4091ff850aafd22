//! Engines of several nodes over one modelled directory, for tests: nodes that die and come back, answers that are lost on the way between them.
//!
//! Owns: [`Fixture`]. Invariants: what a node that was killed had under way ends before it is started again; virtual time goes [`SPEED`] times as fast
//! as the test's. Never: repairs what an engine has left.

use crate::cluster_client::{NONCE_HEADER, NodeAnswer, NodeRequest, SendError, SendToNode, Sending, nonce_text};
use crate::fake::FakePlane;
use crate::{Control, Identity, api};
use axum::{Router, body::Body, extract::Request};
use base::ClusterId;
use directory::modelled::{Faults, Modelled};
use directory::{Changes, Directory, DirectoryError, Entry, Key, Kind, Nonce, Revision, SessionId, Snapshot, Transaction, Watch};
use http_body_util::BodyExt;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tower::ServiceExt;

/// Virtual seconds in one of the test's.
pub(crate) const SPEED: u32 = 10;
/// How often a thread of a node does what it does.
const TURN: Duration = Duration::from_millis(15);
/// How long one look at a watch waits.
const WATCH: Duration = Duration::from_millis(3);

/// The directory as a node has it while it lives.
struct Gate {
    directory: Modelled,
    alive: Arc<AtomicBool>,
}

impl Gate {
    fn through<T>(&self, call: impl FnOnce(&Modelled) -> Result<T, DirectoryError>) -> Result<T, DirectoryError> {
        if self.alive.load(SeqCst) { call(&self.directory) } else { Err(DirectoryError::Superseded { writer: "its next life".into() }) }
    }
}

impl Directory for Gate {
    fn get(&self, key: &Key) -> Result<Option<Entry>, DirectoryError> {
        self.through(|d| d.get(key))
    }
    fn list(&self, kind: Kind) -> Result<Vec<Entry>, DirectoryError> {
        self.through(|d| d.list(kind))
    }
    fn snapshot(&self) -> Result<Snapshot, DirectoryError> {
        self.through(Directory::snapshot)
    }
    fn watch(&self, after: Revision) -> Result<Box<dyn Watch>, DirectoryError> {
        Ok(Box::new(Waiting(self.through(|d| d.watch(after))?)))
    }
    fn commit(&self, transaction: &Transaction) -> Result<Revision, DirectoryError> {
        self.through(|d| d.commit(transaction))
    }
    fn outcome(&self, nonce: Nonce) -> Result<Option<Revision>, DirectoryError> {
        self.through(|d| d.outcome(nonce))
    }
    fn revision(&self) -> Result<Revision, DirectoryError> {
        self.through(Directory::revision)
    }
    fn open_session(&self, ttl: Duration) -> Result<SessionId, DirectoryError> {
        self.through(|d| d.open_session(ttl))
    }
    fn keep_alive(&self, session: SessionId) -> Result<(), DirectoryError> {
        self.through(|d| d.keep_alive(session))
    }
    fn end_session(&self, session: SessionId) -> Result<(), DirectoryError> {
        self.through(|d| d.end_session(session))
    }
    fn store(&self) -> Result<u64, DirectoryError> {
        self.directory.store()
    }
    fn cluster(&self) -> ClusterId {
        self.directory.cluster()
    }
}

/// A watch that waits a little.
struct Waiting(Box<dyn Watch>);

impl Watch for Waiting {
    fn poll(&mut self) -> Result<Option<Changes>, DirectoryError> {
        self.0.poll()
    }
    fn wait(&mut self, timeout: Duration) -> Result<Option<Changes>, DirectoryError> {
        let until = Instant::now() + timeout.min(WATCH * 5);
        loop {
            match self.0.poll() {
                Ok(None) if Instant::now() < until => std::thread::sleep(WATCH),
                other => return other,
            }
        }
    }
    fn revision(&self) -> Revision {
        self.0.revision()
    }
}

/// A node as long as it lives.
struct Life {
    control: Arc<Control>,
    alive: Arc<AtomicBool>,
    /// Requests that it has under way.
    busy: Arc<AtomicU32>,
    public: Router,
    cluster: Router,
    threads: Vec<JoinHandle<()>>,
}

/// The way between nodes.
#[derive(Default)]
pub(crate) struct Net {
    lives: Mutex<BTreeMap<String, Arc<Mutex<Option<Life>>>>>,
    random: AtomicU64,
    /// Of a thousand answers so many are lost.
    lost_permille: AtomicU64,
    sent: AtomicU64,
}

impl Net {
    fn draw(&self) -> u64 {
        let mut z = self.random.fetch_add(0x9E37_79B9_7F4A_7C15, SeqCst);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    pub(crate) fn lose_permille(&self, permille: u64) {
        self.lost_permille.store(permille, SeqCst);
    }
    /// Requests that were sent from node to node.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(SeqCst)
    }

    /// Has a node do something. `None`: it is not there, or died over it, which is said by `begun`.
    async fn call(&self, node: &str, pick: fn(&Life) -> Router, request: Request, begun: &AtomicBool) -> Option<NodeAnswer> {
        let slot = self.lives.lock().unwrap().get(node).cloned()?;
        let (router, alive, busy) = {
            let life = slot.lock().unwrap();
            let life = life.as_ref().filter(|l| l.alive.load(SeqCst))?;
            life.busy.fetch_add(1, SeqCst);
            (pick(life), life.alive.clone(), life.busy.clone())
        };
        begun.store(true, SeqCst);
        // It goes on there when nobody waits for it any more.
        let done = tokio::spawn(async move {
            let response = router.oneshot(request).await;
            busy.fetch_sub(1, SeqCst);
            response
        });
        let response = done.await.ok()?.ok()?;
        let status = response.status().as_u16();
        let [content_type, location] =
            ["content-type", "location"].map(|name| response.headers().get(name).and_then(|h| h.to_str().ok()).map(str::to_owned));
        let body = response.into_body().collect().await.ok()?.to_bytes().to_vec();
        alive.load(SeqCst).then_some(NodeAnswer { status, content_type, location, body })
    }
}

/// What a node has of the way to the others.
struct Sender(Arc<Net>);

impl SendToNode for Sender {
    fn send(&self, node: &str, request: NodeRequest) -> Sending {
        let (net, node) = (self.0.clone(), node.to_owned());
        Box::pin(async move {
            net.sent.fetch_add(1, SeqCst);
            let mut built = Request::builder().method(request.method.as_str()).uri(&request.path);
            for (name, value) in request.headers() {
                built = built.header(name, value);
            }
            if request.body.is_some() {
                built = built.header("content-type", "application/json");
            }
            let built = built.body(Body::from(request.body.clone().unwrap_or_default())).expect("a request");
            let begun = AtomicBool::new(false);
            let answer = net.call(&node, |life| life.cluster.clone(), built, &begun).await;
            let lost = net.draw() % 1000 < net.lost_permille.load(SeqCst);
            match answer.filter(|_| !lost) {
                Some(answer) => Ok(answer),
                None if begun.load(SeqCst) => Err(SendError::NoAnswer { node, why: "it died, or the answer was lost".into() }),
                None => Err(SendError::NotSent { node, why: "it is not there".into() }),
            }
        })
    }
}

/// Nodes over one directory.
pub(crate) struct Fixture {
    pub(crate) directory: Modelled,
    pub(crate) net: Arc<Net>,
    pub(crate) planes: BTreeMap<String, Arc<FakePlane>>,
    dir: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    began: Instant,
    ends: Arc<AtomicBool>,
    ticker: Option<JoinHandle<()>>,
}

impl Fixture {
    /// Nodes with these names, none of them up, over a directory without faults.
    pub(crate) fn new(names: &[&str], seed: u64) -> Self {
        let directory = Modelled::new(seed, ClusterId::from_bytes([1; 16]), Faults::NONE);
        let (began, ends) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let ticker = std::thread::spawn({
            let (directory, ends) = (directory.clone(), ends.clone());
            move || {
                while !ends.load(SeqCst) {
                    directory.advance(began.elapsed() * SPEED);
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        let net = Arc::new(Net::default());
        net.random.store(seed, SeqCst);
        names.iter().for_each(|n| drop(net.lives.lock().unwrap().insert((*n).to_owned(), Arc::default())));
        Self {
            directory,
            net,
            planes: names.iter().map(|n| ((*n).to_owned(), Arc::default())).collect(),
            dir: tempfile::tempdir().unwrap(),
            runtime: tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap(),
            began,
            ends,
            ticker: Some(ticker),
        }
    }

    fn slot(&self, node: &str) -> Arc<Mutex<Option<Life>>> {
        self.net.lives.lock().unwrap()[node].clone()
    }

    /// Starts a node.
    pub(crate) fn start(&self, node: &str) {
        let (alive, plane) = (Arc::new(AtomicBool::new(true)), self.planes[node].clone());
        let gate = Arc::new(Gate { directory: self.directory.clone(), alive: alive.clone() });
        let identity = Identity { node: node.into(), fault_domain: node.into(), version: "1.0.0".into(), cores: 1 };
        let client = Arc::new(Sender(self.net.clone()));
        let began = self.began;
        std::fs::create_dir_all(self.dir.path().join("root/sys/block")).unwrap();
        let control = || {
            Control::new(gate.clone(), plane.clone(), identity.clone(), drive::Scanner::new(self.dir.path().join("root")))
                .with_cluster(client.clone(), self.runtime.handle().clone())
                .with_clock(move || began.elapsed() * SPEED)
        };
        // A daemon that cannot read the directory is started again.
        let control = (0..100).find_map(|_| {
            let control = control();
            control.start().is_ok().then_some(control)
        });
        let control = Arc::new(control.expect("it starts, in the end"));
        let mut threads = Vec::new();
        threads.push(std::thread::spawn({
            let control = control.clone();
            move || control.follow_directory()
        }));
        type Turn = fn(&Control);
        let turns: [(Turn, u32); 4] =
            [(|c| drop(c.tick_presence()), 1), (Control::look_after_moves, 3), (Control::look_after_copies, 7), (Control::retry, 20)];
        for (turn, every) in turns {
            let (control, alive) = (control.clone(), alive.clone());
            threads.push(std::thread::spawn(move || {
                while alive.load(SeqCst) {
                    turn(&control);
                    (0..every).take_while(|_| alive.load(SeqCst)).for_each(|_| std::thread::sleep(TURN));
                }
            }));
        }
        let (public, cluster) = (api::router(control.clone()).0, api::cluster_router(control.clone()));
        *self.slot(node).lock().unwrap() = Some(Life { control, alive, busy: Arc::default(), public, cluster, threads });
    }

    /// Kills a node: from now on it reaches nobody. Returns when nothing of it runs any more; then it can be started again.
    pub(crate) fn kill(&self, node: &str) {
        let Some(life) = self.slot(node).lock().unwrap().take() else { return };
        life.alive.store(false, SeqCst);
        life.control.end_at_once();
        let until = Instant::now() + Duration::from_secs(60);
        while life.busy.load(SeqCst) > 0 {
            assert!(Instant::now() < until, "requests of a node that is dead go on");
            std::thread::sleep(TURN);
        }
        life.threads.into_iter().for_each(|t| t.join().unwrap());
        self.planes[node].restart();
    }

    /// The engine of a node that is up.
    pub(crate) fn control(&self, node: &str) -> Arc<Control> {
        self.slot(node).lock().unwrap().as_ref().expect("it is up").control.clone()
    }

    /// The nodes that are up.
    pub(crate) fn up(&self) -> Vec<String> {
        let lives = self.net.lives.lock().unwrap();
        lives.iter().filter(|(_, l)| l.lock().unwrap().is_some()).map(|(n, _)| n.clone()).collect()
    }

    /// The node that leads, when one that is up knows that it does.
    pub(crate) fn leader(&self) -> Option<String> {
        self.up().into_iter().find(|n| self.slot(n).lock().unwrap().as_ref().is_some_and(|l| l.control.leadership().is_some()))
    }

    /// Waits until something is so.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut so: impl FnMut() -> bool) {
        let until = Instant::now() + Duration::from_secs(60);
        while !so() {
            assert!(Instant::now() < until, "in a minute it is not so: {what}");
            std::thread::sleep(TURN);
        }
    }

    /// An administrator asks a node. `None`: there is no answer.
    pub(crate) fn ask(&self, node: &str, method: &str, path: &str, body: Option<&Value>, nonce: Option<Nonce>) -> Option<(u16, Value)> {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(nonce) = nonce {
            request = request.header(NONCE_HEADER, nonce_text(nonce));
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(body.map_or(Body::empty(), |b| Body::from(b.to_string()))).expect("a request");
        let begun = AtomicBool::new(false);
        let answer = self.runtime.block_on(self.net.call(node, |life| life.public.clone(), request, &begun))?;
        let value = if answer.body.is_empty() { Value::Null } else { serde_json::from_slice(&answer.body).unwrap_or(Value::Null) };
        Some((answer.status, value))
    }

    /// The same for a read, with how old the answer is.
    pub(crate) fn ask_aged(&self, node: &str, method: &str, path: &str) -> Option<(u16, Value, Option<String>)> {
        let slot = self.slot(node);
        let router = slot.lock().unwrap().as_ref()?.public.clone();
        let request = Request::builder().method(method).uri(path).body(Body::empty()).expect("a request");
        self.runtime.block_on(async {
            let response = router.oneshot(request).await.ok()?;
            let (status, age) = (response.status().as_u16(), response.headers().get("basalt-age-seconds").cloned());
            let body = response.into_body().collect().await.ok()?.to_bytes();
            Some((status, serde_json::from_slice(&body).unwrap_or(Value::Null), age.and_then(|a| a.to_str().map(str::to_owned).ok())))
        })
    }

    /// One that must be done.
    #[track_caller]
    pub(crate) fn done(&self, node: &str, method: &str, path: &str, body: Value) -> Value {
        let body = (!body.is_null()).then_some(body);
        let (status, value) = self.ask(node, method, path, body.as_ref(), None).expect("an answer");
        assert!((200..300).contains(&status), "{method} {path} at {node}: {status} {value}");
        value
    }

    /// A new group, of files, on a node.
    pub(crate) fn group(&self, node: &str, name: &str, gib: u64) -> Value {
        let path = |what: &str| self.dir.path().join(format!("{name}-{what}"));
        serde_json::json!({
            "name": name, "node": node, "sparse": true,
            "cache": {"path": path("cache"), "bytes": 1u64 << 30},
            "capacity": [{"path": path("c0"), "bytes": gib << 30}, {"path": path("c1"), "bytes": gib << 30}],
        })
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.up().iter().for_each(|n| self.kill(n));
        }
        self.ends.store(true, SeqCst);
        if let Some(ticker) = self.ticker.take() {
            let _ = ticker.join();
        }
    }
}
