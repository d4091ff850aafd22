//! What each answer looks like to a person.

use crate::table::{self, Left, Right, duration, facts, percent, size};
use control::api::types::*;
use serde::Serialize;

/// The word of an enum as the API has it.
fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

fn yes(value: bool) -> String {
    if value { "yes" } else { "no" }.into()
}

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".into() } else { text }
}

pub fn status(s: &Status) {
    let verdict = match s.health {
        Health::Ok => "ok",
        Health::Warning => "WARNING",
        Health::Error => "ERROR",
    };
    println!("health: {verdict}");
    for check in &s.checks {
        println!("\n  {} {}: {}", word(&check.health), check.subject, check.message);
        println!("    to do: {}", check.action);
    }
    println!();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let listeners = s.listeners.iter().map(|l| {
        let advertise = l.advertise.as_ref().map(|a| format!(" (published to hosts: {a})")).unwrap_or_default();
        format!("{} on {}{advertise}", l.kind, l.address)
    });
    let free = s.capacity_bytes.saturating_sub(s.used_bytes + s.reserved_bytes);
    facts(&[
        ("node", format!("{}, basalt {}, up {}", s.node, s.version, duration(now.saturating_sub(s.started_unix_s)))),
        ("cluster", s.cluster.clone()),
        ("listeners", listeners.collect::<Vec<_>>().join(", ")),
        ("cores", s.cores.to_string()),
        ("disk groups", s.groups.to_string()),
        ("volumes", format!("{}, {} provisioned", s.volumes, size(s.provisioned_bytes))),
        ("subsystems", s.subsystems.to_string()),
        ("connected", s.sessions.to_string()),
        (
            "capacity",
            format!("{}: {} used, {} reserved, {} free", size(s.capacity_bytes), size(s.used_bytes), size(s.reserved_bytes), size(free)),
        ),
    ]);
}

/// How long ago that was.
fn since(unix_s: u64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    duration(now.saturating_sub(unix_s))
}

/// How long it is until then.
pub fn until(unix_s: u64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    duration(unix_s.saturating_sub(now))
}

pub fn nodes(nodes: &[Node]) {
    let row = |n: &Node| {
        vec![
            if n.leads { format!("{} (leads)", n.name) } else { n.name.clone() },
            n.role.clone(),
            n.fault_domain.clone(),
            or_dash(n.address.clone().unwrap_or_default()),
            or_dash(n.version.clone().unwrap_or_default()),
            or_dash(n.cores.map(|c| c.to_string()).unwrap_or_default()),
            n.groups.len().to_string(),
            or_dash(n.etcd.clone().unwrap_or_default()),
            if n.up || n.role == "witness" { or_dash(n.started_unix_s.map(since).unwrap_or_default()) } else { "down".into() },
        ]
    };
    let columns = [
        ("node", Left),
        ("role", Left),
        ("fault domain", Left),
        ("address", Left),
        ("release", Left),
        ("cores", Right),
        ("groups", Right),
        ("etcd", Left),
        ("up", Right),
    ];
    table::print(&columns, nodes.iter().map(row).collect(), "There is no node.");
}

pub fn node(n: &Node) {
    facts(&[
        ("node", if n.removed { format!("{} (removed)", n.name) } else { n.name.clone() }),
        ("id", or_dash(n.id.clone().unwrap_or_default())),
        ("role", n.role.clone()),
        ("fault domain", n.fault_domain.clone()),
        ("address", or_dash(n.address.clone().unwrap_or_default())),
        ("release", or_dash(n.version.clone().unwrap_or_default())),
        ("cores", or_dash(n.cores.map(|c| c.to_string()).unwrap_or_default())),
        ("disk groups", or_dash(n.groups.join(", "))),
        (
            "etcd",
            match n.etcd.as_deref() {
                Some("member") => "runs a member".into(),
                Some("client") => "runs no member".into(),
                Some("external") => "external: somebody else runs it".into(),
                other => or_dash(other.unwrap_or_default().to_owned()),
            },
        ),
        ("up", or_dash(n.started_unix_s.map(since).unwrap_or_default())),
    ]);
}

