//! Reservations: fields, lengths and keys that are wrong, and what a reservation of another host stands against.

use crate::pdu::case::{Answer, Case, IO, case, fails, good};
use crate::pdu::run::{Run, Stop};
use crate::pdu::target::{INACTIVE_NSID, own_nsid};
use format::nvme::io::{BlockRange, CopyCommand, DatasetManagement, flush_sqe};
use format::nvme::reservation::{ACQUIRE, Action, CLEAR, PREEMPT, REGISTER, RELEASE, REPLACE, Report, UNREGISTER};
use format::nvme::{IoOpcode, NSID_ALL, Sgl, Sqe, StatusCode};

const REGISTERS: &str = "base 7.3, 8.19.3";
const ACQUIRES: &str = "base 7.2, 8.19.5";
const RELEASES: &str = "base 7.4, 8.19.6";
const REPORTS: &str = "base 7.5";
const LENGTH: &str = "base 3.3.3.2.1, 0Fh";
const RULES: &str = "base 8.19, figure 529";
const KEY: u64 = 0x11;
const OTHER_KEY: u64 = 0x22;
const WRITE_EXCLUSIVE: u8 = 1;
const EXCLUSIVE_ACCESS: u8 = 2;

/// A command with two keys; Release takes the first.
fn bytes_of(op: IoOpcode, key: u64, other: u64) -> Vec<u8> {
    let n = if op == IoOpcode::ReservationRelease { 8 } else { 16 };
    [key.to_le_bytes(), other.to_le_bytes()].concat()[..n].to_vec()
}
fn send(r: &mut Run<'_>, op: IoOpcode, action: Action, nsid: u32, data: &[u8]) -> Result<(), Stop> {
    let sgl = if data.is_empty() { Sgl::default() } else { Sgl::in_capsule(0, data.len() as u32) };
    r.conn.command(Sqe { sgl, ..action.sqe(op, 0, nsid) }, data)
}
fn action(action: u8, rtype: u8) -> Action {
    Action { action, rtype, ..Action::default() }
}
/// A reservation command that has to succeed.
fn must(r: &mut Run<'_>, op: IoOpcode, with: Action, nsid: u32, key: u64, other: u64) -> Result<(), Stop> {
    send(r, op, with, nsid, &bytes_of(op, key, other))?;
    r.conn.expect(&good())
}
fn register(r: &mut Run<'_>, nsid: u32) -> Result<(), Stop> {
    must(r, IoOpcode::ReservationRegister, action(REGISTER, 0), nsid, 0, KEY)
}
/// Another host, the same in all cases, registers and takes the reservation, or finds that it has.
fn held_by_another(r: &mut Run<'_>, nsid: u32, rtype: u8) -> Result<(), Stop> {
    r.as_another_host(|r| {
        must(r, IoOpcode::ReservationRegister, action(REGISTER, 0), nsid, 0, OTHER_KEY)?;
        must(r, IoOpcode::ReservationAcquire, action(ACQUIRE, rtype), nsid, OTHER_KEY, 0)
    })
}

