//! Commands as a hostile host makes them: mostly well formed, with what is wrong in one place.

use crate::input::Choices;
use crate::volumes::VOLUME_BYTES;
use format::nvme::admin::{Abort, GetFeatures, GetLogPage, Identify, NamespaceAttachment, NamespaceManagement, SetFeatures, plain_sqe};
use format::nvme::auth::AuthCommand;
use format::nvme::fabrics::{PropertyAccess, disconnect_sqe};
use format::nvme::feature::Select;
use format::nvme::io::{BlockRange, CopyCommand, CopyRange, DatasetManagement, DsmRange, flush_sqe};
use format::nvme::property::{self, Config};
use format::nvme::reservation::{Action, Report};
use format::nvme::{AdminOpcode, Fuse, IoOpcode, NSID_ALL, Psdt, Sgl, Sqe};
use format::nvme_tcp::{DataPdu, Digests};

use crate::host::{Asked, Host};

/// A command and the data in its capsule.
pub(crate) struct Command {
    pub(crate) sqe: Sqe,
    pub(crate) data: Vec<u8>,
}

/// Digests and alignment of a connection.
pub(crate) fn host(c: &mut Choices<'_>) -> Host {
    let digests = Digests { header: c.once_in(2), data: c.once_in(2) };
    let hpda = c.of(&[0, 0, 0, 1, 3, 31]);
    Host::new(digests, hpda)
}

fn block(c: &mut Choices<'_>, blocks: u64) -> u64 {
    match c.below(8) {
        0..4 => c.below(256).into(),
        4 => blocks.saturating_sub(c.below(64).into()),
        5 => u64::from(c.below(blocks as u32)),
        6 => 2040 + u64::from(c.below(16)),
        _ => c.any(),
    }
}

/// A command of an I/O queue.
pub(crate) fn io(c: &mut Choices<'_>, cid: u16) -> Command {
    use IoOpcode as Op;
    let nsid = c.of(&[1, 1, 1, 2, 2, 3, 0, 4, NSID_ALL]);
    let lba = if nsid == 2 { 4096u64 } else { 512 };
    let blocks = VOLUME_BYTES / lba;
    let op = c.of(&[
        Op::Read,
        Op::Write,
        Op::Write,
        Op::Compare,
        Op::Flush,
        Op::WriteZeroes,
        Op::Verify,
        Op::WriteUncorrectable,
        Op::DatasetManagement,
        Op::Copy,
        Op::ReservationRegister,
        Op::ReservationReport,
        Op::ReservationAcquire,
        Op::ReservationRelease,
    ]);
    let nlb = match c.below(8) {
        0..5 => c.below(16) as u16,
        5 => c.of(&[31, 255, 2047]),
        6 => c.below(256) as u16,
        _ => c.any(),
    };
    let mut data = Vec::new();
    let mut sqe = match op {
        Op::Flush => flush_sqe(cid, nsid),
        Op::DatasetManagement => {
            let count = 1 + c.below(4);
            for _ in 0..count {
                let range = DsmRange { attributes: c.below(2), blocks: c.below(64), slba: block(c, blocks) };
                data.extend_from_slice(&range.to_bytes());
            }
            DatasetManagement { nr: (count - 1) as u8, idr: false, idw: false, ad: !c.once_in(8) }.sqe(cid, nsid)
        }
        Op::Copy => {
            let count = 1 + c.below(4);
            for _ in 0..count {
                let range = CopyRange { slba: block(c, blocks), nlb: c.of(&[0, 7, 100, 1500, 0xFFFF]) };
                data.extend_from_slice(&range.to_bytes());
            }
            CopyCommand { sdlba: block(c, blocks), nr: (count - 1) as u8, desfmt: 0, dtype: 0 }.sqe(cid, nsid)
        }
        Op::ReservationReport => Report { numd: c.of(&[0, 5, 15, 31, 1023, u32::MAX]), eds: !c.once_in(4) }.sqe(cid, nsid),
        Op::ReservationRegister | Op::ReservationAcquire | Op::ReservationRelease => {
            data = vec![c.below(2) as u8; if op == Op::ReservationRelease { 8 } else { 16 }];
            let action = Action { action: c.below(4) as u8, iekey: c.once_in(4), rtype: c.below(8) as u8, cptpl: c.below(4) as u8 };
            action.sqe(op, cid, nsid)
        }
        _ => {
            let range = BlockRange { fua: c.once_in(4), deac: c.once_in(2), ..BlockRange::new(block(c, blocks), nlb) };
            range.sqe(op, cid, nsid)
        }
    };
    let to_controller = op.byte() & 1 != 0;
    let bytes = match op {
        Op::Read | Op::Write | Op::Compare => (u64::from(nlb) + 1) * lba,
        Op::ReservationReport => Report::of(&sqe).bytes(),
        _ => data.len() as u64,
    } as u32;
    if matches!(op, Op::Write | Op::Compare) {
        data = vec![c.below(3) as u8; bytes.min(16 << 10) as usize];
    }
    if op == Op::DatasetManagement && c.once_in(2) {
        data.resize(4096, 0xFF); // as Linux does it
    }
    let bytes = if op == Op::DatasetManagement { data.len() as u32 } else { bytes };
    if to_controller && bytes <= 16 << 10 && c.once_in(2) && bytes > 0 {
        sqe.sgl = Sgl::in_capsule(0, bytes);
    } else {
        data.clear();
        sqe.sgl = if bytes > 0 { Sgl::transport(bytes) } else { Sgl::default() };
    }
    if matches!(op, Op::Compare | Op::Write) && c.once_in(3) {
        sqe.fuse = if op == Op::Compare { Fuse::First } else { Fuse::Second };
    }
    spoil(c, Command { sqe, data })
}

