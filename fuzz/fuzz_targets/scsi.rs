//! libFuzzer's entry to `fuzz::scsi::scsi`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::scsi::scsi(data));
