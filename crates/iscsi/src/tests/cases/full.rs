//! PDUs after the login: their kinds, numbers and tags, task management, logout, text, discovery.

use super::{Cases, State, TAG};
use crate::limits::{COMMANDS_MAX, IMMEDIATE_MAX};
use crate::tests::rig::{Rig, read10};
use format::iscsi::{
    DataOut, HostPdu, LoginRequest, LogoutRequest, ManagementRequest, NO_TAG, NopOut, ScsiCommand, SnackRequest, TextRequest, management,
};
use format::scsi::Lun;

fn lun(n: u64) -> [u8; 8] {
    Lun::Unit(n).to_bytes()
}

pub(super) fn pdus(c: &mut Cases) {
    for opcode in [0x07u8, 0x08, 0x0F, 0x11, 0x1C, 0x1F, 0x20, 0x21, 0x25, 0x31, 0x3F] {
        let send = move |_: &mut Rig| {
            let mut wire = vec![0; 48];
            (wire[0], wire[1]) = (opcode | 0x40, 0x80);
            wire
        };
        c.add(format!("operation code {opcode:02X}h"), "11.2.1.2", State::Full, send, "Reject 05h; closed");
    }
    for kind in 0..4 {
        let send = move |rig: &mut Rig| rig.client.wire(HostPdu::Snack(SnackRequest { kind, ..Default::default() }), true, &[]);
        c.add(format!("SNACK of type {kind}"), "11.16", State::Full, send, "Reject 03h");
    }
    let login = |rig: &mut Rig| rig.client.wire(HostPdu::Login(LoginRequest::default()), true, &[]);
    c.add("a login after the login", "6.3", State::Full, login, "Reject 04h; closed");
    let long = |_: &mut Rig| {
        let mut wire = vec![0; 48];
        (wire[0], wire[1], wire[5], wire[7]) = (0x40, 0x80, 4, 1);
        wire
    };
    c.add("more data than MaxRecvDataSegmentLength", "13.12", State::Full, long, "closed");
    let nop = |tag, transfer_tag, data: &'static [u8]| {
        move |rig: &mut Rig| rig.client.wire(HostPdu::NopOut(NopOut { tag, transfer_tag, ..Default::default() }), true, data)
    };
    c.add("a ping with data", "11.18", State::Full, nop(5, NO_TAG, b"data"), "NOP-In, 4 bytes");
    c.add("a NOP-Out without tags", "11.18", State::Full, nop(NO_TAG, NO_TAG, b""), "nothing");
    c.add("an answer to a NOP-In that was not sent", "11.18.2", State::Full, nop(NO_TAG, 77, b""), "nothing");
    let ahs = |rig: &mut Rig| {
        let command = ScsiCommand { last: true, read: true, ..rig.client.command(0, &read10(0, 1), 512) };
        let mut wire = rig.client.wire(HostPdu::Command(command), false, &[]);
        wire[4] = 2;
        wire.extend([0, 5, 1, 0, 0, 0, 0, 0]);
        wire
    };
    c.add("a command with an additional header", "11.2.2", State::Full, ahs, "GOOD");
}

