//! Bytes from the host: headers, digests, data.

use super::incoming::{Expected, IncomingData};
use super::phase::{Link, PhaseStep};
use super::slot::CommandStage;
use super::{Cx, Session};
use crate::limits::{H2C_DATA_MAX, LAND_BYTES_MIN};
use base::checksum::Crc32c;
use base::hooks::{self, CoverageMark, SeededFault};
use format::nvme::{Field, Status, StatusCode};
use format::nvme_tcp::fault::{AT_DATA_CCCID, AT_DATA_LENGTH, AT_DATA_TTAG, AT_FLAGS};
use format::nvme_tcp::{COMMON_BYTES, CapsuleCmd, CommonHeader, DataPdu, Fault, Fes, IC_BYTES, IcReq, IcResp, PduType, check_header};
use rt::Buf;
use std::ops::Range;

impl Session {
    /// Takes bytes as they came, in order. All of them are used, whatever the phase. Look at [`Session::is_ended`] after it: send what there
    /// is then, and close.
    pub fn receive(&mut self, cx: &mut Cx<'_>, mut bytes: &[u8]) {
        cx.stats.bytes_in += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.phase.is_ended() {
                return;
            }
            match self.step(cx, bytes) {
                Ok(used) => bytes = &bytes[used..],
                Err(fault) => self.terminate(cx, fault),
            }
        }
    }

    /// Where the next bytes go, when they are much data of one command: a buffer, and the part of it. Whoever takes it receives into it and gives
    /// it to [`Session::landed`] before anything else.
    pub fn land(&mut self) -> Option<(Buf, Range<usize>)> {
        let data = self.incoming.data().filter(|d| d.left >= LAND_BYTES_MIN && !self.phase.is_ended())?;
        self.slots[usize::from(data.slot)].land(data.left)
    }

    /// The buffer of [`Session::land`] is back; the next bytes lie `at` the beginning of the part that was given with it. Look at [`Session::is_ended`] then.
    pub fn landed(&mut self, cx: &mut Cx<'_>, buf: Buf, at: Range<usize>) {
        cx.stats.bytes_in += at.len() as u64;
        let Expected::Data(d) = self.incoming.expected() else { return };
        if self.phase.is_ended() {
            return;
        }
        hooks::reached(CoverageMark::DataInPlace);
        if let Some(sum) = &mut d.sum {
            sum.update(&buf[at.clone()]);
        }
        let slot = usize::from(d.slot);
        d.left -= at.len() as u32;
        let done = d.left == 0;
        self.slots[slot].landed(buf, at.len());
        if done && let Err(fault) = self.data_came(cx) {
            self.terminate(cx, fault);
        }
    }

    /// Whether large data was asked for and has not all come: whoever receives little at a time can land the most of it.
    pub fn awaits_large(&self) -> bool {
        self.slots.awaits_large()
    }

    /// Uses some of the bytes; how many.
    fn step(&mut self, cx: &mut Cx<'_>, bytes: &[u8]) -> Result<usize, Fault> {
        match self.incoming.expected() {
            Expected::Head => self.take_head(cx, bytes),
            Expected::Data(d) => {
                let n = bytes.len().min(d.left as usize);
                let now = &bytes[..n];
                if let Some(sum) = &mut d.sum {
                    sum.update(now);
                }
                d.left -= n as u32;
                let done = d.left == 0;
                let slot = usize::from(d.slot);
                self.slots[slot].fill(now);
                if done {
                    self.data_came(cx)?;
                }
                Ok(n)
            }
            Expected::Digest(..) => {
                let (n, whole) = self.incoming.take_digest(bytes);
                if let Some((d, got)) = whole {
                    self.check_data_digest(cx, &d, got);
                    self.data_done(cx, d)?;
                }
                Ok(n)
            }
        }
    }

    /// All data of the PDU has come.
    fn data_came(&mut self, cx: &mut Cx<'_>) -> Result<(), Fault> {
        match self.incoming.end_data() {
            Some(d) => self.data_done(cx, d),
            None => Ok(()),
        }
    }

    fn take_head(&mut self, cx: &mut Cx<'_>, bytes: &[u8]) -> Result<usize, Fault> {
        let mut used = 0;
        let common = match self.incoming.begin_head(cx.now) {
            Some(common) => common,
            None => {
                used = self.incoming.gather(bytes, COMMON_BYTES);
                if !self.incoming.has(COMMON_BYTES) {
                    hooks::reached(CoverageMark::HeaderInFragments);
                    return Ok(used);
                }
                let common = self.check_common()?;
                self.incoming.set_common(common);
                common
            }
        };
        used += self.incoming.gather(&bytes[used..], common.lead_bytes());
        if !self.incoming.has(common.lead_bytes()) {
            return Ok(used);
        }
        cx.stats.pdus_in += 1;
        self.incoming.check_digest(&common)?;
        self.on_header(cx, &common)?;
        self.incoming.end_head();
        Ok(used)
    }

    fn check_common(&self) -> Result<CommonHeader, Fault> {
        let (rules, awaits_ic) = self.phase.rules();
        let common = check_header(&Field::get(self.incoming.head()), rules)?;
        let in_order = match common.kind {
            PduType::IcReq => awaits_ic,
            PduType::H2cTermReq => true,
            _ => !awaits_ic,
        };
        if in_order { Ok(common) } else { Err(Fault::SEQUENCE) }
    }

    fn on_header(&mut self, cx: &mut Cx<'_>, common: &CommonHeader) -> Result<(), Fault> {
        match common.kind {
            PduType::IcReq => self.on_ic_req(cx),
            PduType::H2cTermReq => {
                cx.stats.terminations_received += 1;
                self.phase.enter(PhaseStep::End);
                Ok(())
            }
            PduType::CapsuleCmd => {
                let sqe = CapsuleCmd::sqe_of(&Field::get(self.incoming.head()));
                let slot = self.on_command(cx, sqe, common.data_bytes())?;
                if common.data_bytes() > 0 {
                    self.begin_data(slot, 0, common, true, true);
                } else {
                    self.capsule_done(cx, slot);
                }
                Ok(())
            }
            PduType::H2cData => self.on_h2c_data(common),
            PduType::IcResp | PduType::C2hTermReq | PduType::CapsuleResp | PduType::C2hData | PduType::R2t => {
                unreachable!("check_header refuses what a controller sends")
            }
        }
    }

    fn on_ic_req(&mut self, cx: &mut Cx<'_>) -> Result<(), Fault> {
        let head: [u8; IC_BYTES] = Field::get(self.incoming.head());
        let req = IcReq::parse(&head)?;
        let resp = IcResp { cpda: 0, digests: req.digests, maxh2cdata: H2C_DATA_MAX };
        self.outgoing.list().push_header(&resp.to_bytes());
        cx.stats.pdus_out += 1;
        self.phase.enter(PhaseStep::Initialize(Link::new(req.digests, req.hpda)));
        Ok(())
    }

    fn on_h2c_data(&mut self, common: &CommonHeader) -> Result<(), Fault> {
        let pdu = DataPdu::parse(common, &Field::get(self.incoming.head()));
        let asked = self.slots.get(usize::from(pdu.ttag)).filter(|s| s.stage == CommandStage::Asked).ok_or(Fault::field(AT_DATA_TTAG))?;
        if asked.sqe.cid != pdu.cccid {
            return Err(Fault::field(AT_DATA_CCCID));
        }
        if pdu.bytes != common.data_bytes() {
            return Err(Fault::field(AT_DATA_LENGTH));
        }
        if pdu.bytes > H2C_DATA_MAX {
            return Err(Fault::plain(Fes::LimitExceeded));
        }
        if pdu.offset != asked.filled {
            return Err(Fault::plain(Fes::DataOutOfRange));
        }
        if pdu.bytes > asked.len - asked.filled {
            return Err(Fault::plain(Fes::DataOutOfRange));
        }
        if pdu.last != (pdu.bytes == asked.len - asked.filled) {
            return Err(Fault::field(AT_FLAGS));
        }
        self.begin_data(pdu.ttag, pdu.offset, common, pdu.last, false);
        Ok(())
    }

    fn begin_data(&mut self, slot: u16, from: u32, common: &CommonHeader, last: bool, capsule: bool) {
        let digest = common.data_digest_bytes() > 0;
        let bytes = common.data_bytes();
        let sum = (digest && !self.slots[usize::from(slot)].is_summed(from, bytes)).then(Crc32c::default);
        self.incoming.expect_data(IncomingData { slot, left: bytes, from, bytes, sum, digest, last, capsule });
    }

    fn check_data_digest(&mut self, cx: &mut Cx<'_>, d: &IncomingData, got: [u8; 4]) {
        let slot = &mut self.slots[usize::from(d.slot)];
        let sum = match &d.sum {
            Some(sum) => Some(sum.value()),
            None => slot.block_sums(d.from, d.bytes),
        };
        if sum != Some(u32::from_le_bytes(got)) {
            cx.stats.data_digest_errors += 1;
            if slot.status.is_success() {
                slot.status = Status::retry(StatusCode::TRANSIENT_TRANSPORT_ERROR);
            }
        }
    }

    fn data_done(&mut self, cx: &mut Cx<'_>, d: IncomingData) -> Result<(), Fault> {
        if d.capsule {
            self.capsule_done(cx, d.slot);
        } else if d.last || hooks::seeded(SeededFault::FirstDataRuns) {
            self.slots.asked_came(d.slot);
            self.run(cx, d.slot);
        }
        Ok(())
    }
}
