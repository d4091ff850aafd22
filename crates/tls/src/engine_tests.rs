use super::*;
use crate::psk::{ConfiguredPsk, Derivation};
use proptest::prelude::*;
use std::sync::OnceLock;

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:1";
const SUBSYSTEM: &str = "nqn.2026-11.test:one";

fn shared() -> Arc<Context> {
    static SHARED: OnceLock<Arc<Context>> = OnceLock::new();
    Arc::clone(SHARED.get_or_init(|| Arc::new(Context::new().unwrap())))
}
fn psk(hash: Hash) -> ConfiguredPsk {
    let text = match hash {
        Hash::Sha256 => "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        Hash::Sha384 => "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:",
    };
    ConfiguredPsk::parse(text).unwrap()
}
fn identity(psk: &ConfiguredPsk, version: u8, how: Derivation) -> HostIdentity {
    let one = psk.identity(HOST, SUBSYSTEM, how).unwrap();
    if version == 1 { one } else { HostIdentity { digest: None, ..one } }
}
fn client(psk: &ConfiguredPsk, identity: &HostIdentity, how: Derivation) -> Engine {
    Engine::client(&shared(), identity, psk.key_for(identity, how).unwrap().unwrap()).unwrap()
}
/// Carries bytes both ways, `cut` at a time, until nothing moves.
fn run(a: &mut Engine, b: &mut Engine, keys: &dyn Fn(&HostIdentity) -> Vec<TlsPsk>, cut: usize) -> Result<(), Fault> {
    loop {
        let (to_b, to_a) = (a.out().to_vec(), b.out().to_vec());
        if to_b.is_empty() && to_a.is_empty() {
            return Ok(());
        }
        a.taken(to_b.len());
        b.taken(to_a.len());
        to_b.chunks(cut).try_for_each(|c| b.receive(c, keys))?;
        to_a.chunks(cut).try_for_each(|c| a.receive(c, |_| Vec::new()))?;
    }
}
fn read_all(e: &mut Engine) -> Vec<u8> {
    let (mut out, mut buf) = (Vec::new(), vec![0; 4096]);
    while let Some(n @ 1..) = e.read(&mut buf).unwrap() {
        out.extend_from_slice(&buf[..n]);
    }
    out
}
fn pair(hash: Hash) -> (Engine, Engine) {
    let psk = psk(hash);
    let id = identity(&psk, 1, Derivation::Standard);
    let (mut a, mut b) = (client(&psk, &id, Derivation::Standard), Engine::server(shared()));
    run(&mut a, &mut b, &|i| psk.keys_for(i).unwrap(), usize::MAX).unwrap();
    assert!(a.is_open() && b.is_open());
    (a, b)
}

#[test]
fn every_identity_and_derivation_shakes_hands_however_the_bytes_come() {
    for hash in [Hash::Sha256, Hash::Sha384] {
        for version in [0, 1] {
            for how in Derivation::ALL {
                for cut in [1, 7, usize::MAX] {
                    let psk = psk(hash);
                    let id = identity(&psk, version, how);
                    let (mut a, mut b) = (client(&psk, &id, how), Engine::server(shared()));
                    run(&mut a, &mut b, &|i| psk.keys_for(i).unwrap(), cut).unwrap();
                    assert!(a.is_open() && b.is_open(), "{id} {how:?} {cut}");
                    assert_eq!(b.identity(), Some(&id));
                    a.write(b"ping").unwrap();
                    a.flush().unwrap();
                    run(&mut a, &mut b, &|_| unreachable!("asked once"), cut).unwrap();
                    assert_eq!(read_all(&mut b), b"ping");
                }
            }
        }
    }
}

#[test]
fn bytes_come_out_as_they_went_in_and_small_pieces_share_a_record() {
    let (mut a, mut b) = pair(Hash::Sha384);
    let data: Vec<u8> = (0..200_000u32).map(|i| ((i * 7) >> 3) as u8).collect();
    let mut sent = Vec::new();
    for (i, piece) in [10usize, 20_000, 1, 65_536, 16_384, 3].iter().cycle().take(24).enumerate() {
        let piece = &data[i * 100..i * 100 + piece];
        b.write(piece).unwrap();
        sent.extend_from_slice(piece);
    }
    b.flush().unwrap();
    let records = sent.len().div_ceil(RECORD_BYTES_MAX);
    assert!(b.out().len() <= sent.len() + (records + 1) * 22, "{} for {} in about {records} records", b.out().len(), sent.len());
    let out = b.out().to_vec();
    b.taken(out.len());
    let mut got = Vec::new();
    for part in out.chunks(10_000) {
        a.receive(part, |_| Vec::new()).unwrap();
        got.extend(read_all(&mut a));
        if let State::Open(s) = &a.state {
            assert!(s.get_ref().come.len() - s.get_ref().at < 2 * RECORD_BYTES_MAX, "nothing is hoarded");
        }
    }
    assert!(got == sent);
}

