use super::*;
use crate::data_plane::tests::Node;
use crate::plane::DataPlane;

/// The families of the data plane, as administrators have them in their dashboards and alerts. Others may come, none of these may go.
const PUBLISHED: &str = "
    basalt_core_busy_seconds_total counter
    basalt_core_device_bytes_total counter
    basalt_core_device_operations_total counter
    basalt_core_loops_total counter
    basalt_core_receive_bytes_total counter
    basalt_core_receive_calls_total counter
    basalt_core_send_bytes_total counter
    basalt_core_send_calls_total counter
    basalt_core_sleep_seconds_total counter
    basalt_core_syscalls_total counter
    basalt_core_task_polls_total counter
    basalt_device_discards_total counter
    basalt_device_errors_total counter
    basalt_device_flushes_total counter
    basalt_device_in_flight gauge
    basalt_device_latency_seconds histogram
    basalt_device_read_bytes_total counter
    basalt_device_reads_total counter
    basalt_device_write_bytes_total counter
    basalt_device_writes_total counter
    basalt_frontend_audit_events_dropped_total counter
    basalt_frontend_authentication_failures_total counter
    basalt_frontend_authentications_total counter
    basalt_frontend_command_errors_total counter
    basalt_frontend_commands_total counter
    basalt_frontend_connections_refused_total counter
    basalt_frontend_connections_total counter
    basalt_frontend_connects_refused_total counter
    basalt_frontend_controllers_total counter
    basalt_frontend_data_bytes_total counter
    basalt_frontend_data_digest_errors_total counter
    basalt_frontend_events_total counter
    basalt_frontend_handshakes_evicted_total counter
    basalt_frontend_keep_alive_expired_total counter
    basalt_frontend_late_ticks_total counter
    basalt_frontend_latency_seconds histogram
    basalt_frontend_open_connections gauge
    basalt_frontend_open_controllers gauge
    basalt_frontend_pdus_received_total counter
    basalt_frontend_pdus_sent_total counter
    basalt_frontend_r2ts_total counter
    basalt_frontend_received_bytes_total counter
    basalt_frontend_sent_bytes_total counter
    basalt_frontend_terminations_received_total counter
    basalt_frontend_terminations_sent_total counter
    basalt_frontend_timeouts_total counter
    basalt_frontend_tls_failures_total counter
    basalt_frontend_tls_handshakes_total counter
    basalt_frontend_waits_for_buffers_total counter
    basalt_frontend_waits_for_queues_total counter
    basalt_iscsi_check_conditions_total counter
    basalt_iscsi_commands_aborted_total counter
    basalt_iscsi_commands_total counter
    basalt_iscsi_connections_refused_total counter
    basalt_iscsi_connections_total counter
    basalt_iscsi_logins_refused_total counter
    basalt_iscsi_logins_total counter
    basalt_iscsi_pdus_received_total counter
    basalt_iscsi_read_bytes_total counter
    basalt_iscsi_sessions_ended_total counter
    basalt_iscsi_timeouts_total counter
    basalt_object_agreed_ranges_total counter
    basalt_object_copied_changes_total counter
    basalt_object_crossed_parts_total counter
    basalt_object_discard_bytes_total counter
    basalt_object_discard_errors_total counter
    basalt_object_discards_total counter
    basalt_object_hanging_shards gauge
    basalt_object_held_changes_total counter
    basalt_object_late_copy_requests_total counter
    basalt_object_latency_seconds histogram
    basalt_object_partial_block_parts_total counter
    basalt_object_parts_total counter
    basalt_object_read_bytes_total counter
    basalt_object_read_errors_total counter
    basalt_object_reads_from_another_copy_total counter
    basalt_object_reads_total counter
    basalt_object_reads_waiting_for_grants_total counter
    basalt_object_refused_copy_requests_total counter
    basalt_object_remote_reads_total counter
    basalt_object_repaired_ranges_total counter
    basalt_object_resent_changes_total counter
    basalt_object_resynced_blocks_total counter
    basalt_object_resynced_ranges_total counter
    basalt_object_throttled_requests_total counter
    basalt_object_waited_operations_total counter
    basalt_object_write_bytes_total counter
    basalt_object_write_errors_total counter
    basalt_object_writes_total counter
    basalt_peers_cancelled_requests_total counter
    basalt_peers_forwarded_requests_total counter
    basalt_peers_link_connections_evicted_total counter
    basalt_peers_link_connections_refused_total counter
    basalt_peers_link_tls_handshakes_total counter
    basalt_peers_links_closed_total counter
    basalt_peers_links_opened_total counter
    basalt_peers_lost_requests_total counter
    basalt_peers_refused_requests_total counter
    basalt_peers_returned_requests_total counter
    basalt_peers_served_requests_total counter
    basalt_store_batches_total counter
    basalt_store_buffer_live_bytes gauge
    basalt_store_buffer_overhead_bytes_total counter
    basalt_store_buffer_write_errors_total counter
    basalt_store_capacity_write_errors_total counter
    basalt_store_checkpoints_total counter
    basalt_store_checksum_errors_total counter
    basalt_store_delayed_writes_total counter
    basalt_store_destaged_bytes_total counter
    basalt_store_drain_bytes_per_second gauge
    basalt_store_empty_trims_total counter
    basalt_store_index_memory_bytes gauge
    basalt_store_media_errors_total counter
    basalt_store_no_space_errors_total counter
    basalt_store_operations_in_flight gauge
    basalt_store_read_blocks_total counter
    basalt_store_read_buffer_blocks_total counter
    basalt_store_read_errors_total counter
    basalt_store_reads_total counter
    basalt_store_recovery_seconds gauge
    basalt_store_scrub_passes_total counter
    basalt_store_scrubbed_blocks_total counter
    basalt_store_scrubbing_shards gauge
    basalt_store_segments_released_total counter
    basalt_store_trims_total counter
    basalt_store_waiting_operations gauge
    basalt_store_writes_total counter
    basalt_store_written_blocks_total counter