pub(super) fn numbers(c: &mut Cases) {
    let command = |ahead: i64, immediate: bool| {
        move |rig: &mut Rig| {
            let sn = (i64::from(rig.client.cmd_sn) + ahead) as u32;
            let command = ScsiCommand { last: true, cmd_sn: sn, tag: 900, lun: lun(0), ..Default::default() };
            rig.client.wire(HostPdu::Command(command), immediate, &[])
        }
    };
    c.add("CmdSN of a command that came", "4.2.2.1", State::Busy, command(-1, false), "nothing");
    c.add("CmdSN 2^31 behind", "4.2.2.1", State::Full, command(-(1 << 31), false), "nothing");
    c.add("CmdSN beyond the window", "4.2.2.1", State::Full, command(COMMANDS_MAX.into(), false), "nothing");
    c.add(
        "the last CmdSN of the window, the ones before it lost",
        "4.2.2.1",
        State::Full,
        command(i64::from(COMMANDS_MAX) - 1, false),
        "closed",
    );
    c.add("a CmdSN that leaves one out", "4.2.2.1", State::Full, command(1, false), "closed");
    c.add("an immediate command, whatever its CmdSN", "4.2.2.1", State::Full, command(5, true), "GOOD");
    let tagged = |tag, bytes, read, write| {
        move |rig: &mut Rig| {
            let command = ScsiCommand { tag, last: true, read, write, ..rig.client.command(0, &read10(0, 1), bytes) };
            rig.client.wire(HostPdu::Command(command), false, &[])
        }
    };
    c.add("a tag that is in use", "11.2.1.8", State::Busy, tagged(TAG, 512, true, false), "Reject 04h");
    c.add("a command with the tag FFFFFFFFh", "11.2.1.8", State::Full, tagged(NO_TAG, 512, true, false), "Reject 04h");
    c.add("a command that reads and writes", "11.3.1", State::Full, tagged(7, 512, true, true), "Reject 05h");
    c.add("a read that expects nothing", "11.3.4", State::Full, tagged(7, 0, false, false), "GOOD");
    let many = |rig: &mut Rig| {
        let one = |n: usize| {
            let command =
                ScsiCommand { tag: 500 + n as u32, last: true, read: true, expected_bytes: 512, lun: lun(0), ..Default::default() };
            let mut command = command;
            command.cdb[..10].copy_from_slice(&read10(0, 1));
            rig.client.wire(HostPdu::Command(command), true, &[])
        };
        let mut wire: Vec<u8> = one(IMMEDIATE_MAX);
        (0..IMMEDIATE_MAX).for_each(|n| wire.extend(one(n)));
        // The last one is one too many. It stands first, where the test looks for the header that comes back.
        let last = wire.drain(..48).collect::<Vec<u8>>();
        let begun = wire.clone();
        assert!(rig.say(&begun).is_empty());
        last
    };
    c.add("one immediate command too many", "4.2.2.1", State::Busy, many, "Reject 06h");
    let full = |rig: &mut Rig| {
        let wire: Vec<u8> = (0..COMMANDS_MAX - 1).flat_map(|_| rig.client.read(0, &read10(0, 1), 512)).collect();
        assert!(rig.say(&wire).is_empty());
        rig.client.read(0, &read10(0, 1), 512)
    };
    c.add("a command when the window is closed", "4.2.2.1", State::Busy, full, "nothing");
}

pub(super) fn management(c: &mut Cases) {
    let function = |function: u8, n: u64, referenced_tag: u32, ref_cmd_sn: u32| {
        move |rig: &mut Rig| {
            let m = ManagementRequest {
                function,
                lun: lun(n),
                tag: 90,
                referenced_tag,
                cmd_sn: rig.client.cmd_sn,
                ref_cmd_sn: rig.client.cmd_sn.wrapping_add(ref_cmd_sn),
                ..Default::default()
            };
            rig.client.wire(HostPdu::Management(m), true, &[])
        }
    };
    c.add("ABORT TASK of a task that has ended", "11.6.1", State::Full, function(management::ABORT_TASK, 0, 55, u32::MAX), "Response 1");
    c.add("ABORT TASK of a task that never came", "11.6.1", State::Full, function(management::ABORT_TASK, 0, 55, 3), "Response 0");
    c.add("ABORT TASK while the task is with its volume: answered later", "11.5.1", State::Busy, function(1, 0, TAG, 0), "nothing");
    c.add("ABORT TASK of a task that waits for data", "11.5.1", State::Asked, function(1, 0, TAG, 0), "Response 0");
    c.add("ABORT TASK SET without tasks", "11.5.1", State::Full, function(management::ABORT_TASK_SET, 0, NO_TAG, 0), "Response 0");
    c.add(
        "ABORT TASK SET of a LUN that there is not",
        "11.6.1",
        State::Full,
        function(management::ABORT_TASK_SET, 99, NO_TAG, 0),
        "Response 2",
    );
    c.add("CLEAR ACA", "11.6.1", State::Full, function(management::CLEAR_ACA, 0, NO_TAG, 0), "Response 5");
    c.add(
        "CLEAR TASK SET of a LUN that there is not",
        "11.6.1",
        State::Full,
        function(management::CLEAR_TASK_SET, 99, NO_TAG, 0),
        "Response 2",
    );
    c.add(
        "LOGICAL UNIT RESET of a LUN that there is not",
        "11.6.1",
        State::Full,
        function(management::LOGICAL_UNIT_RESET, 99, NO_TAG, 0),
        "Response 2",
    );
    c.add("TARGET COLD RESET", "11.6.1", State::Full, function(management::TARGET_COLD_RESET, 0, NO_TAG, 0), "Response 5");
    c.add("TASK REASSIGN", "11.6.1", State::Full, function(management::TASK_REASSIGN, 0, TAG, 0), "Response 4");
    for code in [0u8, 9, 0x20, 0x7F] {
        c.add(format!("function {code}"), "11.5.1", State::Full, function(code, 0, NO_TAG, 0), "Response 5");
    }
    let logout = |reason: u8, cid: u16| {
        move |rig: &mut Rig| rig.client.wire(HostPdu::Logout(LogoutRequest { reason, cid, tag: 9, ..Default::default() }), true, &[])
    };
    c.add("logout: the session", "11.14.1", State::Full, logout(0, 0), "Logout Response 0; closed");
    c.add("logout: the connection", "11.14.1", State::Full, logout(1, 0), "Logout Response 0; closed");
    c.add("logout: a connection that there is not", "11.15.1", State::Full, logout(1, 7), "Logout Response 1");
    c.add("logout: for recovery", "11.15.1", State::Full, logout(2, 0), "Logout Response 2");
    c.add("logout: a reason that is none", "11.14.1", State::Full, logout(3, 0), "Logout Response 2");
    c.add("logout: of a discovery session", "11.14.1", State::Discovery, logout(0, 0), "Logout Response 0; closed");
}

