//! The reader of `registries.d`: whatever the bytes are, it ends.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: {
        // The parser of YAML can panic, which its reader catches and reports as
        // invalid YAML. The usual hook ends the run before that, and stays for any
        // other panic: the reader would catch that too.
        let end = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let place = panic.location().map_or("", |place| place.file());
            if !place.contains("/libyaml-safer") {
                end(panic);
            }
        }));
    },
    |bytes: &[u8]| {
        let _ = images::fuzzing::registries_d(bytes);
    }
);
