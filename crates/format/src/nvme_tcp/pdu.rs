//! Each PDU, both ways (tcp 3.6.2). `write` puts everything up to the data (header, digest, padding) and gives its length.

use super::digest::{DIGEST_BYTES, Digests, digest};
use super::fault::{AT_IC_DGST, AT_IC_MAX, AT_IC_PDA, AT_IC_PFV, Fault, Fes};
use super::header::{CommonHeader, FLAG_DDGST, FLAG_HDGST, FLAG_LAST, FLAG_SUCCESS, PduType, data_offset};
use super::size::{
    CAPSULE_CMD_BYTES, CAPSULE_RESP_BYTES, COMMON_BYTES, DATA_BYTES, HEADER_BYTES_MAX, IC_BYTES, MAXH2CDATA_MIN, PDA_MAX, R2T_BYTES,
    TERM_BYTES, TERM_DATA_MAX,
};
use crate::nvme::{Cqe, Field, Sqe};

/// Initialize Connection Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcReq {
    /// Alignment of data that the host wants, 0's based dwords.
    pub hpda: u8,
    /// Digests that the host wants.
    pub digests: Digests,
    /// R2Ts outstanding for a command, minus one.
    pub maxr2t: u32,
}

impl IcReq {
    /// From a checked header.
    pub fn parse(b: &[u8; IC_BYTES]) -> Result<Self, Fault> {
        let (hpda, digests, maxr2t) = parse_ic(b)?;
        Ok(Self { hpda, digests, maxr2t })
    }
    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; IC_BYTES] {
        ic_bytes(PduType::IcReq, self.hpda, self.digests, self.maxr2t)
    }
}

/// Initialize Connection Response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcResp {
    /// Alignment of data that the controller wants, 0's based dwords.
    pub cpda: u8,
    /// Digests in force.
    pub digests: Digests,
    /// Most data bytes of a H2CData.
    pub maxh2cdata: u32,
}

impl IcResp {
    /// From a checked header. MAXH2CDATA must be at least 4096 and a multiple of 4.
    pub fn parse(b: &[u8; IC_BYTES]) -> Result<Self, Fault> {
        let (cpda, digests, maxh2cdata) = parse_ic(b)?;
        if maxh2cdata < MAXH2CDATA_MIN || !maxh2cdata.is_multiple_of(4) {
            return Err(Fault::field(AT_IC_MAX));
        }
        Ok(Self { cpda, digests, maxh2cdata })
    }
    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; IC_BYTES] {
        ic_bytes(PduType::IcResp, self.cpda, self.digests, self.maxh2cdata)
    }
}

fn parse_ic(b: &[u8; IC_BYTES]) -> Result<(u8, Digests, u32), Fault> {
    if u16::get(&b[8..]) != 0 {
        return Err(Fault::unsupported(AT_IC_PFV));
    }
    if b[10] > PDA_MAX {
        return Err(Fault::field(AT_IC_PDA));
    }
    let digests = Digests::parse(b[11]).ok_or(Fault::field(AT_IC_DGST))?;
    Ok((b[10], digests, u32::get(&b[12..])))
}

fn ic_bytes(kind: PduType, pda: u8, digests: Digests, max: u32) -> [u8; IC_BYTES] {
    let mut b = [0; IC_BYTES];
    CommonHeader { kind, flags: 0, hlen: IC_BYTES as u8, pdo: 0, plen: IC_BYTES as u32 }.write(&mut b);
    b[10] = pda;
    b[11] = digests.bits();
    max.put(&mut b[12..]);
    b
}

/// Termination request, either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermReq {
    /// Reason as received; see [`Fes::parse`].
    pub fes: u16,
    /// Information.
    pub fei: u32,
}

impl TermReq {
    /// Most bytes of a whole termination request.
    pub const BYTES_MAX: usize = TERM_BYTES + TERM_DATA_MAX;
    /// From the bytes of a checked header.
    pub fn parse(b: &[u8; TERM_BYTES]) -> Self {
        Self { fes: u16::get(&b[8..]), fei: u32::get(&b[10..]) }
    }
    /// The reason, when known.
    pub fn reason(&self) -> Option<Fes> {
        Fes::parse(self.fes)
    }
    /// The whole PDU: `kind` (one of the two), fault and the faulty PDU's header, of which at most 128 bytes are taken and
    /// at least 8 are sent.
    pub fn bytes(kind: PduType, fault: Fault, header: &[u8]) -> ([u8; Self::BYTES_MAX], usize) {
        let mut b = [0; Self::BYTES_MAX];
        let taken = header.len().min(TERM_DATA_MAX);
        let len = TERM_BYTES + taken.max(COMMON_BYTES);
        CommonHeader { kind, flags: 0, hlen: TERM_BYTES as u8, pdo: 0, plen: len as u32 }.write(&mut b);
        (fault.fes as u16).put(&mut b[8..]);
        fault.fei.put(&mut b[10..]);
        b[TERM_BYTES..TERM_BYTES + taken].copy_from_slice(&header[..taken]);
        (b, len)
    }
}