pub fn cluster(c: &Cluster) {
    for check in &c.checks {
        println!("{} {}: {}", word(&check.health), check.subject, check.message);
        println!("  to do: {}\n", check.action);
    }
    if !c.formed {
        println!("This server is alone: 'basalt cluster create' makes it the first node of a cluster.\n");
    }
    facts(&[
        ("cluster", c.cluster.clone()),
        ("this node", format!("{} ({})", c.node, c.role)),
        ("address", c.address.clone().unwrap_or_default()),
        (
            "directory",
            match (c.directory, c.quorum) {
                _ if !c.formed => "its own".into(),
                (DirectoryKind::ExternalEtcd, true) => "an external etcd, takes changes".into(),
                (DirectoryKind::ExternalEtcd, false) => "an external etcd, without a leader".into(),
                (_, true) => "etcd, takes changes".into(),
                (_, false) => "etcd, without a quorum".into(),
            },
        ),
        ("certificate", c.certificate_until_unix_s.map(|at| format!("valid for {}", until(at))).unwrap_or_default()),
    ]);
    if c.members.is_empty() {
        return;
    }
    println!();
    let row = |m: &EtcdMember| {
        let what = if !m.votes {
            "learner"
        } else if m.leads {
            "leader"
        } else {
            "follower"
        };
        vec![m.node.clone(), what.into(), m.trouble.clone().unwrap_or_else(|| "ok".into())]
    };
    let what = if c.directory == DirectoryKind::ExternalEtcd { "endpoint of etcd" } else { "member of etcd" };
    let columns = [(what, Left), ("is", Left), ("state", Left)];
    table::print(&columns, c.members.iter().map(row).collect(), "");
}

pub fn drives(drives: &[Drive]) {
    let row = |d: &Drive| {
        vec![
            d.path.clone(),
            d.kind.clone(),
            size(d.bytes),
            d.lba_bytes.to_string(),
            or_dash(d.model.clone().unwrap_or_default()),
            or_dash(d.serial.clone().unwrap_or_default()),
            if d.use_state == "free" { "free".into() } else { d.used_by.join(", ") },
        ]
    };
    let columns =
        [("device", Left), ("kind", Left), ("size", Right), ("block", Right), ("model", Left), ("serial", Left), ("used by", Left)];
    table::print(&columns, drives.iter().map(row).collect(), "This node has no drives that Basalt could use; files and memory work too.");
}

pub fn groups(groups: &[Group]) {
    let row = |g: &Group| {
        vec![
            g.name.clone(),
            word(&g.state),
            g.capacity.len().to_string(),
            size(g.capacity_bytes),
            size(g.used_bytes),
            size(g.reserved_bytes),
            percent(g.used_bytes + g.reserved_bytes, g.capacity_bytes),
            size(g.buffer_bytes),
            percent(g.buffer_used_bytes, g.buffer_bytes),
            g.components.to_string(),
        ]
    };
    let columns = [
        ("name", Left),
        ("state", Left),
        ("devices", Right),
        ("capacity", Right),
        ("used", Right),
        ("reserved", Right),
        ("full", Right),
        ("buffer", Right),
        ("full", Right),
        ("components", Right),
    ];
    table::print(&columns, groups.iter().map(row).collect(), "There is no disk group yet. Make one: basalt group create --help");
}

pub fn group(g: &Group) {
    facts(&[
        ("name", g.name.clone()),
        ("id", g.id.clone()),
        ("node", g.node.clone()),
        ("state", word(&g.state)),
        ("reason", g.reason.clone().unwrap_or_default()),
        ("shards", g.shards.to_string()),
        ("components", g.components.to_string()),
        ("created", table::time(g.created_unix_s)),
        ("scrub", g.scrub_percent.map(|p| format!("running, {p} % done")).unwrap_or_default()),
        ("note", if g.volatile { "in memory: lost when the daemon stops".into() } else { String::new() }),
    ]);
    println!();
    let row = |role: &str, d: &Device| {
        let part = |bytes: Option<u64>| bytes.map_or("-".into(), size);
        vec![
            role.to_owned(),
            d.path.clone(),
            word(&d.kind),
            size(d.bytes),
            part(d.usable_bytes),
            part(d.used_bytes),
            part(d.reserved_bytes),
        ]
    };
    let mut rows = vec![row("cache", &g.cache)];
    rows.extend(g.capacity.iter().map(|d| row("capacity", d)));
    let columns =
        [("role", Left), ("device", Left), ("kind", Left), ("size", Right), ("usable", Right), ("used", Right), ("reserved", Right)];
    table::print(&columns, rows, "");
}

fn limit(value: Option<u64>, text: impl Fn(u64) -> String) -> String {
    value.map_or("none".into(), text)
}

