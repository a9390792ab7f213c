//! Each fuzz target over its seeds, without a fuzzer. See `docs/how-to/fuzzing.md`.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::print_stderr,
    unreachable_pub,
    reason = "the targets make up their own input, and a panic is their result"
)]

use std::fs;
use std::path::Path;

#[path = "../fuzz/src/lib.rs"]
#[expect(unsafe_code, reason = "an allocator that counts")]
mod targets;

/// Runs a target over all files of its folder.
fn run(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
    let mut count = 0;
    for entry in fs::read_dir(folder.join(name)).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        // A failure names the last of these.
        eprintln!("{}", path.display());
        target(&bytes);
        count += 1;
    }
    assert!(count > 0, "{name} has no seeds");
}

/// A test for each target, and one that none is left out.
macro_rules! tests {
    ($($name:ident)*) => {
        $(
            mod $name {
                #[test]
                fn every_seed_passes() {
                    super::run(stringify!($name), super::targets::$name::run);
                }
            }
        )*

        #[test]
        fn every_target_runs_over_its_seeds() {
            let mut named = [$(stringify!($name)),*].map(str::to_owned).to_vec();
            named.sort();
            assert_eq!(names("fuzz/seeds"), named);
            assert_eq!(names("fuzz/targets"), named);
        }
    };
}

tests!(certificate graph json layer openpgp plain policy range reference registries_d sigstore yaml);

/// The names in a folder of the project, without their endings.
fn names(folder: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut names: Vec<String> = paths
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}
