use super::fault::*;
use super::header::*;
use super::*;
use crate::nvme::{Cqe, Sgl, Sqe, Status};
use proptest::prelude::*;

fn rules(digests: Digests) -> HeaderRules {
    HeaderRules { from_host: true, digests, pda: 0, capsule_data_max: 8192, data_max: 1 << 17 }
}
const PLAIN: Digests = Digests { header: false, data: false };
const BOTH: Digests = Digests { header: true, data: true };

fn common(kind: u8, flags: u8, hlen: u8, pdo: u8, plen: u32) -> [u8; 8] {
    let p = plen.to_le_bytes();
    [kind, flags, hlen, pdo, p[0], p[1], p[2], p[3]]
}

#[test]
fn each_wrong_header_field_is_named_by_its_offset() {
    let cases: &[(&str, Digests, [u8; 8], u32)] = &[
        ("unknown type", PLAIN, common(0x08, 0, 24, 0, 24), AT_TYPE),
        ("type 0xFF", PLAIN, common(0xFF, 0, 24, 0, 24), AT_TYPE),
        ("controller's type from a host", PLAIN, common(0x05, 0, 24, 0, 24), AT_TYPE),
        ("R2T from a host", PLAIN, common(0x09, 0, 24, 0, 24), AT_TYPE),
        ("HDGST without agreement", PLAIN, common(0x04, 1, 72, 0, 76), AT_FLAGS),
        ("no HDGST against agreement", BOTH, common(0x04, 0, 72, 0, 72), AT_FLAGS),
        ("reserved flag", PLAIN, common(0x04, 0x80, 72, 0, 72), AT_FLAGS),
        ("LAST on a capsule", PLAIN, common(0x04, FLAG_LAST, 72, 0, 72), AT_FLAGS),
        ("SUCCESS from a host", PLAIN, common(0x06, FLAG_SUCCESS | FLAG_LAST, 24, 24, 28), AT_FLAGS),
        ("DDGST without agreement", PLAIN, common(0x06, FLAG_DDGST, 24, 24, 32), AT_FLAGS),
        ("no DDGST against agreement", BOTH, common(0x06, FLAG_HDGST, 24, 28, 32), AT_FLAGS),
        ("ICReq with a digest", BOTH, common(0x00, FLAG_HDGST, 128, 0, 132), AT_FLAGS),
        ("ICReq header length", PLAIN, common(0x00, 0, 64, 0, 128), AT_HLEN),
        ("ICReq data offset", PLAIN, common(0x00, 0, 128, 4, 128), AT_PDO),
        ("ICReq length", PLAIN, common(0x00, 0, 128, 0, 129), AT_PLEN),
        ("capsule header length", PLAIN, common(0x04, 0, 71, 0, 72), AT_HLEN),
        ("capsule shorter than its header", PLAIN, common(0x04, 0, 72, 0, 8), AT_PLEN),
        ("capsule without data, DDGST without agreement", PLAIN, common(0x04, 2, 72, 0, 72), AT_FLAGS),
        ("H2CData shorter than its header", PLAIN, common(0x06, 0, 24, 0, 8), AT_PLEN),
        ("capsule data inside the header", PLAIN, common(0x04, 0, 72, 68, 80), AT_PDO),
        ("capsule data not aligned", PLAIN, common(0x04, 0, 72, 73, 80), AT_PDO),
        ("capsule data offset past the end", PLAIN, common(0x04, 0, 72, 76, 74), AT_PLEN),
        ("capsule with too much data", PLAIN, common(0x04, 0, 72, 72, 72 + 8193), AT_PLEN),
        ("capsule of 4 GiB", PLAIN, common(0x04, 0, 72, 72, u32::MAX), AT_PLEN),
        ("data without data", PLAIN, common(0x06, 0, 24, 24, 24), AT_PLEN),
        ("data shorter than its digest", BOTH, common(0x06, 3, 24, 28, 30), AT_PLEN),
        ("data without offset", PLAIN, common(0x06, 0, 24, 0, 512), AT_PDO),
        ("too much data", PLAIN, common(0x06, 0, 24, 24, 24 + (1 << 17) + 1), AT_PLEN),
        ("termination without data", PLAIN, common(0x02, 0, 24, 0, 24), AT_PLEN),
        ("termination too long", PLAIN, common(0x02, 0, 24, 0, 153), AT_PLEN),
    ];
    for (what, digests, bytes, offset) in cases {
        assert_eq!(check_header(bytes, &rules(*digests)), Err(Fault::field(*offset)), "{what}");
    }
}

