//! What cases run against: a daemon of our own with volumes in memory, or another target that the environment names.

use crate::harness::turn::Subject;
use crate::harness::{Daemon, Setup, USUAL};
use crate::pdu::case::{ADMIN, Answer};
use crate::pdu::run::Run;
use format::nvme::admin::Identify;
use format::nvme::identify::{self as cns, IdentifyController, IdentifyNamespace};
use format::nvme::{Sgl, Sqe};
use initiator::HostIdentity;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that each case may write to.
const AREA_BYTES: u64 = 2 << 20;
/// The subsystem that the cases use.
pub const NQN: &str = "nqn.2026-11.io.basalt:cases";
/// A subsystem that no host may connect to.
pub const CLOSED_NQN: &str = "nqn.2026-11.io.basalt:closed";
/// A subsystem whose hosts may manage namespaces.
pub const MANAGED_NQN: &str = "nqn.2026-11.io.basalt:managed";
/// Its namespace.
pub const MANAGED_NSID: u32 = 1;
/// Number of a host that has a secret.
pub const KEYED_HOST: u64 = 500;
/// Number of the host that holds the reservations that stand against others.
pub const OTHER_HOST: u64 = 501;
/// Namespaces for cases about reservations, each for one.
const OWN_NSIDS: u32 = 19;
/// A read-only namespace of the subsystem.
pub const READ_ONLY_NSID: u32 = 2;
/// The namespace that the verified load uses.
pub const LOAD_NSID: u32 = 3;
/// A namespace identifier that may be used but is not.
pub const INACTIVE_NSID: u32 = 1000;

/// A namespace that only one case uses, or only cases that leave it as they find it.
pub fn own_nsid(n: u32) -> u32 {
    assert!(n < OWN_NSIDS, "one more namespace is needed");
    LOAD_NSID + 1 + n
}

/// The target as cases need to know it.
pub struct Env {
    /// It is ours: every answer is checked to the last bit.
    pub strict: bool,
    /// Its port.
    pub addr: SocketAddr,
    /// The port of its discovery controller.
    pub discovery: SocketAddr,
    /// Its subsystem.
    pub nqn: String,
    /// A writable namespace.
    pub nsid: u32,
    /// log2 of its block size.
    pub shift: u32,
    /// Its blocks.
    pub blocks: u64,
    /// Data that a command capsule may carry, in bytes.
    pub capsule_max: u32,
    /// Data of one command, in bytes.
    pub transfer_max: u32,
    /// Highest namespace ID.
    pub nn: u32,
    number: AtomicU64,
}

impl Env {
    /// Asks a target what it is, with as little as every target knows.
    pub fn probe(addr: SocketAddr, discovery: SocketAddr, nqn: &str, nsid: u32, strict: bool) -> Self {
        let (capsule_max, transfer_max, nn, number) = (8192, 1 << 20, 0, AtomicU64::new(0));
        let mut env =
            Env { strict, addr, discovery, nqn: nqn.to_owned(), nsid, shift: 12, blocks: 1 << 20, capsule_max, transfer_max, nn, number };
        let mut identify = [(cns::CNS_CONTROLLER, 0), (cns::CNS_NAMESPACE, nsid)].into_iter().map(|(cns, nsid)| {
            let mut run = Run::begin(&env, ADMIN, &Rc::default()).expect("an admin queue");
            let sqe = Identify { cns, cntid: 0, nsid, csi: 0, cnssid: 0 }.sqe(0);
            run.conn.command(Sqe { sgl: Sgl::transport(4096), ..sqe }, &[]).expect("Identify is sent");
            run.conn.expect(&Answer::Data(4096)).expect("Identify is answered");
            run.conn.data
        });
        let (controller, namespace) = (identify.next().expect("one"), identify.next().expect("two"));
        drop(identify);
        let controller = IdentifyController::parse(&controller).expect("Identify Controller");
        let namespace = IdentifyNamespace::parse(&namespace).expect("Identify Namespace");
        env.shift = namespace.lba_bytes().expect("a block size").trailing_zeros();
        env.blocks = namespace.nsze;
        env.capsule_max = controller.ioccsz * 16 - 64;
        env.transfer_max = if controller.mdts == 0 { 1 << 20 } else { 4096 << controller.mdts };
        env.nn = controller.nn;
        env
    }
    /// A number for a case.
    pub fn next_number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed)
    }
    /// Blocks that each case may write to.
    pub fn area_blocks(&self) -> u64 {
        AREA_BYTES >> self.shift
    }
}

/// A daemon of ours with two subsystems and three volumes.
pub fn start() -> Daemon {
    let listeners = "{ addr = \"127.0.0.1:0\", kind = \"io\" }, { addr = \"127.0.0.1:0\", kind = \"discovery\" }";
    let daemon = Daemon::started(&Setup { subject: Subject::Pdu, listeners, ..USUAL });
    for line in [
        "group create g --shards 2 --cache memory:1GiB --capacity memory:4GiB",
        &format!("subsystem create cases --nqn {NQN} --allow-any-host"),
        &format!("subsystem create closed --nqn {CLOSED_NQN}"),
        "volume create cases --size 2GiB --subsystem cases",
        "volume create fixed --size 64MiB --subsystem cases",
        "volume create load --size 128MiB --subsystem cases",
        "volume set fixed --read-only on",
        &format!("subsystem create managed --nqn {MANAGED_NQN} --allow-any-host"),
        "subsystem set managed --manage-namespaces --bytes-max 1GiB",
        "volume create managed --size 64MiB --subsystem managed",
        &format!("host add keyed {}", HostIdentity::numbered(KEYED_HOST).nqn),
        "host set keyed --dhchap-generate",
    ] {
        daemon.ok(line);
    }
    for n in 0..OWN_NSIDS {
        daemon.ok(&format!("volume create own{n} --size 16MiB --subsystem cases"));
    }
    daemon
}

/// What cases need to know of it.
pub fn ours(daemon: &Daemon) -> Env {
    Env::probe(daemon.addr(), daemon.addrs("discovery")[0], NQN, 1, true)
}
