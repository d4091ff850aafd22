//! A host's side of a session: builds PDUs, and reads what a target sends.

use super::{HOST, TARGET};
use base::crc32c;
use format::iscsi::{DataOut, HEADER_BYTES, HostPdu, LoginRequest, NO_TAG, Parts, ReadyToTransfer, ScsiCommand, TargetPdu, pad_bytes};
use format::scsi::Lun;

#[derive(Default)]
pub(super) struct Client {
    pub(super) cmd_sn: u32,
    pub(super) tag: u32,
    pub(super) digests: bool,
    incoming: Vec<u8>,
}

/// A PDU that came.
pub(super) type Came = (TargetPdu, Vec<u8>);

impl Client {
    /// A PDU on the wire.
    pub(super) fn wire(&self, pdu: HostPdu, immediate: bool, data: &[u8]) -> Vec<u8> {
        let mut header = pdu.to_header(data.len());
        header[0] |= if immediate { 0x40 } else { 0 };
        let mut out = header.to_vec();
        if self.digests {
            out.extend_from_slice(&crc32c(&header).to_le_bytes());
        }
        let mut body = data.to_vec();
        body.resize(data.len() + pad_bytes(data.len()), 0);
        if self.digests && !body.is_empty() {
            body.extend_from_slice(&crc32c(&body).to_le_bytes());
        }
        out.extend_from_slice(&body);
        out
    }
    /// A login in one request.
    pub(super) fn login(&self, keys: &str) -> Vec<u8> {
        self.login_as(HOST, &format!("TargetName={TARGET}\0{keys}"))
    }
    pub(super) fn login_as(&self, host: &str, keys: &str) -> Vec<u8> {
        let login =
            LoginRequest { transit: true, stage: 1, next: 3, isid: [0x80, 0, 0, 0, 0, 1], cmd_sn: self.cmd_sn, ..Default::default() };
        self.wire(HostPdu::Login(login), true, format!("InitiatorName={host}\0{keys}").as_bytes())
    }
    /// A command that reads.
    pub(super) fn read(&mut self, lun: u64, cdb: &[u8], bytes: u32) -> Vec<u8> {
        let command = ScsiCommand { last: true, read: bytes > 0, ..self.command(lun, cdb, bytes) };
        self.wire(HostPdu::Command(command), false, &[])
    }
    /// A command that writes, with immediate data. `last`: no other unsolicited data follows.
    pub(super) fn write(&mut self, lun: u64, cdb: &[u8], bytes: u32, data: &[u8], last: bool) -> Vec<u8> {
        let command = ScsiCommand { last, write: true, ..self.command(lun, cdb, bytes) };
        self.wire(HostPdu::Command(command), false, data)
    }
    pub(super) fn command(&mut self, lun: u64, cdb: &[u8], bytes: u32) -> ScsiCommand {
        let mut command =
            ScsiCommand { lun: Lun::Unit(lun).to_bytes(), tag: self.tag, expected_bytes: bytes, cmd_sn: self.cmd_sn, ..Default::default() };
        command.cdb[..cdb.len()].copy_from_slice(cdb);
        (self.cmd_sn, self.tag) = (self.cmd_sn.wrapping_add(1), self.tag + 1);
        command
    }
    /// What an R2T asks for, in PDUs of at most `step` bytes.
    pub(super) fn answer(&self, r2t: &ReadyToTransfer, all: &[u8], step: usize) -> Vec<u8> {
        let part = &all[r2t.offset as usize..][..r2t.bytes as usize];
        let count = part.chunks(step).count();
        let pdus = part.chunks(step).enumerate().map(|(n, data)| {
            let out = DataOut {
                last: n + 1 == count,
                lun: r2t.lun,
                tag: r2t.tag,
                transfer_tag: r2t.transfer_tag,
                data_sn: n as u32,
                offset: r2t.offset + (n * step) as u32,
                ..Default::default()
            };
            self.wire(HostPdu::DataOut(out), false, data)
        });
        pdus.flatten().collect()
    }
    /// Unsolicited data.
    pub(super) fn unsolicited(&self, tag: u32, offset: u32, sn: u32, data: &[u8], last: bool) -> Vec<u8> {
        let out = DataOut { last, tag, transfer_tag: NO_TAG, data_sn: sn, offset, ..Default::default() };
        self.wire(HostPdu::DataOut(out), false, data)
    }
    /// Takes bytes; the PDUs that are whole.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<Came> {
        self.incoming.extend_from_slice(bytes);
        let mut out = Vec::new();
        while let Some(header) = self.incoming.first_chunk::<HEADER_BYTES>() {
            let (parts, pdu) = (Parts::parse(header), TargetPdu::parse(header).expect("a PDU of a target"));
            let digests = self.digests && !matches!(pdu, TargetPdu::Login(_));
            let (head, end) = (parts.head_bytes(digests), parts.head_bytes(digests) + parts.body_bytes(digests));
            if self.incoming.len() < end {
                break;
            }
            let rest = self.incoming.split_off(end);
            let whole = core::mem::replace(&mut self.incoming, rest);
            if digests {
                let digest = |b: &[u8]| assert_eq!(crc32c(&b[..b.len() - 4]).to_le_bytes(), b[b.len() - 4..]);
                digest(&whole[..head]);
                if end > head {
                    digest(&whole[head..]);
                }
            }
            out.push((pdu, whole[head..head + parts.data_bytes].to_vec()));
        }
        out
    }
}
