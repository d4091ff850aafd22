//! From the command line to requests, and from answers to what is printed.

use crate::{
    cli::*,
    client::{Client, Failure, part},
    complete, form,
    output::{Output, Page},
    questions::{self, confirm, confirm_if},
    secrets, serve,
    show::{self, word},
    table::size,
};
use control::api::types::*;
use serde::Serialize;
use std::time::Duration;

pub type Done = Result<(), Failure>;

/// Does what the command line says.
pub fn run(cli: Cli) -> Done {
    let (api, out) = (cli.api(), cli.output());
    match cli.command {
        Command::Lab(command) => return crate::lab::run(command, &api, &out),
        Command::Serve { config } => return serve::serve(&config),
        Command::Cluster(ClusterCommand::Restore { from, config, yes }) => {
            confirm(yes, &questions::of_restore(&from))?;
            return form::restore(&from, &config, &out);
        }
        Command::Cluster(ClusterCommand::Set { etcd, offline: true, config, .. }) => return form::set_offline(&etcd, &config, &out),
        Command::Host(HostCommand::Check { root }) => return crate::host_check::check(&root, &out),
        Command::Config(ConfigCommand::Check { file }) => return serve::check_config(&file, &out),
        Command::Completions { shell } => return complete::script(shell),
        Command::Man { folder } => return complete::manual(&folder),
        _ => {}
    }
    let session = Session { client: Client::new(&api, cli.timeout.map(|s| Duration::from_secs(s.into())))?, out };
    match cli.command {
        Command::Status => session.one("/status", |s: &Status| show::status(s, &session.out)),
        Command::Cluster(command) => form::cluster(&session, command),
        Command::Node(command) => form::node(&session, command),
        Command::Witness(WitnessCommand::Join(args)) => form::join(&session, args, true),
        Command::Drive(DriveCommand::List { node }) => session.list(&format!("/drives{}", query_of(&[of_node(node)])), show::drives),
        Command::Drive(DriveCommand::Show { drive, node }) => {
            session.one(&format!("/drives/{}{}", part(&drive), query_of(&[of_node(node)])), show::drive)
        }
        Command::Group(command) => session.group(command),
        Command::Policy(command) => session.policy(command),
        Command::Volume(command) => session.volume(command),
        Command::Subsystem(command) => session.subsystem(command),
        Command::Host(command) => session.host(command),
        Command::Iostat(args) => crate::iostat::iostat(&session, &args),
        Command::Top(args) => crate::iostat::top(&session, &args),
        Command::Audit { limit, since, until, node } => {
            let at = |name, at: Option<u64>| at.map(|at| (name, at.saturating_mul(1000).to_string()));
            let limit = Some(("limit", limit.to_string()));
            let query = query_of(&[limit, at("since_unix_ms", since), at("until_unix_ms", until), of_node(node)]);
            session.list(&format!("/audit{query}"), show::audit)
        }
        Command::Lab(_) | Command::Serve { .. } | Command::Config(_) | Command::Completions { .. } | Command::Man { .. } => {
            unreachable!("done above")
        }
    }
}

/// The query of a path, of what is given.
fn query_of(parameters: &[Option<(&str, String)>]) -> String {
    let all: Vec<String> = parameters.iter().flatten().map(|(name, value)| format!("{name}={}", part(value))).collect();
    if all.is_empty() { String::new() } else { format!("?{}", all.join("&")) }
}

fn of_node(node: Option<String>) -> Option<(&'static str, String)> {
    node.map(|node| ("node", node))
}

/// One command's way to the daemon and to the terminal.
pub struct Session {
    pub client: Client,
    pub out: Output,
}

impl Session {
    /// Prints an answer; `page` is what it looks like for a person.
    pub fn print<T: Serialize>(&self, value: &T, page: impl FnOnce(&T) -> Page) {
        self.out.print(value, page);
    }

    pub fn list<T: Serialize + serde::de::DeserializeOwned>(&self, path: &str, page: impl FnOnce(&[T]) -> Page) -> Done {
        let all: Vec<T> = self.client.get(path)?;
        self.print(&all, |all| page(all));
        Ok(())
    }

    pub fn one<T: Serialize + serde::de::DeserializeOwned>(&self, path: &str, page: impl FnOnce(&T) -> Page) -> Done {
        let one: T = self.client.get(path)?;
        self.print(&one, page);
        Ok(())
    }

