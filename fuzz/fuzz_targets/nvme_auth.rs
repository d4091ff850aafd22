//! libFuzzer's entry to `fuzz::nvme::auth`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::nvme::auth(data));
