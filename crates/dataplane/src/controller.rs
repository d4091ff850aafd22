//! What core 0 asks a core to do, and how a core does it.
//!
//! Owns: calls from being asked until they are answered.
//! Invariants: `Core` is borrowed only between two awaits; a call is answered exactly once.
//! Never: decides what a command is made of (that is `command`).

use crate::{
    core_state::Core,
    error::DataPlaneError,
    message::{Answer, Call, CoreMsg},
    ownership::CopyOrder,
    stats::{CoreSnapshot, ShardSnapshot},
};
use base::Duration;
use base::hooks::{self, CoverageMark, SeededFault};
use frontend::FrontEnd;
use object::{FillSays, GroupSlot, VolumeRef};
use rt::Rt;
use rt::sync::oneshot;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use store::{Group, Settings, Shard};

/// A command: what core 0 runs.
pub type Command<F> = Box<dyn FnOnce(CoreController<F>) + Send>;

/// How often a drain looks whether all is quiet.
pub(crate) const QUIET_POLL: Duration = Duration::from_millis(1);
/// How long a shutdown waits for requests under way.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// How long it waits before for other nodes to get what this one owns: an owner that has not drained by then stays the owner.
const HAND_OVER_MAX: Duration = Duration::from_secs(3);
/// And at least: what another node that ends was about to hand over here comes by then, and goes on.
const HAND_OVER_MIN: Duration = Duration::from_millis(100);
/// How long a shutdown waits for the checkpoints.
const CHECKPOINT_MAX: Duration = Duration::from_secs(30);

/// Core 0, as a command sees it.
pub(crate) struct CoreController<F: FrontEnd> {
    pub(crate) core: Rc<RefCell<Core<F>>>,
    pub(crate) rt: Rt,
}

impl<F: FrontEnd> Clone for CoreController<F> {
    fn clone(&self) -> Self {
        Self { core: Rc::clone(&self.core), rt: self.rt.clone() }
    }
}

impl<F: FrontEnd> CoreController<F> {
    /// Asks a core to do something and waits for its answer.
    pub(crate) async fn call(&self, core: usize, call: Call<Arc<F::View>>) -> Answer<F::Figures> {
        if core == self.rt.core() {
            return self.perform(call).await;
        }
        let (sender, receiver) = oneshot();
        {
            let mut mine = self.core.borrow_mut();
            let id = mine.calls.insert(sender) as u32;
            mine.out.push_back((core, CoreMsg::Call { id, call }));
        }
        self.rt.wake(self.rt.core());
        receiver.await.unwrap_or(Answer::Done(Err(DataPlaneError::Stopped)))
    }

    /// Asks every core, one after another; stops at the first that fails.
    pub(crate) async fn call_all(&self, call: Call<Arc<F::View>>) -> Result<(), DataPlaneError> {
        for core in 0..self.rt.cores() {
            done(self.call(core, call.clone()).await)?;
        }
        Ok(())
    }

