//! libFuzzer's entry to `fuzz::handshake::tls_hello`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::handshake::tls_hello(data));
