//! This node among the others: what it says of itself, whether it leads, who else is up, and how others are asked.
//!
//! ```text
//!  alone (embedded directory): leads, always                     in a cluster: leads while its session lives and the leader's record is its own
//! ```
//!
//! Owns: [`Among`], what is said of this node (`PresenceRecord`), and when it is worth to be said anew.
//! Invariants: a node takes itself for the leader only while its own clock says that its session lives; a node alone costs nothing.
//! Never: takes a node that is not up for one that is gone.

use super::*;
use crate::api::types as api;
use crate::cluster_client::{NodeAnswer, NodeRequest, SendError, SendToNode};
use base::ComponentId;
use directory::Presence;
use directory::presence::PRESENCE_EVERY;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;

/// What is said of this node is said anew after this long, though little has changed.
const SAY_AGAIN: Duration = Duration::from_secs(30);
/// Free space that has changed by this part of a device is worth to be said: one of so many.
const PART_WORTH_SAYING: u64 = 100;
/// How long another node may take to say what only it knows.
const ASK: Duration = Duration::from_secs(5);
/// How often the thread that keeps the presence looks whether the daemon ends.
const LOOK: Duration = Duration::from_millis(250);
/// What is not well is looked for this often, and the copy of the directory is brought up to date when it is older than this.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Reads of the directory that take longer are slow.
const SLOW: Duration = Duration::from_millis(500);

/// How long a resync is looked at before its speed is known.
const SPEED_KNOWN_AFTER: Duration = Duration::from_secs(5);
/// Percent of a resync that are worth to be said.
const RESYNC_STEP: u8 = 5;

/// How much of a whole is done, in percent.
pub(super) fn percent_of(done: u64, whole: u64) -> u8 {
    (u128::from(done.min(whole)) * 100 / u128::from(whole.max(1))) as u8
}

/// A clock that only goes forward.
type Clock = Box<dyn Fn() -> Duration + Send + Sync>;

/// This node among the others.
pub(super) struct Among {
    client: Arc<dyn SendToNode>,
    runtime: Handle,
    clock: Clock,
    machine: Mutex<Machine>,
    /// By which record it leads, and until when it can know.
    leads: Mutex<Option<(Revision, Duration)>>,
}

#[derive(Default)]
struct Machine {
    presence: Presence,
    said: Option<(PresenceRecord, Duration)>,
    /// What is not well, and when that was looked at.
    checks: Option<(Vec<CheckReport>, Duration)>,
    /// It has gone in order.
    left: bool,
}

impl Among {
    pub(super) fn new(client: Arc<dyn SendToNode>, runtime: Handle) -> Self {
        let since = Instant::now();
        Self { client, runtime, clock: Box::new(move || since.elapsed()), machine: Mutex::default(), leads: Mutex::default() }
    }
    fn leads(&self) -> Option<Revision> {
        let leads = *self.leads.lock().unwrap_or_else(|e| e.into_inner());
        leads.filter(|(_, until)| (self.clock)() < *until).map(|(since, _)| since)
    }
}

impl Control {
    /// This node is one of a cluster from now on: `client` reaches the others, from the threads of `runtime`.
    pub fn with_cluster(self, client: Arc<dyn SendToNode>, runtime: Handle) -> Self {
        Self { among: Some(Among::new(client, runtime)), ..self }
    }

    /// Another clock, for tests.
    #[cfg(test)]
    pub(crate) fn with_clock(mut self, clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        self.among.as_mut().expect("of a cluster").clock = Box::new(clock);
        self
    }

    /// The daemon is killed: nothing that waits goes on.
    #[cfg(test)]
    pub(crate) fn end_at_once(&self) {
        self.ends.store(true, Relaxed);
    }

    /// Whether this node has no others.
    pub(crate) fn is_alone(&self) -> bool {
        self.among.is_none()
    }

    /// Whether this node leads: it decides what administrators ask for. `Some(None)`: it is alone. `Some(Some(..))`: by the record of that revision.
    pub(crate) fn leadership(&self) -> Option<Option<Revision>> {
        match &self.among {
            None => Some(None),
            Some(among) => among.leads().map(Some),
        }
    }

    /// The node that leads, as the directory says.
    pub(crate) fn leader(&self) -> Result<Option<String>, DirectoryError> {
        match &self.among {
            None => Ok(Some(self.identity.node.clone())),
            Some(_) => Ok(self.directory.find::<LeaderRecord>(LeaderRecord::ID)?.map(|l| l.value.node)),
        }
    }