    pub(crate) async fn perform(&self, call: Call<Arc<F::View>>) -> Answer<F::Figures> {
        let result = match call {
            Call::OpenShard { slot, no, group, settings } => self.open_shard(slot, no, group, settings).await,
            Call::CloseShards { slot } => {
                self.quiesce_shards(Some(slot)).await;
                let mut core = self.core.borrow_mut();
                drop(core.router.lanes_mut().remove_group(slot));
                core.groups.remove(&slot);
                Ok(())
            }
            Call::Route { slot, route } => {
                self.core.borrow_mut().router.set_route(slot, route);
                Ok(())
            }
            Call::AddComponent { slot, no, info } => {
                let mut core = self.core.borrow_mut();
                core.router.lanes_mut().shards_mut().filter(|(s, ..)| *s == slot).for_each(|(_, _, shard)| shard.add_component(no, &info));
                Ok(())
            }
            Call::DropComponent { .. } if hooks::seeded(SeededFault::DroppedOnOneCore) && self.rt.core() > 0 => Ok(()),
            Call::DropComponent { slot, no } => {
                let mut core = self.core.borrow_mut();
                core.router
                    .lanes_mut()
                    .shards_mut()
                    .filter(|(s, ..)| *s == slot)
                    .for_each(|(_, _, shard)| shard.drop_component(&self.rt, no));
                core.router.lanes_mut().forget(&self.rt, object::ComponentAt { group: slot, no });
                Ok(())
            }
            Call::AddCapacity { slot, new } => {
                let mut core = self.core.borrow_mut();
                core.router.lanes_mut().shards_mut().filter(|(s, ..)| *s == slot).for_each(|(_, _, shard)| shard.add_capacity(&new));
                Ok(())
            }
            Call::RemoveCapacity { slot, index } => {
                let is_vacant = |core: &Core<F>| {
                    let mut shards = core.router.lanes().shards().filter(|(s, ..)| *s == slot);
                    shards.all(|(_, _, shard)| shard.is_vacant(index))
                };
                while !is_vacant(&self.core.borrow()) {
                    self.rt.sleep(QUIET_POLL).await;
                }
                let mut core = self.core.borrow_mut();
                core.router.lanes_mut().shards_mut().filter(|(s, ..)| *s == slot).for_each(|(_, _, shard)| shard.remove_capacity(index));
                Ok(())
            }
            Call::Apply { layout, view } => {
                let core = &mut *self.core.borrow_mut();
                if hooks::seeded(SeededFault::GrowthOnOneCore) && self.rt.core() > 0 && core.router.layout(VolumeRef(0)).is_some() {
                    return Answer::Done(Ok(()));
                }
                let protects = |v: &Arc<object::VolumeLayout>| v.read_only;
                if hooks::seeded(SeededFault::ProtectedOnOneCore) && self.rt.core() > 0 && layout.volumes.iter().flatten().any(protects) {
                    return Answer::Done(Ok(()));
                }
                let front = &mut core.front;
                front.serve(&self.rt, view);
                core.router.apply(&self.rt, layout, |request| front.may_begin(&self.rt, request.token));
                Ok(())
            }
            Call::Settle { volume, end } => {
                while self.core.borrow().router.reaches_behind(volume, end) {
                    self.rt.sleep(QUIET_POLL).await;
                }
                Ok(())
            }
            Call::Confirm { volume, revision } => {
                while !self.core.borrow().front.is_settled(volume, revision) {
                    self.rt.sleep(QUIET_POLL).await;
                }
                Ok(())
            }
            Call::Answer { id, result } => {
                self.core.borrow_mut().front.on_answer(&self.rt, id, result);
                Ok(())
            }
            Call::Settings(settings) => {
                let mut core = self.core.borrow_mut();
                core.router.lanes_mut().shards_mut().for_each(|(_, _, shard)| shard.set_settings(settings));
                Ok(())
            }
            Call::Copies { here, orders } => {
                let router = &mut self.core.borrow_mut().router;
                for (volume, order) in orders.iter() {
                    match order {
                        CopyOrder::Cell(cell) => router.set_cell(&self.rt, *volume, cell.clone()),
                        CopyOrder::Command(command) => _ = router.copy_command(&self.rt, here, *volume, command),
                    }
                }
                Ok(())
            }
            Call::OfCopies(ask) => return Answer::OfCopies(Box::pin(self.of_copies(*ask)).await),
            Call::Fill { from, order } => {
                let says = self.core.borrow_mut().router.lanes_mut().fill(from, &order);
                return Answer::OfFill(says);
            }
            Call::Holding { volume, window } => {
                let holding = self.core.borrow().router.holding(volume, &window);
                return Answer::OfFill(FillSays::Done(holding));
            }
            Call::Hold(volume) => {
                self.core.borrow_mut().router.hold(volume);
                Ok(())
            }
            Call::Quiet(volume) => self.quiet(volume).await,
            Call::Release(volume) => {
                let core = &mut *self.core.borrow_mut();
                let front = &mut core.front;
                core.router.release(&self.rt, volume, |request| front.may_begin(&self.rt, request.token));
                self.rt.wake(self.rt.core());
                Ok(())
            }
            Call::Scrub { slot } => {
                let mut core = self.core.borrow_mut();
                core.router.lanes_mut().shards_mut().filter(|(s, ..)| *s == slot).for_each(|(_, _, shard)| shard.start_scrub(&self.rt));
                Ok(())
            }
            Call::Requests => return Answer::Requests(self.core.borrow_mut().requests()),
            Call::Stats => return Answer::Stats(Box::new(self.snapshot())),
            Call::Check => {
                self.core.borrow().router.lanes().shards().for_each(|(_, _, shard)| shard.check());
                Ok(())
            }
            Call::EndHosts => self.end_hosts().await,
            Call::Drain => self.drain().await,
            Call::Stop => {
                self.core.borrow_mut().stop = true;
                Ok(())
            }
        };
        Answer::Done(result)
    }