";

#[test]
fn the_families_of_the_data_plane_keep_their_names_and_types_and_help_texts_are_sentences() {
    let node = Node::new();
    node.format("a", 1);
    let stats = node.plane.stats().unwrap();
    let mut page = Page::default();
    planes(&mut page, &stats);
    store(&mut page, "g", &stats.groups[0]);
    let kind = |t: Type| match t {
        Type::Counter => "counter",
        Type::Gauge => "gauge",
        Type::Histogram => "histogram",
    };
    let families: Vec<String> = page.families.iter().map(|(name, (t, ..))| format!("{name} {}", kind(*t))).collect();
    let published: Vec<_> = PUBLISHED.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(families, published);
    for (name, (_, help, _)) in &page.families {
        is_a_sentence(name, help);
    }
}

/// People read it in Prometheus and Grafana: no marks of a page.
fn is_a_sentence(name: &str, help: &str) {
    let begins = help.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit());
    assert!(begins && help.ends_with('.') && !help.contains(['[', '`', '\n']), "{name}: {help}");
}

/// What `promtool check metrics` says of a page, in a few rules; and that it can be read.
fn lint(page: &str) -> Result<(), String> {
    let mut family: Option<(String, String)> = None;
    let mut seen = std::collections::BTreeSet::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').ok_or_else(|| format!("no help: {line}"))?;
            if !seen.insert(name.to_owned()) || help.is_empty() {
                return Err(format!("{name} is there twice, or says nothing"));
            }
            let parts: Vec<&str> = name.split('_').collect();
            let units =
                ["milliseconds", "microseconds", "nanoseconds", "ms", "us", "ns", "kib", "mib", "kilobytes", "minutes", "hours", "percent"];
            if let Some(unit) = parts.iter().find(|part| units.contains(part)) {
                return Err(format!("{name}: {unit} is no base unit"));
            }
            if name.chars().any(|c| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')) {
                return Err(format!("{name} is not in snake case"));
            }
            family = Some((name.to_owned(), String::new()));
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or_else(|| format!("no type: {line}"))?;
            let of = family.as_mut().filter(|(of, _)| of == name).ok_or_else(|| format!("{name} has no help before its type"))?;
            if (kind == "counter") != name.ends_with("_total") {
                return Err(format!("{name} is a {kind}"));
            }
            if ["gauge", "counter", "histogram"].iter().any(|word| name.split('_').any(|part| part == *word)) {
                return Err(format!("{name} has its type in its name"));
            }
            of.1 = kind.to_owned();
        } else {
            let (name, kind) = family.as_ref().ok_or_else(|| format!("a sample before its family: {line}"))?;
            let end = line.find(['{', ' ']).ok_or_else(|| format!("no value: {line}"))?;
            let suffix = line[..end].strip_prefix(name.as_str()).ok_or_else(|| format!("{line} stands below {name}"))?;
            let suffixes: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            let value = line.rsplit(' ').next().unwrap_or_default();
            if !suffixes.contains(&suffix) || value.parse::<f64>().is_err() || !seen.insert(line[..line.len() - value.len()].to_owned()) {
                return Err(format!("no sample of a {kind}, or one that is there twice: {line}"));
            }
        }
    }
    Ok(())
}

