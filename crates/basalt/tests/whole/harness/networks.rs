//! Nodes that can be cut off from each other: a network namespace for each, and a bridge between them.
//!
//! ```text
//!   namespace of the test: hosts, bridge `nodes` 10.77.0.254 ─┬─ eth0 10.77.0.1, namespace of the first node
//!                                                             ├─ eth0 10.77.0.2
//!                                                             └─ ..
//! ```
//!
//! Who finds whom is written down (permanent neighbours), so a cut is a wrong address: frames go to nobody, without a word to who sends them.
//!
//! Invariants: nothing is left of it but what runs in it: a namespace lives as long as its processes, and those that only keep one end with the test's.
//! Never: changes the network of the machine.

use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Set where [`in_own_network`] has begun anew.
const OWN: &str = "BASALT_TEST_OWN_NETWORK";
/// The last byte of the hosts' address, and of the hardware address of the bridge.
const HOSTS: u8 = 254;
/// Of a hardware address that nobody has.
const NOBODY: u8 = 255;

/// Runs a test, named as the test program names it, in a process with a network of its own, and says whether it did: the caller is to return then.
/// False: this is that process, or there are no network namespaces here, which is printed.
pub fn in_own_network(test: &str) -> bool {
    if has_own_network() {
        return false;
    }
    // Who is not root becomes it in a namespace of users.
    let ways: [&[&str]; 2] = [&["--net"], &["--net", "--user", "--map-root-user"]];
    let works =
        |way: &&[&str]| Command::new("unshare").args(*way).arg("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    let Some(unshare) = ways.into_iter().find(works) else {
        println!("no network namespaces here: nothing is cut off");
        return false;
    };
    let program = std::env::current_exe().expect("the test program");
    let status = Command::new("unshare").args(unshare).arg(program).args(["--exact", test, "--nocapture"]).env(OWN, "1").status();
    assert!(status.expect("unshare runs").success(), "{test} has failed in a network of its own");
    true
}
/// Whether this process is one that [`in_own_network`] has begun.
pub fn has_own_network() -> bool {
    std::env::var_os(OWN).is_some()
}

/// What is lost of what nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// What others send to the node.
    In,
    /// What it sends to them.
    Out,
    /// Both.
    Both,
    /// Both, and hosts do not reach it either.
    Off,
    /// What it and this other node send each other.
    From(usize),
}

/// A process in a network namespace of its own; it ends with its pipe.
struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The networks of some nodes.
pub struct Networks(Vec<Holder>);

/// Where a node is.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub address: Ipv4Addr,
    /// A process in its network namespace.
    pub process: u32,
}

impl Place {
    /// Runs a program there.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.process.to_string(), "--net", program]);
        command
    }
}

impl Networks {
    /// For so many nodes. Only in a process with a network of its own.
    pub fn of(nodes: usize) -> Self {
        assert!(has_own_network(), "the network of the machine is not to be changed");
        ip("link set lo up");
        ip(&format!("link add nodes address {} type bridge", hardware(HOSTS)));
        ip(&format!("addr add {}/24 dev nodes", address(HOSTS)));
        ip("link set nodes up");
        let here = namespace_of(std::process::id());
        let mut networks = Self(Vec::new());
        for node in 0..nodes {
            // It reads until this process has ended.
            let child =
                Command::new("unshare").args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("unshare runs");
            networks.0.push(Holder(child));
            let place = networks.place(node);
            super::until("it has a network of its own", || (namespace_of(place.process) != here).then_some(()));
            let (no, of) = (number(node), place.process);
            ip(&format!("link add node{no} type veth peer name eth0 address {} netns {of}", hardware(no)));
            ip(&format!("link set node{no} master nodes up"));
            networks.ip(node, "link set lo up");
            networks.ip(node, &format!("addr add {}/24 dev eth0", place.address));
            networks.ip(node, "link set eth0 up");
        }
        networks.heal();
        networks
    }
    pub fn place(&self, node: usize) -> Place {
        Place { address: address(number(node)), process: self.0[node].0.id() }
    }
    /// From now on what a cut says is lost.
    pub fn cut(&self, node: usize, cut: Cut) {
        let others = (0..self.0.len()).filter(|other| *other != node && !matches!(cut, Cut::From(from) if from != *other));
        for other in others {
            if cut != Cut::In {
                self.knows(node, number(other), NOBODY);
            }
            if cut != Cut::Out {
                self.knows(other, number(node), NOBODY);
            }
        }
        if cut == Cut::Off {
            self.knows(node, HOSTS, NOBODY);
            ip(&neighbour(number(node), NOBODY, "nodes"));
        }
    }
    /// Nothing is lost any more.
    pub fn heal(&self) {
        for node in 0..self.0.len() {
            ip(&neighbour(number(node), number(node), "nodes"));
            self.knows(node, HOSTS, HOSTS);
            (0..self.0.len()).filter(|other| *other != node).for_each(|other| self.knows(node, number(other), number(other)));
        }
    }
    /// A node sends what is for an address to a hardware address.
    fn knows(&self, node: usize, of: u8, hardware: u8) {
        self.ip(node, &neighbour(of, hardware, "eth0"));
    }
    fn ip(&self, node: usize, what: &str) {
        runs(self.place(node).command("ip"), what);
    }
}

fn number(node: usize) -> u8 {
    node as u8 + 1
}
fn address(no: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, no)
}
fn hardware(no: u8) -> String {
    format!("02:00:00:00:00:{no:02x}")
}
fn neighbour(of: u8, at: u8, link: &str) -> String {
    format!("neigh replace {} lladdr {} nud permanent dev {link}", address(of), hardware(at))
}
fn ip(what: &str) {
    runs(Command::new("ip"), what);
}
fn runs(mut command: Command, what: &str) {
    // Bounded: `ip` waits for nothing.
    let output = command.args(what.split(' ')).output().expect("ip runs");
    assert!(output.status.success(), "ip {what}: {}", String::from_utf8_lossy(&output.stderr));
}
fn namespace_of(process: u32) -> String {
    loop {
        match std::fs::read_link(format!("/proc/{process}/ns/net")) {
            Ok(name) => return name.display().to_string(),
            Err(_) => sleep(Duration::from_millis(1)),
        }
    }
}
