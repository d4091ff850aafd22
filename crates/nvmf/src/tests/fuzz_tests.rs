//! Whatever comes, a session neither panics nor hangs nor takes more memory than its limits say.

use super::client::{Client, with_capsule, with_transport};
use super::session_tests::Bench;
use crate::limits::{CAPSULE_HELD_MAX, DATA_HELD_MAX};
use format::nvme::{Sgl, Sqe};
use proptest::prelude::*;

fn check(b: &Bench) -> Result<(), TestCaseError> {
    prop_assert!(b.session.held() <= DATA_HELD_MAX + CAPSULE_HELD_MAX);
    prop_assert!(b.session.outstanding() <= 16);
    Ok(())
}

fn sqes() -> impl Strategy<Value = Sqe> {
    (any::<[u32; 8]>(), any::<[u8; 16]>(), 0u8..8, 0u32..6).prop_map(|(d, sgl, opcode, kind)| {
        let opcode = [0x00, 0x01, 0x02, 0x05, 0x08, 0x09, 0x7F, d[7] as u8][usize::from(opcode)];
        let small = |v: u32, of: u32| if v & 1 == 0 { v >> 8 } else { v % of };
        let sqe = Sqe {
            opcode,
            cid: d[0] as u16 & 15,
            nsid: small(d[1], 5),
            cdw10: small(d[2], 9000),
            cdw11: if d[3] & 3 == 0 { d[3] } else { 0 },
            cdw12: small(d[4], 64),
            cdw13: d[5],
            ..Sqe::default()
        };
        let len = (sqe.cdw12 & 0xFFFF).wrapping_add(1).wrapping_mul(512);
        match kind {
            0 => Sqe { sgl: Sgl(sgl), ..sqe },
            1 => with_capsule(sqe, len),
            _ => with_transport(sqe, len),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn random_bytes_from_the_start(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let mut b = Bench::new(Client::new(false, false, 0));
        b.feed(&bytes);
        check(&b)?;
    }

    #[test]
    fn random_bytes_on_a_queue(bytes in proptest::collection::vec(any::<u8>(), 0..600), kind in 0u8..8, header in any::<bool>(), data in any::<bool>()) {
        let mut b = Bench::io_queue(Client::new(header, data, 0), 16);
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        b.feed(&bytes);
        check(&b)?;
    }

    #[test]
    fn any_commands_in_any_pieces(list in proptest::collection::vec((sqes(), 0usize..3000), 1..24), piece in 1usize..4000, hold in any::<bool>(),
        header in any::<bool>(), data in any::<bool>(), flip in proptest::option::of((0usize..20_000, 0u8..8))) {
        let mut b = Bench::io_queue(Client::new(header, data, 0), 16);
        b.hold = hold;
        let mut stream = Vec::new();
        for (sqe, bytes) in list {
            stream.extend(b.client.capsule(sqe, &vec![7; if sqe.sgl.0[15] == 1 { bytes } else { 0 }]));
        }
        if let Some((at, bit)) = flip {
            let at = at % stream.len();
            stream[at] ^= 1 << bit;
        }
        for part in stream.chunks(piece) {
            b.feed(part);
            check(&b)?;
        }
        b.hold = false;
        b.settle();
        check(&b)?;
    }
}
