//! Which identity opens what: nodes of a pair, hosts, and those who are neither.

use super::*;
use base::{ClusterId, NodeId, SecretBytes};
use std::fmt;

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:1";
const SUBSYSTEM: &str = "nqn.2026-11.test:one";

fn node(n: u8) -> NodeId {
    NodeId::from_bytes([n; 16])
}
fn secret(n: u8) -> ClusterSecret {
    ClusterSecret::new(SecretBytes::new(vec![n; CLUSTER_SECRET_BYTES])).unwrap()
}
fn identity(cluster: u8, a: u8, b: u8) -> PairIdentity {
    PairIdentity::new(Hash::Sha256, ClusterId::from_bytes([cluster; 16]), node(a), node(b)).unwrap()
}
fn client<I: PskIdentity>(identity: &I, key: TlsPsk) -> Engine<I> {
    Engine::client(&Context::shared().unwrap(), identity, key).unwrap()
}
fn dialer(identity: &PairIdentity, secret: &ClusterSecret) -> Engine<PairIdentity> {
    client(identity, identity.key(secret).unwrap())
}
/// What node 2 of cluster 1 takes.
fn keys(i: &PairIdentity) -> Vec<TlsPsk> {
    let is_ours = i.cluster() == ClusterId::from_bytes([1; 16]) && i.peer_of(node(2)).is_some();
    if is_ours { vec![i.key(&secret(7)).unwrap()] } else { Vec::new() }
}
fn host_key() -> ConfiguredPsk {
    ConfiguredPsk::parse("NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:").unwrap()
}

/// Carries bytes both ways until nothing moves; why the acceptor failed, and what the dialer heard then.
fn shake<A: PskIdentity, B: PskIdentity>(
    a: &mut Engine<A>,
    b: &mut Engine<B>,
    mut keys: impl FnMut(&B) -> Vec<TlsPsk>,
) -> Result<(), (Fault, Option<Fault>)> {
    loop {
        let (to_b, to_a) = (a.out().to_vec(), b.out().to_vec());
        if to_b.is_empty() && to_a.is_empty() {
            return Ok(());
        }
        a.taken(to_b.len());
        b.taken(to_a.len());
        if let Err(fault) = b.receive(&to_b, &mut keys) {
            assert!(!b.is_open() && !b.is_shaking() && b.identity().is_none(), "nothing but hashes was done for it");
            let said = b.out().to_vec();
            return Err((fault, a.receive(&said, |_| Vec::new()).err()));
        }
        a.receive(&to_a, |_| Vec::new()).unwrap();
    }
}

