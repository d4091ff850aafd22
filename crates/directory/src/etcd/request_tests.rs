use super::*;
use crate::{KEY_BYTES_MAX, Kind, Nonce, SessionId, TRANSACTION_BYTES_MAX, VALUE_BYTES_MAX};
use base::ClusterId;
use prost::Message;

fn layout() -> Layout {
    Layout::new(ClusterId::from_bytes([0xFF; 16]))
}
fn fence() -> Fence {
    Fence { key: layout().writer(&"w".repeat(64)), revision: i64::MAX }
}
fn key(n: usize, bytes: usize) -> Key {
    let plain = Key::new(Kind::Task, format!("{n:04}"));
    Key::new(Kind::Task, format!("{n:04}{}", "k".repeat(bytes.saturating_sub(plain.bytes()))))
}

/// The largest transactions of every shape: many small changes, few large ones, the longest keys.
#[test]
fn whatever_the_limits_allow_fits_into_an_etcd_with_default_settings() {
    for (changes, key_bytes) in [(1, 512), (2, 10), (2, 512), (120, 10), (120, 512), (120, 256), (17, 100)] {
        let put = |n: usize, bytes: usize| {
            let action = Action::Bind(vec![1; bytes], SessionId(i64::MAX as u64));
            (key(n, key_bytes), Expect::At(Revision(i64::MAX as u64)), action)
        };
        let of = |bytes: usize| {
            (0..changes)
                .map(|n| put(n, bytes))
                .fold(Transaction::new(), |t, (key, expect, action)| t.with(key, expect, action))
                .with_nonce(Nonce([9; 16]))
        };
        let room = TRANSACTION_BYTES_MAX.saturating_sub(of(0).bytes()) / changes;
        let largest = of(room.min(VALUE_BYTES_MAX));
        largest.check().unwrap();
        assert!(key_bytes <= KEY_BYTES_MAX);
        let request = encode(&layout(), &largest, &fence(), &[7; 32]);
        // What the server puts around it when it hands it on.
        let around = 512;
        assert!(request.encoded_len() + around <= ::etcd::REQUEST_BYTES_MAX, "{changes} changes: {} bytes", request.encoded_len());
        for part in [request.compare.len(), request.success.len(), request.failure.len()] {
            assert!(part <= ::etcd::TXN_OPERATIONS_MAX, "{part}");
        }
    }
}

#[test]
fn an_answer_says_which_expectation_does_not_hold() {
    let transaction = Transaction::new()
        .with(key(1, 9), Expect::Absent, Action::Check)
        .with(key(2, 9), Expect::At(Revision(5)), Action::Delete)
        .with_nonce(Nonce([1; 16]));
    let range = |at: i64| {
        let kvs = if at == 0 { Vec::new() } else { vec![KeyValue { mod_revision: at, ..KeyValue::default() }] };
        ::etcd::message::ResponseOp { response: Some(Response::Range(RangeResponse { kvs, ..RangeResponse::default() })) }
    };
    let fence = Fence { revision: 3, ..fence() };
    let decided =
        |found: [i64; 4]| decode(&transaction, &fence, TxnResponse { responses: found.map(range).to_vec(), ..TxnResponse::default() });
    assert_eq!(decided([3, 0, 7, 5]).unwrap(), Decided::Conflict(key(1, 9)));
    assert_eq!(decided([3, 0, 0, 6]).unwrap(), Decided::Conflict(key(2, 9)));
    assert_eq!(decided([3, 0, 0, 0]).unwrap(), Decided::Conflict(key(2, 9)));
    assert_eq!(decided([3, 8, 7, 5]).unwrap(), Decided::Before(Revision(8)), "it has happened, whatever came after");
    assert!(matches!(decided([4, 0, 7, 5]).unwrap(), Decided::Fenced(Some(_))));
    assert_eq!(decided([0, 0, 7, 5]).unwrap(), Decided::Fenced(None));
    assert_eq!(decided([4, 8, 7, 5]).unwrap(), Decided::Before(Revision(8)));
    assert!(decided([3, 0, 0, 5]).is_err(), "an answer that makes no sense is not believed");
}

#[test]
fn what_is_written_is_guarded_and_what_only_looks_writes_nothing() {
    let looks = Transaction::new().with(key(1, 9), Expect::Absent, Action::Delete).with(key(2, 9), Expect::Absent, Action::Check);
    assert!(!looks.changes_something());
    assert_eq!(encode_look(&layout(), &looks).success, []);
    let changes = looks.with(key(3, 9), Expect::At(Revision(4)), Action::Delete);
    assert!(changes.changes_something());
    let request = encode(&layout(), &changes, &fence(), b"s");
    assert!(request.compare.contains(&is_at(fence().key, i64::MAX)));
    assert_eq!(request.success.len(), 2, "the head, and what is removed");
    assert_eq!(request.success[0], put(layout().head, b"s".to_vec(), 0));
}

#[test]
fn a_revision_that_etcd_never_has_holds_for_nothing() {
    assert_eq!((signed(Revision(0)), signed(Revision(u64::MAX)), signed(Revision(1))), (-1, -1, 1));
}

#[test]
fn keys_are_read_back_as_they_were_written_and_the_head_is_none_of_them() {
    let layout = layout();
    for kind in Kind::ALL {
        let key = Key::new(kind, "a/b c");
        assert_eq!(layout.parse_record(&layout.record(&key)), Some(key));
    }
    assert_eq!(layout.parse_record(&layout.head), None);
    assert!(layout.head.starts_with(&layout.records));
    assert_eq!(Layout::parse_marker(&layout.marker), Some(ClusterId::from_bytes([0xFF; 16])));
    assert_eq!(Layout::new(ClusterId::from_bytes([1; 16])).parse_record(&layout.record(&Key::new(Kind::Task, "x"))), None);
}
