//! ICReq and what may come before it.

use super::{NOT_FROM_A_HOST, bare, with, with_plen};
use crate::pdu::case::{Answer, CONNECTED, Case, Echo, Fei, GREETED, case, field, good_any, header_field, out_of_order};
use crate::pdu::run::{ENTRIES, connect};
use format::nvme::fabrics::CNTLID_DYNAMIC;
use format::nvme_tcp::{Digests, Fes, IcReq};

const IC: &str = "tcp 3.6.2, ICReq";
const HEADER: &str = "tcp 3.6.1";
const ORDER: &str = "tcp 3.4, 3.5";
const PLAIN: Digests = Digests { header: false, data: false };

fn icreq() -> Vec<u8> {
    IcReq { hpda: 0, digests: PLAIN, maxr2t: 0 }.to_bytes().to_vec()
}

fn good() -> Vec<Case> {
    let mut all = Vec::new();
    for (header, data) in [(false, false), (true, false), (false, true), (true, true)] {
        let digests = Digests { header, data };
        let name = format!("ICReq with DGST {}", digests.bits());
        let req = IcReq { hpda: 0, digests, maxr2t: 0 };
        let act = move |r: &mut crate::pdu::run::Run<'_>| r.conn.send(&req.to_bytes());
        let case_of = |c: Case| Case { state: CONNECTED, ..c };
        all.push(case_of(case(name, IC, CONNECTED, act, Answer::IcResp(digests))));
    }
    let mut ok = |name: &str, section, bytes: Vec<u8>| {
        all.push(case(name, section, CONNECTED, move |r| r.conn.send(&bytes), Answer::IcResp(PLAIN)));
    };
    ok("ICReq with HPDA 31, the largest", IC, with(icreq(), 10, 31));
    ok("ICReq with MAXR2T FFFFFFFFh", IC, with(with(with(with(icreq(), 12, 255), 13, 255), 14, 255), 15, 255));
    ok("ICReq whose reserved bytes are not zero", "base 1.4.1.4, own", [&icreq()[..16], &[0xA5; 112]].concat());
    all.push(case("ICReq byte by byte", IC, CONNECTED, |r| r.conn.send_in_pieces(&icreq(), 1), Answer::IcResp(PLAIN)));
    all.push(case(
        "ICReq and Connect in one segment",
        IC,
        CONNECTED,
        |r| {
            let connect = r.conn.capsule(connect(0, ENTRIES).sqe(0), &r.connect_data(CNTLID_DYNAMIC).to_bytes());
            r.conn.send_together(&[icreq(), connect], 0)?;
            r.conn.expect(&Answer::IcResp(PLAIN))?;
            r.conn.expect(&good_any())?;
            r.conn = r.greeted("conn")?;
            Ok(())
        },
        [],
    ));
    all
}

fn bad_fields() -> Vec<Case> {
    let mut all = Vec::new();
    let mut bad = |name: &str, section, bytes: Vec<u8>, answer: Answer| {
        all.push(case(name, section, CONNECTED, move |r| r.conn.send(&bytes), answer));
    };
    let unsupported = || Answer::Ends(Fes::UnsupportedParameter, Fei::Is(8), Echo::Header);
    bad("ICReq with PFV 1", IC, with(icreq(), 8, 1), unsupported());
    bad("ICReq with PFV FF00h", IC, with(icreq(), 9, 0xFF), unsupported());
    bad("ICReq with HPDA 32", IC, with(icreq(), 10, 32), field(10));
    bad("ICReq with HPDA 255", IC, with(icreq(), 10, 255), field(10));
    bad("ICReq with DGST 4", IC, with(icreq(), 11, 4), field(11));
    bad("ICReq with DGST FFh", IC, with(icreq(), 11, 255), field(11));
    for flags in [0x01, 0x02, 0x04, 0x80] {
        bad(&format!("ICReq with FLAGS {flags:02X}h"), HEADER, with(icreq(), 1, flags), header_field(1));
    }
    for hlen in [0, 127, 129, 255] {
        bad(&format!("ICReq with HLEN {hlen}"), HEADER, with(icreq(), 2, hlen), header_field(2));
    }
    for pdo in [1, 128] {
        bad(&format!("ICReq with PDO {pdo}"), HEADER, with(icreq(), 3, pdo), header_field(3));
    }
    for plen in [0, 8, 127, 129, 132, u32::MAX] {
        bad(&format!("ICReq with PLEN {plen}"), HEADER, with_plen(icreq(), plen), header_field(4));
    }
    for (kind, name, hlen) in NOT_FROM_A_HOST {
        bad(&format!("{name} first"), HEADER, bare(kind, 0, hlen, 0, hlen.into()), header_field(0));
    }
    bad("CapsuleCmd before ICReq", ORDER, bare(4, 0, 72, 0, 72), out_of_order());
    bad("H2CData before ICReq", ORDER, bare(6, 4, 24, 24, 28), out_of_order());
    bad("an HTTP request", HEADER, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), header_field(0));
    bad(
        "the beginning of a TLS ClientHello where no host has a key",
        HEADER,
        [0x16, 3, 1, 0, 0xC8, 1, 0, 0, 0xC4, 3, 3, 7].to_vec(),
        Answer::Closes,
    );
    bad("64 KiB of FFh", HEADER, vec![0xFF; 65536], header_field(0));
    bad("64 KiB of zeroes", HEADER, vec![0; 65536], header_field(2));
    all
}

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut all = good();
    all.extend(bad_fields());
    all.push(case("H2CTermReq before ICReq", ORDER, CONNECTED, |r| r.conn.send(&with(bare(2, 0, 24, 0, 32), 8, 2)), Answer::Closes));
    all.push(case("ICReq again, before Connect", ORDER, GREETED, |r| r.conn.send(&icreq()), out_of_order()));
    all.push(case("a stream that ends before ICReq", ORDER, CONNECTED, |r| r.conn.half_close(), Answer::Closes));
    let cut = |r: &mut crate::pdu::run::Run<'_>, n: usize| {
        r.conn.send(&icreq()[..n])?;
        r.conn.half_close()
    };
    all.push(case("a stream that ends within the common header", ORDER, CONNECTED, move |r| cut(r, 7), Answer::Closes));
    all.push(case("a stream that ends within ICReq", ORDER, CONNECTED, move |r| cut(r, 127), Answer::Closes));
    all.push(case("127 of the 128 bytes of ICReq", ORDER, CONNECTED, |r| r.conn.send(&icreq()[..127]), Answer::Nothing));
    all.push(case(
        "ICReq that pauses after its common header",
        ORDER,
        CONNECTED,
        |r| {
            r.conn.send(&icreq()[..8])?;
            r.conn.expect(&Answer::Nothing)?;
            r.conn.send(&icreq()[8..])
        },
        Answer::IcResp(PLAIN),
    ));
    all
}
