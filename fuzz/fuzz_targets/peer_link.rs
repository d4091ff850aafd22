//! libFuzzer's entry to `fuzz::peer::link`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::peer::link(data));
