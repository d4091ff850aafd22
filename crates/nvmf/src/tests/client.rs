//! A host made by hand: builds PDUs byte by byte, takes the answers apart.

use format::nvme::fabrics::{CNTLID_DYNAMIC, Connect, ConnectData};
use format::nvme::{Cqe, Field, Sgl, Sqe};
use format::nvme_tcp::{
    CapsuleCmd, CapsuleResp, CommonHeader, DataPdu, Digests, HeaderRules, IcReq, IcResp, PduType, R2t, TermReq, check_header, digest,
};

/// A PDU from the controller.
#[derive(Debug, PartialEq)]
pub(super) enum Pdu {
    IcResp(IcResp),
    Response(Cqe),
    Data(DataPdu, Vec<u8>),
    R2t(R2t),
    Term(TermReq, Vec<u8>),
}

/// What a host keeps of a connection.
pub(super) struct Client {
    pub(super) digests: Digests,
    pub(super) hpda: u8,
    pub(super) incoming: Vec<u8>,
}

impl Client {
    pub(super) fn new(header: bool, data: bool, hpda: u8) -> Self {
        Self { digests: Digests { header, data }, hpda, incoming: Vec::new() }
    }
    pub(super) fn ic_req(&self) -> Vec<u8> {
        IcReq { hpda: self.hpda, digests: self.digests, maxr2t: 0 }.to_bytes().to_vec()
    }
    pub(super) fn capsule(&self, sqe: Sqe, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        CapsuleCmd::append(sqe, data, self.digests, 0, &mut out);
        out
    }
    pub(super) fn connect(&self, qid: u16, cntlid: u16, entries: u16, kato_ms: u32, nqn: &str, host: &str) -> Vec<u8> {
        let connect = Connect { recfmt: 0, qid, sqsize: entries - 1, cattr: 0, kato_ms };
        let data = ConnectData::new([7; 16], if qid == 0 { CNTLID_DYNAMIC } else { cntlid }, nqn, host);
        self.capsule(connect.sqe(0xC0), &data.to_bytes())
    }
    /// The data that an R2T asks for, in PDUs of at most `most` bytes.
    pub(super) fn h2c_data(&self, r2t: &R2t, data: &[u8], most: usize) -> Vec<u8> {
        let mut all = Vec::new();
        let asked = &data[r2t.offset as usize..][..r2t.bytes as usize];
        let mut offset = r2t.offset;
        for part in asked.chunks(most) {
            let last = offset + part.len() as u32 == r2t.offset + r2t.bytes;
            let pdu = DataPdu { cccid: r2t.cccid, ttag: r2t.ttag, offset, bytes: part.len() as u32, last, success: false };
            all.extend(self.data_pdu(&pdu, part));
            offset += part.len() as u32;
        }
        all
    }
    pub(super) fn data_pdu(&self, pdu: &DataPdu, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        pdu.append(PduType::H2cData, data, self.digests, 0, &mut out);
        out
    }
    /// The next whole PDU of what came; checks it to the last bit.
    pub(super) fn next(&mut self) -> Option<Pdu> {
        let head: [u8; 8] = self.incoming.get(..8)?.try_into().unwrap();
        let plain = matches!(head[0], 1 | 3);
        let digests = if plain { Digests::default() } else { self.digests };
        let rules = HeaderRules { from_host: false, digests, pda: self.hpda, capsule_data_max: 0, data_max: 1 << 20 };
        let common = check_header(&head, &rules).expect("a controller sends valid headers");
        if self.incoming.len() < common.plen as usize {
            return None;
        }
        let bytes: Vec<u8> = self.incoming.drain(..common.plen as usize).collect();
        if common.header_digest() {
            let hlen = usize::from(common.hlen);
            assert_eq!(digest(&bytes[..hlen]), bytes[hlen..hlen + 4], "header digest");
        }
        Some(self.parse(&common, &bytes))
    }
    fn parse(&self, common: &CommonHeader, b: &[u8]) -> Pdu {
        match common.kind {
            PduType::IcResp => Pdu::IcResp(IcResp::parse(&Field::get(b)).unwrap()),
            PduType::CapsuleResp => Pdu::Response(CapsuleResp::parse(&Field::get(b)).cqe),
            PduType::R2t => Pdu::R2t(R2t::parse(&Field::get(b))),
            PduType::C2hTermReq => Pdu::Term(TermReq::parse(&Field::get(b)), b[24..].to_vec()),
            PduType::C2hData => {
                let data = &b[common.lead_bytes()..][..common.data_bytes() as usize];
                if self.digests.data {
                    assert_eq!(digest(data), b[b.len() - 4..], "data digest");
                }
                Pdu::Data(DataPdu::parse(common, &Field::get(b)), data.to_vec())
            }
            _ => panic!("a controller does not send {common:?}"),
        }
    }
}

/// A command whose data the transport moves.
pub(super) fn with_transport(sqe: Sqe, len: u32) -> Sqe {
    Sqe { sgl: Sgl::transport(len), ..sqe }
}

/// A command whose data is in its capsule.
pub(super) fn with_capsule(sqe: Sqe, len: u32) -> Sqe {
    Sqe { sgl: Sgl::in_capsule(0, len), ..sqe }
}
