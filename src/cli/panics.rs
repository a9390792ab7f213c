//! Keeps the panics of the YAML parser from standard error. Who calls it turns them
//! into an error about the file: a panic there is the answer to some invalid texts.

use std::panic;
use std::path::{Component, Path};

/// The name of the parser.
const PARSER: &str = "libyaml-safer";

/// Reports panics as before, except those of the parser.
pub(super) fn quieten() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |told| {
        let place = told.location().map(|place| Path::new(place.file()));
        if !place.is_some_and(is_of_parser) {
            report(told);
        }
    }));
}

/// Whether a source file lies in the folder of the parser, which may have its version
/// in the name.
fn is_of_parser(file: &Path) -> bool {
    file.components().any(|part| match part {
        Component::Normal(name) => {
            let name = name.to_str().and_then(|name| name.strip_prefix(PARSER));
            name.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_parser_is_kept_quiet() {
        for (file, expected) in [
            (
                "/a/registry/src/index/libyaml-safer-0.3.0/src/scanner.rs",
                true,
            ),
            ("vendor/libyaml-safer/src/scanner.rs", true),
            ("src/libyaml-safer.rs", false),
            ("/a/libyaml-saferer/src/lib.rs", false),
            ("src/cli/mod.rs", false),
        ] {
            assert_eq!(is_of_parser(Path::new(file)), expected, "{file}");
        }
    }
}