/// Finishes a header in place: puts the header digest where wanted. Gives the bytes up to the data.
fn seal(out: &mut [u8], hlen: usize, header_digest: bool, pdo: usize) -> usize {
    let mut end = hlen;
    if header_digest {
        let sum = digest(&out[..hlen]);
        out[hlen..hlen + DIGEST_BYTES].copy_from_slice(&sum);
        end += DIGEST_BYTES;
    }
    if pdo > end {
        out[end..pdo].fill(0);
        end = pdo;
    }
    end
}

/// Command Capsule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapsuleCmd {
    /// The command.
    pub sqe: Sqe,
    /// Bytes of data that follow in the capsule.
    pub data_bytes: u32,
}

impl CapsuleCmd {
    /// The command in a checked header.
    pub fn sqe_of(b: &[u8; CAPSULE_CMD_BYTES]) -> Sqe {
        Sqe::parse(&Field::get(&b[COMMON_BYTES..]))
    }
    /// Header, digest and padding into `out` (at least [`HEADER_BYTES_MAX`]); the sender appends data and, with
    /// data digests, its digest. `cpda` is the controller's alignment.
    pub fn write(&self, digests: Digests, cpda: u8, out: &mut [u8]) -> usize {
        let with_data = self.data_bytes > 0;
        let data_digest = digests.data && with_data;
        let pdo = if with_data { data_offset(CAPSULE_CMD_BYTES, digests.header, cpda) } else { 0 };
        let lead = pdo.max(CAPSULE_CMD_BYTES + if digests.header { DIGEST_BYTES } else { 0 });
        CommonHeader {
            kind: PduType::CapsuleCmd,
            flags: flags(digests.header, data_digest),
            hlen: CAPSULE_CMD_BYTES as u8,
            pdo: pdo as u8,
            plen: lead as u32 + self.data_bytes + if data_digest { DIGEST_BYTES as u32 } else { 0 },
        }
        .write(out);
        out[COMMON_BYTES..CAPSULE_CMD_BYTES].copy_from_slice(&self.sqe.to_bytes());
        seal(out, CAPSULE_CMD_BYTES, digests.header, pdo)
    }
    /// Puts the whole capsule of a command at the end of `out`, with `data` in it: for clients and tests. `cpda` is the controller's alignment.
    pub fn append(sqe: Sqe, data: &[u8], digests: Digests, cpda: u8, out: &mut Vec<u8>) {
        let capsule = CapsuleCmd { sqe, data_bytes: data.len() as u32 };
        append(out, data, digests.data && !data.is_empty(), |head| capsule.write(digests, cpda, head));
    }
}

/// Puts a PDU at the end of `out`: what `head` writes, the data, and with data digests its digest.
fn append(out: &mut Vec<u8>, data: &[u8], data_digest: bool, head: impl FnOnce(&mut [u8]) -> usize) {
    let at = out.len();
    out.resize(at + HEADER_BYTES_MAX, 0);
    let n = head(&mut out[at..]);
    out.truncate(at + n);
    out.extend_from_slice(data);
    if data_digest {
        out.extend_from_slice(&digest(data));
    }
}

const fn flags(header: bool, data: bool) -> u8 {
    (if header { FLAG_HDGST } else { 0 }) | (if data { FLAG_DDGST } else { 0 })
}

/// Response Capsule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapsuleResp {
    /// The completion.
    pub cqe: Cqe,
}

impl CapsuleResp {
    /// Most bytes of the PDU.
    pub const BYTES_MAX: usize = CAPSULE_RESP_BYTES + DIGEST_BYTES;
    /// The completion in a checked header.
    pub fn parse(b: &[u8; CAPSULE_RESP_BYTES]) -> Self {
        Self { cqe: Cqe::parse(&Field::get(&b[COMMON_BYTES..])) }
    }
    /// The whole PDU into `out` (at least [`Self::BYTES_MAX`]); gives its length.
    pub fn write(&self, digests: Digests, out: &mut [u8]) -> usize {
        let plen = (CAPSULE_RESP_BYTES + if digests.header { DIGEST_BYTES } else { 0 }) as u32;
        CommonHeader { kind: PduType::CapsuleResp, flags: flags(digests.header, false), hlen: CAPSULE_RESP_BYTES as u8, pdo: 0, plen }
            .write(out);
        out[COMMON_BYTES..CAPSULE_RESP_BYTES].copy_from_slice(&self.cqe.to_bytes());
        seal(out, CAPSULE_RESP_BYTES, digests.header, 0)
    }
}

