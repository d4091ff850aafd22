//! Figures of every layer as Prometheus reads them: text exposition format 0.0.4, or OpenMetrics 1.0.0 for who asks for it.
//!
//! Owns: labels, and the names of what is counted nowhere else; each layer names its counters (`base::counters`). Names: `basalt_LAYER_WHAT_UNIT`, counters end in `_total`, times are seconds.
//! Invariant: each family is written once, with HELP and TYPE, all its samples together.

use crate::{
    Problem,
    api::types as api,
    engine::Control,
    plane::{LATENCY_BOUNDS_NS, Latencies, OperationFigures, Stats},
};
use base::counters::{Figure, FigureKind, Figures};
use std::{collections::BTreeMap, fmt::Write};

/// What volumes, and hosts, that are not counted apart are called, with those that are gone.
pub(crate) const OTHERS: &str = "(others)";

#[derive(Clone, Copy, PartialEq)]
enum Type {
    Counter,
    Gauge,
    Histogram,
}

/// In which form figures are published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exposition {
    /// Prometheus' own text.
    #[default]
    Text,
    /// OpenMetrics.
    OpenMetrics,
}

impl Exposition {
    /// Its media type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The one that a request accepts (RFC 9110, 12.5.1): OpenMetrics when it is named, in a version that is known, and text is not wanted more.
    pub fn accepted(accept: &str) -> Self {
        let (mut open, mut text) = (0.0, 0.0);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(|part| part.trim().to_ascii_lowercase());
            let media = parts.next().unwrap_or_default();
            let (mut quality, mut version) = (1.0, None);
            for part in parts {
                match part.split_once('=') {
                    Some(("q", value)) => quality = value.parse::<f32>().ok().filter(|q| (0.0..=1.0).contains(q)).unwrap_or(0.0),
                    Some(("version", value)) => version = Some(value.trim_matches('"').to_owned()),
                    _ => {}
                }
            }
            let best = match (media.as_str(), version.as_deref()) {
                ("application/openmetrics-text", None | Some("1.0.0")) => &mut open,
                ("text/plain", None | Some("0.0.4")) => &mut text,
                _ => continue,
            };
            *best = quality.max(*best);
        }
        if open > 0.0 && open >= text { Self::OpenMetrics } else { Self::Text }
    }
}

/// Families under construction, in the order of their names.
#[derive(Default)]
struct Page {
    form: Exposition,
    families: BTreeMap<String, (Type, &'static str, String)>,
}

type Labels<'a> = [(&'a str, &'a str)];

impl Page {
    fn gauge(&mut self, name: &str, help: &'static str, labels: &Labels<'_>, value: impl std::fmt::Display) {
        self.sample(name.into(), Type::Gauge, help, "", labels, value);
    }

    /// `unit` of nanoseconds becomes seconds.
    fn counter(&mut self, name: &str, help: &'static str, labels: &Labels<'_>, value: u64) {
        if let Some(stem) = name.strip_suffix("_nanoseconds").or_else(|| name.strip_suffix("_ns")) {
            self.sample(format!("{stem}_seconds_total"), Type::Counter, help, "", labels, value as f64 / 1e9);
        } else {
            self.sample(format!("{name}_total"), Type::Counter, help, "", labels, value);
        }
    }

