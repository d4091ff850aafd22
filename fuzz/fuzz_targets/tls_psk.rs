//! libFuzzer's entry to `fuzz::text::tls_psk`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::text::tls_psk(data));
