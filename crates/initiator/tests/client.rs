//! The client against the fake target: every command, both digests, in-capsule and R2T, discovery, events, keep-alive, errors.
#![allow(clippy::disallowed_methods)]

mod fake;

use fake::{Fake, NQN, Nature};
use format::nvme::StatusCode;
use format::nvme::fabrics::CNTLID_DYNAMIC;
use format::nvme::log::AsyncEvent;
use format::nvme_tcp::{Digests, PduType};
use initiator::controller::{Backoff, reconnect};
use initiator::raw::{RawClient, Received};
use initiator::{Controller, ControllerOptions, Error, HostIdentity, Io, QueueError, discovery};
use std::time::{Duration, Instant};

const BOTH: Digests = Digests { header: true, data: true };

fn options(fake: &Fake, digests: Digests) -> ControllerOptions {
    ControllerOptions { digests, kato: Duration::from_millis(300), ..ControllerOptions::new(fake.addr, NQN) }
}

fn bytes(n: usize, seed: u64) -> Vec<u8> {
    let mut rng = initiator::rng::Rng::new(seed);
    (0..n).map(|_| rng.next_u64() as u8).collect()
}

fn all_commands(fake: &Fake, options: ControllerOptions) {
    let controller = Controller::connect(options).unwrap();
    assert_eq!(controller.namespaces().unwrap(), [1]);
    assert_eq!(controller.set_queues(2).unwrap(), 2);
    let ns = controller.namespace(1).unwrap();
    assert_eq!((ns.lba_bytes, ns.blocks, ns.zeroes_after_trim), (512, 4096, true));
    let mut q = controller.open_queue(1, 8, ns).unwrap();
    for (n, len) in [512usize, 4096, 8192, 8704, 16384, 65536, 131_072].into_iter().enumerate() {
        let data = bytes(len, n as u64);
        q.write(4096, data.clone(), n % 2 == 0).unwrap();
        assert_eq!(q.read(4096, len as u32).unwrap(), data);
        q.compare(4096, data.clone()).unwrap();
        let mut other = data;
        other[len - 1] ^= 1;
        let status = q.execute(Io::Compare { offset: 4096, data: other }).unwrap().status;
        assert_eq!(status.code, StatusCode::COMPARE_FAILURE);
    }
    q.flush().unwrap();
    q.write_zeroes(4096, 4096, false).unwrap();
    assert_eq!(q.read(4096, 4096).unwrap(), [0; 4096]);
    q.deallocate(vec![(8192, 4096), (16384, 512)]).unwrap();
    assert_eq!(q.read(8192, 4096).unwrap(), [0; 4096]);
    let status = q.execute(Io::Read { offset: ns.bytes(), len: 512 }).unwrap().status;
    assert_eq!((status.code, status.dnr), (StatusCode::LBA_OUT_OF_RANGE, true));
    // A full queue, each with data of its own.
    for tag in 0..8 {
        q.submit(tag, Io::Write { offset: tag * 65536, data: bytes(65536, tag), fua: false }).unwrap();
    }
    assert!(matches!(q.submit(9, Io::Flush), Err(Error::QueueFull)));
    let mut done = 0;
    while done < 8 {
        q.poll(Duration::from_secs(5)).unwrap();
        while let Some(d) = q.pop() {
            assert!(d.status.is_success());
            done += 1;
        }
    }
    for tag in 0..8 {
        assert_eq!(q.read(tag * 65536, 65536).unwrap(), bytes(65536, tag));
    }
    q.disconnect().unwrap();
    controller.shutdown().unwrap();
    assert_eq!(fake.disk.lock().unwrap().seeded, 0);
}

#[test]
fn every_command_works_with_and_without_digests_in_the_capsule_and_by_r2t() {
    for digests in [Digests::default(), BOTH, Digests { header: true, data: false }, Digests { header: false, data: true }] {
        let fake = Fake::start(512, 4096, Nature::default());
        all_commands(&fake, options(&fake, digests));
        all_commands(&fake, ControllerOptions { in_capsule_bytes: Some(0), ..options(&fake, digests) });
    }
}

#[test]
fn a_target_with_other_habits_is_understood() {
    let odd =
        Nature { in_capsule: 0, maxh2cdata: 4096, r2t_bytes: 10_240, cpda: 3, c2h_success: false, c2h_bytes: 1000, ..Nature::default() };
    let fake = Fake::start(512, 4096, odd);
    all_commands(&fake, options(&fake, BOTH));
    all_commands(&fake, options(&fake, Digests::default()));
}

