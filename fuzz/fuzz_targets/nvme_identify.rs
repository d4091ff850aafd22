//! libFuzzer's entry to `fuzz::nvme::identify`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::nvme::identify(data));
