use super::auth::*;
use proptest::prelude::*;

/// What Linux 6.12 sends (laid out by hand from the figures): three hashes, six groups.
#[test]
fn negotiate_is_what_the_figure_says() {
    let m = Negotiate {
        t_id: 0x1234,
        concatenation: 0,
        dhchap: Some((Ids::new(HashId::ALL.iter().map(|h| h.id())), Ids::new(DhGroup::ALL.iter().map(|g| g.id())))),
    };
    let b = m.to_bytes();
    assert_eq!(b.len(), 72);
    assert_eq!(b[..15], [0, 0, 0, 0, 0x34, 0x12, 0, 1, 1, 0, 3, 6, 1, 2, 3]);
    assert_eq!(b[15..42], [0; 27]);
    assert_eq!(b[42..48], [0, 1, 2, 3, 4, 5]);
    assert_eq!(b[48..], [0; 24]);
    assert_eq!(Negotiate::parse(&b), Some(m));
}

#[test]
fn negotiate_takes_the_first_descriptor_of_its_protocol_and_bounds_the_lists() {
    let plain = Negotiate { t_id: 1, concatenation: 2, dhchap: None };
    assert_eq!(Negotiate::parse(&plain.to_bytes()), Some(plain));
    let mut two = vec![0, 0, 0, 0, 1, 0, 0, 2];
    two.extend([0xEE; 64]);
    two.extend(Negotiate { dhchap: Some((Ids::new([3]), Ids::new([5]))), ..plain }.to_bytes()[8..].to_vec());
    let got = Negotiate::parse(&two).unwrap().dhchap.unwrap();
    assert_eq!((got.0.as_slice(), got.1.as_slice()), (&[3u8][..], &[5u8][..]));
    two[72 + 2] = 30;
    assert!(Negotiate::parse(&two).is_some(), "thirty identifiers fit");
    two[72 + 2] = 31;
    assert!(Negotiate::parse(&two).is_none(), "thirty-one do not");
    two[72 + 2] = 3;
    two[72 + 3] = 31;
    assert!(Negotiate::parse(&two).is_none());
}