    /// Says that something is done, where the API has nothing to say.
    pub fn done(&self, line: String) {
        self.out.done(line);
    }

    fn group(&self, command: GroupCommand) -> Done {
        match command {
            GroupCommand::Create { name, cache, capacity, shards, force, sparse, yes } => {
                confirm(yes || !force, &format!("Destroy what the devices of disk group {name} hold?"))?;
                let new = NewGroup { name, node: None, cache, capacity, shards: Some(shards), force, sparse };
                let group: Group = self.client.post("/groups", &new)?;
                self.print(&group, |g| {
                    let (capacity, buffer) = (size(g.capacity_bytes), size(g.buffer_bytes));
                    Page::new()
                        .name(&g.name)
                        .line(format!("disk group {} is made: {capacity} of capacity, {buffer} of write buffer", g.name))
                });
            }
            GroupCommand::List => self.list("/groups", show::groups)?,
            GroupCommand::Show { group } => self.one(&format!("/groups/{}", part(&group)), show::group)?,
            GroupCommand::Remove { group, force, yes } => {
                let what = if force { " and every volume on it" } else { "" };
                confirm(yes, &format!("Remove disk group {group}{what}?"))?;
                let () = self.client.delete(&format!("/groups/{}?force={force}", part(&group)))?;
                self.done(format!("disk group {group} is removed"));
            }
            GroupCommand::AddDevice { group, devices, force, yes } => {
                confirm(yes || !force, &format!("Destroy what these devices hold, for disk group {group}?"))?;
                let names = devices.iter().map(|d| d.path.clone()).collect::<Vec<_>>().join(", ");
                let added = devices.into_iter().map(|device| self.add_device(&group, device, force)).collect::<Result<Vec<_>, _>>()?;
                if let Some(group) = added.last() {
                    self.print(group, |g| {
                        let line = format!("disk group {} has {names} too: {} of capacity", g.name, size(g.capacity_bytes));
                        Page::new().name(&g.name).line(line)
                    });
                }
            }
            GroupCommand::RemoveDevice { group, device, keep, lost, force, yes } => {
                let what = if force { ", and delete the volumes that have no other copy of what lay there" } else { "" };
                confirm(yes || keep, &format!("Take {device} out of disk group {group}{what}?"))?;
                self.remove_device(&group, &device, Removal { keep, lost, force })?;
            }
            GroupCommand::ReplaceDevice { group, old, new, force, yes } => {
                confirm(yes, &format!("Take {old} out of disk group {group}, when {} is there?", new.path))?;
                self.add_device(&group, new, force)?;
                self.remove_device(&group, &old, Removal::default())?;
            }
            GroupCommand::Scrub { group } => {
                let () = self.client.post(&format!("/groups/{}/scrub", part(&group)), &())?;
                self.done(format!("the scrub of disk group {group} has begun; 'basalt group show {group}' shows how far it is"));
            }
        }
        Ok(())
    }

    fn add_device(&self, group: &str, device: NewDevice, force: bool) -> Result<Group, Failure> {
        let new = AddedDevice { path: device.path, bytes: device.bytes, force };
        self.client.post(&format!("/groups/{}/devices", part(group)), &new)
    }

    fn remove_device(&self, group: &str, device: &str, how: Removal) -> Done {
        let Removal { keep, lost, force } = how;
        let path = format!("/groups/{}/devices/{}?keep={keep}&lost={lost}&force={force}", part(group), part(device));
        let changed: Group = self.client.delete(&path)?;
        self.print(&changed, |g| {
            let left = g.capacity.iter().filter(|d| d.state == DeviceState::Leaving).map(|d| d.components).sum::<u32>();
            let line = match (keep, left) {
                (true, _) => format!("{device} stays in disk group {}", g.name),
                _ if lost => format!("disk group {} is {} without {device}", g.name, word(&g.state)),
                (false, 0) => format!("{device} leaves disk group {} now: nothing lies on it", g.name),
                (false, left) => format!(
                    "{device} leaves disk group {0} when {left} component(s) have gone elsewhere; 'basalt group show {0}' shows how far it is",
                    g.name
                ),
            };
            Page::new().name(&g.name).line(line)
        });
        Ok(())
    }

