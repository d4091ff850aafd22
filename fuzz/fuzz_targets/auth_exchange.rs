//! libFuzzer's entry to `fuzz::handshake::auth_exchange`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::handshake::auth_exchange(data));
