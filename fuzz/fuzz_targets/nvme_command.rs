//! libFuzzer's entry to `fuzz::nvme::command`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::nvme::command(data));