fn fields() -> Vec<Case> {
    use IoOpcode::{ReservationAcquire as Acquire, ReservationRegister as Register, ReservationRelease as Release};
    let mut all = Vec::new();
    let field = || fails(StatusCode::INVALID_FIELD);
    let mut one = |name: String, section, op: IoOpcode, with: Action, answer: Answer| {
        all.push(case(name, section, IO, move |r| send(r, op, with, r.env.nsid, &bytes_of(op, KEY, KEY)), answer));
    };
    for a in 3..=7 {
        one(format!("Reservation Register with RREGA {a}"), REGISTERS, Register, action(a, 0), field());
        one(format!("Reservation Acquire with RACQA {a}"), ACQUIRES, Acquire, action(a, WRITE_EXCLUSIVE), field());
    }
    for a in 2..=7 {
        one(format!("Reservation Release with RRELA {a}"), RELEASES, Release, action(a, WRITE_EXCLUSIVE), field());
    }
    for rtype in [0, 7, 0x80, 0xFF] {
        one(format!("Reservation Acquire with RTYPE {rtype:02X}h"), ACQUIRES, Acquire, action(ACQUIRE, rtype), field());
        one(format!("Reservation Acquire, preempt, with RTYPE {rtype:02X}h"), ACQUIRES, Acquire, action(PREEMPT, rtype), field());
    }
    let iekey = |a| Action { iekey: true, ..action(a, WRITE_EXCLUSIVE) };
    one("Reservation Acquire with IEKEY".into(), ACQUIRES, Acquire, iekey(ACQUIRE), field());
    one("Reservation Release with IEKEY".into(), RELEASES, Release, iekey(RELEASE), field());
    one("Reservation Release, clear, with IEKEY".into(), RELEASES, Release, iekey(CLEAR), field());
    one("Reservation Register with CPTPL 01b".into(), REGISTERS, Register, Action { cptpl: 1, ..action(REGISTER, 0) }, field());
    for (op, name) in [(Register, "Register"), (Acquire, "Acquire"), (Release, "Release")] {
        let needs = bytes_of(op, 0, 0).len() as u32;
        for n in [0, needs - 1, 4100] {
            all.push(case(
                format!("Reservation {name} with {n} bytes of data"),
                LENGTH,
                IO,
                move |r| send(r, op, action(0, WRITE_EXCLUSIVE), r.env.nsid, &vec![0; n as usize]),
                fails(StatusCode::DATA_SGL_LENGTH_INVALID),
            ));
        }
        for (what, nsid, code) in [
            ("NSID 0", 0, StatusCode::INVALID_NAMESPACE_OR_FORMAT),
            ("NSID FFFFFFFFh", NSID_ALL, StatusCode::INVALID_NAMESPACE_OR_FORMAT),
            ("an NSID without a namespace", INACTIVE_NSID, StatusCode::INVALID_FIELD),
        ] {
            all.push(case(
                format!("Reservation {name} with {what}"),
                "base 3.2.1.2",
                IO,
                move |r| send(r, op, action(0, WRITE_EXCLUSIVE), nsid, &bytes_of(op, KEY, KEY)),
                fails(code),
            ));
        }
    }
    all.push(case(
        "Reservation Register with 4096 bytes of data, the keys first",
        "base 7.3, own",
        IO,
        |r| {
            let data = [bytes_of(Register, 0, KEY), vec![0xA5; 4080]].concat();
            send(r, Register, action(REGISTER, 0), own_nsid(0), &data)
        },
        good(),
    ));
    all
}

fn reports() -> Vec<Case> {
    let report = |numd, eds| Report { numd, eds };
    let mut all = Vec::new();
    let mut one = |name: &str, section, report: Report, bytes: u32, answer: Answer| {
        let sqe = Sqe { sgl: Sgl::transport(bytes), ..report.sqe(0, 1) };
        all.push(case(name, section, IO, move |r| r.conn.command(sqe, &[]), answer));
    };
    let length = || fails(StatusCode::DATA_SGL_LENGTH_INVALID);
    one("Reservation Report, extended, of 4096 bytes", REPORTS, report(1023, true), 4096, Answer::Data(4096));
    one("Reservation Report, extended, of 4 bytes", REPORTS, report(0, true), 4, Answer::Data(4));
    one("Reservation Report with 64-bit host identifiers", REPORTS, report(1023, false), 4096, fails(StatusCode::HOST_ID_INCONSISTENT));
    one("Reservation Report of 4096 bytes into 4092", LENGTH, report(1023, true), 4092, length());
    one("Reservation Report of 4096 bytes into 8192", LENGTH, report(1023, true), 8192, length());
    one("Reservation Report of 4 bytes into none", LENGTH, report(0, true), 0, length());
    one("Reservation Report of 16 GiB", "base 5.17.2.1, MDTS", report(u32::MAX, true), 4096, fails(StatusCode::INVALID_FIELD));
    for (what, nsid, code) in
        [("NSID 0", 0, StatusCode::INVALID_NAMESPACE_OR_FORMAT), ("an NSID without a namespace", INACTIVE_NSID, StatusCode::INVALID_FIELD)]
    {
        let sqe = Sqe { sgl: Sgl::transport(4096), ..report(1023, true).sqe(0, nsid) };
        all.push(case(format!("Reservation Report with {what}"), "base 3.2.1.2", IO, move |r| r.conn.command(sqe, &[]), fails(code)));
    }
    all
}

