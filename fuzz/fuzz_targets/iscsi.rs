//! libFuzzer's entry to `fuzz::iscsi::iscsi`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::iscsi::iscsi(data));
