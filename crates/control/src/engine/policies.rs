//! Storage policies: create, list, change, delete.

use super::*;
use crate::api::types as api;
use cluster::{Finish, Policy};

/// The most policies of a cluster.
pub const POLICIES_MAX: usize = 256;

/// A policy as it is to be.
struct ChangedPolicy {
    record: Versioned<PolicyRecord>,
    before: Policy,
    users: Vec<String>,
}

impl ChangedPolicy {
    /// Whether its volumes have to reserve other space than before.
    fn reserves_anew(&self) -> bool {
        self.record.policy.space_reservation_percent != self.before.space_reservation_percent
    }
}

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
        let name = new.name.as_deref().ok_or_else(|| Problem::invalid("a new policy needs a name", "give it one"))?;
        cluster::check_name(name)?;
        let policy = changed(Policy::default(), new);
        policy.check()?;
        let record = PolicyRecord::new(name.into(), policy, now_unix_s());
        self.decided(|| {
            if self.directory.find::<PolicyRecord>(&record.id())?.is_some() {
                return Err(Problem::exists("policy", name));
            }
            if self.directory.list(Kind::Policy)?.len() >= POLICIES_MAX {
                return Err(Problem::refused(format!("there are {POLICIES_MAX} policies already"), "delete some that are not needed"));
            }
            Ok((Transaction::new().create(&record), ()))
        })?;
        tracing::info!(policy = name, "policy created");
        self.policy(name)
    }

    /// Changes a policy, and with it all volumes that have it.
    pub fn change_policy(&self, name: &str, change: &api::PolicyChange) -> Result<api::Policy, Problem> {
        // What is reserved is kept on the devices.
        let devices = change.space_reservation_percent.is_some().then(|| self.devices());
        let (at, new) = self.decided(|| {
            let mut new = self.changed_policy(name, change)?;
            if new.reserves_anew() {
                if new.record.before.is_some() {
                    return Err(Problem::new(
                        crate::Code::Unavailable,
                        format!("the volumes of policy {} are just following an earlier change", new.record.name),
                        "'basalt status' says what holds it up; try again when it is done",
                    ));
                }
                // Whoever leads sees to it that all volumes follow, or none.
                new.record.value.before = Some(new.before.clone());
            }
            Ok((Transaction::new().update(&new.record), new))
        })?;
        let anew = new.reserves_anew();
        if anew {
            if let Err(problem) = self.reserve_anew(&new.users) {
                self.take_back(&new.record.name, &new.record.policy, &new.before)?;
                return Err(problem);
            }
            self.followed_policy(&new.record.name)?;
            self.apply()?
        } else {
            self.serve(at)?
        }
        drop(devices);
        tracing::info!(policy = %new.record.name, "policy changed");
        self.policy(name)
    }

    /// A policy as a change makes it, when all volumes that have it can follow.
    fn changed_policy(&self, name: &str, change: &api::PolicyChange) -> Result<ChangedPolicy, Problem> {
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
        let users = self.users_of(&record)?;
        for volume in &users {
            self.refuse_other_layout(volume, &record)?;
        }
        let users = users.iter().filter(|v| v.stage == Stage::Ready).map(|v| v.id()).collect();
        Ok(ChangedPolicy { record, before, users })
    }

    /// Volumes that have a policy. One that is being made has its places already.
    fn users_of(&self, policy: &PolicyRecord) -> Result<Vec<Versioned<VolumeRecord>>, Problem> {
        let all = self.directory.all::<VolumeRecord>()?;
        Ok(all.into_iter().filter(|v| v.policy == policy.id() && v.stage != Stage::Deleting).collect())
    }

    /// Back to what it was, so that the policy promises what its volumes have. What others have changed of it since stays.
    fn take_back(&self, name: &str, changed: &Policy, before: &Policy) -> Result<(), Problem> {
        let (_, users) = self.decided(|| {
            let mut record = self.policy_record(name)?;
            record.value.policy = taken_back(&record.policy, changed, before);
            let users: Vec<String> = self.users_of(&record)?.iter().map(|v| v.id()).collect();
            Ok((Transaction::new().update(&record), users))
        })?;
        self.reserve_anew(&users)?;
        self.followed_policy(name)?;
        self.apply()
    }

    /// Every volume has followed.
    fn followed_policy(&self, name: &str) -> Result<(), Problem> {
        let followed = || {
            let mut record = self.policy_record(name)?;
            let changed = record.value.before.take().is_some();
            Ok((if changed { Transaction::new().update(&record) } else { Transaction::new() }, ()))
        };
        self.decided(followed).map(drop)
    }

    /// A policy was changed, and who was seeing to its volumes is gone: they follow, or all go back.
    pub(super) fn finish_policy(&self, key: &str) -> Result<(), Problem> {
        let Some(record) = self.directory.find::<PolicyRecord>(key)? else { return Ok(()) };
        let Some(before) = record.before.clone() else { return Ok(()) };
        let users: Vec<String> = self.users_of(&record)?.iter().filter(|v| v.stage == Stage::Ready).map(|v| v.id()).collect();
        match self.reserve_anew(&users) {
            Ok(()) => self.followed_policy(&record.name)?,
            Err(problem) if problem.code == crate::Code::NoSpace && record.policy != before => {
                return self.take_back(&record.name, &record.policy, &before);
            }
            Err(problem) => return Err(problem),
        }
        self.apply()
    }

    fn reserve_anew(&self, users: &[String]) -> Result<(), Problem> {
        for id in users {
            // What somebody has begun with it is finished first.
            let begun = |v: &VolumeRecord| v.format_to.is_some() || v.resize_to.is_some_and(|to| to != v.bytes);
            if self.directory.find::<VolumeRecord>(id)?.is_some_and(|v| v.stage == Stage::Ready && begun(&v)) {
                self.settled(id)?;
            }
            let marked = self.decided(|| {
                let Some(mut volume) = self.directory.find::<VolumeRecord>(id)?.filter(|v| v.stage == Stage::Ready) else {
                    return Ok((Transaction::new(), false));
                };
                if begun(&volume) {
                    return Err(Problem::new(
                        crate::Code::Unavailable,
                        format!("volume {} is just being resized or formatted", volume.name),
                        "try again when that is done",
                    ));
                }
                volume.value.resize_to = Some(volume.bytes);
                Ok((Transaction::new().update(&volume), true))
            })?;
            if marked.1 {
                let Some(volume) = self.directory.find::<VolumeRecord>(id)? else { continue };
                match self.carry_through(volume, Finish::Resize) {
                    // It was deleted meanwhile.
                    Err(problem) if problem.code == crate::Code::NotFound => {}
                    other => other?,
                }
            }
        }
        Ok(())
    }

    /// Deletes a policy that no volume has.
    pub fn delete_policy(&self, name: &str) -> Result<(), Problem> {
        // A volume that is just being given another policy may have to go back to this one.
        let _devices = self.devices();
        let (_, name) = self.decided(|| {
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
            Ok((Transaction::new().remove(&record), record.value.name))
        })?;
        tracing::info!(policy = %name, "policy deleted");
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
            slow_copies_leave: p.slow_copies_leave,
            repair_after_s: p.repair_after_s,
            volumes: self.policy_users(record)?,
            not_possible: p.shortfalls(inventory).iter().map(ToString::to_string).collect(),
            created_unix_s: record.created_unix_s,
        })
    }
}

