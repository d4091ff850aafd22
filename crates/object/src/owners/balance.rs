//! Objects that go to another node of themselves: to the one by which their hosts come, or to one that has less to do.
//!
//! ```text
//!  Count ──► all cores ──► Requests of each object, by the nodes that they came by ──► at the owner: goes ──► HandOver
//!  Load ◄──► other nodes: what each has to do
//! ```
//!
//! Hosts with paths to several nodes follow the owner, so whoever comes by another node has no other way, or does not look: the object goes there.
//! A node that hosts came by stays the owner then, whatever there is to do: elsewhere its hosts would cost more.
//!
//! A node that is about to end hands over all that others can have, before its hosts lose it ([`Owners::ends`]). Where all nodes with copies end, nothing
//! goes and no copy leaves: each object keeps what was in sync.
//!
//! Owns: [`Balance`], [`Requests`].
//! Invariants: an object with a preferred owner does not go of itself; one that has come here stays for [`STAYS`]; one that goes for the load leaves
//! both nodes nearer to each other than they were, so none goes to and fro.
//! Never: hands an object over itself, or to a node that has no copy in sync.

use super::limits::{COUNT, FOLLOWS, FOLLOWS_RATE, HOSTS_STAY, SPREADS, SPREADS_APART, STAYS, WEIGHT_UNITS};
use super::*;
use base::Duration;
use base::hooks::CoverageMark;

/// Whether objects go to other nodes of themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balancing {
    /// They stay where they are.
    Off,
    /// They do.
    #[default]
    Usual,
    /// They do, and all of it comes twenty times as soon: for simulations, which last for seconds.
    Hurried,
}

impl Balancing {
    /// How long something takes.
    pub(super) fn time(self, usual: Duration) -> Duration {
        if self == Balancing::Hurried { usual / 20 } else { usual }
    }
}

/// What hosts have asked of an object since it was counted last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// What counts as load: requests, and one more for each 32 KiB.
    pub units: u64,
    /// Requests, by the nodes that they came by.
    pub by: BTreeMap<NodeId, u64>,
}

/// Why an object goes to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its hosts come by that node.
    Hosts,
    /// That node has less to do.
    Load,
}

/// Of one object. See the module.
#[derive(Debug, Default)]
pub(super) struct Balance {
    /// A mean of the last counts: units of a second.
    rate: u64,
    /// The node that most requests come by, and since when.
    by: Option<(NodeId, Instant)>,
    /// When hosts came by this node last while another one owned the object.
    hosts_here: Option<Instant>,
    /// Since when this node serves it.
    serves: Option<Instant>,
    /// Where it is to go, until the next count.
    pub goes: Option<NodeId>,
}

impl Balance {
    /// Whether this node serves it now.
    pub fn serves(&mut self, serves: bool, now: Instant) {
        if serves != self.serves.is_some() {
            *self = Self { serves: serves.then_some(now), rate: self.rate, hosts_here: self.hosts_here, ..Self::default() };
        }
    }
    fn counts(&mut self, me: NodeId, asked: &Requests, how: Balancing, now: Instant) {
        self.goes = None;
        let count_ms = how.time(COUNT).as_millis() as u64;
        self.rate = (self.rate * 3 + asked.units * 1000 / count_ms) / 4;
        let all: u64 = asked.by.values().sum();
        let most = asked.by.iter().find(|(_, n)| all * 1000 >= FOLLOWS_RATE * count_ms && **n * 4 >= all * 3).map(|(node, _)| *node);
        self.by = most.map(|node| self.by.filter(|(before, _)| *before == node).unwrap_or((node, now)));
        if self.serves.is_none() && self.comes_by(how, now) == Some(me) {
            self.hosts_here = Some(now);
        }
    }
    /// The node that hosts come by, once they have done so long enough.
    fn comes_by(&self, how: Balancing, now: Instant) -> Option<NodeId> {
        self.by.filter(|(_, since)| now.since(*since) >= how.time(FOLLOWS)).map(|(node, _)| node)
    }
    /// What it weighs at the node that serves it.
    fn weight(&self) -> u64 {
        1 + self.rate / WEIGHT_UNITS
    }
    fn may_go(&self, how: Balancing, now: Instant) -> bool {
        self.serves.is_some_and(|since| now.since(since) >= how.time(STAYS))
    }
    /// Whether no host minds where it is served.
    fn is_free(&self, me: NodeId, how: Balancing, now: Instant) -> bool {
        let hosts_stay = how.time(HOSTS_STAY) * u32::from(!hooks::seeded(SeededFault::HostsForgotten));
        self.hosts_here.is_none_or(|last| now.since(last) >= hosts_stay) && self.by.is_none_or(|(node, _)| node == me)
    }
}