/// H2CData or C2HData.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataPdu {
    /// Command that the data belongs to.
    pub cccid: u16,
    /// H2CData: transfer tag of the R2T. C2HData: 0.
    pub ttag: u16,
    /// Byte offset within the command's data.
    pub offset: u32,
    /// Bytes of data that follow.
    pub bytes: u32,
    /// Last PDU of the R2T (H2C) or of the command (C2H).
    pub last: bool,
    /// C2HData: the command succeeded, no response follows.
    pub success: bool,
}

impl DataPdu {
    /// From a checked header; the caller compares `bytes` with [`CommonHeader::data_bytes`].
    pub fn parse(common: &CommonHeader, b: &[u8; DATA_BYTES]) -> Self {
        Self {
            cccid: u16::get(&b[8..]),
            ttag: u16::get(&b[10..]),
            offset: u32::get(&b[12..]),
            bytes: u32::get(&b[16..]),
            last: common.flags & FLAG_LAST != 0,
            success: common.flags & FLAG_SUCCESS != 0,
        }
    }
    /// Header, digest and padding into `out` (at least [`HEADER_BYTES_MAX`]); the sender appends data and, with data
    /// digests, its digest. `pda` is the receiver's alignment. `kind` is H2CData or C2HData.
    pub fn write(&self, kind: PduType, digests: Digests, pda: u8, out: &mut [u8]) -> usize {
        let pdo = data_offset(DATA_BYTES, digests.header, pda);
        let more = (if self.last { FLAG_LAST } else { 0 }) | (if self.success { FLAG_SUCCESS } else { 0 });
        CommonHeader {
            kind,
            flags: flags(digests.header, digests.data) | more,
            hlen: DATA_BYTES as u8,
            pdo: pdo as u8,
            plen: pdo as u32 + self.bytes + if digests.data { DIGEST_BYTES as u32 } else { 0 },
        }
        .write(out);
        self.cccid.put(&mut out[8..]);
        self.ttag.put(&mut out[10..]);
        self.offset.put(&mut out[12..]);
        self.bytes.put(&mut out[16..]);
        out[20..DATA_BYTES].fill(0);
        seal(out, DATA_BYTES, digests.header, pdo)
    }
    /// Puts the whole PDU at the end of `out`: for clients and tests. `data` follows whatever `bytes` says. `pda` is the receiver's alignment.
    pub fn append(&self, kind: PduType, data: &[u8], digests: Digests, pda: u8, out: &mut Vec<u8>) {
        append(out, data, digests.data, |head| self.write(kind, digests, pda, head));
    }
    /// Puts the header with its digest and padding at the end of `out`. The data and its digest are to follow.
    pub fn append_header(&self, kind: PduType, digests: Digests, pda: u8, out: &mut Vec<u8>) {
        append(out, &[], false, |head| self.write(kind, digests, pda, head));
    }
}

/// Ready to Transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct R2t {
    /// Command whose data is asked for.
    pub cccid: u16,
    /// Transfer tag that the data must carry.
    pub ttag: u16,
    /// Byte offset within the command's data.
    pub offset: u32,
    /// Bytes asked for.
    pub bytes: u32,
}

impl R2t {
    /// Most bytes of the PDU.
    pub const BYTES_MAX: usize = R2T_BYTES + DIGEST_BYTES;
    /// From a checked header.
    pub fn parse(b: &[u8; R2T_BYTES]) -> Self {
        Self { cccid: u16::get(&b[8..]), ttag: u16::get(&b[10..]), offset: u32::get(&b[12..]), bytes: u32::get(&b[16..]) }
    }
    /// The whole PDU into `out` (at least [`Self::BYTES_MAX`]); gives its length.
    pub fn write(&self, digests: Digests, out: &mut [u8]) -> usize {
        let plen = (R2T_BYTES + if digests.header { DIGEST_BYTES } else { 0 }) as u32;
        CommonHeader { kind: PduType::R2t, flags: flags(digests.header, false), hlen: R2T_BYTES as u8, pdo: 0, plen }.write(out);
        self.cccid.put(&mut out[8..]);
        self.ttag.put(&mut out[10..]);
        self.offset.put(&mut out[12..]);
        self.bytes.put(&mut out[16..]);
        out[20..R2T_BYTES].fill(0);
        seal(out, R2T_BYTES, digests.header, 0)
    }
}