    /// What is done with one of several, by kind of operation. `names`: of the operations, their bytes, errors and latencies; with their help texts.
    fn operations(&mut self, names: &[(String, &'static str); 4], labels: &Labels<'_>, all: &[OperationFigures]) {
        let [operations, bytes, errors, latency] = names;
        for one in all {
            let labels = [labels, &[("operation", one.operation)]].concat();
            self.counter(&operations.0, operations.1, &labels, one.operations);
            self.counter(&bytes.0, bytes.1, &labels, one.bytes);
            self.counter(&errors.0, errors.1, &labels, one.errors);
            if one.operations > 0 {
                self.histogram(&latency.0, latency.1, &labels, &one.latencies);
            }
        }
    }

    /// The figures of a layer.
    fn figures(&mut self, layer: &str, figures: &Figures, labels: &Labels<'_>) {
        for Figure { name, help, kind, value } in figures {
            let name = format!("basalt_{layer}_{name}");
            match kind {
                FigureKind::Counter => self.counter(&name, help, labels, *value),
                FigureKind::Gauge | FigureKind::GaugeMax => match name.strip_suffix("_milliseconds") {
                    Some(stem) => self.gauge(&format!("{stem}_seconds"), help, labels, *value as f64 / 1e3),
                    None => self.gauge(&name, help, labels, value),
                },
            }
        }
    }

    fn histogram(&mut self, name: &str, help: &'static str, labels: &Labels<'_>, latencies: &Latencies) {
        for (bound, at_most) in LATENCY_BOUNDS_NS.into_iter().zip(latencies.at_most) {
            let seconds = bound as f64 / 1e9;
            let mut le = seconds.to_string();
            if self.form == Exposition::OpenMetrics && !le.contains('.') {
                le += ".0";
            }
            let labels = [labels, &[("le", &le)]].concat();
            self.sample(name.into(), Type::Histogram, help, "_bucket", &labels, at_most);
        }
        self.sample(name.into(), Type::Histogram, help, "_bucket", &[labels, &[("le", "+Inf")]].concat(), latencies.count);
        self.sample(name.into(), Type::Histogram, help, "_sum", labels, latencies.sum_ns as f64 / 1e9);
        self.sample(name.into(), Type::Histogram, help, "_count", labels, latencies.count);
    }

    fn sample(&mut self, name: String, kind: Type, help: &'static str, suffix: &str, labels: &Labels<'_>, value: impl std::fmt::Display) {
        let (first, _, text) = self.families.entry(name.clone()).or_insert((kind, help, String::new()));
        debug_assert!(*first == kind, "{name} has two types");
        let _ = write!(text, "{name}{suffix}");
        for (n, (label, value)) in labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(text, "{}{label}=\"{value}\"", if n == 0 { '{' } else { ',' });
        }
        let _ = writeln!(text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    fn text(self) -> String {
        let mut page = String::new();
        for (name, (kind, help, samples)) in self.families {
            // OpenMetrics calls a counter's family as its samples, without their suffix.
            let family = match (self.form, kind) {
                (Exposition::OpenMetrics, Type::Counter) => name.strip_suffix("_total").unwrap_or(&name),
                _ => &name,
            };
            let kind = match kind {
                Type::Counter => "counter",
                Type::Gauge => "gauge",
                Type::Histogram => "histogram",
            };
            let _ = write!(page, "# HELP {family} {help}\n# TYPE {family} {kind}\n{samples}");
        }
        if self.form == Exposition::OpenMetrics {
            page += "# EOF\n";
        }
        page
    }
}

impl Control {
    /// All figures, for Prometheus.
    pub fn metrics(&self, form: Exposition) -> Result<String, Problem> {
        let stats = self.stats()?;
        let status = self.own_status()?;
        // Each node says what it has: what others have is theirs to say. What is shown has the names of nodes that are shown.
        let groups: Vec<api::Group> = self.groups()?.into_iter().filter(|g| g.node == status.node).collect();
        let mut page = Page { form, ..Page::default() };
        node(&mut page, &status);
        planes(&mut page, &stats);
        for group in &groups {
            capacity(&mut page, group);
            if let Some(figures) = stats.groups.iter().find(|f| f.group.to_string() == group.id) {
                store(&mut page, &group.name, figures);
            }
        }
        let own = |v: &api::Volume| v.owner.as_ref().is_none_or(|owner| *owner == status.node);
        for volume in self.volumes()?.into_iter().filter(own) {
            let labels = [("volume", volume.name.as_str())];
            page.gauge("basalt_volume_size_bytes", "Size of a volume as hosts see it.", &labels, volume.bytes);
            page.gauge("basalt_volume_used_bytes", "Capacity that a volume has allocated.", &labels, volume.used_bytes.unwrap_or(0));
            page.gauge("basalt_volume_reserved_bytes", "Capacity set aside for a volume.", &labels, volume.reserved_bytes);
            let online = u8::from(volume.state == api::VolumeState::Online);
            page.gauge("basalt_volume_online", "1 if the volume is served.", &labels, online);
            page.gauge("basalt_volume_compliant", "1 if the volume is what its policy asks.", &labels, u8::from(volume.compliant));
            let slow = volume.components.iter().filter(|c| c.slow).count();
            page.gauge("basalt_volume_slow_components", "Copies that take much longer for changes than the others.", &labels, slow);
            page.gauge("basalt_volume_copies", "Copies that the policy of a volume asks for.", &labels, volume.copies);
            page.gauge("basalt_volume_copies_in_sync", "Copies of a volume that are in sync.", &labels, volume.copies_in_sync);
            let left: u64 = volume.components.iter().filter_map(|c| c.resync_bytes_left).sum();
            let help = "Bytes behind the places that resyncs of a volume have come to: what its copies miss is among them.";
            page.gauge("basalt_volume_resync_remaining_bytes", help, &labels, left);
            let help = "Counts the changes of a volume's owner and of which of its copies are in sync.";
            page.gauge("basalt_volume_epoch", help, &labels, volume.epoch);
            let mut states: BTreeMap<&str, u32> = BTreeMap::new();
            volume.components.iter().for_each(|c| *states.entry(&c.state).or_default() += 1);
            for (state, count) in states {
                let labels = [labels[0], ("state", state)];
                page.gauge("basalt_volume_components", "Components of a volume, by how they are.", &labels, count);
            }
        }
        let names = self.names_of_volumes()?;
        served(&mut page, &stats, &names);
        Ok(page.text())
    }
}

/// What was asked of each volume, and by each host.
fn served(page: &mut Page, stats: &Stats, names: &BTreeMap<base::VolumeId, String>) {
    let families = [
        ("basalt_volume_operations".to_owned(), "Requests to a volume that were answered."),
        ("basalt_volume_operation_bytes".to_owned(), "Bytes of the requests to a volume that did not fail."),
        ("basalt_volume_operation_errors".to_owned(), "Requests to a volume that failed."),
        ("basalt_volume_latency_seconds".to_owned(), "Latency of requests to a volume, with the time that a limit held them back."),
    ];
    for volume in &stats.volumes {
        let name = volume.volume.map_or(Some(OTHERS), |id| names.get(&id).map(String::as_str));
        // One that is gone meanwhile.
        let Some(name) = name else { continue };
        let labels = [("volume", name)];
        page.operations(&families, &labels, &volume.operations);
        let help = "Requests to a volume that a limit of its policy held back.";
        page.counter("basalt_volume_throttled_requests", help, &labels, volume.throttled);
        page.gauge("basalt_volume_queue_depth", "Requests to a volume that are under way, with those that wait.", &labels, volume.requests);
        let help = "Requests to a volume that a limit of its policy holds back just now.";
        page.gauge("basalt_volume_held_requests", help, &labels, volume.held);
    }
    let families = [
        ("basalt_host_commands".to_owned(), "Commands of a host that were answered."),
        ("basalt_host_command_bytes".to_owned(), "Bytes of the commands of a host that did not fail."),
        ("basalt_host_command_errors".to_owned(), "Commands of a host that failed."),
        ("basalt_host_latency_seconds".to_owned(), "Latency of commands of a host, from the last byte of the command to the response."),
    ];
    for host in &stats.hosts {
        let labels = [("host", host.nqn.as_deref().unwrap_or(OTHERS))];
        page.operations(&families, &labels, &host.operations);
        page.gauge("basalt_host_queues", "Connections of a host for I/O, and its sessions over iSCSI.", &labels, host.queues);
        page.gauge("basalt_host_queue_depth", "Commands of a host that are under way.", &labels, host.requests);
    }
}

fn node(page: &mut Page, status: &api::Status) {
    page.gauge("basalt_build_info", "The release that runs.", &[("version", &status.version), ("node", &status.node)], 1);
    page.gauge("basalt_start_time_seconds", "When the daemon started, in seconds since 1970.", &[], status.started_unix_s);
    page.gauge("basalt_health", "0: well, 1: warning, 2: error.", &[], status.health as u8);
    for check in &status.checks {
        let labels = [("check", check.id.as_str()), ("subject", check.subject.as_str())];
        page.gauge("basalt_health_check", "A check that is not well: 1: warning, 2: error.", &labels, check.health as u8);
    }
    page.gauge("basalt_sessions", "Connected hosts (controllers).", &[], status.sessions);
}

fn planes(page: &mut Page, stats: &Stats) {
    for core in &stats.cores {
        page.figures("core", &core.figures, &[("core", &core.core.to_string())]);
    }
    page.figures("object", &stats.object.figures, &[]);
    for (operation, latencies) in &stats.object.latencies {
        let help = "Latency of requests to volumes, at the object layer.";
        page.histogram("basalt_object_latency_seconds", help, &[("operation", operation)], latencies);
    }
    page.figures("peers", &stats.peers, &[]);
    page.figures("frontend", &stats.front.figures, &[]);
    page.figures("iscsi", &stats.iscsi, &[]);
    for (operation, latencies) in &stats.front.latencies {
        let help = "Latency of commands, from the last byte of the command to the first of the response.";
        page.histogram("basalt_frontend_latency_seconds", help, &[("operation", operation)], latencies);
    }
}

fn capacity(page: &mut Page, group: &api::Group) {
    let labels = [("group", group.name.as_str())];
    let online = u8::from(group.state == api::GroupState::Online);
    page.gauge("basalt_group_online", "1 if the disk group is in use.", &labels, online);
    page.gauge("basalt_group_components", "Components on a disk group.", &labels, group.components);
    page.gauge("basalt_buffer_size_bytes", "Room in the write buffer of a disk group.", &labels, group.buffer_bytes);
    page.gauge("basalt_buffer_used_bytes", "Used room in the write buffer of a disk group.", &labels, group.buffer_used_bytes);
    for device in &group.capacity {
        let number = device.number.unwrap_or_default().to_string();
        let labels = [("group", group.name.as_str()), ("index", &number), ("device", &device.path)];
        page.gauge("basalt_capacity_size_bytes", "What a capacity device can hold.", &labels, device.usable_bytes.unwrap_or(0));
        page.gauge("basalt_capacity_used_bytes", "What a capacity device holds.", &labels, device.used_bytes.unwrap_or(0));
        let reserved = device.reserved_bytes.unwrap_or(0);
        page.gauge("basalt_capacity_reserved_bytes", "What is reserved on a capacity device beyond what it holds.", &labels, reserved);
    }
}

fn store(page: &mut Page, group: &str, figures: &crate::plane::GroupFigures) {
    let labels = [("group", group)];
    page.counter("basalt_store_media_errors", "Blocks that could not be read or had a wrong checksum.", &labels, figures.media_errors);
    page.figures("store", &figures.figures, &labels);
    for (n, device) in figures.devices.iter().enumerate() {
        let role = if n == 0 { "cache" } else { "capacity" };
        let labels = [("group", group), ("role", role), ("device", device.name.as_str())];
        page.figures("device", &device.figures, &labels);
        for (operation, latencies) in &device.latencies {
            let labels = [&labels[..], &[("operation", operation)]].concat();
            page.histogram("basalt_device_latency_seconds", "Latency of operations of a device.", &labels, latencies);
        }
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
