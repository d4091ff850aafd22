//! PDUs of NVMe/TCP (`format::nvme_tcp`), both ways, under any rules.

use crate::input::stretched;
use format::nvme::{Field, SQE_BYTES};
use format::nvme_tcp::header::{FLAG_DDGST, data_offset};
use format::nvme_tcp::{
    CAPSULE_CMD_BYTES, CAPSULE_RESP_BYTES, COMMON_BYTES, CapsuleCmd, CapsuleResp, CommonHeader, DATA_BYTES, DIGEST_BYTES, DataPdu, Digests,
    Fault, Fes, HEADER_BYTES_MAX, HeaderRules, IC_BYTES, IcReq, IcResp, PduType, R2T_BYTES, R2t, TERM_BYTES, TERM_DATA_MAX, TermReq,
    check_header,
};

/// Four bytes of rules, then the PDU's first bytes.
pub fn pdu(data: &[u8]) {
    let (rules, rest) = data.split_at(data.len().min(4));
    let r = stretched(rules, 4);
    let rules = HeaderRules {
        from_host: r[0] & 1 != 0,
        digests: Digests { header: r[0] & 2 != 0, data: r[0] & 4 != 0 },
        pda: r[1],
        capsule_data_max: u32::from(r[2]) << 8,
        data_max: if r[3] == 255 { i32::MAX as u32 } else { u32::from(r[3]) << 12 },
    };
    let b = stretched(rest, HEADER_BYTES_MAX);
    let first: [u8; COMMON_BYTES] = Field::get(&b);
    let common = match check_header(&first, &rules) {
        Ok(common) => common,
        Err(fault) => {
            assert!(fault.fes == Fes::InvalidHeaderField && fault.fei < COMMON_BYTES as u32);
            return termination(fault, &b[..r[3].into()]);
        }
    };
    lengths(&common, &rules);
    let mut written = [0; COMMON_BYTES];
    common.write(&mut written);
    if common.pdo == 0 && first[3] != 0 {
        assert!(common.kind == PduType::CapsuleCmd && common.data_bytes() == 0);
        written[3] = first[3];
    }
    assert_eq!(written, first);
    body(&common, &b, &rules);
}

/// What memory is taken by.
fn lengths(common: &CommonHeader, rules: &HeaderRules) {
    let (lead, data, digest) = (common.lead_bytes(), common.data_bytes(), common.data_digest_bytes());
    assert_eq!(lead as u64 + u64::from(data) + u64::from(digest), u64::from(common.plen));
    assert!(lead <= HEADER_BYTES_MAX && lead >= common.kind.header_bytes());
    let most = match common.kind {
        PduType::CapsuleCmd => rules.capsule_data_max,
        PduType::H2cData | PduType::C2hData => rules.data_max,
        PduType::H2cTermReq | PduType::C2hTermReq => 0,
        _ => 0,
    };
    assert!(data <= most);
    assert_eq!(common.header_digest(), rules.digests.header && common.kind.has_header_digest());
    assert_eq!(digest > 0, data > 0 && rules.digests.data);
    assert_eq!(common.kind.from_host(), rules.from_host);
}

fn body(common: &CommonHeader, b: &[u8], rules: &HeaderRules) {
    let mut out = [0; HEADER_BYTES_MAX];
    let digests = rules.digests;
    // A writer puts data at the first place that the alignment allows; readers take later ones too.
    let pda = rules.pda.min(31);
    let again = |out: &[u8]| check_header(&Field::get(out), rules);
    match common.kind {
        PduType::IcReq => {
            let head: [u8; IC_BYTES] = Field::get(b);
            if let Ok(v) = IcReq::parse(&head) {
                assert_eq!(IcReq::parse(&v.to_bytes()), Ok(v));
                assert_eq!(again(&v.to_bytes()).map(|c| c.kind), Ok(PduType::IcReq));
            }
        }
        PduType::IcResp => {
            let head: [u8; IC_BYTES] = Field::get(b);
            if let Ok(v) = IcResp::parse(&head) {
                assert!(v.maxh2cdata >= 4096 && v.maxh2cdata.is_multiple_of(4) && v.cpda <= 31);
                assert_eq!(IcResp::parse(&v.to_bytes()), Ok(v));
            }
        }
        PduType::H2cTermReq | PduType::C2hTermReq => {
            let head: [u8; TERM_BYTES] = Field::get(b);
            let v = TermReq::parse(&head);
            if let Some(fes) = v.reason() {
                termination(Fault { fes, fei: v.fei }, &b[TERM_BYTES..common.plen as usize]);
            }
        }
        PduType::CapsuleCmd => {
            let head: [u8; CAPSULE_CMD_BYTES] = Field::get(b);
            let v = CapsuleCmd { sqe: CapsuleCmd::sqe_of(&head), data_bytes: common.data_bytes() };
            let n = v.write(digests, pda, &mut out);
            let c = again(&out).expect("what is written is valid");
            assert_eq!((c.data_bytes(), c.lead_bytes()), (v.data_bytes, n));
            assert_eq!(CapsuleCmd::sqe_of(&Field::get(&out)), v.sqe);
            assert_eq!(v.sqe.to_bytes().len(), SQE_BYTES);
        }
        PduType::CapsuleResp => {
            let head: [u8; CAPSULE_RESP_BYTES] = Field::get(b);
            let v = CapsuleResp::parse(&head);
            let n = v.write(digests, &mut out);
            assert_eq!(again(&out).map(|c| c.plen as usize), Ok(n));
            assert_eq!(CapsuleResp::parse(&Field::get(&out)), v);
        }
        PduType::H2cData | PduType::C2hData => {
            let head: [u8; DATA_BYTES] = Field::get(b);
            let v = DataPdu { bytes: common.data_bytes(), ..DataPdu::parse(common, &head) };
            let n = v.write(common.kind, digests, pda, &mut out);
            assert_eq!(n, data_offset(DATA_BYTES, digests.header, pda));
            let c = again(&out).expect("what is written is valid");
            assert_eq!((c.data_bytes(), c.lead_bytes(), c.flags & !FLAG_DDGST), (v.bytes, n, common.flags & !FLAG_DDGST));
            assert_eq!(DataPdu::parse(&c, &Field::get(&out)), v);
        }
        PduType::R2t => {
            let head: [u8; R2T_BYTES] = Field::get(b);
            let v = R2t::parse(&head);
            let n = v.write(digests, &mut out);
            assert_eq!(again(&out).map(|c| c.plen as usize), Ok(n));
            assert_eq!(R2t::parse(&Field::get(&out)), v);
        }
    }
}

/// A termination request that answers `header` is itself valid, whichever side makes it.
fn termination(fault: Fault, header: &[u8]) {
    for (kind, from_host) in [(PduType::H2cTermReq, true), (PduType::C2hTermReq, false)] {
        let (bytes, n) = TermReq::bytes(kind, fault, header);
        // Digests never cover it, whatever was agreed.
        let rules = HeaderRules { from_host, digests: Digests { header: true, data: true }, pda: 31, capsule_data_max: 0, data_max: 0 };
        let common = check_header(&Field::get(&bytes), &rules).expect("a termination request is valid");
        assert_eq!(common.plen as usize, n);
        assert!(n <= TERM_BYTES + TERM_DATA_MAX && n > TERM_BYTES + DIGEST_BYTES);
        let term = TermReq::parse(&Field::get(&bytes));
        assert_eq!((term.reason(), term.fei), (Some(fault.fes), fault.fei));
        let taken = header.len().min(TERM_DATA_MAX);
        assert_eq!(bytes[TERM_BYTES..TERM_BYTES + taken], header[..taken]);
    }
}
