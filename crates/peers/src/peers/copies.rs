//! Requests for copies of mirrors, over the links: those of this node's cores, and those of other nodes for what is here.
//!
//! ```text
//!   copies (core c) ──CopyCall──► the core with the lane ══ link ══ peers ──► copies of the other node
//! ```
//!
//! Owns: what is on links of this core, and whose; what of other nodes is with the copies here.
//! Invariants: a core is asked nothing on a link that it does not know to be open, and hears of each that opens and closes, in order; so a node hears
//! the changes of a lane in the order of their numbers. What a node has under way here is bounded, however often its links are cut.
//! Never: keeps a request when its link ends: the copies have it.

use super::*;
use format::peer::{COPIES_VERSION, CopyOutcome};
use object::copies::{CopyAnswer, CopyAsk, CopyCall, CopyDoor};
use object::link::limits::{COPY_BYTES_MAX, COPY_OPS_MAX};

/// What a node may have under way at the copies of a core, on its link and left from earlier ones: so many windows. Beyond, it is to come again.
const WINDOWS_UNDER_WAY_MAX: usize = 2;

/// A request of this node on a link of this core.
struct CopySent {
    node: NodeId,
    core: usize,
    token: u64,
}

/// A request of another node.
struct CopyServed {
    node: NodeId,
    id: ServedId,
    cost: u64,
}

/// See the module.
#[derive(Default)]
pub(super) struct CopyLinks {
    /// Links of this core for copies: their numbers.
    here: BTreeMap<NodeId, u64>,
    opened: u64,
    /// Links that this core's copies use, on whichever core they are.
    used: BTreeMap<NodeId, u64>,
    /// What those have not heard of that.
    news: VecDeque<(NodeId, Option<u64>)>,
    /// They have heard of all.
    introduced: bool,
    sent: Slab<CopySent>,
    answered: VecDeque<(u64, CopyAnswer)>,
    asked: VecDeque<(NodeId, ServedId, CopyAsk)>,
    served: Slab<CopyServed>,
    /// Requests and bytes of these, by node.
    held: BTreeMap<NodeId, (usize, u64)>,
}

impl CopyLinks {
    pub(super) fn is_empty(&self) -> bool {
        self.news.is_empty() && self.answered.is_empty() && self.asked.is_empty() && self.served.is_empty()
    }
    fn change(&mut self, node: NodeId, link: Option<u64>) {
        match link {
            Some(link) => _ = self.used.insert(node, link),
            None => _ = self.used.remove(&node),
        }
        self.news.push_back((node, link));
    }
}