/// A command of an admin queue, or a fabrics command.
pub(crate) fn admin(c: &mut Choices<'_>, cid: u16) -> Command {
    let nsid = c.of(&[0, 1, 2, 3, NSID_ALL]);
    let bytes = c.of(&[4096u32, 512, 64, 16, 1024, 8192, 1 << 20, 0]);
    let mut data = Vec::new();
    let mut to_host = true;
    let mut sqe = match c.below(16) {
        0 | 1 => Identify { cns: c.below(0x20) as u8, cntid: c.below(3) as u16, nsid, csi: c.of(&[0, 0, 0, 2]), cnssid: 0 }.sqe(cid),
        2 | 3 => {
            let lid = c.of(&[0, 1, 2, 3, 4, 5, 0x0C, 0x12, 0x13, 0x70, 0x80, 6]);
            let offset = c.of(&[0u64, 4, 64, 1024, 4096, 3]);
            let numd = (bytes / 4).saturating_sub(1);
            GetLogPage { lid, lsp: c.below(2) as u8, rae: c.once_in(2), lsi: 0, numd, offset, index: c.once_in(8), csi: 0, nsid }.sqe(cid)
        }
        4 => {
            let select = c.of(&[Some(Select::Current), Some(Select::Default), Some(Select::Saved), Some(Select::Supported), None]);
            GetFeatures { fid: c.of(&[1, 2, 4, 5, 6, 7, 0xA, 0xB, 0xE, 0xF, 0x16, 0x81, 0x82, 0x83, 0x84]), select, cdw11: c.any(), nsid }
                .sqe(cid)
        }
        5 => {
            to_host = false;
            let fid = c.of(&[1, 4, 5, 6, 7, 0xA, 0xB, 0xE, 0xF, 0x16, 0x81, 0x82, 0x83, 0x84]);
            data = vec![c.below(2) as u8; bytes.min(512) as usize];
            SetFeatures { fid, save: c.once_in(8), cdw11: c.any(), nsid }.sqe(cid)
        }
        6 | 7 => plain_sqe(AdminOpcode::AsyncEventRequest, cid),
        8 => plain_sqe(AdminOpcode::KeepAlive, cid),
        9 => Abort { sqid: c.below(2) as u16, cid: c.below(16) as u16 }.sqe(cid),
        10 => PropertyAccess::get_sqe(cid, c.of(&[property::CAP, property::VS, property::CC, property::CSTS, 3]), c.once_in(2)),
        11 => {
            let cc = Config { en: !c.once_in(3), shn: c.of(&[0, 0, 0, 1]), iosqes: 6, iocqes: 4, ..Config::default() };
            PropertyAccess::set_sqe(cid, c.of(&[property::CC, property::CC, property::NSSR]), false, cc.bits().into())
        }
        12 => NamespaceManagement { action: None, csi: 0, nsid }.sqe(cid),
        13 => {
            to_host = false;
            data = vec![1, 0, 1, 0];
            data.resize(4096, 0);
            NamespaceAttachment { attach: c.of(&[Some(true), Some(false)]), nsid }.sqe(cid)
        }
        14 if c.once_in(4) => disconnect_sqe(cid),
        _ => {
            to_host = c.once_in(2);
            let auth = AuthCommand::new(bytes.min(1200));
            if to_host { auth.receive_sqe(cid) } else { auth.send_sqe(cid) }
        }
    };
    let moves = !matches!(sqe.opcode, 0x0C | 0x18 | 0x08);
    if !data.is_empty() {
        sqe.sgl = Sgl::in_capsule(0, data.len() as u32);
    } else if moves && to_host {
        sqe.sgl = Sgl::transport(bytes);
    }
    spoil(c, Command { sqe, data })
}