fn refused<A: PskIdentity, B: PskIdentity>(mut a: Engine<A>, keys: impl FnMut(&B) -> Vec<TlsPsk>) -> Alert {
    let mut b = Engine::server(Context::shared().unwrap());
    match shake(&mut a, &mut b, keys) {
        Err((Fault::Refused { .. }, Some(Fault::Alert(alert)))) => alert,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_nodes_of_a_pair_shake_hands_whoever_dials() {
    for hash in [Hash::Sha256, Hash::Sha384] {
        for (from, to) in [(1, 2), (2, 1)] {
            let id = PairIdentity::new(hash, ClusterId::from_bytes([1; 16]), node(from), node(to)).unwrap();
            let (mut a, mut b) = (dialer(&id, &secret(7)), Engine::server(Context::shared().unwrap()));
            shake(&mut a, &mut b, keys).unwrap();
            assert_eq!((a.identity(), b.identity()), (Some(&id), Some(&id)));
            assert_eq!(id.peer_of(node(to)), Some(node(from)), "so it is known who dialed");
        }
    }
}

#[test]
fn another_secret_cluster_or_pair_is_refused_and_the_dialer_hears_which_it_was() {
    assert_eq!(refused(dialer(&identity(1, 1, 2), &secret(8)), keys), Alert::WrongKey);
    assert_eq!(refused(dialer(&identity(9, 1, 2), &secret(7)), keys), Alert::UnknownIdentity, "another cluster");
    assert_eq!(refused(dialer(&identity(1, 1, 3), &secret(7)), keys), Alert::UnknownIdentity, "a pair that this node is not of");
    // The key of one pair under the name of another.
    let stolen = identity(1, 1, 3).key(&secret(7)).unwrap();
    assert_eq!(refused(client(&identity(1, 1, 2), stolen), keys), Alert::WrongKey);
}

/// An identity that is any text.
#[derive(Clone)]
struct Text(String);

impl PskIdentity for Text {
    const REKEYS: bool = false;

    fn parse(bytes: &[u8]) -> Option<Text> {
        std::str::from_utf8(bytes).ok().map(|text| Text(text.into()))
    }
}
impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[test]
fn node_ids_that_are_swapped_are_no_identity() {
    let id = identity(1, 1, 2);
    let text = id.to_string();
    let words: Vec<&str> = text.split(' ').collect();
    let swapped = Text([words[0], words[1], words[3], words[2]].join(" "));
    let all_keys = |_: &PairIdentity| vec![id.key(&secret(7)).unwrap()];
    assert_eq!(refused(client(&swapped, id.key(&secret(7)).unwrap()), all_keys), Alert::UnknownIdentity);
    let (mut a, mut b) = (client(&Text(text.clone()), id.key(&secret(7)).unwrap()), Engine::server(Context::shared().unwrap()));
    shake(&mut a, &mut b, all_keys).unwrap();
    assert!(b.is_open(), "in its one form it is");
}

#[test]
fn a_host_is_no_node_and_a_node_no_host_whatever_key_they_hold() {
    let (host, pair) = (host_key().identity(HOST, SUBSYSTEM, Derivation::Standard).unwrap(), identity(1, 1, 2));
    let host_psk = host_key().key_for(&host, Derivation::Standard).unwrap().unwrap();
    let pair_psk = pair.key(&secret(7)).unwrap();
    // A host connects where nodes are expected: with its own key, and with a pair's.
    for psk in [&host_psk, &pair_psk] {
        let any = |_: &PairIdentity| vec![psk.clone()];
        assert_eq!(refused(client(&host, psk.clone()), any), Alert::UnknownIdentity);
    }
    // A node connects where hosts are expected.
    for psk in [&host_psk, &pair_psk] {
        let any = |_: &HostIdentity| vec![psk.clone()];
        assert_eq!(refused(client(&pair, psk.clone()), any), Alert::UnknownIdentity);
    }
    // The key of a pair under the name of a host.
    assert_eq!(refused(client(&host, pair_psk), |i: &HostIdentity| host_key().keys_for(i).unwrap()), Alert::WrongKey);
    // The key of a host under the name of a pair.
    assert_eq!(refused(client(&pair, host_psk), keys), Alert::WrongKey);
}

#[test]
fn a_replayed_hello_of_a_node_opens_nothing() {
    let mut a = dialer(&identity(1, 1, 2), &secret(7));
    let hello = a.out().to_vec();
    a.taken(hello.len());
    let mut first = Engine::<PairIdentity>::server(Context::shared().unwrap());
    first.receive(&hello, keys).unwrap();
    // What the dialer said then, to another connection that was sent the same ClientHello.
    a.receive(first.out(), |_| Vec::new()).unwrap();
    assert!(a.is_open());
    let finished = a.out().to_vec();
    let mut second = Engine::<PairIdentity>::server(Context::shared().unwrap());
    second.receive(&hello, keys).unwrap();
    assert!(second.receive(&finished, |_| unreachable!("asked once")).is_err());
    assert!(!second.is_open() && second.identity().is_none());
}

#[test]
fn who_has_no_tls_says_so_and_the_dialer_hears_it() {
    let mut a = dialer(&identity(1, 1, 2), &secret(7));
    let b = Engine::<PairIdentity>::none_here();
    assert!(!b.is_beginning() && !b.is_open());
    assert_eq!(a.receive(b.out(), |_| Vec::new()), Err(Fault::Alert(Alert::NoTls)));
}

#[test]
fn nodes_take_new_keys_before_the_old_ones_are_worn_and_hosts_never() {
    fn pass<I: PskIdentity>(a: &mut Engine<I>, b: &mut Engine<I>) -> usize {
        a.wear_keys(1);
        let before = b.records().0;
        for n in 0..4u8 {
            a.write(&[n; 20_000]).unwrap();
            a.flush().unwrap();
        }
        let out = a.out().to_vec();
        a.taken(out.len());
        let (mut got, mut plain) = (Vec::new(), vec![0; RECORD_BYTES_MAX]);
        for part in out.chunks(5000) {
            b.receive(part, |_| Vec::new()).unwrap();
            while let Some(n @ 1..) = b.read(&mut plain).unwrap() {
                got.extend_from_slice(&plain[..n]);
            }
        }
        assert!(got == (0..4u8).flat_map(|n| [n; 20_000]).collect::<Vec<_>>());
        (b.records().0 - before) as usize
    }
    let id = identity(1, 1, 2);
    let (mut a, mut b) = (dialer(&id, &secret(7)), Engine::server(Context::shared().unwrap()));
    shake(&mut a, &mut b, keys).unwrap();
    assert_eq!((pass(&mut a, &mut b), pass(&mut b, &mut a)), (9, 9), "two records each time, and a KeyUpdate");
    let host = host_key().identity(HOST, SUBSYSTEM, Derivation::Standard).unwrap();
    let (mut a, mut b) =
        (client(&host, host_key().key_for(&host, Derivation::Standard).unwrap().unwrap()), Engine::server(Context::shared().unwrap()));
    shake(&mut a, &mut b, |i| host_key().keys_for(i).unwrap()).unwrap();
    assert_eq!(pass(&mut a, &mut b), 8);
}