pub fn policies(policies: &[Policy]) {
    let row = |p: &Policy| {
        vec![
            p.name.clone(),
            p.failures_to_tolerate.to_string(),
            p.stripe_width.to_string(),
            format!("{} %", p.space_reservation_percent),
            limit(p.iops_limit, |n| n.to_string()),
            limit(p.bandwidth_limit, |n| format!("{}/s", size(n))),
            if p.checksum { "on" } else { "off" }.into(),
            if p.force_provisioning { "on" } else { "off" }.into(),
            p.volumes.to_string(),
            yes(p.not_possible.is_empty()),
        ]
    };
    let columns = [
        ("name", Left),
        ("ftt", Right),
        ("stripes", Right),
        ("reserved", Right),
        ("iops", Right),
        ("bandwidth", Right),
        ("checksum", Left),
        ("force", Left),
        ("volumes", Right),
        ("possible", Left),
    ];
    table::print(&columns, policies.iter().map(row).collect(), "There is no policy.");
    for p in policies.iter().filter(|p| !p.not_possible.is_empty()) {
        println!("\n{}: not possible now: {}", p.name, p.not_possible.join("; "));
    }
}

pub fn policy(p: &Policy) {
    facts(&[
        ("name", p.name.clone()),
        ("failures to tolerate", p.failures_to_tolerate.to_string()),
        ("stripe width", p.stripe_width.to_string()),
        ("space reservation", format!("{} %", p.space_reservation_percent)),
        ("read-cache reservation", format!("{} %", p.read_cache_reservation_percent)),
        ("IOPS limit", limit(p.iops_limit, |n| format!("{n} a second (of 32 KiB)"))),
        ("bandwidth limit", limit(p.bandwidth_limit, |n| format!("{} a second", size(n)))),
        ("checksum", if p.checksum { "on" } else { "off" }.into()),
        ("force provisioning", if p.force_provisioning { "on" } else { "off" }.into()),
        ("slow copies", if p.slow_copies_leave { "leave" } else { "stay" }.into()),
        ("volumes", p.volumes.to_string()),
        ("not possible now", p.not_possible.join("; ")),
    ]);
}

fn copy_state(c: &Component) -> String {
    match c.resync_percent {
        Some(percent) => format!("{} {percent} %", c.state),
        None if c.slow => format!("{}, slow", c.state),
        None => c.state.clone(),
    }
}

pub fn policy_made(p: &Policy, done: &str) {
    println!("policy {} is {done}", p.name);
    if !p.not_possible.is_empty() {
        let then = if p.force_provisioning { "volumes get what is possible" } else { "volumes with it are refused" };
        println!("  note: {}; until then {then}", p.not_possible.join("; "));
    }
}

pub fn volumes(volumes: &[Volume]) {
    let row = |v: &Volume| {
        let subsystems: Vec<String> = v.attachments.iter().map(|a| format!("{}/{}", a.subsystem, a.nsid)).collect();
        vec![
            v.name.clone(),
            size(v.bytes),
            v.used_bytes.map_or("-".into(), size),
            v.policy.clone(),
            yes(v.compliant),
            v.lba_bytes.to_string(),
            word(&v.state),
            or_dash(subsystems.join(", ")),
        ]
    };
    let columns = [
        ("name", Left),
        ("size", Right),
        ("used", Right),
        ("policy", Left),
        ("compliant", Left),
        ("block", Right),
        ("state", Left),
        ("subsystem/nsid", Left),
    ];
    table::print(&columns, volumes.iter().map(row).collect(), "There is no volume yet. Make one: basalt volume create NAME --size 100GiB");
}

