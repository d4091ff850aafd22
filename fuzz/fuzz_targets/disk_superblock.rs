//! libFuzzer's entry to `fuzz::disk::superblock`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::disk::superblock(data));
