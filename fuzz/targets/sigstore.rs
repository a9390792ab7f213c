#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| almanac_fuzz::sigstore::run(bytes));