    /// Says that this node is up, and leads when nobody does, until the daemon ends. Runs on a thread of its own; a node alone has nothing to do.
    pub fn keep_presence(&self) {
        let mut next = Instant::now();
        while self.among.is_some() && !self.ends.load(Relaxed) {
            if Instant::now() >= next {
                next = Instant::now() + PRESENCE_EVERY / 2;
                if let Err(error) = self.tick_presence() {
                    tracing::warn!(%error, "this node cannot say that it is up");
                    if error.ends_everything() {
                        self.end_by(&error);
                        return;
                    }
                }
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Does what is due for this node's presence.
    pub(crate) fn tick_presence(&self) -> Result<(), DirectoryError> {
        let Some(among) = &self.among else { return Ok(()) };
        let mut machine = among.machine.lock().unwrap_or_else(|e| e.into_inner());
        let now = (among.clock)();
        if machine.left || self.ends.load(Relaxed) {
            return Ok(());
        }
        let Machine { presence, said, checks, .. } = &mut *machine;
        if checks.as_ref().is_none_or(|(_, at)| now.saturating_sub(*at) >= LOOK_AGAIN) {
            let stats = self.stats().unwrap_or_default();
            let found = self.own_checks(&stats).unwrap_or_default();
            *checks = Some((found.into_iter().map(api::Check::report).collect(), now));
        }
        let mine = self.presence_record(checks.as_ref().map(|(checks, _)| checks.clone()).unwrap_or_default());
        let anew = said.as_ref().is_none_or(|(old, at)| is_worth_saying(old, &mine) || now.saturating_sub(*at) >= SAY_AGAIN);
        if anew {
            *said = Some((mine, now));
        }
        let (mine, _) = said.as_ref().expect("just said");
        let asked = Instant::now();
        let ticked = presence.tick(&*self.directory, now, mine, || Nonce(random()));
        *among.leads.lock().unwrap_or_else(|e| e.into_inner()) = presence.leadership(now);
        drop(machine);
        // What is shown while the directory does not answer is not older than it has to be.
        let as_of = self.followed().as_of();
        if ticked.is_ok() && as_of.is_none_or(|at| at.elapsed() >= LOOK_AGAIN) {
            drop(self.looked());
        }
        self.directory_answered(ticked.as_ref().err(), asked.elapsed());
        ticked
    }

    /// Whether the directory answers, and how fast.
    fn directory_answered(&self, error: Option<&DirectoryError>, took: Duration) {
        let mut live = self.live();
        live.directory_slow = (error.is_none() && took >= SLOW).then_some(took);
        live.directory_error = match error {
            None => None,
            Some(error) => {
                let since = live.directory_error.take().map_or_else(now_unix_s, |(since, _)| since);
                Some((since, error.to_string()))
            }
        };
    }

    /// This node goes.
    pub(super) fn leave(&self) {
        let Some(among) = &self.among else { return };
        let mut machine = among.machine.lock().unwrap_or_else(|e| e.into_inner());
        machine.left = true;
        *among.leads.lock().unwrap_or_else(|e| e.into_inner()) = None;
        if let Err(error) = machine.presence.leave(&*self.directory) {
            tracing::warn!(%error, "the other nodes learn later that this one has ended");
        }
    }

    /// The directory is not the one any more that this daemon has read.
    pub(super) fn end_by(&self, error: &DirectoryError) {
        tracing::error!(%error, "this daemon changes nothing any more; I/O goes on");
        self.live().ended_by.get_or_insert_with(|| error.to_string());
    }

    /// Whether the daemon ends, or changes nothing any more: nothing is waited for.
    pub(crate) fn is_ending(&self) -> bool {
        self.ends.load(Relaxed) || self.live().ended_by.is_some()
    }

    /// Why this daemon changes nothing any more, if so.
    pub(crate) fn ended_by(&self) -> Option<Problem> {
        let message = self.live().ended_by.clone()?;
        Some(Problem::new(
            crate::Code::Unavailable,
            message,
            "this daemon changes nothing any more, and I/O goes on: restart it (systemctl restart basalt), one node after the other",
        ))
    }

    /// Of copies that this node brings back into sync: how far, in steps that are worth to be said, and how many seconds it still takes.
    #[expect(clippy::type_complexity, reason = "as a record has them")]
    fn resyncs(&self, stats: &Stats) -> Result<(BTreeMap<ComponentId, u8>, BTreeMap<ComponentId, u64>), DirectoryError> {
        let objects = if stats.resyncs.is_empty() { Vec::new() } else { self.directory.all::<ObjectRecord>()? };
        let (now, mut live) = (self.now(), self.live());
        live.resyncs_began.retain(|copy, _| stats.resyncs.contains_key(copy));
        let (mut percents, mut seconds) = (BTreeMap::new(), BTreeMap::new());
        for c in objects.iter().flat_map(|o| o.components()) {
            let Some(done) = stats.resyncs.get(&c.id).copied() else { continue };
            percents.insert(c.id, percent_of(done, c.bytes) / RESYNC_STEP * RESYNC_STEP);
            let began = live.resyncs_began.entry(c.id).or_insert(ResyncBegan { at: now, done });
            seconds.extend(began.seconds_left(now, done, c.bytes).map(|left| (c.id, left)));
        }
        Ok((percents, seconds))
    }

    fn presence_record(&self, checks: Vec<CheckReport>) -> PresenceRecord {
        let Identity { node, version, cores, .. } = &self.identity;
        let stats = self.stats().unwrap_or_default();
        let (resyncs, resync_seconds) = self.resyncs(&stats).unwrap_or_default();
        let moves = self.move_reports();
        let live = self.live();
        let mut groups: Vec<GroupReport> = live.groups.iter().map(|(id, state)| report(*id, state, &stats)).collect();
        groups.sort_by_key(|g| g.id);
        PresenceRecord {
            node: node.clone(),
            incarnation: live.incarnation,
            release: version.clone(),
            cores: *cores as u32,
            started_unix_s: self.started_unix_s,
            groups,
            checks,
            resyncs,
            resync_seconds,
            slow_copies: stats.slow_copies.clone(),
            failed_copies: stats.failed_copies.clone(),
            moves,
            reported_unix_s: now_unix_s(),
        }
    }

    /// What the nodes that are up say of themselves, by name. A node alone says nothing.
    pub(super) fn presences(&self) -> Result<BTreeMap<String, PresenceRecord>, DirectoryError> {
        if self.is_alone() {
            return Ok(BTreeMap::new());
        }
        Ok(self.directory.all::<PresenceRecord>()?.into_iter().map(|p| (p.value.node.clone(), p.value)).collect())
    }

    /// The time, on a clock that only goes forward. Alone there is nobody to wait for, and none.
    pub(super) fn now(&self) -> Duration {
        self.among.as_ref().map_or(Duration::ZERO, |among| (among.clock)())
    }

    /// Whether a node is up, as far as the directory knows.
    pub(super) fn is_up(&self, node: &str) -> Result<bool, DirectoryError> {
        Ok(node == self.identity.node || !self.is_alone() && self.directory.find::<PresenceRecord>(node)?.is_some())
    }

    /// Sends a request to another node, and waits for the answer.
    pub(crate) fn send(&self, node: &str, request: NodeRequest) -> Result<NodeAnswer, SendError> {
        let Some(among) = &self.among else { return Err(SendError::NoSuchNode { node: node.to_owned() }) };
        among.runtime.block_on(among.client.send(node, request))
    }

    /// The same, for async threads.
    pub(crate) async fn send_later(&self, node: &str, request: NodeRequest) -> Result<NodeAnswer, SendError> {
        match &self.among {
            None => Err(SendError::NoSuchNode { node: node.to_owned() }),
            Some(among) => among.client.send(node, request).await,
        }
    }

    /// Asks another node for something that only it knows, or can do.
    pub(super) fn ask<T: DeserializeOwned>(&self, node: &str, method: &str, path: String, body: Option<Vec<u8>>) -> Result<T, Problem> {
        let request = NodeRequest { method: method.into(), path, body, administrator: None, nonce: request::nonce(), wait: ASK };
        self.ask_within(node, request)
    }

    /// The same, within the time that the request says.
    pub(super) fn ask_within<T: DeserializeOwned>(&self, node: &str, request: NodeRequest) -> Result<T, Problem> {
        // What only reads may be asked twice.
        let reads = request.method == "GET";
        let answer = match self.send(node, request.clone()) {
            Err(SendError::NoAnswer { .. }) if reads => self.send(node, request)?,
            other => other?,
        };
        if !(200..300).contains(&answer.status) {
            return Err(problem_of(node, &answer));
        }
        let body: &[u8] = if answer.body.is_empty() { b"null" } else { &answer.body };
        serde_json::from_slice(body).map_err(|error| {
            Problem::new(
                crate::Code::Internal,
                format!("what node {node} answers cannot be understood: {error}"),
                "bring all nodes to one release",
            )
        })
    }
}

/// The problem that another node has answered with.
pub(crate) fn problem_of(node: &str, answer: &NodeAnswer) -> Problem {
    serde_json::from_slice(&answer.body).unwrap_or_else(|_| {
        Problem::new(
            crate::Code::Internal,
            format!("node {node} answers with status {}", answer.status),
            "see that daemon's log (journalctl -u basalt)",
        )
    })
}

impl From<SendError> for Problem {
    fn from(error: SendError) -> Self {
        let message = error.to_string();
        match error {
            SendError::NoSuchNode { .. } | SendError::NotSent { .. } => {
                Self::new(crate::Code::Unavailable, message, "nothing was changed; 'basalt node list' shows which nodes are up")
            }
            SendError::NoAnswer { .. } => {
                Self::new(crate::Code::Unknown, message, "send it again with the same idempotency-key, or look whether it was done")
            }
        }
    }
}

fn report(id: GroupId, state: &GroupLive, stats: &Stats) -> GroupReport {
    let offline = match state {
        GroupLive::Online(_) => None,
        GroupLive::Offline(why) => Some(why.clone()),
    };
    let figures = stats.groups.iter().find(|f| f.group == id).filter(|_| offline.is_none());
    let used = |n: u8| figures.and_then(|f| f.capacity_used_bytes.get(usize::from(n)).copied()).unwrap_or(0);
    let devices = figures.map(|f| layout::group_inventory(f).devices).unwrap_or_default();
    let device =
        |d: cluster::DeviceInventory| DeviceReport { index: d.index, bytes: d.bytes, free_bytes: d.free_bytes, used_bytes: used(d.index) };
    GroupReport {
        id,
        offline,
        devices: devices.into_iter().map(device).collect(),
        buffer_bytes: figures.map_or(0, |f| f.buffer_bytes),
        buffer_used_bytes: figures.map_or(0, |f| f.buffer_used_bytes),
    }
}

/// When this node has first seen a resync, and how far it was then, in bytes of the copy's address space.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResyncBegan {
    at: Duration,
    done: u64,
}

impl ResyncBegan {
    /// Seconds until it has ended, at the speed so far; `None`: that cannot be said yet.
    fn seconds_left(self, now: Duration, done: u64, bytes: u64) -> Option<u64> {
        let (took, moved, left) = (now.saturating_sub(self.at), done.saturating_sub(self.done), bytes.saturating_sub(done));
        let seconds = took.as_secs_f64() * left as f64 / moved as f64;
        (took >= SPEED_KNOWN_AFTER && moved > 0).then_some(seconds.ceil() as u64)
    }
}

/// Whether the other nodes have to hear of it now.
fn is_worth_saying(old: &PresenceRecord, new: &PresenceRecord) -> bool {
    let moved = |old: &DeviceReport, new: &DeviceReport| {
        let part = new.bytes / PART_WORTH_SAYING;
        old.index != new.index
            || old.bytes != new.bytes
            || old.free_bytes.abs_diff(new.free_bytes) > part
            || old.used_bytes.abs_diff(new.used_bytes) > part
    };
    let group = |old: &GroupReport, new: &GroupReport| {
        let devices = old.devices.len() != new.devices.len() || old.devices.iter().zip(&new.devices).any(|(o, n)| moved(o, n));
        old.id != new.id || old.offline != new.offline || devices
    };
    let checks = |r: &PresenceRecord| r.checks.iter().map(|c| (c.id.clone(), c.health, c.subject.clone())).collect::<Vec<_>>();
    let who = |r: &PresenceRecord| (r.incarnation, r.release.clone(), r.cores);
    let groups = old.groups.len() != new.groups.len() || old.groups.iter().zip(&new.groups).any(|(o, n)| group(o, n));
    let copies = |r: &PresenceRecord| {
        // How long it still takes changes all the time.
        let moves: Vec<_> = r.moves.iter().map(|(id, m)| (*id, m.percent / RESYNC_STEP, m.reason.clone())).collect();
        (r.resyncs.clone(), r.slow_copies.clone(), r.failed_copies.clone(), moves)
    };
    who(old) != who(new) || groups || checks(old) != checks(new) || copies(old) != copies(new)
}

#[cfg(test)]
#[path = "presence_tests.rs"]
mod tests;
