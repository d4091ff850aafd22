//! Who gets no link, what it costs, and what is said of it.

use super::rig::{BLOCK, PORT, Rig, Wire, cluster, data, node, secret, tls};
use crate::limits::ADDRESS_GREETINGS_MAX;
use crate::{LinkSecurity, NoLink};
use base::{ClusterId, Duration, Instant};
use format::peer::{
    BODY_BYTES_MAX, Envelope, HEADER_BYTES, Header, Hello, Incarnation, LinkClass, Refusal, RefusalReason, SessionNo, Totals, Versions,
    Window,
};
use object::{ForwardOutcome, IoOp};
use std::net::SocketAddr;
use tls::{Alert, ConfiguredPsk, Context, Derivation, Engine, Fault, Hash, PairIdentity, PskIdentity, TlsPsk};

fn hello(from: usize, to: usize) -> Vec<u8> {
    let hello = Hello {
        cluster: cluster(),
        from: node(from),
        to: node(to),
        incarnation: Incarnation(1),
        clock: Instant(1),
        versions: Versions::OURS,
        class: LinkClass::Foreground,
        lane: 0,
        lanes: 1,
        window: Window { ops: 8, bytes: 2 << 20 },
    };
    let mut out = vec![0; HEADER_BYTES + BODY_BYTES_MAX];
    let n = hello.write(&Envelope { session: SessionNo(9), version: 0, totals: Totals::default() }, &mut out);
    out.truncate(n);
    out
}
fn refusal(message: &[u8]) -> RefusalReason {
    let header = Header::parse(message[..HEADER_BYTES].try_into().unwrap()).unwrap();
    Refusal::parse(&message[HEADER_BYTES..][..header.body_bytes as usize]).unwrap().reason
}
fn engine<I: PskIdentity>(identity: &I, key: TlsPsk) -> Engine<I> {
    Engine::client(&Context::shared().unwrap(), identity, key).unwrap()
}
fn pair(cluster: ClusterId, a: usize, b: usize) -> PairIdentity {
    PairIdentity::new(Hash::Sha256, cluster, node(a), node(b)).unwrap()
}

/// Plays the handshake; what ended it, if something did.
fn shake<I: PskIdentity>(rig: &mut Rig, wire: &mut Wire, engine: &mut Engine<I>) -> Option<Fault> {
    for _ in 0..4 {
        let out = engine.out().to_vec();
        engine.taken(out.len());
        let (came, closed) = rig.talk(wire, &out);
        if let Err(fault) = engine.receive(&came, |_| Vec::new()) {
            return Some(fault);
        }
        if engine.is_open() && engine.out().is_empty() || closed {
            return None;
        }
    }
    None
}

/// The node goes on as if nothing had been.
fn still_works(rig: &mut Rig) {
    let outcome = rig.forward(0, 0, IoOp::Write { offset: 0, data: data(BLOCK, 3) });
    assert!(matches!(outcome, Some(ForwardOutcome::Answered(Ok(_)))), "{outcome:?}");
    rig.world.run_for(Duration::from_secs(3));
    assert_eq!(rig.conns(1), (0, 1), "nobody else is left");
}

/// Two nodes that do not come together: what each says.
fn apart(mut rig: Rig) -> [Vec<NoLink>; 2] {
    rig.listen();
    rig.apply();
    rig.world.run_for(Duration::from_millis(500));
    assert_eq!([0, 1].map(|n| rig.stat(n, |s| s.links_opened)), [0, 0]);
    let reported = [0, 1].map(|n| rig.reported(n));
    for (n, mut all) in reported.clone().into_iter().enumerate() {
        assert_eq!(all.len() as u64, rig.stat(n, |s| s.refused_connections));
        all.dedup_by_key(|why| core::mem::discriminant(why));
        assert!(all.len() <= 1, "one and the same each time: {all:?}");
    }
    rig.world.run_for(Duration::from_secs(3));
    assert_eq!(rig.conns(1).0, 0, "nobody waits");
    reported
}

