//! Properties: what may be read and set, and what a controller does with a CC that it cannot serve.

use crate::pdu::case::{ADMIN, Answer, Case, CaseState, DISABLED, IO, case, fails, good, good_any, result, retry};
use crate::pdu::run::{ENTRIES, Run, Stop, connect, enabled};
use format::nvme::admin::Identify;
use format::nvme::fabrics::PropertyAccess;
use format::nvme::property::{CAP, CC, CSTS, Config, NSSR, VS};
use format::nvme::{Sgl, Sqe, StatusCode};

const GET: &str = "base 6.5";
const SET: &str = "base 6.6";
const CONFIG: &str = "base 3.1.3.5";
const SHUTDOWN: &str = "base 3.6.1";

fn get(offset: u32, eight: bool) -> Sqe {
    PropertyAccess::get_sqe(0, offset, eight)
}
fn set(r: &mut Run<'_>, config: Config) -> Result<(), Stop> {
    r.conn.command(PropertyAccess::set_sqe(0, CC, false, config.bits().into()), &[])?;
    r.conn.expect(&good())
}
fn status(r: &mut Run<'_>) -> Result<(), Stop> {
    r.conn.command(get(CSTS, false), &[])
}

fn access() -> Vec<Case> {
    let mut all = Vec::new();
    let invalid = || fails(StatusCode::INVALID_FIELD);
    let mut read = |name: String, sqe: Sqe, answer: Answer| all.push(case(name, GET, ADMIN, move |r| r.conn.command(sqe, &[]), answer));
    read("Property Get of VS".into(), get(VS, false), result(0x20000));
    read("Property Get of CSTS".into(), get(CSTS, false), result(1));
    read("Property Get of CC".into(), get(CC, false), result(0x0046_0001));
    read("Property Get of CAP".into(), get(CAP, true), good_any());
    for (name, offset) in [("VS", VS), ("CC", CC), ("CSTS", CSTS)] {
        read(format!("Property Get of 8 bytes of {name}"), get(offset, true), invalid());
    }
    read("Property Get of 4 bytes of CAP".into(), get(CAP, false), invalid());
    for offset in [0x04, 0x0C, 0x10, NSSR, 0x24, 0x28, 0x16, 0x1000, u32::MAX] {
        read(format!("Property Get of offset {offset:X}h"), get(offset, false), invalid());
    }
    for attrib in [2, 3, 4, 7] {
        read(format!("Property Get with the reserved size {attrib}"), Sqe { cdw10: attrib, ..get(VS, false) }, invalid());
    }
    let set = |offset, eight| PropertyAccess::set_sqe(0, offset, eight, 1);
    let mut write =
        |name: String, sqe: Sqe| all.push(case(name, SET, ADMIN, move |r| r.conn.command(sqe, &[]), fails(StatusCode::INVALID_FIELD)));
    for (name, offset) in
        [("CAP", CAP), ("VS", VS), ("CSTS", CSTS), ("NSSR", NSSR), ("offset 1000h", 0x1000), ("offset FFFFFFFFh", u32::MAX)]
    {
        write(format!("Property Set of {name}"), set(offset, false));
    }
    write("Property Set of 8 bytes of CC".into(), set(CC, true));
    write("Property Set of 8 bytes of CAP".into(), set(CAP, true));
    write("Property Set with the reserved size 5".into(), Sqe { cdw10: 5, ..set(CC, false) });
    for (name, sqe) in [("Get", get(VS, false)), ("Set", set(CC, false))] {
        all.push(case(
            format!("Property {name} on an I/O queue"),
            "base 6.5, 6.6, own",
            IO,
            move |r| r.conn.command(sqe, &[]),
            fails(StatusCode::INVALID_FIELD),
        ));
    }
    all
}

/// CC, then CSTS.
fn config(name: &str, section: &'static str, state: CaseState, config: Config, csts: u64) -> Case {
    case(
        name,
        section,
        state,
        move |r| {
            set(r, config)?;
            status(r)
        },
        result(csts),
    )
}

