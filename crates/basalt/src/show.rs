//! What each answer looks like to a person.

use crate::output::{Output, Page};
use crate::table::{self, Rows, duration, percent, size};
use control::api::types::*;
use serde::Serialize;
use std::collections::BTreeSet;

/// The word of an enum as the API has it.
pub fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

fn yes(value: bool) -> String {
    if value { "yes" } else { "no" }.into()
}

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".into() } else { text }
}

pub fn status(s: &Status, out: &Output) -> Page {
    let verdict = match s.health {
        Health::Ok => "ok",
        Health::Warning => "WARNING",
        Health::Error => "ERROR",
    };
    let mut page = Page::new().name(word(&s.health)).line(format!("health: {}", out.coloured(verdict)));
    for check in &s.checks {
        let health = out.coloured(&word(&check.health));
        page = page.line(format!("\n  {health} {}: {}\n    to do: {}", check.subject, check.message, check.action));
    }
    let listeners = s.listeners.iter().map(|l| {
        let advertise = l.advertise.as_ref().map(|a| format!(" (published to hosts: {a})")).unwrap_or_default();
        format!("{} on {}{advertise}", l.kind, l.address)
    });
    let free = s.capacity_bytes.saturating_sub(s.used_bytes + s.reserved_bytes);
    page.facts([
        ("node", format!("{}, basalt {}, up {}", s.node, s.version, since(s.started_unix_s))),
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
    ])
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

pub fn nodes(nodes: &[Node]) -> Page {
    let known = |text: &Option<String>| or_dash(text.clone().unwrap_or_default());
    Rows::of(nodes, "There is no node.")
        .left("node", |n| if n.leads { format!("{} (leads)", n.name) } else { n.name.clone() })
        .left("role", |n| n.role.clone())
        .left("fault domain", |n| n.fault_domain.clone())
        .left("address", |n| known(&n.address))
        .left("release", |n| known(&n.version))
        .right("cores", |n| or_dash(n.cores.map(|c| c.to_string()).unwrap_or_default()))
        .right("groups", |n| n.groups.len().to_string())
        .left("etcd", |n| known(&n.etcd))
        .state("up", |n| if n.up || n.role == "witness" { or_dash(n.started_unix_s.map(since).unwrap_or_default()) } else { "down".into() })
        .left("id", |n| known(&n.id))
        .wide()
        .names(|n| n.name.clone())
        .into()
}

pub fn node(n: &Node) -> Page {
    Page::new().name(&n.name).facts([
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
    ])
}

pub fn cluster(c: &Cluster, out: &Output) -> Page {
    let check =
        |check: &Check| format!("{} {}: {}\n  to do: {}", out.coloured(&word(&check.health)), check.subject, check.message, check.action);
    let alone = (!c.formed).then(|| "This server is alone: 'basalt cluster create' makes it the first node of a cluster.".to_owned());
    let said: Vec<String> = c.checks.iter().map(check).chain(alone).collect();
    let page = if said.is_empty() { Page::new() } else { Page::new().line(said.join("\n\n")) };
    let page = page.name(&c.cluster);
    let page = page.facts([
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
        return page;
    }
    let is = |m: &EtcdMember| match (m.votes, m.leads) {
        (false, _) => "learner".to_owned(),
        (true, true) => "leader".to_owned(),
        (true, false) => "follower".to_owned(),
    };
    let what = if c.directory == DirectoryKind::ExternalEtcd { "endpoint of etcd" } else { "member of etcd" };
    let members = Rows::of(&c.members, "").left(what, |m| m.node.clone()).left("is", is);
    page.rows(members.left("state", |m| m.trouble.clone().unwrap_or_else(|| "ok".into())))
}

pub fn drives(drives: &[Drive]) -> Page {
    let known = |text: &Option<String>| or_dash(text.clone().unwrap_or_default());
    Rows::of(drives, "There are no drives that Basalt could use; files and memory work too.")
        .left("device", |d| d.path.clone())
        .left("kind", |d| d.kind.clone())
        .right("size", |d| size(d.bytes))
        .right("block", |d| d.lba_bytes.to_string())
        .left("model", |d| known(&d.model))
        .left("serial", |d| known(&d.serial))
        .left("firmware", |d| known(&d.firmware))
        .wide()
        .left("stays as", |d| known(&d.stable_path))
        .wide()
        .left("used by", |d| if d.use_state == "free" { "free".into() } else { d.used_by.join(", ") })
        .into()
}

pub fn drive(shown: &DriveHealth) -> Page {
    let (d, s) = (&shown.drive, shown.smart.as_ref());
    let of = |value: &dyn Fn(&Smart) -> String| s.map(value).unwrap_or_default();
    Page::new().facts([
        ("device", d.path.clone()),
        ("stays as", d.stable_path.clone().unwrap_or_default()),
        ("kind", d.kind.clone()),
        ("size", size(d.bytes)),
        ("block", format!("{} bytes", d.lba_bytes)),
        ("model", d.model.clone().unwrap_or_default()),
        ("serial", d.serial.clone().unwrap_or_default()),
        ("firmware", d.firmware.clone().unwrap_or_default()),
        ("used by", if d.use_state == "free" { "nobody: it is free".into() } else { d.used_by.join(", ") }),
        ("health", shown.unknown.as_ref().map(|why| format!("unknown: {why}")).unwrap_or_default()),
        ("warns of", of(&|s| if s.warnings.is_empty() { "nothing".into() } else { s.warnings.join("; ") })),
        ("endurance used", of(&|s| format!("{} %", s.used_percent))),
        ("spare", of(&|s| format!("{} % (warns below {} %)", s.spare_percent, s.spare_threshold_percent))),
        ("temperature", of(&|s| format!("{} °C", s.temperature_celsius))),
        ("too hot for", of(&|s| format!("{} min, far too hot for {} min", s.warning_temperature_minutes, s.critical_temperature_minutes))),
        ("media errors", of(&|s| s.media_errors.to_string())),
        ("error log", of(&|s| format!("{} entries ever", s.error_log_entries))),
        ("read", of(&|s| size(s.read_bytes))),
        ("written", of(&|s| size(s.written_bytes))),
        ("on", of(&|s| format!("{} h, {} times, {} of them ended without notice", s.power_on_hours, s.power_cycles, s.unsafe_shutdowns))),
    ])
}

pub fn groups(groups: &[Group]) -> Page {
    Rows::of(groups, "There is no disk group yet. Make one: basalt group create --help")
        .left("name", |g| g.name.clone())
        .state("state", |g| word(&g.state))
        .left("node", |g| g.node.clone())
        .wide()
        .right("devices", |g| g.capacity.len().to_string())
        .right("capacity", |g| size(g.capacity_bytes))
        .right("used", |g| size(g.used_bytes))
        .right("reserved", |g| size(g.reserved_bytes))
        .right("full", |g| percent(g.used_bytes + g.reserved_bytes, g.capacity_bytes))
        .right("buffer", |g| size(g.buffer_bytes))
        .right("full", |g| percent(g.buffer_used_bytes, g.buffer_bytes))
        .right("components", |g| g.components.to_string())
        .left("id", |g| g.id.clone())
        .wide()
        .into()
}

pub fn group(g: &Group) -> Page {
    let page = Page::new().facts([
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
    let part = |bytes: Option<u64>| bytes.map_or("-".into(), size);
    let devices: Vec<(&str, &Device)> = std::iter::once(("cache", &g.cache)).chain(g.capacity.iter().map(|d| ("capacity", d))).collect();
    let rows = Rows::of(&devices, "")
        .left("role", |d| d.0.into())
        .left("device", |d| d.1.path.clone())
        .left("kind", |d| word(&d.1.kind))
        .state("state", |d| word(&d.1.state).replace('_', " "))
        .right("size", |d| size(d.1.bytes))
        .right("usable", |d| part(d.1.usable_bytes))
        .right("used", |d| part(d.1.used_bytes))
        .right("reserved", |d| part(d.1.reserved_bytes))
        .right("components", |d| d.1.number.map_or("-".into(), |_| d.1.components.to_string()));
    let page = page.rows(rows);
    g.capacity
        .iter()
        .filter_map(|d| Some((d, d.reason.as_ref()?)))
        .fold(page, |page, (d, reason)| page.line(format!("{}: {reason}", d.path)))
}

fn limit(value: Option<u64>, text: impl Fn(u64) -> String) -> String {
    value.map_or("none".into(), text)
}

fn switch(on: bool) -> String {
    if on { "on" } else { "off" }.into()
}

pub fn policies(policies: &[Policy]) -> Page {
    let rows = Rows::of(policies, "There is no policy.")
        .left("name", |p| p.name.clone())
        .right("ftt", |p| p.failures_to_tolerate.to_string())
        .right("stripes", |p| p.stripe_width.to_string())
        .right("reserved", |p| format!("{} %", p.space_reservation_percent))
        .right("read cache", |p| format!("{} %", p.read_cache_reservation_percent))
        .wide()
        .right("iops", |p| limit(p.iops_limit, |n| n.to_string()))
        .right("bandwidth", |p| limit(p.bandwidth_limit, |n| format!("{}/s", size(n))))
        .left("checksum", |p| switch(p.checksum))
        .left("force", |p| switch(p.force_provisioning))
        .left("slow copies", |p| if p.slow_copies_leave { "leave" } else { "stay" }.into())
        .wide()
        .right("repair after", |p| p.repair_after_s.map_or("never".into(), duration))
        .wide()
        .right("volumes", |p| p.volumes.to_string())
        .state("possible", |p| yes(p.not_possible.is_empty()));
    let not_possible = policies.iter().filter(|p| !p.not_possible.is_empty());
    not_possible.fold(Page::from(rows), |page, p| page.line(format!("\n{}: not possible now: {}", p.name, p.not_possible.join("; "))))
}

pub fn policy(p: &Policy) -> Page {
    Page::new().facts([
        ("name", p.name.clone()),
        ("failures to tolerate", p.failures_to_tolerate.to_string()),
        ("stripe width", p.stripe_width.to_string()),
        ("space reservation", format!("{} %", p.space_reservation_percent)),
        ("read-cache reservation", format!("{} %", p.read_cache_reservation_percent)),
        ("IOPS limit", limit(p.iops_limit, |n| format!("{n} a second (of 32 KiB)"))),
        ("bandwidth limit", limit(p.bandwidth_limit, |n| format!("{} a second", size(n)))),
        ("checksum", switch(p.checksum)),
        ("force provisioning", switch(p.force_provisioning)),
        ("slow copies", if p.slow_copies_leave { "leave" } else { "stay" }.into()),
        ("copies that are away", p.repair_after_s.map_or("waited for".into(), |s| format!("made anew elsewhere after {}", duration(s)))),
        ("volumes", p.volumes.to_string()),
        ("not possible now", p.not_possible.join("; ")),
    ])
}

fn copy_state(c: &Component) -> String {
    match (c.resync_percent, c.resync_seconds_left) {
        (Some(percent), Some(left)) => format!("{} {percent} %, {} left", c.state, duration(left)),
        (Some(percent), None) => format!("{} {percent} %", c.state),
        (None, _) if c.slow => format!("{}, slow", c.state),
        (None, _) => c.state.clone(),
    }
}

pub fn policy_made(p: &Policy, done: &str) -> Page {
    let page = Page::new().name(&p.name).line(format!("policy {} is {done}", p.name));
    if p.not_possible.is_empty() {
        return page;
    }
    let then = if p.force_provisioning { "volumes get what is possible" } else { "volumes with it are refused" };
    page.line(format!("  note: {}; until then {then}", p.not_possible.join("; ")))
}

/// What becomes of the copies of a volume that is recovered, and what is lost.
pub fn recovery(r: &Recovery) -> Page {
    let becomes = |c: &RecoveryCopy| match c.becomes {
        RecoveredCopy::Kept => "kept",
        RecoveredCopy::Follows => "brought into sync",
        RecoveredCopy::GivenUp => "given up",
    };
    let copies: Page = Rows::of(&r.copies, "It has no copies.")
        .left("node", |c| c.node.clone())
        .right("mirror", |c| c.mirror.to_string())
        .state("state", |c| c.state.clone())
        .left("becomes", |c| becomes(c).into())
        .into();
    r.losses.iter().fold(copies, |page, loss| page.line(format!("  {loss}")))
}

pub fn volumes(volumes: &[Volume]) -> Page {
    let attached = |v: &Volume| v.attachments.iter().map(|a| format!("{}/{}", a.subsystem, a.nsid)).collect::<Vec<_>>().join(", ");
    let groups =
        |v: &Volume| v.components.iter().map(|c| c.group.as_str()).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ");
    Rows::of(volumes, "There is no volume yet. Make one: basalt volume create NAME --size 100GiB")
        .left("name", |v| v.name.clone())
        .right("size", |v| size(v.bytes))
        .right("used", |v| v.used_bytes.map_or("-".into(), size))
        .right("reserved", |v| size(v.reserved_bytes))
        .wide()
        .left("policy", |v| v.policy.clone())
        .state("compliant", |v| yes(v.compliant))
        .right("in sync", |v| format!("{} of {}", v.copies_in_sync, v.copies))
        .right("block", |v| v.lba_bytes.to_string())
        .state("state", |v| word(&v.state))
        .left("owner", |v| or_dash(owner(v)))
        .wide()
        .left("groups", |v| or_dash(groups(v)))
        .wide()
        .left("subsystem/nsid", |v| or_dash(attached(v)))
        .left("id", |v| v.id.clone())
        .wide()
        .into()
}

pub fn volume(v: &Volume) -> Page {
    let attached: Vec<String> = v.attachments.iter().map(|a| format!("{} as namespace {}", a.nqn, a.nsid)).collect();
    let page = Page::new().facts([
        ("name", v.name.clone()),
        ("id", v.id.clone()),
        ("size", size(v.bytes)),
        ("used", v.used_bytes.map(|b| format!("{} ({})", size(b), percent(b, v.bytes))).unwrap_or_default()),
        ("reserved", size(v.reserved_bytes)),
        ("grows to", size(v.grow_bytes_max)),
        ("block", format!("{} bytes", v.lba_bytes)),
        ("policy", v.policy.clone()),
        ("compliant", if v.compliant { "yes".into() } else { format!("no: {}", v.shortfalls.join("; ")) }),
        ("disk groups", v.groups.join(", ")),
        ("new layout", v.moving.as_ref().map(moving).unwrap_or_default()),
        ("copies in sync", format!("{} of {}, epoch {}", v.copies_in_sync, v.copies, v.epoch)),
        ("state", word(&v.state)),
        ("reason", v.reason.clone().unwrap_or_default()),
        ("access", if v.read_only { "read-only" } else { "read and write" }.into()),
        ("owner", owner(v)),
        ("resync", if v.copies > 1 || v.resync != ResyncPace::Normal { word(&v.resync) } else { String::new() }),
        ("attached", or_dash(attached.join(", "))),
        ("reservation", v.reservation.as_ref().map(reservation).unwrap_or_default()),
        ("created", table::time(v.created_unix_s)),
    ]);
    let of = |what: fn(&Component) -> String| move |line: &Branch| line.component.as_ref().map(what).unwrap_or_default();
    let lines = branches(v);
    let rows = Rows::of(&lines, "It has no components.")
        .left("object", |line| line.drawn.clone())
        .state("state", of(copy_state))
        .left("node", of(|c| c.node.clone()))
        .left("group", of(|c| c.group.clone()))
        .left("device", of(|c| c.device.clone()))
        .right("size", of(|c| size(c.bytes)))
        .right("used", of(|c| c.used_bytes.map_or("-".into(), size)))
        .right("reserved", of(|c| size(c.reserved_bytes)));
    let why = v.components.iter().filter_map(|c| Some(format!("  copy {} of stripe {} is out: {}", c.copy, c.stripe, c.reason.as_ref()?)));
    why.fold(page.rows(rows), Page::line)
}

/// A line of the tree of a volume: the object, its stripes, and of each the copies.
struct Branch {
    drawn: String,
    component: Option<Component>,
}

fn branches(v: &Volume) -> Vec<Branch> {
    let mut lines = Vec::new();
    let stripes = v.components.iter().map(|c| c.stripe + 1).max().unwrap_or(0);
    for stripe in 0..stripes {
        let (knot, below) = if stripe + 1 == stripes { ("└─", "   ") } else { ("├─", "│  ") };
        lines.push(Branch { drawn: format!("{knot} stripe {stripe}"), component: None });
        let copies: Vec<&Component> = v.components.iter().filter(|c| c.stripe == stripe).collect();
        for (n, c) in copies.iter().enumerate() {
            let knot = if n + 1 == copies.len() { "└─" } else { "├─" };
            lines.push(Branch { drawn: format!("{below}{knot} copy {}", c.copy), component: Some((*c).clone()) });
        }
    }
    lines
}

/// How far the new layout of a volume is.
fn moving(m: &Moving) -> String {
    let left = m.seconds_left.map(|s| format!(", {} left", duration(s))).unwrap_or_default();
    let is = m.percent.map_or_else(|| "not begun".into(), |percent| format!("{percent} % of the data is there{left}"));
    m.reason.as_ref().map_or(is.clone(), |why| format!("{is}; it does not go on: {why}"))
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
    lines.extend(r.taken_by.as_ref().map(|host| format!("taken whole by {host} (RESERVE), until its session ends")));
    let holds = |held| if held { " (holds it)" } else { "" };
    lines.extend(r.registrants.iter().map(|x| format!("host {} with key {}{}", x.host_id, x.key, holds(x.holder))));
    lines.join("\n                ")
}

pub fn volume_made(v: &Volume) -> Page {
    let is = match v.attachments.first() {
        Some(a) => format!("{}, namespace {} of {}", size(v.bytes), a.nsid, a.nqn),
        None => format!("{}; show it to hosts with 'basalt subsystem attach SUBSYSTEM {}'", size(v.bytes), v.name),
    };
    let page = Page::new().name(&v.name).line(format!("volume {} is made: {is}", v.name));
    if v.compliant {
        return page;
    }
    page.line(format!("  note: it is not what policy {} asks: {}", v.policy, v.shortfalls.join("; ")))
}

pub fn subsystems(subsystems: &[Subsystem]) -> Page {
    Rows::of(subsystems, "There is no subsystem. Make one: basalt subsystem create --help")
        .left("name", |s| s.name.clone())
        .left("nqn", |s| s.nqn.clone())
        .left("iscsi name", |s| or_dash(s.iqn.clone().unwrap_or_default()))
        .wide()
        .left("over", |s| if s.iqn.is_some() { "NVMe/TCP, iSCSI" } else { "NVMe/TCP" }.into())
        .left("security", |s| word(&s.security))
        .wide()
        .right("volumes", |s| s.namespaces.len().to_string())
        .right("hosts allowed", |s| if s.allow_any_host { "any".to_owned() } else { s.hosts.len().to_string() })
        .right("connected", |s| s.sessions.to_string())
        .into()
}

pub fn subsystem(s: &Subsystem) -> Page {
    let grant = match &s.namespace_grant {
        None => "managed by administrators".into(),
        Some(g) => format!("managed by hosts too: up to {}, {} in all, policy {}", g.namespaces_max, size(g.bytes_max), g.policy),
    };
    let hosts = if s.hosts.is_empty() { "none".into() } else { s.hosts.join("\n                ") };
    let page = Page::new().facts([
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
    let seen_by = |n: &Namespace| match &n.hosts {
        None => "all".into(),
        Some(hosts) if hosts.is_empty() => "none".into(),
        Some(hosts) => hosts.join("\n"),
    };
    let number = if s.iqn.is_some() { "nsid, LUN" } else { "nsid" };
    let rows = Rows::of(&s.namespaces, "No volume is attached to it.")
        .right(number, |n| n.nsid.to_string())
        .left("volume", |n| n.volume.clone())
        .right("size", |n| size(n.bytes))
        .left("uuid", |n| n.volume_id.clone())
        .left("seen by", seen_by);
    page.rows(rows)
}

pub fn hosts(hosts: &[Host]) -> Page {
    let from = |h: &Host| {
        let addresses = h.sessions.iter().map(|s| s.address.rsplit_once(':').map_or(s.address.as_str(), |(ip, _)| ip));
        addresses.collect::<BTreeSet<&str>>().into_iter().collect::<Vec<_>>().join(", ")
    };
    Rows::of(hosts, "No host is known or connected.")
        .left("name", |h| or_dash(h.name.clone().unwrap_or_default()))
        .left("nqn", |h| h.nqn.clone())
        .left("named by", |h| or_dash(h.allowed.join(", ")))
        .left("authenticates", authenticates)
        .wide()
        .right("tls keys", |h| h.tls_psks.len().to_string())
        .wide()
        .right("connected", |h| h.sessions.len().to_string())
        .left("from", |h| or_dash(from(h)))
        .names(|h| h.name.clone().unwrap_or_else(|| h.nqn.clone()))
        .into()
}

pub fn audit(entries: &[AuditEntry]) -> Page {
    Rows::of(entries, "Nothing was noted yet.")
        .left("time", |e| table::time(e.unix_ms / 1000))
        .left("event", |e| e.event.clone())
        .left("who", |e| or_dash(e.by.clone().unwrap_or_else(|| e.host_nqn.clone())))
        .left("from", |e| e.peer.clone().map_or("-".into(), |p| p))
        .left("subsystem", |e| or_dash(e.subsystem.clone()))
        .right("controller", |e| e.controller.map_or("-".into(), |c| c.to_string()))
        .left("detail", |e| match (&e.action, &e.result) {
            (Some(action), Some(result)) => format!("{action}: {result}"),
            _ => e.detail.clone(),
        })
        .into()
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

pub fn host(h: &Host) -> Page {
    let dhchap = |of: fn(&Dhchap) -> String| h.dhchap.as_ref().map(of).unwrap_or_default();
    let page = Page::new().name(h.name.as_ref().unwrap_or(&h.nqn)).facts([
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
    let over = |s: &Session| match s.protocol {
        Protocol::Iscsi => "iSCSI".to_owned(),
        Protocol::NvmeTcp if s.encrypted => "TLS".to_owned(),
        Protocol::NvmeTcp => "plain".to_owned(),
    };
    let rows = Rows::of(&h.sessions, "It is not connected.")
        .right("controller", |s| s.controller.to_string())
        .left("subsystem", |s| s.subsystem_nqn.clone())
        .left("from", |s| s.address.clone())
        .right("queues", |s| s.io_queues.to_string())
        .left("over", over)
        .right("for", |s| duration(s.connected_s));
    page.rows(rows)
}