fn refusal(result: Result<(), Fault>) -> u8 {
    match result {
        Err(Fault::Refused { alert, .. }) => alert,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_that_guessed_another_group_is_asked_again() {
    // The client's first key share is of a group that is not offered here: HelloRetryRequest, and a second ClientHello with the same key.
    let psk = psk(Hash::Sha384);
    let id = identity(&psk, 1, Derivation::Standard);
    let mut odd = SslContext::builder(SslMethod::tls()).unwrap();
    odd.set_min_proto_version(Some(SslVersion::TLS1_3)).unwrap();
    odd.set_groups_list("P-521:ffdhe3072").unwrap();
    ffi::use_psks(&mut odd);
    let odd = odd.build();
    let context = Arc::new(Context { contexts: [odd.clone(), odd] });
    let mut a = Engine::client(&context, &id, psk.key_for(&id, Derivation::Standard).unwrap().unwrap()).unwrap();
    let mut b = Engine::server(shared());
    run(&mut a, &mut b, &|i| psk.keys_for(i).unwrap(), usize::MAX).unwrap();
    assert!(a.is_open() && b.is_open());
    assert_eq!(b.identity(), Some(&id));
}

#[test]
fn a_wrong_key_or_a_strange_identity_is_refused_before_any_key_exchange() {
    let (mine, other) = (psk(Hash::Sha256), ConfiguredPsk::generate(Hash::Sha256).unwrap());
    let id = identity(&mine, 0, Derivation::Standard);
    let mut b = Engine::server(shared());
    let mut a = client(&other, &id, Derivation::Standard);
    assert_eq!(refusal(run(&mut a, &mut b, &|i| mine.keys_for(i).unwrap(), usize::MAX)), alert::DECRYPT_ERROR);
    assert_eq!(b.out(), [21, 3, 3, 0, 2, 2, 51]);
    assert!(!b.is_open() && !b.is_shaking());
    let said = b.out().to_vec();
    assert!(matches!(a.receive(&said, |_| Vec::new()), Err(Fault::Alert(Alert::WrongKey))), "the client hears it");

    let mut b = Engine::server(shared());
    let mut a = client(&mine, &id, Derivation::Standard);
    assert_eq!(refusal(run(&mut a, &mut b, &|_| Vec::new(), usize::MAX)), alert::UNKNOWN_PSK_IDENTITY);
    assert_eq!(b.out(), [21, 3, 3, 0, 2, 2, 115]);
    assert_eq!(b.receive(b"more", |_| unreachable!("it has ended")), Ok(()));
    assert_eq!(b.out().len(), 7);
}

#[test]
fn a_clients_own_suite_of_the_other_hash_is_refused() {
    // The identity says SHA-384, the client can do SHA-256 only: nothing is agreed on quietly.
    let psk = psk(Hash::Sha256);
    let id = HostIdentity { hash: Hash::Sha384, ..identity(&psk, 0, Derivation::Standard) };
    let key = psk.key_for(&id, Derivation::Standard).unwrap().unwrap();
    let as_256 = TlsPsk { hash: Hash::Sha256, key: key.key };
    let mut a = Engine::client(&shared(), &id, as_256).unwrap();
    let mut b = Engine::server(shared());
    assert_eq!(refusal(run(&mut a, &mut b, &|i| psk.keys_for(i).unwrap(), usize::MAX)), alert::DECRYPT_ERROR);
}

#[test]
fn older_tls_is_refused() {
    let mut old = SslContext::builder(SslMethod::tls()).unwrap();
    old.set_max_proto_version(Some(SslVersion::TLS1_2)).unwrap();
    let mut stream = SslStream::new(Ssl::new(&old.build()).unwrap(), Pipe::default()).unwrap();
    assert!(stream.connect().is_err());
    let mut b = Engine::<HostIdentity>::server(shared());
    assert_eq!(refusal(b.receive(&stream.get_ref().out, |_| Vec::new())), alert::PROTOCOL_VERSION);
}

#[test]
fn a_server_that_does_not_use_the_key_is_refused_by_the_client() {
    // A server without keys can only offer a certificate, which the client does not take; it has none to offer here.
    let psk = psk(Hash::Sha256);
    let id = identity(&psk, 0, Derivation::Standard);
    let mut a = client(&psk, &id, Derivation::Standard);
    let mut plain = SslContext::builder(SslMethod::tls()).unwrap();
    plain.set_min_proto_version(Some(SslVersion::TLS1_3)).unwrap();
    let mut stream = SslStream::new(Ssl::new(&plain.build()).unwrap(), Pipe::default()).unwrap();
    let hello = a.out().to_vec();
    a.taken(hello.len());
    stream.get_mut().feed(&hello);
    assert!(stream.accept().is_err());
    assert!(a.receive(&stream.get_ref().out, |_| Vec::new()).is_err());
    assert!(!a.is_open());
}

#[test]
fn a_goodbye_comes_behind_what_was_written() {
    let (mut a, mut b) = pair(Hash::Sha256);
    b.write(b"last words").unwrap();
    b.close();
    let out = b.out().to_vec();
    a.receive(&out, |_| Vec::new()).unwrap();
    let mut buf = [0; 64];
    assert_eq!(a.read(&mut buf), Ok(Some(10)));
    assert_eq!(a.read(&mut buf), Ok(None));
    assert!(!b.is_open());
    assert_eq!(b.write(b"x"), Ok(()));
    assert_eq!(b.out().len(), out.len(), "nothing goes out after it");
}

#[test]
fn a_changed_record_ends_the_connection_with_an_alert() {
    let (mut a, mut b) = pair(Hash::Sha256);
    a.write(b"command").unwrap();
    a.flush().unwrap();
    let mut out = a.out().to_vec();
    *out.last_mut().unwrap() ^= 1;
    b.receive(&out, |_| Vec::new()).unwrap();
    assert!(matches!(b.read(&mut [0; 64]), Err(Fault::Protocol(_))));
    assert!(!b.is_open() && !b.out().is_empty(), "an alert goes out");
    assert_eq!(b.read(&mut [0; 64]), Ok(Some(0)));
}

#[test]
fn records_are_counted_and_a_part_of_one_is_noticed_however_they_are_cut() {
    for cut in [1, 3, 7, usize::MAX] {
        let (mut a, mut b) = pair(Hash::Sha256);
        let (before, part) = b.records();
        assert!(before > 0 && !part, "the handshake's");
        for n in 1..=3 {
            a.write(&vec![7; n * 100]).unwrap();
            a.flush().unwrap();
        }
        let out = a.out().to_vec();
        out[..out.len() - 1].chunks(cut).for_each(|c| b.receive(c, |_| Vec::new()).unwrap());
        assert_eq!(b.records(), (before + 2, true));
        b.receive(&out[out.len() - 1..], |_| Vec::new()).unwrap();
        assert_eq!(b.records(), (before + 3, false));
    }
}

#[test]
fn a_replayed_hello_opens_nothing() {
    let psk = psk(Hash::Sha256);
    let id = identity(&psk, 1, Derivation::Standard);
    let hello = client(&psk, &id, Derivation::Standard).out().to_vec();
    let mut b = Engine::server(shared());
    b.receive(&hello, |i| psk.keys_for(i).unwrap()).unwrap();
    assert!(b.is_shaking() && b.identity().is_none());
    assert!(b.receive(&[23, 3, 3, 0, 32].iter().chain(&[0; 32]).copied().collect::<Vec<_>>(), |_| Vec::new()).is_err());
    assert!(!b.is_shaking() && !b.is_open());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_at_any_stage_end_it_or_wait(bytes in prop::collection::vec(any::<u8>(), 1..400), stage in 0usize..4, flip in 0usize..300) {
        let psk = psk(Hash::Sha256);
        let keys = |i: &HostIdentity| psk.keys_for(i).unwrap();
        let id = identity(&psk, 0, Derivation::Standard);
        let mut b = Engine::server(shared());
        let mut a = client(&psk, &id, Derivation::Standard);
        let mut hello = a.out().to_vec();
        match stage {
            0 => {}
            1 => { let at = flip % hello.len(); hello[at] ^= bytes[0]; let _ = b.receive(&hello, keys); }
            2 => b.receive(&hello, keys).unwrap(),
            _ => run(&mut a, &mut b, &keys, usize::MAX).unwrap(),
        }
        let _ = b.receive(&bytes, keys);
        let _ = b.read(&mut [0; 100]);
        prop_assert!(stage == 3 || !b.is_open());
        prop_assert!(b.out().len() < 1000);
    }
}