/// A policy with what a change gives; a limit of 0 takes the limit away, and so does a time of 0.
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
        slow_copies_leave: change.slow_copies_leave.unwrap_or(policy.slow_copies_leave),
        repair_after_s: limit(change.repair_after_s, policy.repair_after_s),
    }
}

/// A policy whose change is taken back: what still is as the change made it is as it was before.
fn taken_back(now: &Policy, changed: &Policy, before: &Policy) -> Policy {
    fn field<T: PartialEq + Copy>(now: T, changed: T, before: T) -> T {
        if now == changed { before } else { now }
    }
    Policy {
        failures_to_tolerate: field(now.failures_to_tolerate, changed.failures_to_tolerate, before.failures_to_tolerate),
        stripe_width: field(now.stripe_width, changed.stripe_width, before.stripe_width),
        space_reservation_percent: field(
            now.space_reservation_percent,
            changed.space_reservation_percent,
            before.space_reservation_percent,
        ),
        read_cache_reservation_percent: field(
            now.read_cache_reservation_percent,
            changed.read_cache_reservation_percent,
            before.read_cache_reservation_percent,
        ),
        iops_limit: field(now.iops_limit, changed.iops_limit, before.iops_limit),
        bandwidth_limit: field(now.bandwidth_limit, changed.bandwidth_limit, before.bandwidth_limit),
        checksum: field(now.checksum, changed.checksum, before.checksum),
        force_provisioning: field(now.force_provisioning, changed.force_provisioning, before.force_provisioning),
        slow_copies_leave: field(now.slow_copies_leave, changed.slow_copies_leave, before.slow_copies_leave),
        repair_after_s: field(now.repair_after_s, changed.repair_after_s, before.repair_after_s),
    }
}
