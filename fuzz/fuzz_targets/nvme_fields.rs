//! libFuzzer's entry to `fuzz::nvme::fields`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::nvme::fields(data));
