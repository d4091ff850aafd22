//! libFuzzer's entry to `fuzz::iscsi_session::iscsi_session`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::iscsi_session::iscsi_session(data));
