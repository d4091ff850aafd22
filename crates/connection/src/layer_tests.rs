use super::*;
use base::{ClusterId, NodeId, SecretBytes};
use tls::{Alert, ClusterSecret, Hash, PairIdentity};

type Side = Layer<PairIdentity>;

fn secret() -> ClusterSecret {
    ClusterSecret::new(SecretBytes::new(vec![7; 32])).unwrap()
}
fn identity() -> PairIdentity {
    PairIdentity::new(Hash::Sha256, ClusterId::from_bytes([1; 16]), NodeId::from_bytes([2; 16]), NodeId::from_bytes([3; 16])).unwrap()
}
fn client() -> Side {
    Layer::client(Engine::client(&Context::shared().unwrap(), &identity(), identity().key(&secret()).unwrap()).unwrap())
}
fn receive(side: &mut Side, bytes: &[u8]) -> Result<Came, Fault> {
    side.receive(bytes, Context::shared, |i| vec![i.key(&secret()).unwrap()])
}
fn list(bytes: &[u8]) -> SendList {
    let mut list = SendList::new();
    list.push_data(Buf::copy_of(bytes), 0..bytes.len());
    list
}
/// What a side sends; its lists come back at once.
fn sent(side: &mut Side, mine: &mut Vec<SendList>, back: &mut usize, last: bool) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(list) = side.next_send(|| mine.pop(), last) {
        out.extend(list.slices(0).flatten());
        *back += usize::from(side.sent(list).is_some());
    }
    out
}
fn read(side: &mut Side) -> Vec<u8> {
    let (mut out, mut part) = (Vec::new(), vec![0; PLAIN_BYTES]);
    while let Ok(Some(n @ 1..)) = side.read(&mut part) {
        out.extend(&part[..n]);
    }
    out
}

#[test]
fn nothing_of_the_protocol_goes_out_before_the_handshake_is_done_and_its_lists_come_back() {
    let (mut a, mut b) = (client(), Side::accepted(Accepts::Tls));
    let words = vec![5; 300_000];
    let (mut of_a, mut of_b, mut back) = (vec![list(b"behind"), list(&words)], vec![list(b"answer")], 0);
    let hello = sent(&mut a, &mut of_a, &mut back, false);
    assert!((100..2000).contains(&hello.len()) && of_a.len() == 2 && back == 0, "a ClientHello alone");
    assert!(matches!(receive(&mut b, &hello), Ok(Came::Sealed { shook: false })));
    let answer = sent(&mut b, &mut of_b, &mut back, false);
    assert!(of_b.len() == 1 && b.identity().is_none());
    assert!(matches!(receive(&mut a, &answer), Ok(Came::Sealed { shook: true })));
    let finished = sent(&mut a, &mut of_a, &mut back, false);
    assert_eq!((of_a.len(), back), (0, 2));
    assert!(!finished.windows(8).any(|w| w == [5; 8]), "it is not seen on its way");
    assert!(matches!(receive(&mut b, &finished), Ok(Came::Sealed { shook: true })));
    assert!(read(&mut b) == [&words[..], b"behind"].concat());
    assert_eq!((b.identity(), a.identity()), (Some(&identity()), Some(&identity())));
    let answer = sent(&mut b, &mut of_b, &mut back, true);
    receive(&mut a, &answer).unwrap();
    assert_eq!((read(&mut a), back), (b"answer".to_vec(), 3));
    assert!(matches!(a.read(&mut [0; 9]), Ok(None)), "it said goodbye behind it");
}

#[test]
fn a_listener_takes_what_it_accepts_and_says_what_it_does_not() {
    for (accepts, takes_plain, takes_tls) in [(Accepts::Plain, true, false), (Accepts::PlainOrTls, true, true), (Accepts::Tls, false, true)]
    {
        let mut side = Side::accepted(accepts);
        match receive(&mut side, b"BSLp") {
            Ok(Came::Plain) => assert!(takes_plain),
            Err(Fault::NotTls) => assert!(!takes_plain),
            other => panic!("{other:?}"),
        }
        let (mut a, mut side, mut back) = (client(), Side::accepted(accepts), 0);
        let hello = sent(&mut a, &mut Vec::new(), &mut back, false);
        match receive(&mut side, &hello) {
            Ok(Came::Sealed { .. }) => assert!(takes_tls),
            Err(Fault::NotPlain) => {
                assert!(!takes_tls && side.has_failed() && side.has_words());
                let said = sent(&mut side, &mut Vec::new(), &mut back, false);
                assert_eq!(receive(&mut a, &said).unwrap_err(), Fault::Alert(Alert::NoTls));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn lists_of_a_connection_that_failed_come_back() {
    let (mut a, mut back) = (client(), 0);
    sent(&mut a, &mut Vec::new(), &mut back, false);
    assert!(receive(&mut a, b"no TLS at all").is_err() && a.has_failed());
    sent(&mut a, &mut vec![list(b"1"), list(b"2")], &mut back, true);
    assert_eq!(back, 2);
}

#[test]
fn much_is_encrypted_without_being_held_and_comes_out_whole() {
    let (mut a, mut b, mut back) = (client(), Side::accepted(Accepts::Tls), 0);
    let hello = sent(&mut a, &mut Vec::new(), &mut back, false);
    receive(&mut b, &hello).unwrap();
    let answer = sent(&mut b, &mut Vec::new(), &mut back, false);
    receive(&mut a, &answer).unwrap();
    let finished = sent(&mut a, &mut Vec::new(), &mut back, false);
    receive(&mut b, &finished).unwrap();
    let mut big = SendList::new();
    let mut wanted = Vec::new();
    for (n, len) in [1usize, 70_000, 1 << 20, 20, 4096, 1 << 20, 65_536].into_iter().enumerate() {
        let bytes: Vec<u8> = (0..len).map(|i| (i / 3 + n) as u8).collect();
        big.push_header(&[n as u8; 100]);
        big.push_data(Buf::copy_of(&bytes), 0..len);
        wanted.extend([n as u8; 100]);
        wanted.extend(bytes);
    }
    let mut lists = vec![big];
    let list = a.next_send(|| lists.pop(), false).unwrap();
    assert!(list.segments() >= wanted.len() / CIPHER_BUF_BYTES, "{} buffers", list.segments());
    let bytes: Vec<u8> = list.slices(0).flatten().copied().collect();
    assert!(a.sent(list).is_some() && a.next_send(|| None, false).is_none());
    let mut got = Vec::new();
    for part in bytes.chunks(60_000) {
        receive(&mut b, part).unwrap();
        got.extend(read(&mut b));
    }
    assert!(got == wanted);
}

#[test]
fn a_bit_that_is_changed_on_the_way_ends_it() {
    let (mut a, mut b, mut back) = (client(), Side::accepted(Accepts::Tls), 0);
    let hello = sent(&mut a, &mut Vec::new(), &mut back, false);
    receive(&mut b, &hello).unwrap();
    let answer = sent(&mut b, &mut Vec::new(), &mut back, false);
    receive(&mut a, &answer).unwrap();
    let mut bytes = sent(&mut a, &mut vec![list(&[1; 4096])], &mut back, false);
    let at = bytes.len() - 2000;
    bytes[at] ^= 1;
    receive(&mut b, &bytes).unwrap();
    assert!(b.read(&mut vec![0; PLAIN_BYTES]).is_err());
    assert!(b.has_failed() && b.has_words(), "and the other end hears of it");
}
