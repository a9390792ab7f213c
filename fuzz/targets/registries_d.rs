#![no_main]

libfuzzer_sys::fuzz_target!(
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
    |bytes: &[u8]| almanac_fuzz::registries_d::run(bytes)
);
