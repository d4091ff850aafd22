//! Commands that hosts send rarely, through the real daemon: Compare and Write from many connections, Verify, Write Uncorrectable over a kill,
//! Copy, Abort.

use crate::harness::{Daemon, PATIENCE, USUAL, status, until};
use format::nvme::io::BlockRange;
use format::nvme::{Fuse, IoOpcode, Sqe, StatusCode};
use initiator::queue::{Payload, Request};
use initiator::{Controller, ControllerOptions, HostIdentity, Io, IoQueue};
use std::time::{Duration, Instant};

/// Namespace 1 has blocks of 4096 bytes, namespace 2 of 512.
fn with_volumes() -> Daemon {
    let daemon = Daemon::started(&USUAL);
    daemon.group_on_files(2, "256MiB", "512MiB");
    daemon.ok("volume create large --size 64MiB");
    daemon.ok("volume create small --size 64MiB --lba 512");
    daemon
}

fn connect(daemon: &Daemon, host: u64, in_capsule_bytes: Option<u32>) -> Controller {
    let options = ControllerOptions { host: HostIdentity::numbered(host), in_capsule_bytes, ..daemon.options() };
    until("a host connects", || Controller::connect(options.clone()).ok())
}

fn queue(controller: &Controller, nsid: u32) -> IoQueue {
    controller.set_queues(1).unwrap();
    controller.open_queue(1, 16, controller.namespace(nsid).unwrap()).unwrap()
}

/// Four counters in the 512-byte blocks of two 4 KiB blocks, and six hosts that add to them as one adds with compare and exchange.
#[test]
fn counters_that_hosts_exchange_never_lose_an_increment() {
    let daemon = with_volumes();
    let (hosts, rounds) = (6u64, 60u64);
    let spot = |n: u64| [0, 512, 1024, 4096][n as usize % 4];
    let lost: u64 = std::thread::scope(|scope| {
        let host = |n: u64| {
            // Half of them send their data by R2T.
            let controller = connect(&daemon, n + 1, n.is_multiple_of(2).then_some(0));
            let mut queue = queue(&controller, 2);
            let mut lost = 0;
            for i in 0..rounds {
                loop {
                    let old = queue.read(spot(n + i), 512).unwrap();
                    let mut new = old.clone();
                    let value = u64::from_le_bytes(old[..8].try_into().unwrap()) + 1;
                    new.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&value.to_le_bytes()));
                    if queue.compare_and_write(spot(n + i), old, new).unwrap() {
                        break;
                    }
                    lost += 1;
                }
            }
            lost
        };
        let running: Vec<_> = (0..hosts).map(|n| scope.spawn(move || host(n))).collect();
        running.into_iter().map(|h| h.join().unwrap()).sum()
    });
    let controller = connect(&daemon, 9, None);
    let mut queue = queue(&controller, 2);
    let total: u64 = (0..4)
        .map(|n| {
            let block = queue.read(spot(n), 512).unwrap();
            assert!(block.chunks_exact(8).all(|word| word == &block[..8]), "torn");
            u64::from_le_bytes(block[..8].try_into().unwrap())
        })
        .sum();
    assert_eq!(total, hosts * rounds);
    println!("{} exchanges, {lost} came too late", hosts * rounds);
}

#[test]
fn blocks_declared_uncorrectable_stay_so_over_a_kill_until_they_are_written() {
    let mut daemon = with_volumes();
    let controller = connect(&daemon, 1, None);
    let mut q = queue(&controller, 1);
    q.write(0, vec![7; 64 << 10], false).unwrap();
    q.verify(0, 64 << 20).unwrap();
    q.write_uncorrectable(8192, 8192).unwrap();
    let lost = StatusCode::UNRECOVERED_READ_ERROR;
    let check = |q: &mut IoQueue| {
        assert_eq!(status(q.read(0, 64 << 10)), lost);
        assert_eq!(status(q.verify(0, 64 << 20)), lost);
        assert_eq!(status(q.compare(12288, vec![7; 4096])), lost);
        assert_eq!(status(q.copy(1 << 20, vec![(8192, 4096)])), lost);
        assert_eq!(q.read(16384, 4096).unwrap(), [7; 4096]);
    };
    check(&mut q);
    drop((q, controller));
    daemon.kill_and_start();
    let controller = connect(&daemon, 1, None);
    let mut q = queue(&controller, 1);
    check(&mut q);
    q.write(8192, vec![8; 4096], false).unwrap();
    q.write_zeroes(12288, 4096, false).unwrap();
    q.verify(0, 64 << 20).unwrap();
    assert_eq!(q.read(4096, 12288).unwrap(), [[7; 4096], [8; 4096], [0; 4096]].concat());
}