pub(super) fn text(c: &mut Cases) {
    let text = |last, more, transfer_tag, data: &'static str| {
        move |rig: &mut Rig| {
            let t = TextRequest { last, more, transfer_tag, tag: 8, ..Default::default() };
            rig.client.wire(HostPdu::Text(t), true, data.as_bytes())
        }
    };
    let whole = |data: &'static str| text(true, false, NO_TAG, data);
    c.add("F and C together", "11.10", State::Full, text(true, true, NO_TAG, "A=1\0"), "Reject 04h");
    c.add("text without '='", "6.1", State::Full, whole("nothing\0"), "Reject 04h");
    c.add("an empty key", "6.1", State::Full, whole("=1\0"), "Reject 04h");
    c.add("a key that is not known", "6.2", State::Full, whole("Unheard=of\0"), "Text Response: Unheard=NotUnderstood");
    c.add("a key of the login", "13", State::Full, whole("MaxBurstLength=512\0"), "Text Response: MaxBurstLength=NotUnderstood");
    c.add("no text", "11.10", State::Full, whole(""), "Text Response");
    c.add("text that goes on (C)", "11.10", State::Full, text(false, true, NO_TAG, "Unhe"), "Text Response");
    c.add("a transfer tag that was not given", "11.10.4", State::Full, text(true, false, 77, ""), "Text Response");
    let all = "Text Response: TargetName=iqn.2026-11.io.basalt:test";
    c.add("SendTargets of the target itself", "13.3", State::Full, whole("SendTargets=\0"), all);
    c.add("SendTargets=All in a normal session", "13.3", State::Full, whole("SendTargets=All\0"), "Text Response: SendTargets=Reject");
    c.add("SendTargets=All in a discovery session", "13.3", State::Discovery, whole("SendTargets=All\0"), all);
    let other = whole("SendTargets=iqn.2026-11.io.basalt:none\0");
    c.add("SendTargets of a target that there is not", "13.3", State::Discovery, other, "Text Response");
    let long = |rig: &mut Rig| {
        let t = TextRequest { more: true, transfer_tag: NO_TAG, tag: 8, ..Default::default() };
        rig.client.wire(HostPdu::Text(t), true, &vec![b'A'; crate::limits::TEXT_BYTES_MAX + 4])
    };
    c.add("more text than is taken", "11.10", State::Full, long, "Reject 04h");
    let of_discovery = [
        ("a command", HostPdu::Command(ScsiCommand { last: true, ..Default::default() })),
        ("a task management function", HostPdu::Management(ManagementRequest { function: 2, ..Default::default() })),
        ("data", HostPdu::DataOut(DataOut { transfer_tag: NO_TAG, ..Default::default() })),
        ("SNACK", HostPdu::Snack(SnackRequest::default())),
        ("a login", HostPdu::Login(LoginRequest::default())),
    ];
    for (name, pdu) in of_discovery {
        let send = move |rig: &mut Rig| rig.client.wire(pdu, true, &[]);
        c.add(format!("{name} in a discovery session"), "4.3", State::Discovery, send, "Reject 04h");
    }
}
