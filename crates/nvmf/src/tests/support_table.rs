//! What of the specifications is supported: the single source of `docs/nvme-support.md`. [`super::support_tests`] asks a controller for each code
//! there is, and compares.
//!
//! Who adds a command, a log, a feature, an event or a status adds its line here, with the tests that hold it, and writes the page anew:
//! `UPDATE_SUPPORT=1 cargo test -p nvmf support`.

use format::nvme::StatusCode;

/// Whether it is supported.
#[derive(Clone, Copy)]
pub(super) enum Support {
    /// Since this version. What there is to say; the tests that hold it (functions, or cases of `tests/vm`).
    Since(&'static str, &'static str, &'static [&'static str]),
    /// Not: what a client gets, and why.
    Refused(StatusCode, &'static str),
    /// Not, and nothing is asked for that could be answered.
    Never(&'static str),
}

/// A line of a table.
#[derive(Clone, Copy)]
pub(super) struct Line {
    pub(super) code: u16,
    pub(super) name: &'static str,
    pub(super) spec: &'static str,
    pub(super) state: Support,
}

const fn yes(code: u16, name: &'static str, spec: &'static str, notes: &'static str, tests: &'static [&'static str]) -> Line {
    Line { code, name, spec, state: Support::Since("0.1", notes, tests) }
}
const fn no(code: u16, name: &'static str, spec: &'static str, gets: StatusCode, why: &'static str) -> Line {
    Line { code, name, spec, state: Support::Refused(gets, why) }
}
const fn never(code: u16, name: &'static str, spec: &'static str, why: &'static str) -> Line {
    Line { code, name, spec, state: Support::Never(why) }
}

const OPCODE: StatusCode = StatusCode::INVALID_OPCODE;
const FIELD: StatusCode = StatusCode::INVALID_FIELD;
const PCIE: &str = "PCIe only";
const NEEDS_NONE: &str = "optional";

#[rustfmt::skip]
pub(super) const PDUS: &[Line] = &[
    yes(0x00, "ICReq", "tcp 3.6.2.2", "taken; PFV 0, HPDA up to 128 bytes, both digests", &["every_malformed_pdu_ends_in_a_termination_with_its_reason"]),
    yes(0x01, "ICResp", "tcp 3.6.2.3", "given; CPDA 0, MAXH2CDATA 256 KiB", &["what_is_written_is_read_back_with_every_digest_and_alignment"]),
    yes(0x02, "H2CTermReq", "tcp 3.6.2.4", "taken; the connection is closed", &["a_host_that_gives_up_is_let_go", "a_termination_request_of_the_host_closes_at_once"]),
    yes(0x03, "C2HTermReq", "tcp 3.6.2.5", "given; reasons 1 to 6", &["every_malformed_pdu_ends_in_a_termination_with_its_reason", "a_wrong_header_digest_ends_the_connection_and_names_it"]),
    yes(0x04, "CapsuleCmd", "tcp 3.6.2.6", "taken; in-capsule data up to 16 KiB", &["what_is_written_is_read_back_with_every_digest_and_alignment", "one_byte_at_a_time_gives_the_same_answers"]),
    yes(0x05, "CapsuleResp", "tcp 3.6.2.7", "given", &["what_is_written_is_read_back_with_every_digest_and_alignment"]),
    yes(0x06, "H2CData", "tcp 3.6.2.8", "taken; what an R2T requested and nothing else", &["data_must_be_what_was_asked_for", "a_wrong_data_digest_fails_its_command_only"]),
    yes(0x07, "C2HData", "tcp 3.6.2.9", "given; SUCCESS where SQ flow control is disabled", &["without_flow_control_a_read_ends_with_its_data"]),
    yes(0x09, "R2T", "tcp 3.6.2.10", "given; one a command", &["data_must_be_what_was_asked_for"]),
];

#[rustfmt::skip]
pub(super) const PROPERTIES: &[Line] = &[
    yes(0x00, "CAP, Controller Capabilities", "base 3.1.3.1", "8 bytes", &["a_controller_is_enabled_shut_down_and_reset_through_its_properties"]),
    yes(0x08, "VS, Version", "base 3.1.3.2", "2.0.0", &["a_controller_is_enabled_shut_down_and_reset_through_its_properties"]),
    yes(0x14, "CC, Controller Configuration", "base 3.1.3.5", "read and write", &["a_controller_is_enabled_shut_down_and_reset_through_its_properties", "what_is_not_supported_makes_the_controller_fail_not_the_target"]),
    yes(0x1C, "CSTS, Controller Status", "base 3.1.3.6", "", &["a_controller_is_enabled_shut_down_and_reset_through_its_properties"]),
    no(0x20, "NSSR, NVM Subsystem Reset", "base 3.1.3.7", FIELD, "CAP.NSSRS is 0"),
    yes(0x68, "CRTO, Controller Ready Timeouts", "base 3.1.3.14", "ready at once", &["support_of_every_property_is_as_listed"]),
];

#[rustfmt::skip]
pub(super) const FABRICS: &[Line] = &[
    yes(0x00, "Property Set", "base 6.4", "", &["a_controller_is_enabled_shut_down_and_reset_through_its_properties"]),
    yes(0x01, "Connect", "base 6.3", "dynamic and static controllers", &["connects_that_are_wrong_are_refused_with_the_field_that_is_wrong", "a_host_finds_its_static_controller_again_on_whatever_core", "10-connect"]),
    yes(0x04, "Property Get", "base 6.5", "", &["a_controller_is_enabled_shut_down_and_reset_through_its_properties"]),
    yes(0x05, "Authentication Send", "base 6.2", "DH-HMAC-CHAP, on each queue; not on discovery controllers", &["a_queue_that_must_authenticate_runs_nothing_else_before", "commands_with_wrong_fields_are_refused_and_harm_nothing", "45-chap"]),
    yes(0x06, "Authentication Receive", "base 6.1", "DH-HMAC-CHAP, on each queue; not on discovery controllers", &["a_queue_that_must_authenticate_runs_nothing_else_before", "commands_with_wrong_fields_are_refused_and_harm_nothing", "45-chap"]),
    yes(0x08, "Disconnect", "base 6.6", "on I/O queues (OFCS)", &["a_disconnect_is_answered_last_and_what_had_not_begun_is_aborted"]),
];

#[rustfmt::skip]
pub(super) const ADMIN: &[Line] = &[
    no(0x00, "Delete I/O Submission Queue", "base 5.6", OPCODE, PCIE),
    no(0x01, "Create I/O Submission Queue", "base 5.5", OPCODE, PCIE),
    yes(0x02, "Get Log Page", "base 5.16", "offsets; no index offsets", &["logs_are_read_in_parts_and_not_past_their_end"]),
    no(0x04, "Delete I/O Completion Queue", "base 5.4", OPCODE, PCIE),
    no(0x05, "Create I/O Completion Queue", "base 5.3", OPCODE, PCIE),
    yes(0x06, "Identify", "base 5.17", "see below", &["identify_says_what_linux_needs"]),
    yes(0x08, "Abort", "base 5.1", "of what has not begun; what runs is not aborted (dword 0 bit 0 is 1)", &["what_has_not_begun_is_aborted_and_what_runs_is_not", "an_abort_finds_its_command_on_whatever_core"]),
    yes(0x09, "Set Features", "base 5.27", "none is saveable", &["features_have_current_default_and_capabilities"]),
    yes(0x0A, "Get Features", "base 5.15", "with every Select", &["features_have_current_default_and_capabilities"]),
    yes(0x0C, "Asynchronous Event Request", "base 5.2", "4 at a time (AERL 3)", &["an_event_comes_once_until_its_log_is_read", "30-events"]),
    yes(0x0D, "Namespace Management", "base 5.23", "where the administrator granted it; otherwise Invalid Opcode. Sizes are rounded up to 1 MiB (CNS 16h)", &["a_namespace_to_be_made_is_judged_before_anybody_is_asked", "a_host_makes_attaches_and_deletes_a_namespace"]),
    no(0x10, "Firmware Commit", "base 5.12", OPCODE, "the slot is read-only (FRMW)"),
    no(0x11, "Firmware Image Download", "base 5.13", OPCODE, "the slot is read-only (FRMW)"),
    no(0x14, "Device Self-test", "base 5.9", OPCODE, NEEDS_NONE),
    yes(0x15, "Namespace Attachment", "base 5.22", "where granted. A namespace is attached to a host, with all controllers that it has and will have", &["attachment_names_the_hosts_of_the_controllers_in_the_list", "namespaces_are_attached_and_detached_where_that_is_granted"]),
    yes(0x18, "Keep Alive", "base 5.18", "KAS 1 s, traffic-based", &["a_silent_host_expires_and_one_with_traffic_does_not", "keep_alive_expires_when_the_standard_says_so"]),
    no(0x19, "Directive Send", "base 5.8", OPCODE, NEEDS_NONE),
    no(0x1A, "Directive Receive", "base 5.7", OPCODE, NEEDS_NONE),
    no(0x1C, "Virtualization Management", "base 5.28", OPCODE, PCIE),
    no(0x1D, "NVMe-MI Send", "base 5.20", OPCODE, NEEDS_NONE),
    no(0x1E, "NVMe-MI Receive", "base 5.19", OPCODE, NEEDS_NONE),
    no(0x20, "Capacity Management", "base 5.3", OPCODE, "no endurance groups"),
    no(0x24, "Lockdown", "base 5.19", OPCODE, NEEDS_NONE),
    no(0x7C, "Doorbell Buffer Config", "base 5.10", OPCODE, PCIE),
    yes(0x80, "Format NVM", "base 5.14", "where granted; one namespace, 512 and 4096-byte blocks, user data erase", &["a_format_is_judged_before_anybody_is_asked", "a_format_frees_everything_and_changes_the_block_size"]),
    no(0x81, "Security Send", "base 5.26", OPCODE, NEEDS_NONE),
    no(0x82, "Security Receive", "base 5.25", OPCODE, NEEDS_NONE),
    no(0x84, "Sanitize", "base 5.24", OPCODE, "SANICAP is 0"),
    no(0x86, "Get LBA Status", "nvm 4.2.1", OPCODE, NEEDS_NONE),
];

#[rustfmt::skip]
pub(super) const IO: &[Line] = &[
    yes(0x00, "Flush", "base 7.1", "of one namespace or of all; nothing is to be flushed", &["what_is_written_is_read_back_with_every_digest_and_alignment"]),
    yes(0x01, "Write", "nvm 3.2.6", "FUA", &["what_is_written_is_read_back_with_every_digest_and_alignment", "20-filesystems"]),
    yes(0x02, "Read", "nvm 3.2.4", "", &["what_is_written_is_read_back_with_every_digest_and_alignment", "20-filesystems"]),
    yes(0x04, "Write Uncorrectable", "nvm 3.2.7", "durable, until the blocks are changed", &["verify_and_write_uncorrectable_meet"]),
    yes(0x05, "Compare", "nvm 3.2.1", "also fused with Write (FUSES), as one operation", &["a_wrong_command_gets_its_status_and_the_queue_goes_on", "a_compare_and_write_is_one_operation_with_two_answers_however_its_data_comes", "a_half_without_the_other_is_aborted_and_may_be_retried"]),
    yes(0x08, "Write Zeroes", "nvm 3.2.8", "DEAC", &["ranges_are_zeroed_and_deallocated"]),
    yes(0x09, "Dataset Management", "nvm 3.2.3", "256 ranges; deallocate, hints are taken", &["ranges_are_zeroed_and_deallocated", "a_range_out_of_bounds_changes_nothing"]),
    yes(0x0C, "Verify", "nvm 3.2.5", "", &["verify_and_write_uncorrectable_meet"]),
    yes(0x0D, "Reservation Register", "base 7.3", "register, unregister, replace; IEKEY, CPTPL", &["two_hosts_reserve_fence_and_preempt", "what_persists_is_there_after_kill_9_and_what_does_not_is_gone"]),
    yes(0x0E, "Reservation Report", "base 7.5", "the extended form, which 128-bit host identifiers need", &["two_hosts_reserve_fence_and_preempt"]),
    yes(0x11, "Reservation Acquire", "base 7.2", "all six types; preempt, preempt and abort", &["two_hosts_reserve_fence_and_preempt", "no_write_of_a_preempted_host_takes_effect_after_the_preempt_was_answered"]),
    yes(0x15, "Reservation Release", "base 7.4", "release, clear", &["two_hosts_reserve_fence_and_preempt"]),
    yes(0x19, "Copy", "nvm 3.2.2", "source ranges of format 0, within the namespace", &["ranges_are_copied_in_order_whatever_their_alignment", "a_copy_beyond_a_limit_changes_nothing_and_says_why"]),
];

#[rustfmt::skip]
pub(super) const CNS: &[Line] = &[
    yes(0x00, "Identify Namespace", "nvm 4.1.5.1", "of FFFFFFFFh where namespace management is granted; thin volumes state THINP, and in NUSE what they have allocated at that moment", &["identify_says_what_linux_needs", "a_thin_namespace_says_how_much_of_it_has_space_at_every_moment", "namespace_ids_that_name_nothing_are_distinguished"]),
    yes(0x01, "Identify Controller", "base 5.17.2.1", "the same through every node but for CNTLID", &["identify_says_what_linux_needs", "a_subsystem_is_the_same_through_every_node", "what_is_granted_is_what_identify_and_the_effects_log_say"]),
    yes(0x02, "Active Namespace ID list", "base 5.17.2.2", "", &["allocated_namespaces_are_shown_to_hosts_that_may_manage_them"]),
    yes(0x03, "Namespace Identification Descriptor list", "base 5.17.2.3", "EUI-64, NGUID, UUID, CSI; the same through every node", &["identify_says_what_linux_needs", "a_subsystem_is_the_same_through_every_node"]),
    no(0x04, "NVM Set list", "base 5.17.2.4", FIELD, "no NVM sets"),
    yes(0x05, "Identify Namespace of a command set", "base 5.17.2.5", "CSI 0: zeroes, for there is no protection information", &["namespace_ids_that_name_nothing_are_distinguished"]),
    yes(0x06, "Identify Controller of a command set", "nvm 4.1.5.4", "CSI 0", &["identify_says_what_linux_needs"]),
    yes(0x07, "Active Namespace ID list of a command set", "base 5.17.2.7", "CSI 0", &["allocated_namespaces_are_shown_to_hosts_that_may_manage_them"]),
    yes(0x08, "Identify Namespace, independent of command set", "base 5.17.2.8", "", &["identify_says_what_linux_needs"]),
    no(0x09, "Identify Namespace of a User Data Format", "base 5.17.2.9", FIELD, "all formats have the same capabilities (CNS 00h of FFFFFFFFh)"),
    no(0x0A, "Identify Namespace of a command set and User Data Format", "base 5.17.2.10", FIELD, "as 09h"),
    yes(0x10, "Allocated Namespace ID list", "base 5.17.2.11", "all where namespace management is granted, otherwise what the host sees", &["allocated_namespaces_are_shown_to_hosts_that_may_manage_them"]),
    yes(0x11, "Identify Namespace of an allocated one", "base 5.17.2.12", "as 10h", &["allocated_namespaces_are_shown_to_hosts_that_may_manage_them"]),
    yes(0x12, "Controllers attached to a namespace", "base 5.17.2.13", "on all cores", &["controller_lists_hold_the_controllers_of_all_cores"]),
    yes(0x13, "Controllers of the subsystem", "base 5.17.2.14", "on all cores", &["controller_lists_hold_the_controllers_of_all_cores"]),
    no(0x14, "Primary Controller Capabilities", "base 5.17.2.15", FIELD, PCIE),
    no(0x15, "Secondary Controller list", "base 5.17.2.16", FIELD, PCIE),
    yes(0x16, "Namespace Granularity list", "nvm 4.1.5.5", "1 MiB", &["controller_lists_hold_the_controllers_of_all_cores"]),
    no(0x17, "UUID list", "base 5.17.2.17", FIELD, "no vendor specific information"),
    no(0x18, "Domain list", "base 5.17.2.18", FIELD, "one domain"),
    no(0x19, "Endurance Group list", "base 5.17.2.19", FIELD, "no endurance groups"),
    yes(0x1A, "Allocated Namespace ID list of a command set", "base 5.17.2.20", "CSI 0", &["allocated_namespaces_are_shown_to_hosts_that_may_manage_them"]),
    yes(0x1B, "Identify Namespace of a command set, allocated", "base 5.17.2.21", "CSI 0: zeroes", &["support_of_every_identify_structure_is_as_listed"]),
    yes(0x1C, "Command Set Combinations", "base 5.17.2.22", "the NVM command set", &["controller_lists_hold_the_controllers_of_all_cores"]),
];

#[rustfmt::skip]
pub(super) const LOGS: &[Line] = &[
    yes(0x00, "Supported Log Pages", "base 5.16.1.1", "", &["logs_say_which_logs_and_features_there_are"]),
    yes(0x01, "Error Information", "base 5.16.1.2", "the last 64 failures of the controller's commands, with the place of the cause", &["what_a_queue_serves_and_what_fails_is_reported_by_the_logs"]),
    yes(0x02, "SMART / Health Information", "base 5.16.1.3", "of the subsystem on this node since it started", &["health_is_counted_and_its_warnings_are_reported_once"]),
    yes(0x03, "Firmware Slot Information", "base 5.16.1.4", "slot 1", &["logs_are_read_in_parts_and_not_past_their_end"]),
    yes(0x04, "Changed Namespace List", "base 5.16.1.5", "", &["an_event_comes_once_until_its_log_is_read"]),
    yes(0x05, "Commands Supported and Effects", "base 5.16.1.6", "CSI 0; with the scopes of admin commands", &["logs_are_read_in_parts_and_not_past_their_end", "what_is_granted_is_what_identify_and_the_effects_log_say"]),
    no(0x06, "Device Self-test", "base 5.16.1.7", StatusCode::INVALID_LOG_PAGE, NEEDS_NONE),
    no(0x07, "Telemetry Host-Initiated", "base 5.16.1.8", StatusCode::INVALID_LOG_PAGE, NEEDS_NONE),
    no(0x08, "Telemetry Controller-Initiated", "base 5.16.1.9", StatusCode::INVALID_LOG_PAGE, NEEDS_NONE),
    no(0x09, "Endurance Group Information", "base 5.16.1.10", StatusCode::INVALID_LOG_PAGE, "no endurance groups"),
    no(0x0A, "Predictable Latency Per NVM Set", "base 5.16.1.11", StatusCode::INVALID_LOG_PAGE, "no NVM sets"),
    no(0x0B, "Predictable Latency Event Aggregate", "base 5.16.1.12", StatusCode::INVALID_LOG_PAGE, "no NVM sets"),
    yes(
        0x0C,
        "Asymmetric Namespace Access",
        "base 5.16.1.13",
        "RGO; a group for each node that owns volumes",
        &["ana_groups_ascend_and_their_changes_are_reported", "each_owner_has_a_group_that_is_optimized_on_its_node_and_nowhere_else"],
    ),
    no(0x0D, "Persistent Event Log", "base 5.16.1.14", StatusCode::INVALID_LOG_PAGE, NEEDS_NONE),
    no(0x0E, "LBA Status Information", "nvm 4.1.4.5", StatusCode::INVALID_LOG_PAGE, NEEDS_NONE),
    no(0x0F, "Endurance Group Event Aggregate", "base 5.16.1.15", StatusCode::INVALID_LOG_PAGE, "no endurance groups"),
    no(0x10, "Media Unit Status", "base 5.16.1.16", StatusCode::INVALID_LOG_PAGE, NEEDS_NONE),
    no(0x11, "Supported Capacity Configuration List", "base 5.16.1.17", StatusCode::INVALID_LOG_PAGE, NEEDS_NONE),
    yes(0x12, "Feature Identifiers Supported and Effects", "base 5.16.1.18", "", &["logs_say_which_logs_and_features_there_are"]),
    yes(0x13, "NVMe-MI Commands Supported and Effects", "base 5.16.1.19", "none", &["logs_say_which_logs_and_features_there_are"]),
    no(0x14, "Command and Feature Lockdown", "base 5.16.1.20", StatusCode::INVALID_LOG_PAGE, NEEDS_NONE),
    no(0x15, "Boot Partition", "base 5.16.1.21", StatusCode::INVALID_LOG_PAGE, PCIE),
    no(0x16, "Rotational Media Information", "base 5.16.1.22", StatusCode::INVALID_LOG_PAGE, NEEDS_NONE),
    no(0x70, "Discovery", "base 5.16.1.23", StatusCode::INVALID_LOG_PAGE, "on discovery controllers"),
    yes(0x80, "Reservation Notification", "base 5.16.1.24", "64 wait for each controller", &["two_hosts_reserve_fence_and_preempt"]),
    no(0x81, "Sanitize Status", "base 5.16.1.25", StatusCode::INVALID_LOG_PAGE, "SANICAP is 0"),
];

/// Of discovery controllers.
#[rustfmt::skip]
pub(super) const DISCOVERY_LOGS: &[Line] = &[
    yes(0x00, "Supported Log Pages", "base 5.16.1.1", "", &["support_of_every_log_is_as_listed"]),
    yes(0x70, "Discovery", "base 5.16.1.23", "by host; all nodes; referrals; generation counter", &["discovery_shows_a_host_what_it_may_use_and_nothing_else", "the_log_of_every_node_has_each_subsystem_at_each_portal_of_each_member", "discovery_tells_referrals_and_changes_and_its_counter_is_true", "10-connect"]),
];

#[rustfmt::skip]
pub(super) const FEATURES: &[Line] = &[
    yes(0x01, "Arbitration", "base 5.27.1.1", "0, not changeable", &["features_have_current_default_and_capabilities"]),
    yes(0x02, "Power Management", "base 5.27.1.2", "0, not changeable", &["features_have_current_default_and_capabilities"]),
    no(0x03, "LBA Range Type", "nvm 4.1.3.1", FIELD, NEEDS_NONE),
    yes(0x04, "Temperature Threshold", "base 5.27.1.3", "of the composite temperature", &["health_is_counted_and_its_warnings_are_reported_once", "features_have_current_default_and_capabilities"]),
    yes(0x05, "Error Recovery", "nvm 4.1.3.2", "0, not changeable", &["features_have_current_default_and_capabilities"]),
    no(0x06, "Volatile Write Cache", "base 5.27.1.4", FIELD, "there is none (VWC)"),
    yes(0x07, "Number of Queues", "base 5.27.1.5", "128, or as many as the host may still connect: the places are kept for it; before the first I/O queue", &["features_are_set_and_got", "every_queue_that_is_granted_can_be_connected_whatever_a_host_may_have"]),
    no(0x08, "Interrupt Coalescing", "base 5.27.1.6", FIELD, PCIE),
    no(0x09, "Interrupt Vector Configuration", "base 5.27.1.7", FIELD, PCIE),
    yes(0x0A, "Write Atomicity Normal", "nvm 4.1.3.3", "0, not changeable", &["features_have_current_default_and_capabilities"]),
    yes(0x0B, "Asynchronous Event Configuration", "base 5.27.1.8", "what OAES offers", &["features_have_current_default_and_capabilities", "an_event_comes_once_until_its_log_is_read"]),
    no(0x0C, "Autonomous Power State Transition", "base 5.27.1.9", FIELD, "one power state"),
    no(0x0D, "Host Memory Buffer", "base 5.27.1.10", FIELD, PCIE),
    no(0x0E, "Timestamp", "base 5.27.1.11", FIELD, NEEDS_NONE),
    yes(0x0F, "Keep Alive Timer", "base 5.27.1.12", "rounded up to 1 s", &["features_are_set_and_got", "keep_alive_expires_when_the_standard_says_so"]),
    no(0x10, "Host Controlled Thermal Management", "base 5.27.1.13", FIELD, NEEDS_NONE),
    no(0x11, "Non-Operational Power State Config", "base 5.27.1.14", FIELD, "one power state"),
    no(0x12, "Read Recovery Level Config", "base 5.27.1.15", FIELD, NEEDS_NONE),
    no(0x13, "Predictable Latency Mode Config", "base 5.27.1.16", FIELD, "no NVM sets"),
    no(0x14, "Predictable Latency Mode Window", "base 5.27.1.17", FIELD, "no NVM sets"),
    no(0x15, "LBA Status Information Report Interval", "nvm 4.1.3.4", FIELD, NEEDS_NONE),
    yes(0x16, "Host Behavior Support", "base 5.27.1.18", "ACRE; the retry delays are 200 ms, 1 s and 5 s", &["what_passes_is_to_be_tried_again_after_a_delay_and_what_lasts_is_not", "host_behaviour_takes_what_there_is_and_nothing_else"]),
    no(0x17, "Sanitize Config", "base 5.27.1.19", FIELD, "SANICAP is 0"),
    no(0x18, "Endurance Group Event Configuration", "base 5.27.1.20", FIELD, "no endurance groups"),
    no(0x19, "I/O Command Set Profile", "base 5.27.1.21", FIELD, "one combination, which is in use"),
    no(0x1A, "Spinup Control", "base 5.27.1.22", FIELD, NEEDS_NONE),
    no(0x7D, "Enhanced Controller Metadata", "base 5.27.1.23", FIELD, NEEDS_NONE),
    no(0x7E, "Controller Metadata", "base 5.27.1.23", FIELD, NEEDS_NONE),
    no(0x7F, "Namespace Metadata", "base 5.27.1.23", FIELD, NEEDS_NONE),
    no(0x80, "Software Progress Marker", "base 5.27.1.24", FIELD, "of the boot software of a PCIe controller, kept over power cycles; a dynamic controller has nothing to keep it in"),
    yes(0x81, "Host Identifier", "base 5.27.1.25", "read; Connect sets it", &["features_are_set_and_got"]),
    yes(0x82, "Reservation Notification Mask", "base 5.27.1.26", "by kind and namespace", &["two_hosts_reserve_fence_and_preempt"]),
    yes(0x83, "Reservation Persistence", "base 5.27.1.27", "kept with the volume", &["what_persists_is_there_after_kill_9_and_what_does_not_is_gone"]),
    yes(0x84, "Namespace Write Protection Config", "base 5.27.1.28", "kept with the volume; until a power cycle is until the daemon starts again; permanent where namespace management is granted", &["write_protection_is_asked_for", "a_host_protects_a_volume_and_only_what_can_be_undone_is_undone"]),
];

/// Of discovery controllers.
#[rustfmt::skip]
pub(super) const DISCOVERY_FEATURES: &[Line] = &[
    yes(0x0B, "Asynchronous Event Configuration", "base 5.27.1.8", "discovery log changes", &["discovery_tells_referrals_and_changes_and_its_counter_is_true"]),
    yes(0x0F, "Keep Alive Timer", "base 5.27.1.12", "", &["support_of_every_feature_is_as_listed"]),
];

/// Type in the upper byte, information in the lower.
#[rustfmt::skip]
pub(super) const EVENTS: &[Line] = &[
    never(0x0000, "Error: write to invalid doorbell register", "base 5.2.1", PCIE),
    never(0x0001, "Error: invalid doorbell write value", "base 5.2.1", PCIE),
    never(0x0002, "Error: diagnostic failure", "base 5.2.1", "no self-test"),
    never(0x0003, "Error: persistent internal error", "base 5.2.1", "an error that does not go away ends the daemon, and the controller with it"),
    yes(0x0004, "Error: transient internal error", "base 5.2.1", "log 01", &["health_is_counted_and_its_warnings_are_reported_once"]),
    never(0x0005, "Error: firmware image load error", "base 5.2.1", "no firmware images"),
    yes(0x0100, "Health: NVM subsystem reliability", "base 5.2.1", "a command failed because of the media; log 02", &["health_is_counted_and_its_warnings_are_reported_once"]),
    yes(0x0101, "Health: temperature threshold", "base 5.2.1", "log 02", &["health_is_counted_and_its_warnings_are_reported_once"]),
    never(0x0102, "Health: spare below threshold", "base 5.2.1", "space is the cluster's: Basalt's own health checks report it"),
    yes(0x0200, "Notice: namespace attribute changed", "base 5.2.1", "log 04; once more after the log was read where an NSID has got another volume", &["an_event_comes_once_until_its_log_is_read", "an_nsid_that_another_volume_has_got_is_reported_again_after_its_log_was_read", "30-events"]),
    never(0x0201, "Notice: firmware activation starting", "base 5.2.1", "no firmware images"),
    never(0x0202, "Notice: telemetry log changed", "base 5.2.1", "no such log"),
    yes(
        0x0203,
        "Notice: Asymmetric Namespace Access change",
        "base 5.2.1",
        "log 0C",
        &[
            "ana_groups_ascend_and_their_changes_are_reported",
            "every_change_of_an_owner_or_of_a_link_is_an_ana_event_on_the_nodes_that_it_concerns",
        ],
    ),
    never(0x0204, "Notice: predictable latency event aggregate log change", "base 5.2.1", "no NVM sets"),
    never(0x0205, "Notice: LBA status information alert", "base 5.2.1", "no such log"),
    never(0x0206, "Notice: endurance group event aggregate log change", "base 5.2.1", "no endurance groups"),
    never(0x0207, "Notice: normal NVM subsystem shutdown", "base 5.2.1", "a shutdown of the daemon ends controllers in order"),
    yes(0x02F0, "Notice: discovery log page change", "base 5.2.1", "log 70, on discovery controllers", &["discovery_tells_referrals_and_changes_and_its_counter_is_true", "who_stays_connected_to_discovery_hears_of_nodes_that_join_leave_or_move_and_of_nothing_else"]),
    yes(0x0600, "I/O command specific: reservation log page available", "base 5.2.1", "log 80", &["two_hosts_reserve_fence_and_preempt"]),
    never(0x0601, "I/O command specific: sanitize operation completed", "base 5.2.1", "SANICAP is 0"),
];
