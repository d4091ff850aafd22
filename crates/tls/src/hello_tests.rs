use super::*;
use proptest::prelude::*;

fn vector(bytes: usize, data: &[u8]) -> Vec<u8> {
    [&data.len().to_be_bytes()[8 - bytes..], data].concat()
}
fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &vector(2, data)].concat()
}
fn psk(offers: &[(&[u8], &[u8])]) -> Vec<u8> {
    let identities: Vec<u8> = offers.iter().flat_map(|(i, _)| [vector(2, i), vec![0; 4]].concat()).collect();
    let binders: Vec<u8> = offers.iter().flat_map(|(_, b)| vector(1, b)).collect();
    extension(41, &[vector(2, &identities), vector(2, &binders)].concat())
}
fn hello(extensions: &[Vec<u8>]) -> Vec<u8> {
    let body = [vec![3, 3], vec![7; 32], vec![0], vector(2, &[0x13, 2, 0x13, 1]), vec![1, 0], vector(2, &extensions.concat())].concat();
    [&[1][..], &vector(3, &body)].concat()
}
fn good() -> Vec<u8> {
    hello(&[extension(43, &[2, 3, 4]), extension(45, &[1, 1]), psk(&[(b"one", &[1; 32]), (b"two", &[2; 48])])])
}
fn records(message: &[u8], cut: usize) -> Vec<u8> {
    message.chunks(cut).flat_map(|c| [vec![22, 3, 1], vector(2, c)].concat()).collect()
}

#[test]
fn offers_and_what_the_binders_sign_are_found() {
    let message = good();
    let hello = parse(&message).unwrap();
    assert_eq!(hello.offers, [Offer { identity: b"one", binder: &[1; 32] }, Offer { identity: b"two", binder: &[2; 48] }]);
    assert_eq!(hello.truncated.len(), message.len() - (2 + 33 + 49));
    assert!(hello.takes(Hash::Sha256) && hello.takes(Hash::Sha384));
}

#[test]
fn a_message_may_come_in_many_records_and_bytes() {
    let message = good();
    for cut in [1, 3, 100, 1000] {
        let bytes = records(&message, cut);
        for n in 0..bytes.len() {
            assert_eq!(message_of(&bytes[..n]), Ok(None), "{n} of {} bytes", bytes.len());
        }
        assert_eq!(message_of(&bytes), Ok(Some(message.clone())));
        assert_eq!(message_of(&[&bytes[..], &[20, 3, 3, 0, 1, 1]].concat()), Ok(Some(message.clone())));
    }
}

#[test]
fn how_the_bytes_are_cut_makes_no_difference() {
    let behind = |n: usize| [good(), vec![9; n]].concat();
    let long = [records(&good(), 1000), vec![20; HELLO_BYTES_MAX]].concat();
    for bytes in [records(&behind(1), 1000), records(&behind(300), 200), records(&[1, 0, 0, 0, 7], 1000), long] {
        let whole = message_of(&bytes);
        let first = (0..=bytes.len()).map(|n| message_of(&bytes[..n])).find(|found| *found != Ok(None));
        assert_eq!(first, Some(whole));
    }
}
fn message_of(bytes: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
    super::message(bytes)
}

fn alert_of<T: std::fmt::Debug>(result: Result<T, Fault>) -> u8 {
    match result {
        Err(Fault::Refused { alert, .. }) => alert,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_not_tls_is_seen_at_its_first_bytes() {
    for bytes in [&[0u8][..], &[0, 0, 128, 0, 128, 0, 0, 0], b"GET / HTTP/1.1", &[23, 3, 3], &[22, 2]] {
        assert_eq!(message_of(bytes), Err(Fault::NotTls));
    }
    assert_eq!(alert_of(message_of(&[22, 3, 1, 0, 0])), alert::UNEXPECTED_MESSAGE);
    assert_eq!(alert_of(message_of(&[22, 3, 1, 0x48, 0])), alert::RECORD_OVERFLOW);
    assert_eq!(alert_of(message_of(&[22, 3, 1, 0, 4, 2])), alert::UNEXPECTED_MESSAGE);
    assert_eq!(alert_of(message_of(&[22, 3, 1, 0, 4, 1, 1, 0, 0])), alert::RECORD_OVERFLOW);
    assert_eq!(alert_of(message_of(&records(&[good(), vec![9]].concat(), 1000))), alert::UNEXPECTED_MESSAGE);
}

#[test]
fn a_hello_without_what_we_need_is_refused_with_the_right_alert() {
    let (versions, modes, keys) = (extension(43, &[2, 3, 4]), extension(45, &[1, 1]), psk(&[(b"a", &[1; 32])]));
    let all = |list: &[&Vec<u8>]| hello(&list.iter().map(|e| e.to_vec()).collect::<Vec<_>>());
    let cases = [
        (all(&[&modes, &keys]), alert::PROTOCOL_VERSION),
        (all(&[&extension(43, &[2, 3, 3]), &modes, &keys]), alert::PROTOCOL_VERSION),
        (all(&[&versions, &modes]), alert::HANDSHAKE_FAILURE),
        (all(&[&versions, &keys]), alert::MISSING_EXTENSION),
        (all(&[&versions, &extension(45, &[1, 0]), &keys]), alert::HANDSHAKE_FAILURE),
        (all(&[&versions, &keys, &modes]), 47),
        (all(&[&versions, &modes, &extension(41, &[0, 0, 0, 9])]), alert::DECODE_ERROR),
    ];
    for (message, wanted) in cases {
        assert_eq!(alert_of(parse(&message)), wanted);
    }
    // fewer binders than identities, or more
    let odd = |ids: &[u8], binders: &[u8]| all(&[&versions, &modes, &extension(41, &[vector(2, ids), vector(2, binders)].concat())]);
    assert_eq!(alert_of(parse(&odd(&[0, 1, b'a', 0, 0, 0, 0], &[]))), alert::DECODE_ERROR);
    assert_eq!(alert_of(parse(&odd(&[], &[1, 1]))), alert::DECODE_ERROR);
}

proptest! {
    #[test]
    fn cut_and_changed_hellos_never_panic(at in 0usize..400, byte: u8, cut in 0usize..400, tail in prop::collection::vec(any::<u8>(), 0..64)) {
        let mut message = good();
        let at = at % message.len();
        message[at] = byte;
        message.truncate(message.len() - cut % message.len());
        message.extend(tail);
        let _ = parse(&message);
        let _ = message_of(&message);
        let _ = message_of(&records(&message, 50));
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = parse(&bytes);
        let _ = message_of(&bytes);
        let _ = message_of(&[&[22, 3, 1, 2, 0, 1, 0, 1, 0xFC][..], &bytes].concat());
    }
}
