//! Silence where something has to come. Bounds are in `docs/nvme-tcp.md`; here only that they hold, not to the second.

use crate::pdu::case::{ADMIN, Answer, CONNECTED, Case, GREETED, IO, case, fails};
use crate::pdu::run::{ENTRIES, connect};
use format::nvme::StatusCode;
use format::nvme::fabrics::CNTLID_DYNAMIC;
use std::time::Duration;

const OWN: &str = "own";

/// The cases.
pub fn cases() -> Vec<Case> {
    vec![
        case("silence instead of ICReq (15 s)", OWN, CONNECTED, |_| Ok(()), Answer::Closes).slow(),
        case("silence within ICReq (15 s)", OWN, CONNECTED, |r| r.conn.send(&[0, 0, 128]), Answer::Closes).slow(),
        case("silence instead of Connect (15 s)", OWN, GREETED, |_| Ok(()), Answer::Closes).slow(),
        case(
            "refused Connects do not stop the clock (15 s)",
            OWN,
            GREETED,
            |r| {
                let data = r.connect_data(CNTLID_DYNAMIC).to_bytes();
                for _ in 0..20 {
                    let sqe = format::nvme::fabrics::Connect { recfmt: 1, ..connect(0, ENTRIES) }.sqe(0);
                    r.conn.command(sqe, &data)?;
                    r.conn.expect(&fails(StatusCode::CONNECT_INCOMPATIBLE_FORMAT))?;
                    std::thread::sleep(Duration::from_millis(500));
                }
                Ok(())
            },
            Answer::Closes,
        )
        .slow(),
        case("silence within a capsule (30 s)", OWN, ADMIN, |r| r.conn.send(&[4, 0, 72, 0]), Answer::Closes).slow(),
        case(
            "silence within an H2CData (30 s)",
            OWN,
            IO,
            |r| {
                let (n, r2t) = (r.bytes(1), r.asked(1)?);
                let bytes = r.conn.h2c(&r2t, 0, &vec![1; n as usize], true);
                r.conn.send(&bytes[..100])
            },
            Answer::Closes,
        )
        .slow(),
    ]
}
