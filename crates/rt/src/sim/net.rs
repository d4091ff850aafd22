//! The simulated network: what there is of it.
//!
//! Owns: listeners, both ends of each connection, which links are cut, the addresses of hosts.
//! Never: lets anything happen (that is `net_io`).

use super::place::Place;
use crate::{Buf, ConnId, NetError, Queue, SendList};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::Range,
};

/// How the network behaves. Times are nanoseconds, (least, most).
#[derive(Clone, Copy, Debug)]
pub struct NetOptions {
    /// One way between two hosts.
    pub latency_ns: (u64, u64),
    /// One way within a host.
    pub loopback_ns: (u64, u64),
    /// Sizes of the segments that a send is cut into; a tenth of them is at most 64 bytes. When both are the same nothing is cut by chance, neither
    /// what is sent nor what is received.
    pub segment_bytes: (u64, u64),
    /// Nanoseconds that a host's link to the others takes for a byte, each way; 0: it takes any number at once.
    pub byte_ns: f64,
}

/// A direction of a host's link to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkWay {
    /// From the host.
    Out,
    /// To the host.
    In,
}

impl Default for NetOptions {
    fn default() -> Self {
        NetOptions { latency_ns: (10_000, 60_000), loopback_ns: (3_000, 15_000), segment_bytes: (1, 65_536), byte_ns: 0.0 }
    }
}

pub(super) struct Listener {
    pub(super) place: Place,
    pub(super) q: Queue,
    pub(super) cookie: u64,
    pub(super) addr: SocketAddr,
}

pub(super) struct PendingRecv {
    pub(super) q: Queue,
    pub(super) cookie: u64,
    pub(super) at: Range<usize>,
    pub(super) buf: Buf,
}

pub(super) struct PendingSend {
    pub(super) q: Queue,
    pub(super) cookie: u64,
    pub(super) list: SendList,
    pub(super) sent: usize,
}

/// One end of a connection.
pub(super) struct End {
    pub(super) place: Place,
    pub(super) peer: u64,
    pub(super) peer_host: usize,
    /// Between two cores.
    pub(super) detached: bool,
    /// Operations whose completion has not been pushed.
    pub(super) ops: u32,
    pub(super) unread: VecDeque<u8>,
    /// Nothing more comes: 0 after the last byte, or an error at once.
    pub(super) ended: Option<Result<(), NetError>>,
    pub(super) recv: Option<PendingRecv>,
    pub(super) sends: VecDeque<PendingSend>,
    /// Sent and not known to be read.
    pub(super) outstanding: usize,
    /// When what was sent last arrives: nothing arrives before it.
    pub(super) last_arrival: u64,
    /// What waits at a cut link.
    pub(super) held: VecDeque<NetEvent>,
}

/// What travels.
pub(crate) enum NetEvent {
    Syn { from: Place, q: Queue, cookie: u64, addr: SocketAddr, generation: u64 },
    Data { from: u64, to: u64, bytes: Vec<u8> },
    Ack { to: u64, bytes: usize },
    Fin { to: u64 },
    Reset { to: u64 },
}

#[derive(Default)]
pub(crate) struct Net {
    pub(crate) opts: NetOptions,
    pub(super) listeners: BTreeMap<u64, Listener>,
    pub(super) ends: BTreeMap<u64, End>,
    pub(super) cut: BTreeSet<(usize, usize)>,
    /// Ways that take longer: from, to, by how much.
    pub(crate) slow: BTreeMap<(usize, usize), (u64, u64)>,
    pub(super) port_next: u16,
    /// When each link is free again, in nanoseconds.
    links: BTreeMap<(usize, LinkWay), u64>,
    /// What closed ends left behind at cut links: from, to, what.
    pub(super) linger: Vec<(usize, usize, VecDeque<NetEvent>)>,
    /// How often each host has died: a connect of an earlier life gets no answer.
    pub(super) generations: BTreeMap<usize, u64>,
}

/// The address of a host.
pub(crate) fn host_addr(host: usize) -> IpAddr {
    let n = host + 1;
    IpAddr::V4(Ipv4Addr::new(10, 0, (n >> 8) as u8, n as u8))
}

pub(super) fn host_of(addr: IpAddr, own: usize) -> Option<usize> {
    match addr {
        a if a.is_loopback() || a.is_unspecified() => Some(own),
        IpAddr::V4(a) => {
            let [ten, zero, high, low] = a.octets();
            let n = usize::from(high) << 8 | usize::from(low);
            (ten == 10 && zero == 0 && n > 0).then(|| n - 1)
        }
        IpAddr::V6(_) => None,
    }
}

impl Net {
    pub(crate) fn op_ended(&mut self, conn: ConnId) {
        if let Some(end) = self.ends.get_mut(&conn.0) {
            end.ops -= 1;
        }
    }

    /// A host's link moves so many bytes, which are there `from` then: from when to when.
    pub(crate) fn moves(&mut self, host: usize, way: LinkWay, from: u64, bytes: usize) -> Range<u64> {
        let takes = (bytes as f64 * self.opts.byte_ns) as u64;
        if takes == 0 {
            return from..from;
        }
        let free = self.links.entry((host, way)).or_default();
        let begins = (*free).max(from);
        *free = begins + takes;
        begins..*free
    }
    /// Whether sizes are left to chance.
    pub(super) fn cuts(&self) -> bool {
        self.opts.segment_bytes.0 != self.opts.segment_bytes.1
    }

    pub(super) fn find_listener(&self, host: usize, addr: SocketAddr) -> Option<&Listener> {
        self.listeners.values().find(|l| {
            let ip = l.addr.ip();
            l.place.host == host && l.addr.port() == addr.port() && (ip.is_unspecified() || addr.ip().is_unspecified() || ip == addr.ip())
        })
    }

    pub(super) fn generation(&self, host: usize) -> u64 {
        self.generations.get(&host).copied().unwrap_or(0)
    }

    /// Connections that are open (each end counts).
    pub(crate) fn open_ends(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn set_cut(&mut self, from: usize, to: usize, cut: bool) {
        if cut {
            self.cut.insert((from, to));
        } else {
            self.cut.remove(&(from, to));
        }
    }
}
