//! Lists of chunks: what copies on other nodes are asked for a resync, and what other nodes ask of copies here. Both on core 0.
//!
//! Owns: [`Lists`]: who waits for which answer, and what was asked and is not answered.
//! Invariants: what is asked of another node is answered once, or not when its link ends; at most [`LISTS_MAX`] requests of other nodes wait.
//! Never: reads a chunk: whoever drives core 0 does ([`ListAsk`]).

use super::{Copies, CopyAnswer, CopyAsk, CopyCall};
use crate::lanes::Blocks;
use crate::router::VolumeRouter;
use base::NodeId;
use format::peer::{CopyOutcome, List};
use rt::Rt;
use rt::sync::{OneReceiver, OneSender, oneshot};
use std::collections::{BTreeMap, VecDeque};

/// Requests of other nodes that wait. Beyond, they are to come again.
const LISTS_MAX: usize = 256;

/// Another node asks for chunks of a copy here. It owns the object, as far as is known here.
#[derive(Debug)]
pub struct ListAsk {
    /// For [`VolumeRouter::answer_list`].
    pub token: u64,
    /// What it asks.
    pub list: List,
}

/// See the module.
#[derive(Default)]
pub(super) struct Lists {
    /// By token, with the node.
    waiting: BTreeMap<u64, (NodeId, OneSender<CopyAnswer>)>,
    asks: VecDeque<ListAsk>,
}

impl Copies {
    /// A node asks for chunks.
    pub(super) fn list_asked(&mut self, rt: &Rt, token: u64, list: List) {
        if rt.core() != 0 || self.lists.asks.len() >= LISTS_MAX {
            return self.answers.push_back((token, CopyOutcome::Closing.into()));
        }
        self.lists.asks.push_back(ListAsk { token, list });
        rt.wake(self.core);
    }
    /// A node has answered; `false`: that was no list.
    pub(super) fn list_answered(&mut self, token: u64, answer: CopyAnswer) -> Option<CopyAnswer> {
        let Some((_, waiting)) = self.lists.waiting.remove(&token) else { return Some(answer) };
        // Nobody waits any more when the command's task was ended by a shutdown.
        let _ = waiting.send(answer);
        None
    }
    /// The link with a node is another one, or none.
    pub(super) fn lists_lost(&mut self, node: NodeId) {
        self.lists.waiting.retain(|_, (of, _)| *of != node);
    }
}

impl<S: Blocks> VolumeRouter<S> {
    /// Core 0: what another node asks next of a copy here. Each is answered by [`VolumeRouter::answer_list`].
    pub fn pop_list_ask(&mut self) -> Option<ListAsk> {
        self.lanes_mut().copies.as_mut()?.lists.asks.pop_front()
    }
    /// Answers that.
    pub fn answer_list(&mut self, rt: &Rt, token: u64, answer: CopyAnswer) {
        let copies = self.lanes_mut().copies(rt);
        copies.answers.push_back((token, answer));
        rt.wake(rt.core());
    }
    /// Core 0: asks a node for chunks of a copy there. Nothing comes back when there is no link for that, or it ends: it is to be asked again.
    pub fn ask_list(&mut self, rt: &Rt, node: NodeId, list: List) -> OneReceiver<CopyAnswer> {
        let (sender, receiver) = oneshot();
        let copies = self.lanes_mut().copies(rt);
        if let Some(&link) = copies.links.get(&node) {
            copies.tokens += 1;
            copies.lists.waiting.insert(copies.tokens, (node, sender));
            copies.calls.push_back(CopyCall { node, link, token: copies.tokens, ask: CopyAsk::List(list) });
            rt.wake(copies.core);
        }
        receiver
    }
}
