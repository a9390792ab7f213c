//! The reader of `registries.d`: whatever the bytes are, it ends.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = images::fuzzing::registries_d(bytes);
});