    async fn open_shard(&self, slot: GroupSlot, no: u8, group: Group, settings: Settings) -> Result<(), DataPlaneError> {
        let shard = Shard::open(&self.rt, &group, no, settings).await?;
        let mut core = self.core.borrow_mut();
        core.router.lanes_mut().add_shard(slot, no, shard);
        core.groups.insert(slot, group.info().group);
        Ok(())
    }

    /// Objects that other nodes can have go there while this one still serves what comes: its hosts wait no longer than for any other hand-over.
    pub(crate) async fn hand_over(&self) {
        let started = self.rt.now();
        while self.rt.now().since(started) <= HAND_OVER_MAX {
            {
                let core = &mut *self.core.borrow_mut();
                let (Some(ownership), Some(links)) = (&mut core.ownership, core.front.control_links()) else { break };
                if !ownership.hands_all_over(links, self.rt.boot_clock()) && self.rt.now().since(started) >= HAND_OVER_MIN {
                    break;
                }
            }
            self.rt.wake(self.rt.core());
            self.rt.sleep(QUIET_POLL).await;
        }
    }

    /// Hosts first, while there are links to copies on other nodes: a change that missed one would make the owner take that copy away, and nobody
    /// could take over then.
    async fn end_hosts(&self) -> Result<(), DataPlaneError> {
        self.core.borrow_mut().front.begin_shutdown(&self.rt);
        let started = self.rt.now();
        while !self.core.borrow().front.is_quiet() && self.rt.now().since(started) <= DRAIN_MAX {
            self.rt.sleep(QUIET_POLL).await;
        }
        Ok(())
    }

    /// Links to other nodes, then what is under way, then the shards with their checkpoints.
    async fn drain(&self) -> Result<(), DataPlaneError> {
        {
            let core = &mut *self.core.borrow_mut();
            core.front.leave_nodes(&self.rt);
            if let Some(ownership) = &mut core.ownership {
                ownership.leave();
            }
        }
        let started = self.rt.now();
        loop {
            {
                let mut core = self.core.borrow_mut();
                let late = self.rt.now().since(started) > DRAIN_MAX;
                if late || core.front.is_quiet() && core.router.is_idle() {
                    core.router.begin_shutdown();
                    break;
                }
            }
            hooks::reached(CoverageMark::DrainWaits);
            self.rt.sleep(QUIET_POLL).await;
        }
        self.quiesce_shards(None).await;
        Ok(())
    }

    async fn quiesce_shards(&self, slot: Option<GroupSlot>) {
        let is_ours = |s: GroupSlot| slot.is_none_or(|slot| slot == s);
        let begin = |core: &mut Core<F>| {
            core.router.lanes_mut().shards_mut().filter(|(s, ..)| is_ours(*s)).for_each(|(_, _, shard)| shard.begin_shutdown(&self.rt));
        };
        begin(&mut self.core.borrow_mut());
        let started = self.rt.now();
        loop {
            let quiet = self.core.borrow().router.lanes().shards().filter(|(s, ..)| is_ours(*s)).all(|(_, _, shard)| shard.is_quiet());
            if quiet || self.rt.now().since(started) > CHECKPOINT_MAX {
                return; // Not quiet in time: nothing is lost, the next start replays the log.
            }
            self.rt.sleep(QUIET_POLL).await;
        }
    }

    fn snapshot(&self) -> CoreSnapshot<F::Figures> {
        let core = self.core.borrow();
        let shards = core.router.lanes().shards();
        let shards = shards
            .filter_map(|(slot, shard, s)| Some(ShardSnapshot { group: *core.groups.get(&slot)?, shard, stats: s.stats() }))
            .collect();
        CoreSnapshot { core: self.rt.core(), reactor: self.rt.stats(), router: core.router.stats(), shards, front: core.front.figures() }
    }
}

/// The answer to a call that gives no figures.
pub(crate) fn done<S>(answer: Answer<S>) -> Result<(), DataPlaneError> {
    match answer {
        Answer::Done(result) => result,
        Answer::Stats(_) | Answer::OfCopies(_) | Answer::OfFill(_) | Answer::Requests(_) => {
            unreachable!("only what asks for figures, copies or fills is answered so")
        }
    }
}