impl Peers {
    /// Brings requests for copies and answers to where they belong.
    #[inline(never)]
    pub(super) fn poll_copies(&mut self, rt: &Rt, door: Option<&mut dyn CopyDoor>) -> bool {
        let asked = std::mem::take(&mut self.copies.asked);
        let Some(door) = door else {
            // Nothing of a mirror is here, or not yet.
            self.copies.introduced = false;
            self.copies.news.clear();
            for (node, id, _) in asked {
                self.answer_copy(node, id, CopyOutcome::Closing.into());
            }
            return false;
        };
        let copies = &mut *self.copies;
        if !std::mem::replace(&mut copies.introduced, true) {
            copies.news = copies.used.iter().map(|(node, link)| (*node, Some(*link))).collect();
        }
        let mut busy = !asked.is_empty() || !copies.news.is_empty() || !copies.answered.is_empty();
        for (node, link) in copies.news.drain(..) {
            match link {
                Some(link) => door.opened(rt, node, link),
                None => door.closed(node),
            }
        }
        for (token, answer) in copies.answered.drain(..) {
            door.answered(rt, token, answer);
        }
        let mut refused = Vec::new();
        for (node, id, ask) in asked {
            let (ops, bytes) = copies.held.entry(node).or_default();
            let cost = ask.cost();
            if *ops >= WINDOWS_UNDER_WAY_MAX * COPY_OPS_MAX || *bytes + cost > WINDOWS_UNDER_WAY_MAX as u64 * COPY_BYTES_MAX {
                refused.push((node, id));
                continue;
            }
            (*ops, *bytes) = (*ops + 1, *bytes + cost);
            let token = copies.served.insert(CopyServed { node, id, cost }) as u64;
            door.serve(rt, node, token, ask);
        }
        busy |= door.poll_copies(rt);
        let (mut calls, mut answers) = (Vec::new(), Vec::new());
        calls.extend(std::iter::from_fn(|| door.pop_call()));
        answers.extend(std::iter::from_fn(|| door.pop_answer()));
        busy |= !calls.is_empty() || !answers.is_empty();
        for (node, id) in refused {
            self.answer_copy(node, id, CopyOutcome::Closing.into());
        }
        for call in calls {
            self.copy_call(call, self.core);
        }
        for (token, answer) in answers {
            let CopyServed { node, id, cost } = self.copies.served.remove(token as usize);
            let (ops, bytes) = self.copies.held.get_mut(&node).expect("it was counted");
            (*ops, *bytes) = (*ops - 1, *bytes - cost);
            self.answer_copy(node, id, answer);
        }
        busy
    }
    /// A node that was removed meanwhile hears nothing.
    fn answer_copy(&mut self, node: NodeId, id: ServedId, answer: CopyAnswer) {
        if let Some(member) = self.members.touch(node)
            && let Some(link) = member.line.link()
        {
            link.answer_copy(id, answer);
        }
    }
    /// A request of a core, for the core that has a lane with the node.
    pub(super) fn copy_call(&mut self, call: CopyCall, core: usize) {
        let Some(lane) = self.lane_with(call.node) else { return };
        if lane != self.core {
            return self.msgs.push_back((lane, PeersMsg::CopyCall(core, Box::new(call))));
        }
        // It is for an earlier link: its core hears of this one, and asks anew.
        if self.copies.here.get(&call.node) != Some(&call.link) {
            return;
        }
        let Some(member) = self.members.touch(call.node) else { return };
        let Some(link) = member.line.link() else { return };
        let token = self.copies.sent.insert(CopySent { node: call.node, core, token: call.token }) as u64;
        link.ask_copy(token, call.ask);
    }
    pub(super) fn copy_asked(&mut self, node: NodeId, id: ServedId, ask: CopyAsk) {
        self.copies.asked.push_back((node, id, ask));
    }
    pub(super) fn copy_answered(&mut self, token: u64, answer: CopyAnswer) {
        let Some(CopySent { core, token, .. }) = self.copies.sent.try_remove(token as usize) else { return };
        if core == self.core {
            self.copies.answered.push_back((token, answer));
        } else {
            self.msgs.push_back((core, PeersMsg::CopyAnswered(token, Box::new(answer))));
        }
    }
    pub(super) fn on_copy_answered(&mut self, token: u64, answer: CopyAnswer) {
        self.copies.answered.push_back((token, answer));
    }
    /// A link of another core, which this one uses, has opened or is closed.
    pub(super) fn on_copy_link(&mut self, node: NodeId, link: Option<u64>) {
        self.copies.change(node, link);
    }
    /// A link of this core has opened.
    pub(super) fn copies_opened(&mut self, node: NodeId, version: u8) {
        if version >= COPIES_VERSION {
            self.copies.opened += 1;
            // Of all links of all cores.
            let link = self.copies.opened * rt::MESH_CORES_MAX as u64 + self.core as u64;
            self.copies.here.insert(node, link);
            self.say_copy_link(node, Some(link));
        }
    }
    /// It is closed.
    pub(super) fn copies_closed(&mut self, node: NodeId) {
        if self.copies.here.remove(&node).is_some() {
            self.copies.sent.retain(|_, sent| sent.node != node);
            self.say_copy_link(node, None);
        }
    }
    fn say_copy_link(&mut self, node: NodeId, link: Option<u64>) {
        self.copies.change(node, link);
        let lanes = self.members.get(node).map_or(1, |m| usize::from(m.lanes));
        let others = (self.core + lanes..self.cores).step_by(lanes);
        self.msgs.extend(others.map(|core| (core, PeersMsg::CopyLink(node, link))));
    }
}