/// Keys and registrations. Each has a namespace of its own, where nobody else is registered.
fn keys() -> Vec<Case> {
    use IoOpcode::{ReservationAcquire as Acquire, ReservationRegister as Register, ReservationRelease as Release};
    let mut all = Vec::new();
    let conflict = || fails(StatusCode::RESERVATION_CONFLICT);
    // Of a host that is not registered.
    let strange: [(&str, &'static str, IoOpcode, Action); 7] = [
        ("Reservation Register, unregister", REGISTERS, Register, action(UNREGISTER, 0)),
        ("Reservation Register, unregister with IEKEY", REGISTERS, Register, Action { iekey: true, ..action(UNREGISTER, 0) }),
        ("Reservation Register, replace", REGISTERS, Register, action(REPLACE, 0)),
        ("Reservation Acquire", ACQUIRES, Acquire, action(ACQUIRE, WRITE_EXCLUSIVE)),
        ("Reservation Acquire, preempt", ACQUIRES, Acquire, action(PREEMPT, WRITE_EXCLUSIVE)),
        ("Reservation Release", RELEASES, Release, action(RELEASE, WRITE_EXCLUSIVE)),
        ("Reservation Release, clear", RELEASES, Release, action(CLEAR, 0)),
    ];
    for (name, section, op, with) in strange {
        all.push(case(
            format!("{name} by a host that is not registered"),
            section,
            IO,
            move |r| send(r, op, with, r.env.nsid, &bytes_of(op, KEY, OTHER_KEY)),
            conflict(),
        ));
    }
    let mut own = 0;
    let mut registered = |name: &str, section, answer: Answer, act: fn(&mut Run<'_>, u32) -> Result<(), Stop>| {
        own += 1;
        let nsid = own_nsid(own);
        all.push(case(
            name,
            section,
            IO,
            move |r| {
                register(r, nsid)?;
                act(r, nsid)
            },
            answer,
        ));
    };
    registered("Reservation Register again with the same key", REGISTERS, good(), |r, ns| {
        send(r, Register, action(REGISTER, 0), ns, &bytes_of(Register, 0, KEY))
    });
    registered("Reservation Register again with another key", REGISTERS, conflict(), |r, ns| {
        send(r, Register, action(REGISTER, 0), ns, &bytes_of(Register, KEY, OTHER_KEY))
    });
    registered("Reservation Register, replace, with a key that is not ours", REGISTERS, conflict(), |r, ns| {
        send(r, Register, action(REPLACE, 0), ns, &bytes_of(Register, OTHER_KEY, 1))
    });
    registered("Reservation Register, unregister, with a key that is not ours", REGISTERS, conflict(), |r, ns| {
        send(r, Register, action(UNREGISTER, 0), ns, &bytes_of(Register, OTHER_KEY, 0))
    });
    registered("Reservation Register, unregister with IEKEY and a key that is not ours", REGISTERS, good(), |r, ns| {
        send(r, Register, Action { iekey: true, ..action(UNREGISTER, 0) }, ns, &bytes_of(Register, OTHER_KEY, 0))
    });
    registered("Reservation Acquire with a key that is not ours", ACQUIRES, conflict(), |r, ns| {
        send(r, Acquire, action(ACQUIRE, WRITE_EXCLUSIVE), ns, &bytes_of(Acquire, OTHER_KEY, 0))
    });
    registered("Reservation Acquire, preempt of a key that nobody has", "base 8.19.7", conflict(), |r, ns| {
        send(r, Acquire, action(PREEMPT, WRITE_EXCLUSIVE), ns, &bytes_of(Acquire, KEY, 0x99))
    });
    registered(
        "Reservation Acquire, preempt of key 0 of a reservation that is not of all registrants",
        "base 8.19.7",
        fails(StatusCode::INVALID_FIELD),
        |r, ns| {
            held_by_another(r, ns, WRITE_EXCLUSIVE)?;
            send(r, Acquire, action(PREEMPT, WRITE_EXCLUSIVE), ns, &bytes_of(Acquire, KEY, 0))
        },
    );
    registered("Reservation Acquire of what another holds", ACQUIRES, conflict(), |r, ns| {
        held_by_another(r, ns, WRITE_EXCLUSIVE)?;
        send(r, Acquire, action(ACQUIRE, WRITE_EXCLUSIVE), ns, &bytes_of(Acquire, KEY, 0))
    });
    registered("Reservation Acquire again of the same type", ACQUIRES, good(), |r, ns| {
        must(r, Acquire, action(ACQUIRE, WRITE_EXCLUSIVE), ns, KEY, 0)?;
        send(r, Acquire, action(ACQUIRE, WRITE_EXCLUSIVE), ns, &bytes_of(Acquire, KEY, 0))
    });
    registered("Reservation Acquire again of another type", ACQUIRES, conflict(), |r, ns| {
        must(r, Acquire, action(ACQUIRE, WRITE_EXCLUSIVE), ns, KEY, 0)?;
        send(r, Acquire, action(ACQUIRE, EXCLUSIVE_ACCESS), ns, &bytes_of(Acquire, KEY, 0))
    });
    registered("Reservation Release of what nobody holds", RELEASES, good(), |r, ns| {
        send(r, Release, action(RELEASE, WRITE_EXCLUSIVE), ns, &bytes_of(Release, KEY, 0))
    });
    registered("Reservation Release of what another holds: nothing happens", RELEASES, good(), |r, ns| {
        held_by_another(r, ns, WRITE_EXCLUSIVE)?;
        send(r, Release, action(RELEASE, WRITE_EXCLUSIVE), ns, &bytes_of(Release, KEY, 0))
    });
    registered("Reservation Release with another type than is held", RELEASES, fails(StatusCode::INVALID_FIELD), |r, ns| {
        must(r, Acquire, action(ACQUIRE, WRITE_EXCLUSIVE), ns, KEY, 0)?;
        send(r, Release, action(RELEASE, EXCLUSIVE_ACCESS), ns, &bytes_of(Release, KEY, 0))
    });
    registered("Reservation Release with a key that is not ours", RELEASES, conflict(), |r, ns| {
        must(r, Acquire, action(ACQUIRE, WRITE_EXCLUSIVE), ns, KEY, 0)?;
        send(r, Release, action(RELEASE, WRITE_EXCLUSIVE), ns, &bytes_of(Release, OTHER_KEY, 0))
    });
    registered("Reservation Release, clear, with a key that is not ours", RELEASES, conflict(), |r, ns| {
        send(r, Release, action(CLEAR, 0), ns, &bytes_of(Release, OTHER_KEY, 0))
    });
    all
}

/// Commands of a host that is not registered, where another holds a reservation.
fn fenced() -> Vec<Case> {
    let mut all = Vec::new();
    let commands: [(&str, bool, IoOpcode); 9] = [
        ("Read", true, IoOpcode::Read),
        ("Compare", true, IoOpcode::Compare),
        ("Verify", true, IoOpcode::Verify),
        ("Write", false, IoOpcode::Write),
        ("Write Zeroes", false, IoOpcode::WriteZeroes),
        ("Write Uncorrectable", false, IoOpcode::WriteUncorrectable),
        ("Dataset Management", false, IoOpcode::DatasetManagement),
        ("Copy", false, IoOpcode::Copy),
        ("Flush", false, IoOpcode::Flush),
    ];
    for (rtype, held) in [(WRITE_EXCLUSIVE, "Write Exclusive"), (EXCLUSIVE_ACCESS, "Exclusive Access")] {
        for (name, reads, op) in commands {
            let allowed = reads && rtype == WRITE_EXCLUSIVE;
            let answer = match (allowed, op) {
                (false, _) => fails(StatusCode::RESERVATION_CONFLICT),
                (true, IoOpcode::Read) => Answer::Data(4096),
                (true, IoOpcode::Compare) => fails(StatusCode::COMPARE_FAILURE),
                (true, _) => good(),
            };
            all.push(case(
                format!("{name} where another host holds {held}"),
                RULES,
                IO,
                move |r| {
                    let nsid = own_nsid(if rtype == WRITE_EXCLUSIVE { 17 } else { 18 });
                    held_by_another(r, nsid, rtype)?;
                    let data = vec![1; 4096];
                    let capsule = Sgl::in_capsule(0, 4096);
                    let range = BlockRange::new(0, 0).sqe(op, 0, nsid);
                    match op {
                        IoOpcode::Read => r.conn.command(Sqe { sgl: Sgl::transport(4096), ..range }, &[]),
                        IoOpcode::Compare | IoOpcode::Write => r.conn.command(Sqe { sgl: capsule, ..range }, &data),
                        IoOpcode::DatasetManagement => {
                            let sqe = DatasetManagement { nr: 0, idr: false, idw: false, ad: true }.sqe(0, nsid);
                            r.conn.command(Sqe { sgl: capsule, ..sqe }, &vec![0; 4096])
                        }
                        IoOpcode::Copy => {
                            let sqe = CopyCommand { sdlba: 8, nr: 0, desfmt: 0, dtype: 0 }.sqe(0, nsid);
                            r.conn.command(Sqe { sgl: Sgl::in_capsule(0, 32), ..sqe }, &[0; 32])
                        }
                        IoOpcode::Flush => r.conn.command(flush_sqe(0, nsid), &[]),
                        _ => r.conn.command(range, &[]),
                    }
                },
                answer,
            ));
        }
    }
    all
}

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut all = fields();
    all.extend(reports());
    all.extend(keys());
    all.extend(fenced());
    all
}
