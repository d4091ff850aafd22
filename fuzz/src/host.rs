//! A host that believes nothing: it knows what it sent, and checks each answer of a target to the last bit.
//!
//! Asserted: what a target sends are valid PDUs with right digests; a command is answered at most once; data comes in order and not more
//! than was asked for; an R2T belongs to a command and stays within it; nothing follows a termination request.

use base::crc32c;
use format::nvme::fabrics::{CNTLID_DYNAMIC, Connect, ConnectData};
use format::nvme::{Cqe, Field, Sqe};
use format::nvme_tcp::{
    COMMON_BYTES, CapsuleCmd, CapsuleResp, CommonHeader, DIGEST_BYTES, DataPdu, Digests, HeaderRules, IcReq, IcResp, PduType, R2t,
    TERM_BYTES, TermReq, check_header, digest,
};
use nvmf::limits::{CAPSULE_DATA_MAX, TRANSFER_MAX};
use std::collections::BTreeMap;

/// The host of the inputs, and the subsystem.
pub(crate) const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001";
pub(crate) const NQN: &str = "nqn.2026-11.io.basalt:fuzz";

/// A PDU from the target.
#[derive(Debug)]
pub(crate) enum Answer {
    IcResp,
    Response(Cqe),
    /// Data; whether it was the answer too.
    Data(bool),
    R2t,
    Term,
}

/// What is known of the commands with one identifier.
#[derive(Default)]
struct Commands {
    sent: u32,
    answered: u32,
    /// The longest data that one of them has, and how much of it has come.
    bytes: u32,
    come: u32,
}

/// Data that the target asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) cid: u16,
    pub(crate) ttag: u16,
    pub(crate) offset: u32,
    pub(crate) end: u32,
}

/// What a host keeps of a connection.
pub(crate) struct Host {
    hpda: u8,
    digests: Digests,
    /// Bytes from the target that are no whole PDU yet.
    incoming: Vec<u8>,
    /// Bytes to the target that are no whole PDU yet; what came in this PDU was noted.
    outgoing: Vec<u8>,
    noted: bool,
    /// An ICReq was sent.
    greeted: bool,
    /// What was sent cannot be followed any further: the target will not either.
    broken: bool,
    commands: BTreeMap<u16, Commands>,
    asked: BTreeMap<u16, Asked>,
    /// Commands sent with the identifier of one that was not answered.
    reused: usize,
    terminated: bool,
}

impl Host {
    pub(crate) fn new(digests: Digests, hpda: u8) -> Host {
        Host {
            hpda,
            digests,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            noted: false,
            greeted: false,
            broken: false,
            commands: BTreeMap::new(),
            asked: BTreeMap::new(),
            reused: 0,
            terminated: false,
        }
    }
    pub(crate) fn ic_req(&self) -> Vec<u8> {
        IcReq { hpda: self.hpda, digests: self.digests, maxr2t: 0 }.to_bytes().to_vec()
    }
    /// A capsule with this data.
    pub(crate) fn capsule(&self, sqe: Sqe, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        CapsuleCmd::append(sqe, data, self.digests, 0, &mut out);
        out
    }
    /// An H2CData; `bytes` of it are what the header says, `data` what comes.
    pub(crate) fn h2c_data(&self, pdu: &DataPdu, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        pdu.append(PduType::H2cData, data, self.digests, 0, &mut out);
        out
    }
    /// A Connect capsule.
    pub(crate) fn connect(&self, qid: u16, cntlid: u16, entries: u16, cattr: u8, kato_ms: u32) -> Vec<u8> {
        let connect = Connect { recfmt: 0, qid, sqsize: entries - 1, cattr, kato_ms };
        let data = ConnectData::new([7; 16], if qid == 0 { CNTLID_DYNAMIC } else { cntlid }, NQN, HOST);
        self.capsule(connect.sqe(0xFFF0), &data.to_bytes())
    }

    /// Notes what goes to the target: which commands it will see, which data it asked for is on its way.
    pub(crate) fn sends(&mut self, bytes: &[u8]) {
        if self.broken {
            return;
        }
        self.outgoing.extend_from_slice(bytes);
        while self.outgoing.len() >= COMMON_BYTES {
            let digests = if self.greeted { self.digests } else { Digests::default() };
            let rules = HeaderRules { from_host: true, digests, pda: 0, capsule_data_max: CAPSULE_DATA_MAX, data_max: i32::MAX as u32 };
            let Ok(common) = check_header(&Field::get(&self.outgoing), &rules) else {
                self.broken = true;
                return;
            };
            if self.outgoing.len() < common.lead_bytes() {
                return;
            }
            if !self.noted {
                self.note(&common);
            }
            if self.broken || self.outgoing.len() < common.plen as usize {
                return;
            }
            self.outgoing.drain(..common.plen as usize);
            self.noted = false;
        }
    }