#[test]
fn copies_are_made_on_the_server_and_stop_at_the_range_that_fails() {
    let daemon = with_volumes();
    let controller = connect(&daemon, 1, None);
    let mut q = queue(&controller, 1);
    let id = controller.identify_namespace(1).unwrap();
    assert_eq!((id.mssrl, id.mcl, id.msrc), (4096, 16384, 127));
    let data: Vec<u8> = (0..1u32 << 18).flat_map(|i| i.to_le_bytes()).collect();
    q.write(0, data.clone(), false).unwrap();
    q.copy((1 << 20) + 4096, vec![(4096, 512 << 10), (0, 4096)]).unwrap();
    assert!(q.read((1 << 20) + 4096, 512 << 10).unwrap() == data[4096..4096 + (512 << 10)]);
    assert_eq!(q.read((1 << 20) + 4096 + (512 << 10), 4096).unwrap(), data[..4096]);
    // 16 MiB in one range, over many pieces, and the source untouched.
    q.copy(32 << 20, vec![(0, 16 << 20)]).unwrap();
    assert!(q.read(32 << 20, 1 << 20).unwrap() == data && q.read(0, 1 << 20).unwrap() == data);
    q.write_uncorrectable(8192, 4096).unwrap();
    let done = q.execute(Io::Copy { to: 4 << 20, ranges: vec![(0, 8192), (4096, 8192), (12288, 4096)] }).unwrap();
    assert_eq!((done.status.code, done.result), (StatusCode::UNRECOVERED_READ_ERROR, 1));
    assert_eq!(q.read(4 << 20, 8192).unwrap(), data[..8192]);
    assert_eq!(q.read((4 << 20) + 16384, 4096).unwrap(), [0; 4096]);
    assert_eq!(status(q.copy(0, vec![(0, (16 << 20) + 4096)])), StatusCode::COMMAND_SIZE_LIMIT_EXCEEDED);
}

#[test]
fn an_abort_crosses_to_the_queue_of_its_command() {
    let daemon = with_volumes();
    let controller = connect(&daemon, 1, None);
    let granted = controller.set_queues(4).unwrap();
    // Over several queues, so that some are on the core of the admin queue and some are not.
    for qid in 1..=granted {
        let mut q = controller.open_queue(qid, 8, controller.namespace(1).unwrap()).unwrap();
        // A first half that will never have its second waits for ever.
        let sqe = Sqe { fuse: Fuse::First, ..BlockRange::new(0, 0).sqe(IoOpcode::Compare, 0, 1) };
        let cid = q.connection().submit(Request { sqe, payload: Payload::Out(vec![0; 4096]), tag: 5 }).unwrap();
        let begun = Instant::now();
        // The capsule may come after the Abort command: then there is nothing to abort yet.
        while !controller.abort(qid, cid).unwrap() {
            assert!(begun.elapsed() < PATIENCE);
            q.poll(Duration::from_millis(1)).unwrap();
        }
        let done = loop {
            q.poll(Duration::from_millis(10)).unwrap();
            if let Some(done) = q.pop() {
                break done;
            }
            assert!(begun.elapsed() < PATIENCE);
        };
        assert_eq!((done.tag, done.status.code, done.status.dnr), (5, StatusCode::ABORT_REQUESTED, false));
        assert!(!controller.abort(qid, cid).unwrap(), "it is gone");
        q.read(0, 4096).unwrap();
    }
    assert!(!controller.abort(99, 0).unwrap(), "no such queue");
}
