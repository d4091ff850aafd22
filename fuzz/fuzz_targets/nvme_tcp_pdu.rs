//! libFuzzer's entry to `fuzz::pdu::pdu`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::pdu::pdu(data));
