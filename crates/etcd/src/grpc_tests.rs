use super::*;
use crate::message::{KeyValue, RangeResponse};
use proptest::prelude::*;

fn message(values: Vec<Vec<u8>>) -> RangeResponse {
    let kvs = values.into_iter().map(|value| KeyValue { value, mod_revision: 7, ..KeyValue::default() }).collect();
    RangeResponse { kvs, count: 3, ..RangeResponse::default() }
}

proptest! {
    #[test]
    fn messages_come_out_as_they_went_in_however_they_are_cut(
        messages in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..4), 0..5),
        cut in 1usize..50,
    ) {
        let messages: Vec<_> = messages.into_iter().map(message).collect();
        let bytes: Vec<u8> = messages.iter().flat_map(frame).collect();
        let mut deframer = Deframer::default();
        let mut seen = Vec::new();
        for piece in bytes.chunks(cut) {
            deframer.push(piece).unwrap();
            while let Some(found) = deframer.next().unwrap() {
                seen.push(<RangeResponse as prost::Message>::decode(found.as_slice()).unwrap());
            }
        }
        prop_assert_eq!(seen, messages);
    }

    #[test]
    fn anything_else_is_an_error_or_nothing(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut deframer = Deframer::default();
        deframer.push(&bytes).unwrap();
        while let Ok(Some(_)) = deframer.next() {}
        prop_assert!(deframer.buffer.capacity() < 1000, "memory is not taken for what a length promises");
    }

    #[test]
    fn any_text_is_decoded_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
        percent_decoded(&bytes);
    }
}

#[test]
fn a_message_above_the_limit_or_compressed_is_refused_by_its_head() {
    let mut large = Deframer::default();
    large.push(&[&[0], (MESSAGE_BYTES_MAX as u32 + 1).to_be_bytes().as_slice()].concat()).unwrap();
    assert_eq!(large.next(), Err(Lost::TooLarge));
    let mut compressed = Deframer::default();
    compressed.push(&[1, 0, 0, 0, 0]).unwrap();
    assert_eq!(compressed.next(), Err(Lost::Unreadable));
}

#[test]
fn a_status_is_read_with_its_text() {
    let mut headers = HeaderMap::new();
    assert!(status(&headers).is_none());
    headers.insert("grpc-status", HeaderValue::from_static("0"));
    assert_eq!(status(&headers), Some(Ok(())));
    headers.insert("grpc-status", HeaderValue::from_static("14"));
    headers.insert("grpc-message", HeaderValue::from_static("etcdserver: no%20leader"));
    assert_eq!(status(&headers), Some(Err(of_status(14, "etcdserver: no leader"))));
    headers.insert("grpc-status", HeaderValue::from_static("x"));
    assert!(!status(&headers).unwrap().unwrap_err().did_not_happen(), "a status that cannot be read says nothing");
}
