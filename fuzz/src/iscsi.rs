//! What iSCSI PDUs say, and the text of a login (`format::iscsi`). The first byte of an input says which of them the rest is.
//!
//! Asserted everywhere: what is understood is built to bytes that are understood the same; lengths and texts obey their limits.

use crate::input::mode;
use format::iscsi::{
    AHS_BYTES_MAX, HEADER_BYTES, HostPdu, KEY_BYTES_MAX, PAIRS_MAX, Parts, TargetPdu, VALUE_BYTES_MAX, parse_pairs, push_pair,
};

/// Any of them.
pub fn iscsi(data: &[u8]) {
    let (which, b) = mode(data);
    if which % 2 == 0 { headers(b) } else { text(b) }
}

fn headers(b: &[u8]) {
    let (whole, _) = b.as_chunks::<HEADER_BYTES>();
    for header in whole {
        let parts = Parts::parse(header);
        assert!(parts.ahs_bytes <= AHS_BYTES_MAX && parts.data_bytes < 1 << 24);
        assert!(parts.head_bytes(true).is_multiple_of(4) && parts.body_bytes(true).is_multiple_of(4));
        if let Ok(pdu) = HostPdu::parse(header) {
            let again = pdu.to_header(parts.data_bytes);
            assert_eq!((HostPdu::parse(&again), Parts::parse(&again).data_bytes), (Ok(pdu), parts.data_bytes));
        }
        if let Ok(pdu) = TargetPdu::parse(header) {
            let again = pdu.to_header(parts.data_bytes);
            assert_eq!((TargetPdu::parse(&again), Parts::parse(&again).data_bytes), (Ok(pdu), parts.data_bytes));
        }
    }
}

fn text(b: &[u8]) {
    let Ok(pairs) = parse_pairs(b) else { return };
    assert!(pairs.len() <= PAIRS_MAX && pairs.iter().all(|(k, v)| k.len() <= KEY_BYTES_MAX && v.len() <= VALUE_BYTES_MAX));
    let mut out = Vec::new();
    pairs.iter().for_each(|(k, v)| push_pair(&mut out, k, v));
    assert_eq!(parse_pairs(&out), Ok(pairs));
}