/// Now and then a field that is wrong.
fn spoil(c: &mut Choices<'_>, mut command: Command) -> Command {
    if !c.once_in(6) {
        return command;
    }
    let sqe = &mut command.sqe;
    match c.below(10) {
        0 => sqe.sgl = Sgl(c.any()),
        1 => sqe.sgl = Sgl::transport(c.any()),
        2 => sqe.sgl = Sgl::in_capsule(c.below(2).into(), c.below(20_000)),
        3 => sqe.psdt = c.of(&[Psdt::Prp, Psdt::SglMetadata, Psdt::Reserved]),
        4 => sqe.fuse = c.of(&[Fuse::First, Fuse::Second, Fuse::Reserved]),
        5 => sqe.opcode = c.any(),
        6 => sqe.nsid = c.any(),
        7 => sqe.cdw12 = c.any(),
        8 => command.data.resize(c.below(16 << 10) as usize, 7),
        _ => sqe.cdw10 = c.any(),
    }
    command
}

/// Data that was asked for: all of it or a part, rarely with something wrong.
pub(crate) fn h2c_data(c: &mut Choices<'_>, host: &Host, asked: Asked) -> Vec<u8> {
    let left = asked.end - asked.offset;
    let mut bytes = match c.below(4) {
        0 | 1 => left,
        2 => 1 + c.below(left),
        _ => left.min(4096),
    }
    .min(256 << 10);
    let mut pdu = DataPdu {
        cccid: asked.cid,
        ttag: asked.ttag,
        offset: asked.offset,
        bytes,
        last: asked.offset + bytes == asked.end,
        success: false,
    };
    let fill = c.below(3) as u8;
    if c.once_in(10) {
        match c.below(6) {
            0 => pdu.ttag = c.any(),
            1 => pdu.cccid = c.any(),
            2 => pdu.offset = c.any(),
            3 => pdu.last = !pdu.last,
            4 => bytes = bytes.saturating_sub(1), // the header says more than comes: the next PDU is taken for data
            _ => (pdu.bytes, bytes) = (pdu.bytes + 512, bytes + 512),
        }
    }
    host.h2c_data(&pdu, &vec![fill; bytes as usize])
}

/// How a stream is cut.
pub(crate) fn piece(c: &mut Choices<'_>) -> usize {
    c.of(&[1 << 20, 1 << 20, 1 << 16, 4096, 1000, 64, 7, 1])
}
