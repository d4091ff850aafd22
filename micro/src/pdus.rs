//! Cases of PDUs: taking those of a host apart, building those of a controller.

use crate::{Case, Counted, measured};
use base::Duration;
use format::nvme::io::BlockRange;
use format::nvme::{Cqe, Field, IoOpcode, Sgl, Sqe, Status};
use format::nvme_tcp::{
    CapsuleCmd, CapsuleResp, DIGEST_BYTES, DataPdu, Digests, HEADER_BYTES_MAX, HeaderRules, PduType, check_header, digest,
};
use std::hint::black_box;

const PLAIN: Digests = Digests { header: false, data: false };
const BOTH: Digests = Digests { header: true, data: true };
const BYTES: u32 = 4096;

pub(crate) fn cases() -> Vec<Case> {
    let case = |name, what, run| Case { name, what, times: 1000, counted: Counted::Measured, run };
    vec![
        case("parse-command", "header of a read command, checked and parsed", |n| parse_command(PLAIN, n)),
        case("parse-command-digests", "the same with header digest", |n| parse_command(BOTH, n)),
        case("parse-data", "header of an H2CData of 4 KiB, checked and parsed", |n| parse_data(PLAIN, n)),
        case("parse-data-digests", "the same with header digest and the data's digest", |n| parse_data(BOTH, n)),
        case("build-response", "response capsule", |n| build_response(PLAIN, n)),
        case("build-response-digests", "the same with header digest", |n| build_response(BOTH, n)),
        case("build-data", "header of a C2HData of 4 KiB", |n| build_data(PLAIN, n)),
        case("build-data-digests", "the same with header digest and the data's digest", |n| build_data(BOTH, n)),
    ]
}

fn rules(digests: Digests) -> HeaderRules {
    HeaderRules { from_host: true, digests, pda: 0, capsule_data_max: 8192, data_max: 1 << 17 }
}

fn read_command() -> Sqe {
    Sqe { sgl: Sgl::transport(BYTES), ..BlockRange::new(77, 0).sqe(IoOpcode::Read, 5, 1) }
}

fn parse_command(digests: Digests, times: u64) -> Duration {
    let mut bytes = Vec::new();
    CapsuleCmd::append(read_command(), &[], digests, 0, &mut bytes);
    bytes.resize(HEADER_BYTES_MAX, 0);
    let rules = rules(digests);
    let mut good = 0;
    let took = measured(&mut || {
        for _ in 0..times {
            let bytes = black_box(&bytes[..]);
            let Ok(common) = check_header(&Field::get(bytes), &rules) else { break };
            let hlen = usize::from(common.hlen);
            let whole = !common.header_digest() || digest(&bytes[..hlen]) == bytes[hlen..hlen + DIGEST_BYTES];
            let sqe = CapsuleCmd::sqe_of(&Field::get(bytes));
            good += u64::from(whole && BlockRange::of(black_box(&sqe)).slba == 77);
        }
    });
    assert_eq!(good, times);
    took
}

fn parse_data(digests: Digests, times: u64) -> Duration {
    let data: Vec<u8> = (0..BYTES).map(|i| (i * 7) as u8).collect();
    let pdu = DataPdu { cccid: 5, ttag: 3, offset: 0, bytes: BYTES, last: true, success: false };
    let mut bytes = Vec::new();
    pdu.append(PduType::H2cData, &data, digests, 0, &mut bytes);
    let rules = rules(digests);
    let mut good = 0;
    let took = measured(&mut || {
        for _ in 0..times {
            let bytes = black_box(&bytes[..]);
            let Ok(common) = check_header(&Field::get(bytes), &rules) else { break };
            let hlen = usize::from(common.hlen);
            let mut whole = !common.header_digest() || digest(&bytes[..hlen]) == bytes[hlen..hlen + DIGEST_BYTES];
            if common.data_digest_bytes() > 0 {
                let (from, end) = (common.lead_bytes(), common.lead_bytes() + common.data_bytes() as usize);
                whole &= digest(&bytes[from..end]) == bytes[end..end + DIGEST_BYTES];
            }
            good += u64::from(whole && DataPdu::parse(&common, &Field::get(bytes)) == pdu);
        }
    });
    assert_eq!(good, times);
    took
}

fn build_response(digests: Digests, times: u64) -> Duration {
    let resp = CapsuleResp { cqe: Cqe { result: 0, sqhd: 9, sqid: 0, cid: 5, status: Status::SUCCESS } };
    let mut out = [0; CapsuleResp::BYTES_MAX];
    let mut bytes = 0;
    let took = measured(&mut || {
        for _ in 0..times {
            bytes = black_box(resp).write(digests, black_box(&mut out));
        }
    });
    assert_eq!(bytes, if digests.header { CapsuleResp::BYTES_MAX } else { CapsuleResp::BYTES_MAX - DIGEST_BYTES });
    took
}

fn build_data(digests: Digests, times: u64) -> Duration {
    let data: Vec<u8> = (0..BYTES).map(|i| (i * 7) as u8).collect();
    let pdu = DataPdu { cccid: 5, ttag: 0, offset: 0, bytes: BYTES, last: true, success: true };
    let mut out = [0; HEADER_BYTES_MAX];
    let (mut lead, mut sum) = (0, [0; DIGEST_BYTES]);
    let took = measured(&mut || {
        for _ in 0..times {
            lead = black_box(pdu).write(PduType::C2hData, digests, 0, black_box(&mut out));
            if digests.data {
                sum = digest(black_box(&data));
            }
        }
    });
    assert_eq!((lead, sum != [0; DIGEST_BYTES]), if digests.data { (28, true) } else { (24, false) });
    took
}
