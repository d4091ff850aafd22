//! libFuzzer's entry to `fuzz::nvme::log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::nvme::log(data));
