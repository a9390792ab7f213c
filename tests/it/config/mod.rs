//! What was written, as flags, in the environment and in files, and what comes
//! of it.

mod checks;
mod layers;
mod mistakes;
mod sample;

use std::fs;
use std::path::{Path, PathBuf};

use almanac::config::{Config, Environment, Settings};

fn environment(variables: &[(&str, &str)]) -> Environment {
    variables.iter().copied().collect()
}

/// What comes of a file with this text and nothing else, or the message with
/// the file's folder cut off.
fn of_file(text: &str) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("almanac.toml");
    fs::write(&path, text).unwrap();
    Config::load(Settings::default(), Some(&path), &environment(&[])).map_err(|error| {
        let folder = format!("{}/", folder.path().display());
        error.to_string().replace(&folder, "")
    })
}

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/almanac.toml")
}