#[test]
fn alignment_of_data_is_what_the_receiver_asked_for() {
    let rules = HeaderRules { pda: 3, ..rules(PLAIN) };
    assert_eq!(check_header(&common(6, 0, 24, 24, 28), &rules), Err(Fault::field(AT_PDO)));
    assert!(check_header(&common(6, 0, 24, 32, 36), &rules).is_ok());
    assert_eq!(data_offset(24, false, 3), 32);
    assert_eq!(data_offset(72, true, 0), 76);
    assert_eq!(data_offset(72, true, PDA_MAX), 128);
}

proptest! {
    #[test]
    fn a_header_that_passes_has_lengths_that_add_up(bytes in any::<[u8; 8]>(), kind in 0u8..10, small in any::<bool>(), plen in 0u32..9000,
        header in any::<bool>(), data in any::<bool>(), pda in 0u8..32, from_host in any::<bool>()) {
        let mut bytes = bytes;
        bytes[0] = kind;
        if small {
            bytes[1] &= 0x0F;
            bytes[2] = PduType::parse(kind).map_or(bytes[2], |k| k.header_bytes() as u8);
            bytes[4..].copy_from_slice(&plen.to_le_bytes());
        }
        let rules = HeaderRules { from_host, pda, ..rules(Digests { header, data }) };
        if let Ok(h) = check_header(&bytes, &rules) {
            prop_assert!(h.lead_bytes() <= HEADER_BYTES_MAX);
            prop_assert_eq!(h.lead_bytes() as u64 + u64::from(h.data_bytes()) + u64::from(h.data_digest_bytes()), u64::from(h.plen));
            prop_assert!(h.data_bytes() <= 1 << 17);
            let digest_bytes = if h.header_digest() { 4 } else { 0 };
            prop_assert!(h.lead_bytes() >= usize::from(h.hlen) + digest_bytes);
        }
    }

    #[test]
    fn what_is_written_passes_the_checks_and_reads_back(header in any::<bool>(), data in any::<bool>(), pda in 0u8..32, bytes in 1u32..=8192,
        cccid in any::<u16>(), ttag in any::<u16>(), offset in any::<u32>(), last in any::<bool>()) {
        let digests = Digests { header, data };
        let mut out = [0xAA; HEADER_BYTES_MAX];
        let rules = HeaderRules { pda, ..rules(digests) };
        let tail = |h: &CommonHeader| h.data_bytes() as usize + h.data_digest_bytes() as usize;

        let pdu = DataPdu { cccid, ttag, offset, bytes, last, success: false };
        let n = pdu.write(PduType::H2cData, digests, pda, &mut out);
        let h = check_header(out[..8].try_into().unwrap(), &rules).unwrap();
        prop_assert_eq!((h.lead_bytes(), n + tail(&h)), (n, h.plen as usize));
        prop_assert_eq!(DataPdu::parse(&h, out[..24].try_into().unwrap()), pdu);
        prop_assert_eq!(h.data_bytes(), bytes);
        if header {
            prop_assert_eq!(&out[24..28], &digest(&out[..24])[..]);
        }

        for data_bytes in [0, bytes] {
            let sqe = Sqe { cid: cccid, nsid: offset, sgl: Sgl::in_capsule(0, data_bytes), ..Sqe::default() };
            let n = CapsuleCmd { sqe, data_bytes }.write(digests, pda, &mut out);
            let h = check_header(out[..8].try_into().unwrap(), &rules).unwrap();
            prop_assert_eq!((h.lead_bytes(), n + tail(&h), h.data_bytes()), (n, h.plen as usize, data_bytes));
            prop_assert_eq!(CapsuleCmd::sqe_of(out[..72].try_into().unwrap()), sqe);
        }

        let rules = HeaderRules { from_host: false, ..rules };
        let pdu = DataPdu { cccid, ttag: 0, offset, bytes, last, success: last };
        let n = pdu.write(PduType::C2hData, digests, pda, &mut out);
        let h = check_header(out[..8].try_into().unwrap(), &rules).unwrap();
        prop_assert_eq!(h.lead_bytes(), n);
        prop_assert_eq!(DataPdu::parse(&h, out[..24].try_into().unwrap()), pdu);

        let r2t = R2t { cccid, ttag, offset, bytes };
        let n = r2t.write(digests, &mut out);
        let h = check_header(out[..8].try_into().unwrap(), &rules).unwrap();
        prop_assert_eq!((h.plen as usize, R2t::parse(out[..24].try_into().unwrap())), (n, r2t));

        let resp = CapsuleResp { cqe: Cqe { result: u64::from(offset), sqhd: ttag, sqid: 0, cid: cccid, status: Status::SUCCESS } };
        let n = resp.write(digests, &mut out);
        let h = check_header(out[..8].try_into().unwrap(), &rules).unwrap();
        prop_assert_eq!((h.plen as usize, CapsuleResp::parse(out[..24].try_into().unwrap())), (n, resp));
    }
}