/// Both say it, each in its words.
fn says(reported: &[Vec<NoLink>; 2], dialer: &str, acceptor: &str) {
    for (all, wanted) in reported.iter().zip([dialer, acceptor]) {
        let first = all.first().map(ToString::to_string).unwrap_or_default();
        assert!(first.contains(wanted), "'{first}' is to contain '{wanted}'");
        assert!(first.contains("192.") || first.contains("10."), "it names an address: {first}");
    }
}

#[test]
fn another_secret_is_said_at_both_nodes() {
    let mut rig = Rig::new(1, [1, 1], tls());
    rig.said[1].security = LinkSecurity::Tls(Some(secret(8)));
    let reported = apart(rig);
    says(&reported, &format!("node {} at", node(1)), &format!("node {} at", node(0)));
    says(&reported, "another cluster secret", "another cluster secret");
}

#[test]
fn another_cluster_at_the_address_is_said_at_both_nodes() {
    let mut rig = Rig::new(2, [1, 1], tls());
    rig.said[1].cluster = ClusterId::from_bytes([0xC2; 16]);
    let reported = apart(rig);
    says(&reported, &format!("is not node {} of this cluster", node(1)), &format!("a node of the cluster {}", cluster()));
}

#[test]
fn tls_at_one_node_only_is_said_at_both() {
    let mut rig = Rig::new(3, [1, 1], tls());
    rig.said[1].security = LinkSecurity::Plain;
    says(&apart(rig), "takes plain links, and here links go over TLS", "dials over TLS, and here links are plain");
    let mut rig = Rig::new(4, [1, 1], LinkSecurity::Plain);
    rig.said[1].security = tls();
    says(&apart(rig), "takes links over TLS only, and here they are plain", "dials plain from");
}

#[test]
fn a_wrong_address_leads_to_no_link() {
    // Node 0 believes node 2 to be where node 1 is.
    let mut rig = Rig::new(5, [1, 1], tls());
    let there = rig.said[0].addrs[1];
    rig.said[0].addrs.push(there);
    rig.said[0].cores.push(1);
    rig.said[0].addrs[1] = SocketAddr::new(there.ip(), PORT + 1);
    says(&apart(rig), &format!("is not node {} of this cluster", node(2)), "dials another node than this one");
}

#[test]
fn a_host_is_no_node() {
    let mut rig = Rig::started(6, [1, 1], tls());
    rig.open(1);
    let key = ConfiguredPsk::parse("NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:").unwrap();
    let host = key.identity("nqn.2014-08.org.nvmexpress:uuid:1", "nqn.2026-11.test:one", Derivation::Standard).unwrap();
    for psk in [key.key_for(&host, Derivation::Standard).unwrap().unwrap(), pair(cluster(), 0, 1).key(&secret(7)).unwrap()] {
        let (mut wire, mut engine) = (rig.dial(1), engine(&host, psk));
        assert_eq!(shake(&mut rig, &mut wire, &mut engine), Some(Fault::Alert(Alert::UnknownIdentity)));
    }
    let reported = rig.reported(1);
    assert!(matches!(&reported[..], [NoLink::NoNode { .. }, NoLink::NoNode { .. }]), "{reported:?}");
    still_works(&mut rig);
}

#[test]
fn plain_words_are_refused_and_say_so() {
    let mut rig = Rig::started(7, [1, 1], tls());
    rig.open(1);
    let mut wire = rig.dial(1);
    let (came, closed) = rig.talk(&mut wire, &hello(0, 1));
    assert!(closed && refusal(&came) == RefusalReason::TlsOnly, "{came:?}");
    let mut wire = rig.dial(1);
    let (came, closed) = rig.talk(&mut wire, b"GET / HTTP/1.1\r\nHost: somewhere\r\nUser-Agent: somebody\r\nAccept: */*\r\n\r\n");
    assert!(closed && came.is_empty());
    let reported = rig.reported(1);
    assert!(matches!(&reported[..], [NoLink::PlainFrom { .. }, NoLink::NoNode { .. }]), "{reported:?}");
    still_works(&mut rig);
}