pub fn volume(v: &Volume) {
    let attached: Vec<String> = v.attachments.iter().map(|a| format!("{} as namespace {}", a.nqn, a.nsid)).collect();
    facts(&[
        ("name", v.name.clone()),
        ("id", v.id.clone()),
        ("size", size(v.bytes)),
        ("used", v.used_bytes.map(|b| format!("{} ({})", size(b), percent(b, v.bytes))).unwrap_or_default()),
        ("reserved", size(v.reserved_bytes)),
        ("grows to", size(v.grow_bytes_max)),
        ("block", format!("{} bytes", v.lba_bytes)),
        ("policy", v.policy.clone()),
        ("compliant", if v.compliant { "yes".into() } else { format!("no: {}", v.shortfalls.join("; ")) }),
        ("state", word(&v.state)),
        ("reason", v.reason.clone().unwrap_or_default()),
        ("access", if v.read_only { "read-only" } else { "read and write" }.into()),
        ("owner", owner(v)),
        ("attached", or_dash(attached.join(", "))),
        ("reservation", v.reservation.as_ref().map(reservation).unwrap_or_default()),
        ("created", table::time(v.created_unix_s)),
    ]);
    println!();
    let row = |c: &Component| {
        vec![
            c.stripe.to_string(),
            c.copy.to_string(),
            copy_state(c),
            c.node.clone(),
            c.group.clone(),
            c.device.clone(),
            size(c.bytes),
            c.used_bytes.map_or("-".into(), size),
            size(c.reserved_bytes),
        ]
    };
    let columns = [
        ("stripe", Right),
        ("copy", Right),
        ("state", Left),
        ("node", Left),
        ("group", Left),
        ("device", Left),
        ("size", Right),
        ("used", Right),
        ("reserved", Right),
    ];
    table::print(&columns, v.components.iter().map(row).collect(), "It has no components.");
}

/// Who owns a volume, and who is to.
fn owner(v: &Volume) -> String {
    match (&v.owner, &v.preferred_owner) {
        (Some(owner), Some(preferred)) if owner != preferred => format!("{owner} ({preferred} is to own it)"),
        (owner, _) => owner.clone().unwrap_or_default(),
    }
}

/// A reservation in a few lines: its type, then each registrant.
fn reservation(r: &Reservation) -> String {
    let mut lines = vec![format!(
        "{}, {}",
        r.kind.as_deref().unwrap_or("none held"),
        if r.persistent { "persists through power loss" } else { "ends with the daemon" }
    )];
    let holds = |held| if held { " (holds it)" } else { "" };
    lines.extend(r.registrants.iter().map(|x| format!("host {} with key {}{}", x.host_id, x.key, holds(x.holder))));
    lines.join("\n                ")
}

pub fn volume_made(v: &Volume) {
    match v.attachments.first() {
        Some(a) => println!("volume {} is made: {}, namespace {} of {}", v.name, size(v.bytes), a.nsid, a.nqn),
        None => {
            println!("volume {} is made: {}; show it to hosts with 'basalt subsystem attach SUBSYSTEM {}'", v.name, size(v.bytes), v.name)
        }
    }
    if !v.compliant {
        println!("  note: it is not what policy {} asks: {}", v.policy, v.shortfalls.join("; "));
    }
}

pub fn subsystems(subsystems: &[Subsystem]) {
    let row = |s: &Subsystem| {
        let hosts = if s.allow_any_host { "any".to_owned() } else { s.hosts.len().to_string() };
        let over = if s.iqn.is_some() { "NVMe/TCP, iSCSI" } else { "NVMe/TCP" };
        vec![s.name.clone(), s.nqn.clone(), over.into(), s.namespaces.len().to_string(), hosts, s.sessions.to_string()]
    };
    let columns = [("name", Left), ("nqn", Left), ("over", Left), ("volumes", Right), ("hosts allowed", Right), ("connected", Right)];
    table::print(&columns, subsystems.iter().map(row).collect(), "There is no subsystem. Make one: basalt subsystem create --help");
}

pub fn subsystem(s: &Subsystem) {
    let grant = match &s.namespace_grant {
        None => "managed by administrators".into(),
        Some(g) => format!("managed by hosts too: up to {}, {} in all, policy {}", g.namespaces_max, size(g.bytes_max), g.policy),
    };
    let hosts = if s.hosts.is_empty() { "none".into() } else { s.hosts.join("\n                ") };
    facts(&[
        ("name", s.name.clone()),
        ("nqn", s.nqn.clone()),
        ("iSCSI name", s.iqn.clone().unwrap_or_else(|| "none: not served over iSCSI".into())),
        ("serial", s.serial.clone()),
        ("any host", yes(s.allow_any_host)),
        ("hosts allowed", if s.allow_any_host && s.hosts.is_empty() { "all".into() } else { hosts }),
        ("security", word(&s.security)),
        ("namespaces", grant),
        ("connected", s.sessions.to_string()),
        ("created", table::time(s.created_unix_s)),
    ]);
    println!();
    let seen_by = |n: &Namespace| match &n.hosts {
        None => "all".into(),
        Some(hosts) if hosts.is_empty() => "none".into(),
        Some(hosts) => hosts.join("\n"),
    };
    let row = |n: &Namespace| vec![n.nsid.to_string(), n.volume.clone(), size(n.bytes), n.volume_id.clone(), seen_by(n)];
    let number = if s.iqn.is_some() { "nsid, LUN" } else { "nsid" };
    let columns = [(number, Right), ("volume", Left), ("size", Right), ("uuid", Left), ("seen by", Left)];
    table::print(&columns, s.namespaces.iter().map(row).collect(), "No volume is attached to it.");
}

