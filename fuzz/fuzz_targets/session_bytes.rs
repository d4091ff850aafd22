//! libFuzzer's entry to `fuzz::session::session_bytes`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::session::session_bytes(data));
