//! Storage policies: create, list, change, delete.

use super::*;
use crate::api::types as api;
use cluster::Policy;

/// The most policies of a cluster.
pub const POLICIES_MAX: usize = 256;

impl Control {
    /// All policies, by name.
    pub fn policies(&self) -> Result<Vec<api::Policy>, Problem> {
        let inventory = self.inventory()?;
        self.directory.all::<PolicyRecord>()?.iter().map(|p| self.show_policy(p, &inventory)).collect()
    }

    /// One policy.
    pub fn policy(&self, name: &str) -> Result<api::Policy, Problem> {
        self.show_policy(&self.policy_record(name)?.value, &self.inventory()?)
    }

    /// Makes a policy.
    pub fn create_policy(&self, new: &api::PolicyChange) -> Result<api::Policy, Problem> {
        let _change = self.lock();
        let name = new.name.as_deref().ok_or_else(|| Problem::invalid("a new policy needs a name", "give it one"))?;
        cluster::check_name(name)?;
        if self.directory.find::<PolicyRecord>(&name.to_ascii_lowercase())?.is_some() {
            return Err(Problem::exists("policy", name));
        }
        if self.directory.list(Kind::Policy)?.len() >= POLICIES_MAX {
            return Err(Problem::refused(format!("there are {POLICIES_MAX} policies already"), "delete some that are not needed"));
        }
        let policy = changed(Policy::default(), new);
        policy.check()?;
        let record = PolicyRecord { name: name.into(), policy, created_unix_s: now_unix_s() };
        self.commit(Transaction::new().create(&record))?;
        tracing::info!(policy = name, "policy created");
        self.policy(name)
    }

    /// Changes a policy, and with it all volumes that have it.
    pub fn change_policy(&self, name: &str, change: &api::PolicyChange) -> Result<api::Policy, Problem> {
        let _change = self.lock();
        let mut record = self.policy_record(name)?;
        if change.name.as_ref().is_some_and(|n| !n.eq_ignore_ascii_case(&record.name)) {
            return Err(Problem::invalid(
                "a policy keeps its name",
                "make a new policy, and give it to the volumes with 'basalt volume set'",
            ));
        }
        let before = record.policy.clone();
        record.value.policy = changed(before.clone(), change);
        record.policy.check()?;
        let users: Vec<_> = self.directory.all::<VolumeRecord>()?.into_iter().filter(|v| v.policy == record.id()).collect();
        for volume in users.iter().filter(|v| v.stage == Stage::Ready) {
            self.refuse_other_layout(volume, &record)?;
        }
        self.commit(Transaction::new().update(&record))?;
        let outcome =
            if record.policy.space_reservation_percent == before.space_reservation_percent { Ok(()) } else { self.reserve_anew(users) };
        if let Err(problem) = outcome {
            // back to what it was, so that the policy promises what its volumes have
            let mut record = self.policy_record(name)?;
            record.value.policy = before;
            self.commit(Transaction::new().update(&record))?;
            let users = self.directory.all::<VolumeRecord>()?.into_iter().filter(|v| v.policy == record.id()).collect();
            self.reserve_anew(users)?;
            self.apply()?;
            return Err(problem);
        }
        self.apply()?;
        tracing::info!(policy = %record.name, "policy changed");
        self.policy(name)
    }

    fn reserve_anew(&self, users: Vec<Versioned<VolumeRecord>>) -> Result<(), Problem> {
        for mut volume in users.into_iter().filter(|v| v.stage == Stage::Ready) {
            volume.value.resize_to = Some(volume.bytes);
            self.commit(Transaction::new().update(&volume))?;
            let volume = self.again::<VolumeRecord>(&volume.id())?;
            self.finish_resize(volume)?;
        }
        Ok(())
    }

    /// Deletes a policy that no volume has.
    pub fn delete_policy(&self, name: &str) -> Result<(), Problem> {
        let _change = self.lock();
        let record = self.policy_record(name)?;
        let users = self.policy_users(&record)?;
        if users > 0 {
            return Err(Problem::refused(
                format!("policy {} is that of {users} volume(s)", record.name),
                "give them another with 'basalt volume set NAME --policy OTHER', or delete them",
            ));
        }
        if record.id() == DEFAULT_NAME {
            return Err(Problem::refused(
                "the policy 'default' is what volumes get when none is named",
                "change it with 'basalt policy set'",
            ));
        }
        self.commit(Transaction::new().remove(&record))?;
        tracing::info!(policy = %record.name, "policy deleted");
        Ok(())
    }

    pub(super) fn policy_record(&self, name: &str) -> Result<Versioned<PolicyRecord>, Problem> {
        self.directory.find(&name.to_ascii_lowercase())?.ok_or_else(|| Problem::not_found("policy", name, "policy list"))
    }

    fn policy_users(&self, record: &PolicyRecord) -> Result<u32, Problem> {
        Ok(self.directory.all::<VolumeRecord>()?.iter().filter(|v| v.policy == record.id()).count() as u32)
    }

    fn show_policy(&self, record: &PolicyRecord, inventory: &cluster::Inventory) -> Result<api::Policy, Problem> {
        let p = &record.policy;
        Ok(api::Policy {
            name: record.name.clone(),
            failures_to_tolerate: p.failures_to_tolerate,
            stripe_width: p.stripe_width,
            space_reservation_percent: p.space_reservation_percent,
            read_cache_reservation_percent: p.read_cache_reservation_percent,
            iops_limit: p.iops_limit,
            bandwidth_limit: p.bandwidth_limit,
            checksum: p.checksum,
            force_provisioning: p.force_provisioning,
            volumes: self.policy_users(record)?,
            not_possible: p.shortfalls(inventory).iter().map(ToString::to_string).collect(),
            created_unix_s: record.created_unix_s,
        })
    }
}

/// A policy with what a change gives; a limit of 0 takes the limit away.
fn changed(policy: Policy, change: &api::PolicyChange) -> Policy {
    let limit = |new: Option<u64>, old: Option<u64>| new.map_or(old, |n| (n > 0).then_some(n));
    Policy {
        failures_to_tolerate: change.failures_to_tolerate.unwrap_or(policy.failures_to_tolerate),
        stripe_width: change.stripe_width.unwrap_or(policy.stripe_width),
        space_reservation_percent: change.space_reservation_percent.unwrap_or(policy.space_reservation_percent),
        read_cache_reservation_percent: change.read_cache_reservation_percent.unwrap_or(policy.read_cache_reservation_percent),
        iops_limit: limit(change.iops_limit, policy.iops_limit),
        bandwidth_limit: limit(change.bandwidth_limit, policy.bandwidth_limit),
        checksum: change.checksum.unwrap_or(policy.checksum),
        force_provisioning: change.force_provisioning.unwrap_or(policy.force_provisioning),
    }
}
