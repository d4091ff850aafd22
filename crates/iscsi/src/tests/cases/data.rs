//! Data that comes as it must not, and digests.

use super::{Cases, State, TAG};
use crate::tests::rig::{Rig, write10};
use format::iscsi::{DataOut, HostPdu, NO_TAG, NopOut, ScsiCommand};

/// The transfer tag of the R2T of [`State::Asked`].
const ASKED: u32 = 1;

fn data(out: DataOut, bytes: usize) -> impl Fn(&mut Rig) -> Vec<u8> {
    move |rig: &mut Rig| rig.client.wire(HostPdu::DataOut(out), false, &vec![7; bytes])
}

pub(super) fn cases(c: &mut Cases) {
    const LOST: &str = "Bh 47h/05h";
    let asked = DataOut { last: true, tag: TAG, transfer_tag: ASKED, ..Default::default() };
    let early = DataOut { transfer_tag: NO_TAG, ..asked };
    let mut add = |name: &str, section, state, out: DataOut, bytes, want: &str| c.add(name, section, state, data(out, bytes), want);

    add("data of a command that is gone", "11.7", State::Full, DataOut { tag: 50, ..early }, 512, "nothing");
    add("all of the data", "11.7", State::Asked, asked, 1024, "GOOD");
    add("a transfer tag that was not given", "11.7.4", State::Asked, DataOut { transfer_tag: 77, ..asked }, 1024, "closed");
    add("unsolicited data when it was asked for", "11.7.4", State::Asked, early, 1024, "closed");
    add("data that was not asked for, of a read", "11.7", State::Busy, early, 512, "closed");
    add("data beyond what was asked for", "11.8.4", State::Asked, asked, 1536, "closed");
    add("data from a later place", "13.18", State::Asked, DataOut { offset: 512, ..asked }, 512, "closed");
    add("data from a place beyond the end", "11.7.6", State::Asked, DataOut { offset: 1024, ..asked }, 512, "closed");
    add("data from an offset that wraps", "11.7.6", State::Asked, DataOut { offset: u32::MAX, ..asked }, 512, "closed");
    add("the last data is not marked (F)", "11.7.1", State::Asked, DataOut { last: false, ..asked }, 1024, "closed");
    add("a part is marked as the last (F)", "11.7.1", State::Asked, asked, 512, "closed");
    add("a part of the data", "11.7", State::Asked, DataOut { last: false, ..asked }, 512, "nothing");
    add("DataSN 1 at first", "7.9", State::Asked, DataOut { data_sn: 1, ..asked }, 1024, LOST);
    add("DataSN FFFFFFFFh at first", "7.9", State::Asked, DataOut { data_sn: u32::MAX, ..asked }, 1024, LOST);
    add("DataSN 1 at first, and more to come", "7.9", State::Asked, DataOut { data_sn: 1, last: false, ..asked }, 512, "nothing");

    add("all of the unsolicited data", "11.7", State::Early, early, 1024, "GOOD");
    add("unsolicited data, then the rest is asked for", "11.8", State::Early, early, 512, "R2T 512+512");
    add("no unsolicited data in the end", "11.8", State::Early, early, 0, "R2T 0+1024");
    add("a part of the unsolicited data", "11.7", State::Early, DataOut { last: false, ..early }, 512, "nothing");
    add("unsolicited data from a later place", "13.18", State::Early, DataOut { offset: 512, ..early }, 512, "closed");
    add("more unsolicited data than expected", "11.3.4", State::Early, early, 1536, "closed");
    add("unsolicited data with a transfer tag", "11.7.4", State::Early, DataOut { transfer_tag: 1, ..early }, 1024, "closed");
    add("unsolicited data with DataSN 1 at first", "7.9", State::Early, DataOut { data_sn: 1, ..early }, 1024, LOST);

    let write =
        |last: bool, expected: u32, bytes: usize| move |rig: &mut Rig| rig.client.write(0, &write10(0, 2), expected, &vec![7; bytes], last);
    c.add("immediate data", "11.3", State::Full, write(true, 1024, 1024), "GOOD");
    c.add("immediate data where none was agreed on", "13.11", State::NoImmediate, write(true, 1024, 1024), "closed");
    c.add("more immediate data than expected", "11.3.4", State::Full, write(true, 1024, 1536), "closed");
    c.add("unsolicited data to come where none was agreed on", "13.10", State::Full, write(false, 1024, 512), "closed");
    c.add(
        "more immediate data than FirstBurstLength",
        "13.14",
        State::Full,
        |rig: &mut Rig| rig.client.write(0, &write10(0, 200), 200 * 512, &vec![7; 65540], true),
        "closed",
    );
    c.add(
        "data with a read",
        "11.3",
        State::Full,
        |rig: &mut Rig| {
            let command = ScsiCommand { last: true, read: true, ..rig.client.command(0, &super::super::rig::read10(0, 1), 512) };
            rig.client.wire(HostPdu::Command(command), false, &[7; 512])
        },
        "closed",
    );
    c.add(
        "a read that is not marked as the last (F)",
        "11.3.1",
        State::Full,
        |rig: &mut Rig| {
            let command = ScsiCommand { read: true, ..rig.client.command(0, &super::super::rig::read10(0, 1), 512) };
            rig.client.wire(HostPdu::Command(command), false, &[])
        },
        "closed",
    );
    c.add("a write that expects no data", "11.3.4", State::Full, write(true, 0, 0), "GOOD");
    c.add("a write that expects half a block", "11.3.4", State::Full, write(true, 256, 0), "GOOD");
}

pub(super) fn digests(c: &mut Cases) {
    let nop = NopOut { tag: 5, transfer_tag: NO_TAG, ..Default::default() };
    let ping = move |wrong: usize| {
        move |rig: &mut Rig| {
            let mut wire = rig.client.wire(HostPdu::NopOut(nop), true, b"data");
            // Header, its digest, data, its digest.
            wire.get_mut(wrong).into_iter().for_each(|b| *b ^= 1);
            wire
        }
    };
    c.add("digests that are right", "13.1", State::Digests, ping(usize::MAX), "NOP-In, 4 bytes");
    c.add("a wrong byte in a header", "7.8", State::Digests, ping(20), "closed");
    c.add("a wrong header digest", "7.8", State::Digests, ping(48), "closed");
    c.add("a wrong byte in data", "7.8", State::Digests, ping(52), "Reject 02h; closed");
    c.add("a wrong data digest", "7.8", State::Digests, ping(56), "Reject 02h; closed");
    c.add("a wrong length in a header", "7.8", State::Digests, ping(7), "closed");
    let write = |wrong: usize| {
        move |rig: &mut Rig| {
            let mut wire = rig.client.write(0, &write10(0, 1), 512, &[7; 512], true);
            wire[wrong] ^= 1;
            wire
        }
    };
    c.add("a wrong byte in immediate data", "7.8", State::Digests, write(60), "Reject 02h; closed");
    c.add("a wrong byte in a command", "7.8", State::Digests, write(33), "closed");
}