#[test]
fn connection_requests_read_back_and_wrong_ones_are_named() {
    let req = IcReq { hpda: 3, digests: BOTH, maxr2t: 15 };
    let mut b = req.to_bytes();
    assert!(check_header(b[..8].try_into().unwrap(), &rules(PLAIN)).is_ok());
    assert_eq!(IcReq::parse(&b), Ok(req));
    b[8] = 1;
    assert_eq!(IcReq::parse(&b), Err(Fault::unsupported(AT_IC_PFV)));
    b[8] = 0;
    b[10] = 32;
    assert_eq!(IcReq::parse(&b), Err(Fault::field(AT_IC_PDA)));
    b[10] = 0;
    b[11] = 4;
    assert_eq!(IcReq::parse(&b), Err(Fault::field(AT_IC_DGST)));
    let resp = IcResp { cpda: 0, digests: PLAIN, maxh2cdata: 131_072 };
    assert_eq!(IcResp::parse(&resp.to_bytes()), Ok(resp));
    for max in [0, 4092, 4097] {
        assert_eq!(IcResp::parse(&IcResp { maxh2cdata: max, ..resp }.to_bytes()), Err(Fault::field(AT_IC_MAX)));
    }
}

#[test]
fn a_termination_request_carries_the_header_that_was_wrong() {
    let wrong = [7u8; 300];
    let (b, len) = TermReq::bytes(PduType::C2hTermReq, Fault { fes: Fes::HeaderDigest, fei: 0xDEAD_BEEF }, &wrong);
    assert_eq!(len, TermReq::BYTES_MAX);
    let h = check_header(b[..8].try_into().unwrap(), &HeaderRules { from_host: false, ..rules(BOTH) }).unwrap();
    assert_eq!(h.plen, 152);
    let term = TermReq::parse(b[..24].try_into().unwrap());
    assert_eq!((term.reason(), term.fei), (Some(Fes::HeaderDigest), 0xDEAD_BEEF));
    assert_eq!(&b[24..], &wrong[..128]);
    assert_eq!(TermReq::bytes(PduType::H2cTermReq, Fault::SEQUENCE, &wrong[..3]).1, 32);
}