/// A page with families of every layer, and of a volume and hosts of which something was asked.
async fn full(form: Exposition) -> String {
    let bench = crate::api::tests::Bench::new();
    let mut latency = base::Histogram::default();
    (1..1000).for_each(|us| latency.record(us * 1000));
    let operation = |operation| OperationFigures { operation, operations: 999, bytes: 4096, errors: 1, latencies: (&latency).into() };
    let volume = crate::plane::VolumeFigures { operations: vec![operation("read"), operation("write")], ..Default::default() };
    let host = crate::plane::HostFigures { nqn: Some("nqn.a\"b".into()), operations: vec![operation("read")], ..Default::default() };
    let others = crate::plane::HostFigures { nqn: None, ..host.clone() };
    // Before anything asks for figures: they may be half a second old.
    bench.plane.statistics(vec![volume], vec![host, others]);
    let bench = bench.with_group().await;
    bench.volume("db", 1 << 30).await;
    bench.control.metrics(form).unwrap()
}

#[tokio::test]
async fn the_page_keeps_the_rules_of_prometheus() {
    let page = full(Exposition::Text).await;
    lint(&page).unwrap();
    let help: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' ')).collect();
    help.iter().for_each(|(name, help)| is_a_sentence(name, help));
    for layer in ["build", "health", "start", "sessions", "volume", "host", "core", "device", "group", "capacity", "buffer", "store"] {
        let there = help.iter().any(|(name, _)| name.strip_prefix("basalt_").is_some_and(|name| name.starts_with(layer)));
        assert!(there, "no family of {layer} was looked at");
    }
    for family in [
        "basalt_volume_latency_seconds_bucket{volume=\"(others)\",operation=\"read\",le=",
        "basalt_host_commands_total{host=\"nqn.a\\\"b\"",
        "basalt_host_commands_total{host=\"(others)\"",
    ] {
        assert!(page.contains(family), "{family} is missing");
    }
    for wrong in [
        "# HELP a_milliseconds A.\n# TYPE a_milliseconds gauge\na_milliseconds 1\n",
        "# HELP a A.\n# TYPE a counter\na 1\n",
        "# HELP a_total A.\n# TYPE a_total gauge\na_total 1\n",
        "# HELP a A.\n# TYPE a gauge\na 1\na 2\n",
        "# HELP a A.\n# TYPE a gauge\nb 1\n",
    ] {
        assert!(lint(wrong).is_err(), "{wrong}");
    }
}