    fn policy(&self, command: PolicyCommand) -> Done {
        match command {
            PolicyCommand::Create { name, policy } => {
                let change = PolicyChange { name: Some(name), ..policy.into() };
                let policy: Policy = self.client.post("/policies", &change)?;
                self.print(&policy, |p| show::policy_made(p, "made"));
            }
            PolicyCommand::List => self.list("/policies", show::policies)?,
            PolicyCommand::Show { policy } => self.one(&format!("/policies/{}", part(&policy)), show::policy)?,
            PolicyCommand::Set { policy, change } => {
                let policy: Policy = self.client.patch(&format!("/policies/{}", part(&policy)), &PolicyChange::from(change))?;
                self.print(&policy, |p| show::policy_made(p, "changed"));
            }
            PolicyCommand::Delete { policy, yes } => {
                confirm(yes, &format!("Delete policy {policy}?"))?;
                let () = self.client.delete(&format!("/policies/{}", part(&policy)))?;
                self.done(format!("policy {policy} is deleted"));
            }
        }
        Ok(())
    }

    fn volume(&self, command: VolumeCommand) -> Done {
        let at = |volume: &str| format!("/volumes/{}", part(volume));
        match command {
            VolumeCommand::Create { name, size, policy, lba, grow_max, subsystem, detached, fault_domain, group: groups } => {
                let new = NewVolume {
                    name,
                    bytes: size,
                    grow_bytes_max: grow_max,
                    policy,
                    lba_bytes: Some(lba),
                    subsystem,
                    detached,
                    fault_domain,
                    groups,
                };
                let volume: Volume = self.client.post("/volumes", &new)?;
                self.print(&volume, show::volume_made);
            }
            VolumeCommand::List => self.list("/volumes", show::volumes)?,
            VolumeCommand::Show { volume } => self.one(&at(&volume), show::volume)?,
            VolumeCommand::Grow { volume, size: bytes } => {
                let now: Volume = self.client.get(&at(&volume))?;
                if bytes < now.bytes {
                    let problem = control::Problem::refused(
                        format!("volume {} has {} already, which is more", now.name, size(now.bytes)),
                        "use 'basalt volume shrink' to make it smaller",
                    );
                    return Err(Failure::Problem(problem));
                }
                self.resize(&at(&volume), Resize { bytes, force: false })?;
            }
            VolumeCommand::Shrink { volume, size: bytes, force, yes } => {
                let now: Volume = self.client.get(&at(&volume))?;
                if bytes > now.bytes {
                    let problem = control::Problem::refused(
                        format!("volume {} has {}, which is less", now.name, size(now.bytes)),
                        "use 'basalt volume grow' to make it larger",
                    );
                    return Err(Failure::Problem(problem));
                }
                confirm(yes || !force, &format!("Cut off and lose what lies in volume {volume} behind {}?", size(bytes)))?;
                self.resize(&at(&volume), Resize { bytes, force })?;
            }
            VolumeCommand::Rename { volume, new_name } => {
                let change = VolumeChange { name: Some(new_name), ..VolumeChange::default() };
                let renamed: Volume = self.client.patch(&at(&volume), &change)?;
                self.print(&renamed, |v| Page::new().name(&v.name).line(format!("volume {volume} is now called {}", v.name)));
            }
            VolumeCommand::Set { volume, policy, owner, group, resync, read_only, yes } => {
                let read_only = read_only.map(|s| s == Switch::On);
                confirm_if(yes || read_only != Some(true), || {
                    let now: Volume = self.client.get(&at(&volume))?;
                    Ok(questions::of_read_only(&now))
                })?;
                let (groups, resync) = ((!group.is_empty()).then_some(group), resync.map(Into::into));
                let change = VolumeChange { name: None, policy, read_only, preferred_owner: owner, resync, groups };
                let changed: Volume = self.client.patch(&at(&volume), &change)?;
                self.print(&changed, show::volume);
            }
            VolumeCommand::Repair { volume } => {
                let repaired: Volume = self.client.post(&format!("{}/repair", at(&volume)), &())?;
                self.print(&repaired, show::volume);
            }
            VolumeCommand::Recover { volume, from, dry_run, yes } => {
                let query = from.as_ref().map_or(String::new(), |node| format!("?from={}", part(node)));
                let plan: Recovery = self.client.get(&format!("{}/recovery{query}", at(&volume)))?;
                if dry_run {
                    self.print(&plan, show::recovery);
                    return Ok(());
                }
                confirm_if(yes, || Ok(Some(questions::of_recovery(&plan))))?;
                let how = Recover { from, plan: Some(plan.plan) };
                let recovered: Volume = self.client.post(&format!("{}/recovery", at(&volume)), &how)?;
                self.print(&recovered, show::volume);
            }
            VolumeCommand::Delete { volume, force, yes } => {
                confirm(yes, &format!("Delete volume {volume} and all its data?"))?;
                let () = self.client.delete(&format!("{}?force={force}", at(&volume)))?;
                self.done(format!("volume {volume} is deleted"));
            }
            VolumeCommand::ClearReservation { volume, yes } => {
                confirm(
                    yes,
                    &format!(
                        "Remove all registrants and the reservation of volume {volume}? Its hosts are not fenced from each other then."
                    ),
                )?;
                let cleared: Volume = self.client.delete(&format!("{}/reservation", at(&volume)))?;
                let said = |v: &Volume| format!("volume {} has no reservation and no registrants now", v.name);
                self.print(&cleared, |v| Page::new().name(&v.name).line(said(v)));
            }
        }
        Ok(())
    }

