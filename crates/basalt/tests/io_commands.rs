//! Commands that hosts send rarely, through the real daemon: Compare and Write from many connections, Verify, Write Uncorrectable over a kill,
//! Copy, Abort.
// The test lives outside of the data plane: processes, threads, the clock.
#![allow(clippy::disallowed_methods)]

use format::nvme::io::BlockRange;
use format::nvme::{Fuse, IoOpcode, Sqe, StatusCode};
use initiator::queue::{Payload, Request};
use initiator::{Controller, ControllerOptions, Error, HostIdentity, Io, IoQueue};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const BASALT: &str = env!("CARGO_BIN_EXE_basalt");
const NQN: &str = "nqn.2026-11.io.basalt:default";
const PATIENCE: Duration = Duration::from_secs(60);

struct Daemon {
    dir: tempfile::TempDir,
    child: Child,
    addr: SocketAddr,
}

impl Daemon {
    /// Namespace 1 has blocks of 4096 bytes, namespace 2 of 512.
    fn with_volumes() -> Daemon {
        let dir = tempfile::tempdir().unwrap();
        let config = format!(
            "data_dir = {:?}\ncores = {{ count = 2, pin = false }}\nlisteners = [{{ addr = \"127.0.0.1:0\" }}]\n",
            dir.path().join("data")
        );
        std::fs::write(dir.path().join("basalt.toml"), config).unwrap();
        let (child, addr) = start(&dir);
        let daemon = Daemon { dir, child, addr };
        let path = |name: &str| daemon.dir.path().join(name).display().to_string();
        daemon.ok(&format!("group create g --shards 2 --cache {}:256MiB --capacity {}:512MiB", path("cache.img"), path("data.img")));
        daemon.ok("volume create large --size 64MiB");
        daemon.ok("volume create small --size 64MiB --lba 512");
        daemon
    }
    fn ok(&self, line: &str) {
        let mut command = Command::new(BASALT);
        command.arg("--api").arg(self.dir.path().join("data/api.sock")).args(line.split_whitespace()).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
    fn kill_and_start(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        (self.child, self.addr) = start(&self.dir);
    }
    fn connect(&self, host: u64, in_capsule: Option<u32>) -> Controller {
        let mut options = ControllerOptions::new(self.addr, NQN);
        options.host = HostIdentity::numbered(host);
        options.in_capsule_bytes = in_capsule;
        let begun = Instant::now();
        loop {
            match Controller::connect(options.clone()) {
                Ok(controller) => return controller,
                Err(e) => assert!(begun.elapsed() < PATIENCE, "{e}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(dir: &tempfile::TempDir) -> (Child, SocketAddr) {
    let mut command = Command::new(BASALT);
    command.arg("serve").arg("--config").arg(dir.path().join("basalt.toml"));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let addr = line.split("io on ").nth(1).and_then(|s| s.split(',').next()?.trim().parse().ok());
    (child, addr.unwrap_or_else(|| panic!("{line:?}")))
}

fn queue(controller: &Controller, nsid: u32) -> IoQueue {
    controller.set_queues(1).unwrap();
    controller.open_queue(1, 16, controller.namespace(nsid).unwrap()).unwrap()
}

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> StatusCode {
    match result {
        Err(Error::Status { status, .. }) => status.code,
        other => panic!("{other:?}"),
    }
}

/// Four counters in the 512-byte blocks of two 4 KiB blocks, and six hosts that add to them as one adds with compare and exchange.
#[test]
fn counters_that_hosts_exchange_never_lose_an_increment() {
    let daemon = Daemon::with_volumes();
    let (hosts, rounds) = (6u64, 60u64);
    let spot = |n: u64| [0, 512, 1024, 4096][n as usize % 4];
    let lost: u64 = std::thread::scope(|scope| {
        let host = |n: u64| {
            // Half of them send their data by R2T.
            let controller = daemon.connect(n + 1, n.is_multiple_of(2).then_some(0));
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
    let controller = daemon.connect(9, None);
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
    let mut daemon = Daemon::with_volumes();
    let controller = daemon.connect(1, None);
    let mut q = queue(&controller, 1);
    q.write(0, vec![7; 64 << 10], false).unwrap();
    q.verify(0, 64 << 20).unwrap();
    q.write_uncorrectable(8192, 8192).unwrap();
    let lost = StatusCode::UNRECOVERED_READ_ERROR;
    let check = |q: &mut IoQueue| {
        assert_eq!(code(q.read(0, 64 << 10)), lost);
        assert_eq!(code(q.verify(0, 64 << 20)), lost);
        assert_eq!(code(q.compare(12288, vec![7; 4096])), lost);
        assert_eq!(code(q.copy(1 << 20, vec![(8192, 4096)])), lost);
        assert_eq!(q.read(16384, 4096).unwrap(), [7; 4096]);
    };
    check(&mut q);
    drop((q, controller));
    daemon.kill_and_start();
    let controller = daemon.connect(1, None);
    let mut q = queue(&controller, 1);
    check(&mut q);
    q.write(8192, vec![8; 4096], false).unwrap();
    q.write_zeroes(12288, 4096, false).unwrap();
    q.verify(0, 64 << 20).unwrap();
    assert_eq!(q.read(4096, 12288).unwrap(), [[7; 4096], [8; 4096], [0; 4096]].concat());
}

#[test]
fn copies_are_made_on_the_server_and_stop_at_the_range_that_fails() {
    let daemon = Daemon::with_volumes();
    let controller = daemon.connect(1, None);
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
    assert_eq!(code(q.copy(0, vec![(0, (16 << 20) + 4096)])), StatusCode::COMMAND_SIZE_LIMIT_EXCEEDED);
}

#[test]
fn an_abort_crosses_to_the_queue_of_its_command() {
    let daemon = Daemon::with_volumes();
    let controller = daemon.connect(1, None);
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