#[test]
fn challenge_reply_and_successes_are_what_the_figures_say() {
    let c = Challenge { t_id: 7, hash: 1, group: 1, seq: 0x0102_0304, challenge: &[0xAA; 32], dh_value: &[0xBB; 256] };
    let b = c.to_bytes();
    assert_eq!(b[..16], [1, 1, 0, 0, 7, 0, 32, 0, 1, 1, 0, 1, 4, 3, 2, 1]);
    assert_eq!((b.len(), &b[16..48], &b[48..]), (304, &[0xAA; 32][..], &[0xBB; 256][..]));
    assert_eq!(Challenge::parse(&b), Some(c));
    let r = Reply { t_id: 7, seq: 9, response: &[1; 64], challenge: Some(&[2; 64]), dh_value: &[3; 1024] };
    let b = r.to_bytes();
    assert_eq!(b[..16], [1, 2, 0, 0, 7, 0, 64, 0, 1, 0, 0, 4, 9, 0, 0, 0]);
    assert_eq!(b.len(), MESSAGE_BYTES_MAX);
    assert_eq!(Reply::parse(&b), Some(r));
    let r = Reply { t_id: 7, seq: 0, response: &[1; 48], challenge: None, dh_value: &[] };
    assert_eq!(r.to_bytes().len(), 16 + 96, "the room of C2 is there even when it is not");
    assert_eq!(Reply::parse(&r.to_bytes()), Some(r));
    let mut odd = r.to_bytes();
    odd[8] = 2;
    assert_eq!(Reply::parse(&odd), None, "CVALID is 0 or 1");
    let s = Success1 { t_id: 7, digest_bytes: 32, response: Some(&[5; 32]) };
    assert_eq!(s.to_bytes()[..17], [1, 3, 0, 0, 7, 0, 32, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5]);
    assert_eq!(Success1::parse(&s.to_bytes()), Some(s));
    let s = Success1 { t_id: 7, digest_bytes: 32, response: None };
    assert_eq!(Success1::parse(&s.to_bytes()[..16]), Some(s), "Linux's own target leaves the response out");
    assert_eq!(success2(0x0102), [1, 4, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(failure(MessageId::Failure1, 3, FailureReason::Failed), [0, 0xF1, 0, 0, 3, 0, 1, 1]);
    let two = failure(MessageId::Failure2, 3, FailureReason::IncorrectMessage);
    assert_eq!((two[1], failure_code(&two), failure_code(&success2(1))), (0xF0, Some(7), None));
}

#[test]
fn the_commands_carry_their_fields() {
    let c = AuthCommand::new(4096);
    assert!(c.is_nvme() && !AuthCommand { spsp1: 0, ..c }.is_nvme() && !AuthCommand { secp: 0xEF, ..c }.is_nvme());
    let b = c.send_sqe(5).to_bytes();
    assert_eq!((b[0], b[4], &b[40..48]), (0x7F, 5, &[0u8, 1, 1, 0xE9, 0, 16, 0, 0][..]));
    assert_eq!(c.receive_sqe(5).to_bytes()[4], 6);
    assert_eq!(AuthCommand::of(&c.receive_sqe(5)), c);
}

#[test]
fn names_are_read_back() {
    assert!(HashId::ALL.iter().all(|h| HashId::from_name(h.name()) == Some(*h) && HashId::parse(h.id()) == Some(*h)));
    assert!(DhGroup::ALL.iter().all(|g| DhGroup::from_name(g.name()) == Some(*g) && DhGroup::parse(g.id()) == Some(*g)));
    assert!(FailureReason::ALL.iter().all(|r| FailureReason::parse(*r as u8) == Some(*r)));
    assert_eq!((HashId::parse(0), HashId::parse(4), DhGroup::parse(6), FailureReason::parse(0)), (None, None, None, None));
}

proptest! {
    #[test]
    fn any_bytes_parse_or_are_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), id in 0..8usize, hl in 0u8..80) {
        let heads = [[0u8, 0], [0, 0xF0], [0, 0xF1], [1, 1], [1, 2], [1, 3], [1, 4], [9, 9]];
        if bytes.len() > 11 {
            bytes[..2].copy_from_slice(&heads[id]);
            (bytes[6], bytes[11]) = (hl, 0);
        }
        if let Some(m) = Challenge::parse(&bytes) {
            prop_assert!(Challenge::parse(&m.to_bytes()) == Some(m));
        }
        if let Some(m) = Reply::parse(&bytes) {
            prop_assert!(Reply::parse(&m.to_bytes()) == Some(m));
        }
        if let Some(m) = Success1::parse(&bytes) {
            prop_assert!(Success1::parse(&m.to_bytes()) == Some(m));
        }
        if let Some(m) = Negotiate::parse(&bytes) {
            prop_assert_eq!(Negotiate::parse(&m.to_bytes()), Some(m));
        }
        let _ = (MessageId::of(&bytes), transaction_of(&bytes), failure_code(&bytes));
    }

    #[test]
    fn a_message_of_another_length_is_refused(hl in prop::sample::select(vec![32usize, 48, 64]), dh in 0usize..40, cut in 1usize..60) {
        let reply = Reply { t_id: 1, seq: 1, response: &vec![1; hl], challenge: None, dh_value: &vec![2; dh] }.to_bytes();
        prop_assert!(Reply::parse(&reply[..reply.len() - cut]).is_none());
        let longer = [&reply[..], &vec![0; cut]].concat();
        prop_assert!(Reply::parse(&longer).is_none());
        let challenge = Challenge { t_id: 1, hash: 1, group: 0, seq: 1, challenge: &vec![1; hl], dh_value: &vec![2; dh] }.to_bytes();
        prop_assert!(Challenge::parse(&challenge[..challenge.len() - cut.min(hl)]).is_none());
    }
}