    fn resize(&self, at: &str, resize: Resize) -> Done {
        let volume: Volume = self.client.post(&format!("{at}/resize"), &resize)?;
        self.print(&volume, |v| Page::new().name(&v.name).line(format!("volume {} has {} now", v.name, size(v.bytes))));
        Ok(())
    }

    fn subsystem(&self, command: SubsystemCommand) -> Done {
        let at = |subsystem: &str| format!("/subsystems/{}", part(subsystem));
        let any = |any: bool| SubsystemChange { allow_any_host: Some(any), ..SubsystemChange::default() };
        let changed: Subsystem = match command {
            SubsystemCommand::Create { name, nqn, iscsi, iqn, host, allow_any_host } => {
                self.client.post("/subsystems", &NewSubsystem { name, nqn, iscsi, iqn, allow_any_host, hosts: host })?
            }
            SubsystemCommand::List => return self.list("/subsystems", show::subsystems),
            SubsystemCommand::Show { subsystem } => return self.one(&at(&subsystem), show::subsystem),
            SubsystemCommand::Allow { subsystem, host: Some(host), .. } => {
                self.client.put(&format!("{}/hosts/{}", at(&subsystem), part(&host)), None::<&()>)?
            }
            SubsystemCommand::Deny { subsystem, host: Some(host), yes, .. } => {
                confirm(yes, &format!("Let host {host} connect to subsystem {subsystem} no longer, and disconnect it?"))?;
                self.client.delete(&format!("{}/hosts/{}", at(&subsystem), part(&host)))?
            }
            SubsystemCommand::Allow { subsystem, .. } => self.client.patch(&at(&subsystem), &any(true))?,
            SubsystemCommand::Deny { subsystem, yes, .. } => {
                let question =
                    format!("Let only hosts that are allowed one by one connect to subsystem {subsystem}, and disconnect the others?");
                confirm(yes, &question)?;
                self.client.patch(&at(&subsystem), &any(false))?
            }
            SubsystemCommand::Set {
                subsystem,
                security,
                iscsi,
                iqn,
                no_iscsi,
                manage_namespaces,
                policy,
                namespaces_max,
                bytes_max,
                no_manage_namespaces,
                yes,
            } => {
                let namespace_grant =
                    bytes_max.filter(|_| manage_namespaces).map(|bytes_max| NamespaceGrant { policy, namespaces_max, bytes_max });
                let iscsi = if no_iscsi { Some(false) } else { iscsi.then_some(true) };
                let no_namespace_grant = no_manage_namespaces;
                let change = SubsystemChange { allow_any_host: None, security, namespace_grant, no_namespace_grant, iscsi, iqn };
                let harmless = change.security.is_none() && change.iscsi != Some(false) && change.iqn.is_none();
                confirm_if(yes || harmless, || {
                    let now: Subsystem = self.client.get(&at(&subsystem))?;
                    Ok(questions::of_subsystem(&now, &change))
                })?;
                self.client.patch(&at(&subsystem), &change)?
            }
            SubsystemCommand::Attach { subsystem, volume, nsid, host } => {
                self.client.put(&format!("{}/volumes/{}", at(&subsystem), part(&volume)), Some(&Attach { nsid, hosts: host }))?
            }
            SubsystemCommand::Detach { subsystem, volume, yes } => {
                confirm(yes, &format!("Take volume {volume} from the hosts of subsystem {subsystem}?"))?;
                self.client.delete(&format!("{}/volumes/{}", at(&subsystem), part(&volume)))?
            }
            SubsystemCommand::Delete { subsystem, force, yes } => {
                confirm(yes, &format!("Delete subsystem {subsystem}? Its volumes stay, and no host reaches them through it any more."))?;
                let () = self.client.delete(&format!("{}?force={force}", at(&subsystem)))?;
                self.done(format!("subsystem {subsystem} is deleted; its volumes are still there"));
                return Ok(());
            }
        };
        self.print(&changed, show::subsystem);
        Ok(())
    }