/// What OpenMetrics 1.0 wants of a page, as far as a page of ours can break it.
fn lint_open(page: &str) -> Result<(), String> {
    let body = page.strip_suffix("# EOF\n").ok_or("it does not end with # EOF")?;
    let (mut family, mut kind, mut seen) = (String::new(), String::new(), std::collections::BTreeSet::new());
    for line in body.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            // Neither a family nor a sample of one may be called as a sample of another.
            let taken = ["", "_total", "_bucket", "_sum", "_count", "_created", "_info"]
                .iter()
                .any(|suffix| seen.contains(&format!("{name}{suffix}")));
            if taken || name.ends_with("_total") || help.contains(['"', '\\']) {
                return Err(format!("{name} is there twice, is called as its samples are, or its help is not escaped"));
            }
            family = name.to_owned();
            seen.insert(family.clone());
        } else if let Some((name, of)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            if name != family {
                return Err(format!("{name} stands below {family}"));
            }
            kind = of.to_owned();
        } else {
            let end = line.find(['{', ' ']).ok_or_else(|| format!("no sample: {line}"))?;
            let suffix = line[..end].strip_prefix(family.as_str()).ok_or_else(|| format!("{line} stands below {family}"))?;
            let suffixes: &[&str] = match kind.as_str() {
                "counter" => &["_total"],
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            let le = line.split_once(",le=\"").or_else(|| line.split_once("{le=\"")).and_then(|(_, rest)| rest.split('"').next());
            let canonical = le.is_none_or(|le| le == "+Inf" || le.contains('.'));
            let value = line.rsplit(' ').next().unwrap_or_default();
            if !suffixes.contains(&suffix) || !canonical || value.parse::<f64>().is_err() {
                return Err(format!("no sample of a {kind}: {line}"));
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn as_open_metrics_the_page_has_the_same_samples_and_keeps_its_rules() {
    let (text, open) = (full(Exposition::Text).await, full(Exposition::OpenMetrics).await);
    lint_open(&open).unwrap();
    assert!(
        open.contains("# TYPE basalt_host_commands counter\nbasalt_host_commands_total{host=") && open.contains("le=\"1.0\""),
        "{open}"
    );
    let names = |page: &str| -> Vec<String> {
        let samples = page.lines().filter(|line| !line.starts_with('#'));
        samples.map(|line| line.split(['{', ' ']).next().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&text), names(&open));
    assert!(!text.contains("EOF") && text.contains("# TYPE basalt_host_commands_total counter"), "{text}");
    for wrong in [
        "# HELP a A.\n# TYPE a gauge\na 1\n",
        "# HELP a_total A.\n# TYPE a_total counter\na_total 1\n# EOF\n",
        "# HELP a A.\n# TYPE a counter\na 1\n# EOF\n",
        "# HELP a A.\n# TYPE a gauge\na 1\n# HELP a A.\n# TYPE a gauge\na 1\n# EOF\n",
        "# HELP a A.\n# TYPE a histogram\na_bucket{le=\"1\"} 1\n# EOF\n",
    ] {
        assert!(lint_open(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn open_metrics_is_for_who_asks_for_it_and_wants_text_no_more() {
    for (accept, form) in [
        ("", Exposition::Text),
        ("*/*", Exposition::Text),
        ("text/plain", Exposition::Text),
        ("application/json", Exposition::Text),
        ("application/openmetrics-text", Exposition::OpenMetrics),
        ("Application/OpenMetrics-Text; Version=1.0.0", Exposition::OpenMetrics),
        ("application/openmetrics-text; version=\"1.0.0\"; charset=utf-8, */*;q=0.1", Exposition::OpenMetrics),
        ("application/openmetrics-text; version=2.0.0", Exposition::Text),
        ("application/openmetrics-text; q=0", Exposition::Text),
        ("application/openmetrics-text; q=nonsense", Exposition::Text),
        ("application/openmetrics-text; q=7", Exposition::Text),
        ("application/openmetrics-text;q=0.4,text/plain;version=0.0.4;q=0.5", Exposition::Text),
        // Prometheus 2 and 3.
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            Exposition::OpenMetrics,
        ),
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
            Exposition::OpenMetrics,
        ),
    ] {
        assert_eq!(Exposition::accepted(accept), form, "{accept}");
    }
}