#[test]
fn discovery_names_the_subsystem_and_its_address() {
    let fake = Fake::start(512, 64, Nature::default());
    let records = discovery::discover(&options(&fake, BOTH)).unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].nqn.as_str(), records[0].addr(), records[0].is_nvm), (NQN, Some(fake.addr), true));
}

#[test]
fn the_log_of_many_nodes_is_read_whole_or_not_at_all() {
    let fake = Fake::start(512, 64, Nature { records: 5000, ..Nature::default() });
    let records = discovery::discover(&options(&fake, BOTH)).unwrap();
    assert_eq!(records.len(), 5000);
    for (n, r) in records.iter().enumerate().skip(1) {
        assert_eq!((r.portid, r.subtype, r.is_nvm), (n as u16, [2, 1, 3][n % 3], n % 3 == 0));
        assert_eq!((r.tls_required, r.eflags), (n % 2 == 1, (n % 4) as u16));
        assert_eq!(r.addr(), Some(format!("192.0.2.{}:4420", n % 250).parse().unwrap()));
    }
    let fake = Fake::start(512, 64, Nature { records: discovery::RECORDS_MAX + 1, ..Nature::default() });
    let error = discovery::discover(&options(&fake, BOTH)).unwrap_err();
    assert!(error.to_string().contains("65537 records"), "{error}");
}

#[test]
fn keep_alives_flow_and_events_arrive() {
    let fake = Fake::start(512, 64, Nature::default());
    let controller = Controller::connect(options(&fake, Digests::default())).unwrap();
    let begun = Instant::now();
    while fake.keep_alives() < 3 {
        assert!(begun.elapsed() < Duration::from_secs(5), "three keep-alives within a second or so");
        std::thread::sleep(Duration::from_millis(10));
    }
    let event = AsyncEvent { kind: 2, info: 0, log: 4 };
    fake.raise(event);
    assert_eq!(controller.wait_event(Duration::from_secs(5)).unwrap(), event);
    assert!(!controller.failed());
    fake.kill();
    let begun = Instant::now();
    while !controller.failed() {
        assert!(begun.elapsed() < Duration::from_secs(5), "a dead admin connection is noticed");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_wrong_data_digest_is_refused() {
    let fake = Fake::start(512, 64, Nature::default());
    let controller = Controller::connect(options(&fake, BOTH)).unwrap();
    let ns = controller.namespace(1).unwrap();
    let mut q = controller.open_queue(1, 8, ns).unwrap();
    fake.spoil_next_data_digest();
    assert!(matches!(q.read(0, 4096), Err(Error::Queue(QueueError::DataDigest(_)))));
}

#[test]
fn wrong_names_and_dead_addresses_are_distinguished() {
    let fake = Fake::start(512, 64, Nature::default());
    let wrong = ControllerOptions { subnqn: "nqn.2026-01.io.example:other".into(), ..options(&fake, BOTH) };
    let Err(Error::Status { what: "Connect", status }) = Controller::connect(wrong) else { panic!("refused") };
    assert_eq!(status.code, StatusCode::CONNECT_INVALID_PARAMETERS);
    let addr = fake.addr;
    drop(fake);
    let begun = Instant::now();
    let deadline = begun + Duration::from_millis(300);
    let dead = reconnect(deadline, Backoff::default(), || Controller::connect(ControllerOptions::new(addr, NQN)));
    assert!(matches!(dead, Err(Error::Connect { .. } | Error::Closed | Error::Socket(_))));
    assert!(begun.elapsed() < Duration::from_secs(3));
}

#[test]
fn the_raw_client_reaches_each_state_and_sees_what_comes() {
    let fake = Fake::start(512, 64, Nature::default());
    let host = HostIdentity::numbered(4);
    let (mut admin, cntlid) = RawClient::ready_admin(fake.addr, NQN, &host, BOTH).unwrap();
    assert_ne!(cntlid, CNTLID_DYNAMIC);
    let mut io = RawClient::ready_io(fake.addr, NQN, &host, cntlid, 1, BOTH).unwrap();
    let flush = format::nvme::io::flush_sqe(77, 1);
    let capsule = io.capsule(&flush, &[]);
    io.send_in_pieces(&capsule, 7).unwrap();
    let Received::Pdu(pdu) = io.read_pdu(Duration::from_secs(5)).unwrap() else { panic!("a completion comes") };
    assert_eq!((pdu.kind(), pdu.cqe().unwrap().cid), (Some(PduType::CapsuleResp), 77));
    assert_eq!(io.read_pdu(Duration::from_millis(20)).unwrap(), Received::Nothing);
    fake.kill();
    assert!(admin.closes_within(Duration::from_secs(5)).unwrap());
}
