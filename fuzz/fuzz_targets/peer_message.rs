//! libFuzzer's entry to `fuzz::peer::message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::peer::message(data));
