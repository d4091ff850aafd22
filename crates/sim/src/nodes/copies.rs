//! Copies of volumes that come and go in a simulated cluster: decided through any node, made and deleted by the nodes that have them.
//!
//! Invariants: a component is deleted only when its node does not serve it any more; what cannot be done now is done later.
//! Never: decides where copies go (`cluster::copies_change` does); moves data.

use super::node::Node;
use super::plan::NodesPlan;
use super::records::{group_of, name_of};
use base::{ComponentId, CopyState, Epoch, VolumeId};
use cluster::record::{ComponentRecord, ObjectRecord, PolicyRecord, VolumeRecord};
use cluster::{DeviceInventory, GroupInventory, GroupSeen, Inventory, NodeInventory};
use dataplane::{ComponentNo, component_spec};
use directory::{DirectoryError, Transaction, Typed};
use std::collections::BTreeSet;

/// What each capacity device says that it can hold, in bytes: more than is ever asked for.
const DEVICE_BYTES: u64 = 1 << 40;

/// What nodes say that there is.
pub(super) fn inventory(plan: &NodesPlan) -> Inventory {
    let devices = || vec![DeviceInventory { index: 0, bytes: DEVICE_BYTES, free_bytes: DEVICE_BYTES, promised_bytes: 0 }];
    let group = |node: usize| GroupInventory { id: group_of(node), read_cache: false, devices: devices() };
    let node = |node: usize| NodeInventory { name: name_of(node), fault_domain: name_of(node), groups: vec![group(node)] };
    Inventory { nodes: (0..plan.nodes.len()).map(node).collect(), ..Inventory::default() }
}

impl Node {
    /// The policy of a volume asks for so many copies from now on; where it did already, those that are out are made anew elsewhere.
    pub(super) async fn has_copies(&self, id: VolumeId, copies: usize) {
        let policy = || {
            let Some(volume) = self.way.find::<VolumeRecord>(&id.to_string())? else { return Ok(Transaction::new()) };
            let Some(mut policy) = self.way.find::<PolicyRecord>(&volume.policy)? else { return Ok(Transaction::new()) };
            policy.value.policy.failures_to_tolerate = copies as u8 - 1;
            Ok(Transaction::new().update(&policy))
        };
        if self.change(policy).await.is_err() {
            return;
        }
        // Decided as often as another change of the object is under way.
        for _ in 0..20 {
            let adapted = self.change(|| self.adapted(id)).await;
            if let Ok(at) = adapted
                && self.serve(at).await.is_ok()
                && self.work().await.is_ok()
            {
                return;
            }
            self.moment.sleep(100_000_000).await;
        }
    }
    fn adapted(&self, id: VolumeId) -> Result<Transaction, DirectoryError> {
        let nothing = Transaction::new();
        let Some(volume) = self.way.find::<VolumeRecord>(&id.to_string())? else { return Ok(nothing) };
        let (Some(policy), Some(mut object)) =
            (self.way.find::<PolicyRecord>(&volume.policy)?, self.way.find::<ObjectRecord>(&volume.object.to_string())?)
        else {
            return Ok(nothing);
        };
        // To ask for what there is already: those that are out are not waited for any more.
        let has = object.mirrors.first().map(|copies| copies.iter().filter(|c| !c.leaving).count());
        let is_out = |c: &&ComponentRecord| matches!(c.state, CopyState::Absent | CopyState::Stale) && c.synced_to > Epoch(0);
        let out = object.components().filter(|_| has == Some(policy.policy.copies())).filter(is_out);
        let lost: BTreeSet<ComponentId> = out.map(|c| c.id).collect();
        // There may not be enough nodes.
        let Ok(Some(change)) = cluster::copies_change(&self.inventory, &policy.policy, &object, &lost) else { return Ok(nothing) };
        change.apply(&mut object.value, || ComponentId::from_bytes(self.nonce().0));
        Ok(Transaction::new().update(&object).hold(&volume).hold(&policy))
    }

    /// Makes the copies of a volume that are to be here, deletes those that leave.
    pub(super) async fn finish_copies(&self, id: VolumeId) -> Result<(), DirectoryError> {
        let Some(volume) = self.way.find::<VolumeRecord>(&id.to_string())? else { return Ok(()) };
        let Some(mut object) = self.way.find::<ObjectRecord>(&volume.object.to_string())? else { return Ok(()) };
        let here = |c: &ComponentRecord| c.node == self.name;
        if object.components().any(|c| here(c) && c.leaving) {
            self.serve(object.revision).await?;
        }
        for (mirror, copy) in object.places() {
            let c = object.mirrors[mirror][copy].clone();
            if !here(&c) || c.is_used() {
                continue;
            }
            let no = match c.no {
                Some(no) => no,
                None => self.makes(&object, &volume, (mirror, copy)).await?,
            };
            if c.leaving {
                let deleted = self.answer(self.commands().delete_component(c.group, ComponentNo(no))).await;
                deleted.map_err(|_| DirectoryError::Unavailable)?;
            }
            if let Some(GroupSeen::Open(found)) = self.live.borrow_mut().observed.groups.get_mut(&c.group) {
                if c.leaving {
                    found.remove(&c.id)
                } else {
                    found.insert(c.id, no)
                };
            }
            object.value.mirrors[mirror][copy].no = Some(no);
        }
        object.value.mirrors.iter_mut().for_each(|copies| copies.retain(|c| !(here(c) && c.leaving)));
        self.commit_as(Transaction::new().update(&object), self.nonce()).await.map(drop)
    }
    async fn makes(&self, object: &ObjectRecord, volume: &VolumeRecord, (mirror, copy): (usize, usize)) -> Result<u32, DirectoryError> {
        let (group, spec) = (object.mirrors[mirror][copy].group, component_spec(volume, object, mirror, copy));
        let made = self.answer(self.commands().create_component(group, spec)).await;
        made.map(|no| no.0).map_err(|_| DirectoryError::Unavailable)
    }
}
