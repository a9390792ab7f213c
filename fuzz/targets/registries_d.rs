//! The reader of `registries.d`: whatever the bytes are, it ends.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: {
        // The parser of YAML can panic, which its reader catches and reports as
        // invalid YAML. The usual hook would end the run before that. Any other
        // panic fails all the same.
        std::panic::set_hook(Box::new(|_| {}));
    },
    |bytes: &[u8]| {
        let _ = images::fuzzing::registries_d(bytes);
    }
);