/// The PDUs of the figures (tcp 3.6.2), byte by byte.
#[test]
fn pdus_lie_as_the_figures_have_them() {
    let mut out = [0xAA; HEADER_BYTES_MAX];
    let req = IcReq { hpda: 3, digests: Digests { header: false, data: true }, maxr2t: 0x0102_0304 }.to_bytes();
    assert_eq!(req[..16], [0, 0, 128, 0, 128, 0, 0, 0, 0, 0, 3, 2, 4, 3, 2, 1]);
    let resp = IcResp { cpda: 1, digests: Digests { header: true, data: false }, maxh2cdata: 0x0001_0000 }.to_bytes();
    assert_eq!(resp[..16], [1, 0, 128, 0, 128, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 0]);
    assert!(req[16..].iter().chain(&resp[16..]).all(|b| *b == 0));
    let pdu = DataPdu { cccid: 0x1211, ttag: 0x1413, offset: 0x1817_1615, bytes: 0x100, last: true, success: false };
    let n = pdu.write(PduType::H2cData, PLAIN, 0, &mut out);
    assert_eq!(out[..n], [6, 4, 24, 24, 24, 1, 0, 0, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0, 1, 0, 0, 0, 0, 0, 0]);
    let n = DataPdu { success: true, ..pdu }.write(PduType::C2hData, BOTH, 7, &mut out);
    assert_eq!((n, &out[..8]), (32, &[7, 0b1111, 24, 32, 36, 1, 0, 0][..]));
    assert_eq!((&out[24..28], &out[28..32]), (&digest(&out[..24])[..], &[0; 4][..]));
    let r2t = R2t { cccid: 0x1211, ttag: 0x1413, offset: 0x1817_1615, bytes: 0x1C1B_1A19 };
    let n = r2t.write(PLAIN, &mut out);
    assert_eq!(out[..n], [9, 0, 24, 0, 24, 0, 0, 0, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1A, 0x1B, 0x1C, 0, 0, 0, 0]);
    let cqe = Cqe { result: 1, sqhd: 2, sqid: 0, cid: 3, status: Status::SUCCESS };
    let n = CapsuleResp { cqe }.write(BOTH, &mut out);
    assert_eq!((n, &out[..8], &out[8..24]), (28, &[5, 1, 24, 0, 28, 0, 0, 0][..], &cqe.to_bytes()[..]));
    let sqe = Sqe { opcode: 1, sgl: Sgl::in_capsule(0, 512), ..Sqe::default() };
    for (digests, data_bytes, head) in [
        (PLAIN, 0, [4, 0, 72, 0, 72, 0, 0, 0]),
        (BOTH, 0, [4, 1, 72, 0, 76, 0, 0, 0]),
        (PLAIN, 512, [4, 0, 72, 72, 72, 2, 0, 0]),
        (BOTH, 512, [4, 3, 72, 76, 80, 2, 0, 0]),
    ] {
        CapsuleCmd { sqe, data_bytes }.write(digests, 0, &mut out);
        assert_eq!((&out[..8], &out[8..72]), (&head[..], &sqe.to_bytes()[..]));
    }
    let (bytes, n) = TermReq::bytes(PduType::C2hTermReq, Fault { fes: Fes::InvalidHeaderField, fei: 0x0403_0201 }, &[9; 8]);
    assert_eq!(bytes[..n], [3, 0, 24, 0, 32, 0, 0, 0, 1, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9]);
    assert_eq!(Fes::ALL.map(|fes| (fes as u16, Fes::parse(fes as u16) == Some(fes))), [1, 2, 3, 4, 5, 6].map(|n| (n, true)));
    assert_eq!([AT_TYPE, AT_FLAGS, AT_HLEN, AT_PDO, AT_PLEN, AT_IC_PFV, AT_IC_PDA, AT_IC_DGST, AT_IC_MAX], [0, 1, 2, 3, 4, 8, 10, 11, 12]);
    assert_eq!([AT_DATA_CCCID, AT_DATA_TTAG, AT_DATA_OFFSET, AT_DATA_LENGTH], [8, 10, 12, 16]);
    // What is just allowed: the most data, the most of a wrong header, a data offset where there is no data.
    for (bytes, data) in [
        (common(0x04, 0, 72, 72, 72 + 8192), 8192),
        (common(0x06, 0, 24, 24, 24 + (1 << 17)), 1 << 17),
        (common(0x02, 0, 24, 0, 24 + 128), 0),
        (common(0x04, 0, 72, 72, 72), 0),
        (common(0x04, 0, 72, 255, 72), 0),
    ] {
        let h = check_header(&bytes, &rules(PLAIN)).unwrap();
        assert_eq!((h.data_bytes(), h.data_digest_bytes()), (data, 0), "{bytes:?}");
        assert_eq!(h.lead_bytes() as u32 + data, h.plen);
    }
    for pda in [0, PDA_MAX] {
        assert!(IcReq::parse(&IcReq { hpda: pda, digests: BOTH, maxr2t: 0 }.to_bytes()).is_ok());
    }
}