impl Owners {
    /// What hosts have asked since the last [`Action::Count`]. What is not named was not asked anything.
    pub fn counted(&mut self, g: &mut Grants<'_>, asked: &BTreeMap<ObjectId, Requests>) {
        if self.ends {
            return;
        }
        let (me, how, nothing) = (self.me.node, self.balancing, Requests::default());
        for (object, hosted) in &mut self.objects {
            hosted.balance.counts(me, asked.get(object).unwrap_or(&nothing), how, g.now);
        }
        self.says_load(Load { weight: self.load().try_into().unwrap_or(Load::ENDS.weight).min(Load::ENDS.weight - 1) });
        let mut go = self.followers(g.now);
        if go.is_empty() && self.spreads <= g.now {
            go = self.spread(g.now);
        }
        if !go.is_empty() {
            // What goes now is in the others' figures by then.
            self.spreads = g.now + how.time(SPREADS_APART);
        }
        for (object, to, why) in go {
            hooks::reached(if why == Why::Hosts { CoverageMark::FollowsHosts } else { CoverageMark::SpreadsLoad });
            self.actions.push_back(Action::Goes { object, to, why });
            if let Some(hosted) = self.objects.get_mut(&object) {
                hosted.balance.goes = Some(to);
            }
            self.hands_over(g, object, true);
        }
    }
    fn says_load(&mut self, load: Load) {
        let up = self.reach.iter().filter(|(_, reach)| **reach == Reach::Up);
        self.actions.extend(up.map(|(to, _)| Action::Load { to: *to, load }));
    }
    /// This node is about to end: the others hear it, and do without its copies as soon as its links close; what another node can have goes there, each
    /// to the one with the least to do. Whether something is still on its way: then it is to be called again.
    pub fn ends(&mut self, g: &mut Grants<'_>) -> bool {
        if !core::mem::replace(&mut self.ends, true) {
            self.says_load(Load::ENDS);
        }
        let mut go = Vec::new();
        for (object, hosted) in &self.objects {
            let Some(record) = hosted.owned().filter(|_| hosted.stays <= g.now) else { continue };
            let others: Vec<NodeId> = record.active().map(|c| c.node).filter(|node| self.is_to_have(*node)).collect();
            let less = || others.iter().copied().min_by_key(|node| (self.loads.get(node).copied().unwrap_or_default(), *node));
            let heard = hosted.balance.goes.filter(|to| others.contains(to));
            let Some(to) = heard.or_else(less) else { continue };
            if heard.is_none() {
                *self.loads.entry(to).or_default() += hosted.balance.weight();
            }
            go.push((*object, to));
        }
        for (object, to) in &go {
            if let Some(hosted) = self.objects.get_mut(object) {
                hosted.balance.goes = Some(*to);
            }
            self.hands_over(g, *object, false);
        }
        !go.is_empty()
    }
    /// Whether objects go to other nodes of themselves.
    pub fn balances(&mut self, how: Balancing) {
        self.balancing = how;
    }
    /// Another node has so much to do, or is about to end.
    pub fn loaded(&mut self, node: NodeId, load: Load) {
        if load == Load::ENDS && !hooks::seeded(SeededFault::HandedToWhoEnds) {
            self.ending.insert(node);
        } else {
            self.loads.insert(node, u64::from(load.weight));
        }
    }
    /// What this node has to do.
    fn load(&self) -> u64 {
        let serving = self.objects.values().filter(|hosted| hosted.owner.state() == OwnerState::Serving);
        serving.map(|hosted| hosted.balance.weight()).sum()
    }
    /// Objects that may go, and where: to nodes that are up and have copies in sync, when none is under resync.
    fn may_go(&self, now: Instant) -> impl Iterator<Item = (ObjectId, &Hosted, Vec<NodeId>)> {
        let how = self.balancing;
        self.objects.iter().filter_map(move |(object, hosted)| {
            let free =
                hosted.preferred.is_none() && hosted.balance.may_go(how, now) && hosted.stays <= now && hosted.owner.resync().is_none();
            let record = hosted.owned().filter(|_| free && hosted.owner.state() == OwnerState::Serving)?;
            let others = record.active().map(|c| c.node).filter(|node| self.is_to_have(*node));
            Some((*object, hosted, others.collect()))
        })
    }
    /// Objects whose hosts come by another node.
    fn followers(&self, now: Instant) -> Vec<(ObjectId, NodeId, Why)> {
        let by = |(object, hosted, nodes): (ObjectId, &Hosted, Vec<NodeId>)| {
            let to = hosted.balance.comes_by(self.balancing, now).filter(|to| nodes.contains(to))?;
            Some((object, to, Why::Hosts))
        };
        self.may_go(now).filter_map(by).take(SPREADS).collect()
    }
    /// Objects that are better served by nodes that have less to do, the heaviest first.
    fn spread(&self, now: Instant) -> Vec<(ObjectId, NodeId, Why)> {
        let (me, how, mut mine, mut loads) = (self.me.node, self.balancing, self.load(), self.loads.clone());
        let free = self.may_go(now).filter(|(_, hosted, _)| hosted.balance.is_free(me, how, now));
        let mut free: Vec<(u64, ObjectId, Vec<NodeId>)> =
            free.map(|(object, hosted, nodes)| (hosted.balance.weight(), object, nodes)).collect();
        free.sort_by_key(|(weight, object, _)| (core::cmp::Reverse(*weight), *object));
        let mut go = Vec::new();
        for (weight, object, nodes) in free {
            let theirs = |node: &NodeId| Some((*loads.get(node)?, *node));
            let Some((least, to)) = nodes.iter().filter_map(theirs).min() else { continue };
            let more = mine.saturating_sub(least);
            let nearer = more >= 2 * weight && more * 4 > mine || hooks::seeded(SeededFault::SpreadTooFar) && more > 0;
            if nearer && go.len() < SPREADS {
                mine -= weight;
                loads.insert(to, least + weight);
                go.push((object, to, Why::Load));
            }
        }
        go
    }
}