    fn host(&self, command: HostCommand) -> Done {
        match command {
            HostCommand::List => self.list("/hosts", show::hosts)?,
            HostCommand::Show { host } => self.one(&format!("/hosts/{}", part(&host)), show::host)?,
            HostCommand::Add { name, nqn } => {
                let host: Host = self.client.post("/hosts", &NewHost { nqn, name })?;
                self.print(&host, show::host);
            }
            HostCommand::Set { host, dhchap, tls, chap, yes } => {
                confirm_if(yes, || {
                    let now: Host = self.client.get(&format!("/hosts/{}", part(&host)))?;
                    // Keys say for which subsystem they are by its NQN.
                    let other = tls.tls_subsystem.as_ref().filter(|_| !now.tls_psks.is_empty());
                    let key_for = other.map(|s| self.client.get::<Subsystem>(&format!("/subsystems/{}", part(s)))).transpose()?;
                    Ok(questions::of_host(&host, &now, &dhchap, &tls, key_for.as_ref().map(|s| s.nqn.as_str()), &chap))
                })?;
                let at = |what: &str| format!("/hosts/{}/{what}", part(&host));
                let (changed, made): (Host, _) = if chap.no_chap {
                    (self.client.delete(&at("chap"))?, None)
                } else if chap.is_given() {
                    let (change, made) = secrets::chap_change(&chap)?;
                    (self.client.put(&at("chap"), Some(&change))?, made)
                } else if tls.no_tls_psk {
                    (self.client.delete(&at("tls-psk"))?, None)
                } else if tls.is_given() {
                    let (change, made) = secrets::tls_change(&tls, &dhchap.hash)?;
                    (self.client.put(&at("tls-psk"), Some(&change))?, made)
                } else if dhchap.no_dhchap {
                    (self.client.delete(&at("dhchap"))?, None)
                } else {
                    let (change, made) = secrets::change(&dhchap)?;
                    (self.client.put(&at("dhchap"), Some(&change))?, made)
                };
                match made {
                    // The secret and nothing else, so that it can go into a file.
                    Some(secret) => println!("{}", secret.as_str()),
                    None => self.print(&changed, show::host),
                }
            }
            HostCommand::Check { .. } => unreachable!("done without the daemon"),
            HostCommand::Remove { host, yes } => {
                confirm(yes, &format!("Take the name from host {host}, and its secrets and keys?"))?;
                let () = self.client.delete(&format!("/hosts/{}", part(&host)))?;
                self.done(format!("host {host} has no name any more"));
            }
        }
        Ok(())
    }
}

impl From<PolicyArgs> for PolicyChange {
    fn from(args: PolicyArgs) -> Self {
        let switch = |s: Option<Switch>| s.map(|s| s == Switch::On);
        Self {
            name: None,
            failures_to_tolerate: args.failures_to_tolerate,
            stripe_width: args.stripe_width,
            space_reservation_percent: args.space_reservation,
            read_cache_reservation_percent: args.read_cache_reservation,
            iops_limit: args.iops_limit,
            bandwidth_limit: args.bandwidth_limit,
            checksum: switch(args.checksum),
            force_provisioning: switch(args.force_provisioning),
            slow_copies_leave: switch(args.slow_copies_leave),
            repair_after_s: args.repair_after,
        }
    }
}

#[cfg(test)]
#[path = "commands_tests.rs"]
mod tests;