    fn note(&mut self, common: &CommonHeader) {
        self.noted = true;
        match common.kind {
            PduType::IcReq => match IcReq::parse(&Field::get(&self.outgoing)) {
                Ok(req) if !self.greeted => (self.greeted, self.digests, self.hpda) = (true, req.digests, req.hpda),
                _ => self.broken = true,
            },
            PduType::CapsuleCmd => {
                let sqe = CapsuleCmd::sqe_of(&Field::get(&self.outgoing));
                let c = self.commands.entry(sqe.cid).or_default();
                self.reused += usize::from(c.sent > c.answered);
                c.sent += 1;
                c.bytes = c.bytes.max(sqe.sgl.len());
            }
            PduType::H2cData => {
                let pdu = DataPdu::parse(common, &Field::get(&self.outgoing));
                if let Some(asked) = self.asked.get_mut(&pdu.ttag).filter(|a| a.cid == pdu.cccid && a.offset == pdu.offset) {
                    asked.offset = asked.offset.saturating_add(common.data_bytes());
                    if asked.offset >= asked.end {
                        self.asked.remove(&pdu.ttag);
                    }
                }
            }
            _ => self.broken = true,
        }
    }

    /// Whether what was sent ends with a PDU, and all of it could be followed.
    pub(crate) fn is_between_pdus(&self) -> bool {
        !self.broken && self.outgoing.is_empty()
    }
    /// Whether the target has sent a termination request.
    pub(crate) fn is_terminated(&self) -> bool {
        self.terminated
    }
    /// Commands sent and not answered.
    pub(crate) fn unanswered(&self) -> usize {
        self.commands.values().map(|c| (c.sent - c.answered) as usize).sum()
    }
    /// How often an identifier was used while a command had it: an event request that had it is then given up, and never answered.
    pub(crate) fn reused(&self) -> usize {
        self.reused
    }
    /// Data that is asked for and was not sent.
    pub(crate) fn asked(&self, nth: usize) -> Option<Asked> {
        let n = self.asked.len();
        self.asked.values().nth(nth % n.max(1)).copied()
    }

    /// Bytes from the target: the PDUs that are whole now.
    pub(crate) fn came(&mut self, bytes: &[u8]) -> Vec<Answer> {
        self.incoming.extend_from_slice(bytes);
        let mut answers = Vec::new();
        while let Some(answer) = self.next() {
            answers.push(answer);
        }
        answers
    }

    fn next(&mut self) -> Option<Answer> {
        let first = *self.incoming.first_chunk::<COMMON_BYTES>()?;
        assert!(!self.terminated, "nothing follows a termination request");
        let plain = matches!(PduType::parse(first[0]), Some(PduType::IcResp | PduType::C2hTermReq));
        let digests = if plain { Digests::default() } else { self.digests };
        let rules = HeaderRules { from_host: false, digests, pda: self.hpda, capsule_data_max: 0, data_max: TRANSFER_MAX };
        let common = check_header(&first, &rules).expect("a target sends valid headers");
        if self.incoming.len() < common.plen as usize {
            return None;
        }
        let b: Vec<u8> = self.incoming.drain(..common.plen as usize).collect();
        if common.header_digest() {
            let hlen = usize::from(common.hlen);
            assert_eq!(digest(&b[..hlen]), b[hlen..hlen + DIGEST_BYTES], "header digest");
        }
        Some(match common.kind {
            PduType::IcResp => {
                assert!(IcResp::parse(&Field::get(&b)).is_ok_and(|r| r.digests == self.digests && r.cpda == 0));
                Answer::IcResp
            }
            PduType::CapsuleResp => {
                let cqe = CapsuleResp::parse(&Field::get(&b)).cqe;
                self.answered(cqe.cid);
                Answer::Response(cqe)
            }
            PduType::C2hData => {
                let data = &b[common.lead_bytes()..][..common.data_bytes() as usize];
                if self.digests.data {
                    assert_eq!(b[b.len() - DIGEST_BYTES..], crc32c(data).to_le_bytes(), "data digest");
                }
                let pdu = DataPdu::parse(&common, &Field::get(&b));
                assert_eq!(pdu.bytes as usize, data.len());
                let c = self.commands.get_mut(&pdu.cccid).filter(|c| c.sent > c.answered).expect("data of a command that is under way");
                assert_eq!(pdu.offset, c.come, "data comes in order");
                c.come += pdu.bytes;
                assert!(c.come <= c.bytes, "no more data than the command has room for");
                if pdu.success {
                    self.answered(pdu.cccid);
                }
                Answer::Data(pdu.success)
            }
            PduType::R2t => {
                let r2t = R2t::parse(&Field::get(&b));
                let c = self.commands.get(&r2t.cccid).filter(|c| c.sent > c.answered).expect("an R2T of a command that is under way");
                assert!(r2t.bytes > 0 && r2t.offset.checked_add(r2t.bytes).is_some_and(|end| end <= c.bytes), "within its data");
                let end = r2t.offset + r2t.bytes;
                self.asked.insert(r2t.ttag, Asked { cid: r2t.cccid, ttag: r2t.ttag, offset: r2t.offset, end });
                Answer::R2t
            }
            PduType::C2hTermReq => {
                let term = TermReq::parse(&Field::get(&b));
                assert!(term.reason().is_some() && b.len() > TERM_BYTES);
                self.terminated = true;
                Answer::Term
            }
            other => panic!("a target does not send {other:?}"),
        })
    }

    fn answered(&mut self, cid: u16) {
        let c = self.commands.get_mut(&cid).expect("an answer to a command that was sent");
        c.answered += 1;
        c.come = 0;
        assert!(c.answered <= c.sent, "a command is answered once");
    }
}