pub fn hosts(hosts: &[Host]) {
    let row = |h: &Host| {
        let addresses: std::collections::BTreeSet<&str> =
            h.sessions.iter().map(|s| s.address.rsplit_once(':').map_or(s.address.as_str(), |(ip, _)| ip)).collect();
        vec![
            or_dash(h.name.clone().unwrap_or_default()),
            h.nqn.clone(),
            or_dash(h.allowed.join(", ")),
            h.sessions.len().to_string(),
            or_dash(addresses.into_iter().collect::<Vec<_>>().join(", ")),
        ]
    };
    let columns = [("name", Left), ("nqn", Left), ("named by", Left), ("connected", Right), ("from", Left)];
    table::print(&columns, hosts.iter().map(row).collect(), "No host is known or connected.");
}

pub fn audit(entries: &[AuditEntry]) {
    let row = |e: &AuditEntry| {
        let known = |text: &str| or_dash(text.to_owned());
        vec![
            table::time(e.unix_ms / 1000),
            e.event.clone(),
            known(e.by.as_deref().unwrap_or(&e.host_nqn)),
            e.peer.clone().map_or("-".into(), |p| p),
            known(&e.subsystem),
            e.controller.map_or("-".into(), |c| c.to_string()),
            match (&e.action, &e.result) {
                (Some(action), Some(result)) => format!("{action}: {result}"),
                _ => e.detail.clone(),
            },
        ]
    };
    let columns =
        [("time", Left), ("event", Left), ("who", Left), ("from", Left), ("subsystem", Left), ("controller", Right), ("detail", Left)];
    table::print(&columns, entries.iter().map(row).collect(), "Nothing was noted yet.");
}

fn authenticates(h: &Host) -> String {
    match (&h.dhchap, &h.chap) {
        (Some(d), _) => format!("DH-HMAC-CHAP; its secret is {}", d.host_secret),
        (None, Some(c)) => {
            let target = c.target_user.iter().zip(&c.target_secret).map(|(user, kept)| format!("; targets as {user}: {kept}"));
            format!("CHAP as {}; its secret is {}{}", c.user, c.secret, target.collect::<String>())
        }
        (None, None) => "no".into(),
    }
}

pub fn host(h: &Host) {
    let dhchap = |of: fn(&Dhchap) -> String| h.dhchap.as_ref().map(of).unwrap_or_default();
    facts(&[
        ("name", or_dash(h.name.clone().unwrap_or_default())),
        ("nqn", h.nqn.clone()),
        ("named by subsystems", or_dash(h.allowed.join(", "))),
        ("authenticates", authenticates(h)),
        ("controller's secret", or_dash(dhchap(|d| d.controller_secret.clone().unwrap_or_default()))),
        ("hash functions", or_dash(dhchap(|d| d.hashes.join(", ")))),
        ("DH groups", or_dash(dhchap(|d| d.groups.join(", ")))),
        (
            "TLS keys",
            or_dash(
                h.tls_psks
                    .iter()
                    .map(|k| format!("for {}: {}", k.subsystem.as_deref().unwrap_or("all"), k.psk))
                    .collect::<Vec<_>>()
                    .join("; "),
            ),
        ),
    ]);
    println!();
    let row = |s: &Session| {
        let over = match s.protocol {
            Protocol::Iscsi => "iSCSI",
            Protocol::NvmeTcp if s.encrypted => "TLS",
            Protocol::NvmeTcp => "plain",
        };
        let (queues, time) = (s.io_queues.to_string(), duration(s.connected_s));
        vec![s.controller.to_string(), s.subsystem_nqn.clone(), s.address.clone(), queues, over.into(), time]
    };
    let columns = [("controller", Right), ("subsystem", Left), ("from", Left), ("queues", Right), ("over", Left), ("for", Right)];
    table::print(&columns, h.sessions.iter().map(row).collect(), "It is not connected.");
}
