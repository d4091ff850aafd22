//! libFuzzer's entry to `fuzz::text::tls_identity`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::text::tls_identity(data));