fn configurations() -> Vec<Case> {
    let on = enabled();
    let mut all = vec![
        config("CC.EN to 1", CONFIG, DISABLED, on, 1),
        config("CC.EN to 1 again", CONFIG, ADMIN, on, 1),
        config("CC.EN to 0 when it is 0", CONFIG, DISABLED, Config { en: false, ..on }, 0),
        config("CC.EN to 0", CONFIG, ADMIN, Config { en: false, ..on }, 0),
        config("CC.EN with IOSQES 5: CSTS.CFS", CONFIG, DISABLED, Config { iosqes: 5, ..on }, 2),
        config("CC.EN with IOSQES 0: CSTS.CFS", CONFIG, DISABLED, Config { iosqes: 0, ..on }, 2),
        config("CC.EN with IOCQES 5: CSTS.CFS", CONFIG, DISABLED, Config { iocqes: 5, ..on }, 2),
        config("CC.EN with MPS 1: CSTS.CFS", CONFIG, DISABLED, Config { mps: 1, ..on }, 2),
        config("CC.EN with MPS 15: CSTS.CFS", CONFIG, DISABLED, Config { mps: 15, ..on }, 2),
        config("CC.EN with CSS 1: CSTS.CFS", CONFIG, DISABLED, Config { css: 1, ..on }, 2),
        config("CC.EN with CSS 7: CSTS.CFS", CONFIG, DISABLED, Config { css: 7, ..on }, 2),
        config("CC.EN with AMS 1: CSTS.CFS", CONFIG, DISABLED, Config { ams: 1, ..on }, 2),
        config("CC.EN with AMS 7: CSTS.CFS", CONFIG, DISABLED, Config { ams: 7, ..on }, 2),
        config("CC.EN with CRIME 1: CSTS.CFS", "base 3.1.3.5, CRIME", DISABLED, Config { crime: true, ..on }, 2),
        config("CC.SHN normal: CSTS.SHST complete", SHUTDOWN, ADMIN, Config { shn: 1, ..on }, 9),
        config("CC.SHN abrupt: CSTS.SHST complete", SHUTDOWN, ADMIN, Config { shn: 2, ..on }, 9),
        config("CC.SHN of a controller that is not enabled", SHUTDOWN, DISABLED, Config { shn: 1, en: false, ..on }, 8),
    ];
    all.push(case(
        "a controller that failed is reset and enabled",
        CONFIG,
        DISABLED,
        move |r| {
            set(r, Config { mps: 1, ..on })?;
            set(r, Config { en: false, ..on })?;
            set(r, on)?;
            status(r)
        },
        result(1),
    ));
    all.push(case(
        "a controller that was shut down is reset and enabled",
        SHUTDOWN,
        ADMIN,
        move |r| {
            set(r, Config { shn: 1, ..on })?;
            set(r, Config { en: false, ..on })?;
            set(r, on)?;
            status(r)
        },
        result(1),
    ));
    all.push(case(
        "CC.EN stays 1 after a shutdown: not ready for commands",
        SHUTDOWN,
        ADMIN,
        move |r| {
            set(r, Config { shn: 1, ..on })?;
            set(r, on)?;
            identify(r)
        },
        retry(StatusCode::COMMAND_SEQUENCE_ERROR),
    ));
    for (name, first) in
        [("failed", Config { mps: 1, ..on }), ("was not enabled", Config { en: false, ..on }), ("was shut down", Config { shn: 1, ..on })]
    {
        all.push(case(
            format!("Identify to a controller that {name}"),
            "base 3.5.1",
            DISABLED,
            move |r| {
                if name == "was shut down" {
                    set(r, on)?;
                }
                set(r, first)?;
                identify(r)
            },
            retry(StatusCode::COMMAND_SEQUENCE_ERROR),
        ));
    }
    all.push(case(
        "CC.EN to 0 ends the I/O queues",
        "base 3.7.2",
        IO,
        |r| r.admin().must(PropertyAccess::set_sqe(0, CC, false, 0), &[]).map(|_| ()),
        Answer::Closes,
    ));
    all.push(case(
        "I/O queue again after CC.EN went to 0 and 1",
        "base 3.7.2",
        IO,
        |r| {
            r.admin().must(PropertyAccess::set_sqe(0, CC, false, 0), &[])?;
            r.conn.expect(&Answer::Closes)?;
            r.admin().enable()?;
            let data = r.connect_data(r.cntlid);
            r.conn = r.greeted("conn")?;
            r.conn.join(connect(1, ENTRIES), &data).map(|_| ())
        },
        [],
    ));
    all
}

fn identify(r: &mut Run<'_>) -> Result<(), Stop> {
    let sqe = Identify { cns: 1, cntid: 0, nsid: 0, csi: 0, cnssid: 0 }.sqe(0);
    r.conn.command(Sqe { sgl: Sgl::transport(4096), ..sqe }, &[])
}

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut all = access();
    all.extend(configurations());
    all
}