#[test]
fn the_key_of_one_pair_opens_no_link_of_another() {
    let mut rig = Rig::started(8, [1, 1], tls());
    rig.open(1);
    // It has proved to be node 4, and says that it is node 0.
    let identity = pair(cluster(), 1, 4);
    let (mut wire, mut engine) = (rig.dial(1), engine(&identity, identity.key(&secret(7)).unwrap()));
    assert_eq!(shake(&mut rig, &mut wire, &mut engine), None);
    engine.write(&hello(0, 1)).unwrap();
    engine.flush().unwrap();
    let out = engine.out().to_vec();
    engine.taken(out.len());
    let (came, closed) = rig.talk(&mut wire, &out);
    engine.receive(&came, |_| Vec::new()).unwrap();
    let mut plain = vec![0; 1000];
    let n = engine.read(&mut plain).unwrap().unwrap();
    assert!(closed && refusal(&plain[..n]) == RefusalReason::UnknownNode);
    let reported = rig.reported(1);
    assert!(matches!(&reported[..], [NoLink::OtherName { proved, said, .. }] if (*proved, *said) == (node(4), node(0))), "{reported:?}");
    still_works(&mut rig);
}

#[test]
fn a_hello_that_is_repeated_opens_nothing_and_ends_in_time() {
    let mut rig = Rig::started(9, [1, 1], tls());
    rig.open(1);
    let identity = pair(cluster(), 0, 1);
    let seen = engine(&identity, identity.key(&secret(7)).unwrap()).out().to_vec();
    let mut wires: Vec<Wire> = (0..5).map(|_| rig.dial(1)).collect();
    for wire in &mut wires {
        let (came, closed) = rig.talk(wire, &seen);
        assert!(!came.is_empty() && !closed, "the binder is right");
    }
    assert_eq!(rig.conns(1), (5, 6));
    rig.world.run_for(Duration::from_millis(2100));
    assert_eq!(rig.conns(1), (0, 1));
    let reported = rig.reported(1);
    let all = reported.iter().all(|r| matches!(r, NoLink::Unfinished { node: Some(n), .. } if *n == node(0)));
    assert!(all && reported.len() == 5, "{reported:?}");
    still_works(&mut rig);
}

#[test]
fn a_flood_of_silent_connections_makes_room_for_itself_and_for_nodes() {
    let mut rig = Rig::new(10, [1, 1], tls());
    rig.listen();
    rig.apply();
    let flood = ADDRESS_GREETINGS_MAX as usize + 40;
    let _wires: Vec<Wire> = (0..flood).map(|_| rig.dial(1)).collect();
    rig.open(1);
    assert!(rig.conns(1).0 <= ADDRESS_GREETINGS_MAX as usize, "{:?}", rig.conns(1));
    assert!(rig.stat(1, |s| s.evicted_connections) >= 40);
    still_works(&mut rig);
}

#[test]
fn who_says_too_much_without_saying_who_it_is_is_closed() {
    let mut rig = Rig::started(11, [1, 1], tls());
    rig.open(1);
    let buffers = rt::buffers_outstanding();
    let (mut wire, mut closed) = (rig.dial(1), false);
    // Records of a ClientHello that never ends.
    let part = [&[22, 3, 1, 16, 0, 1, 0, 60, 0][..], &[0; 4092]].concat();
    for _ in 0..40 {
        closed |= rig.talk(&mut wire, &part).1;
        if closed {
            break;
        }
    }
    assert!(closed);
    still_works(&mut rig);
    assert!(rt::buffers_outstanding() <= buffers + 4);
}
