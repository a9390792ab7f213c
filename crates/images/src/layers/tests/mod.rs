//! Unpacking of valid, unusual and hostile images.

mod bounds;
mod folders;
mod formats;
mod hostile;
mod links;
mod readers;
mod sparse;
mod stacking;

use crate::layers::testing::{Tar, run, run_with, tar};
use crate::layers::{Exceeded, Limits, UnpackError};

/// The paths under `/configs`, each with its contents: `a=1 b/c=2`.
#[track_caller]
fn check(layers: &[Tar], expected: &str) {
    check_folder(layers, "/configs", expected);
}

#[track_caller]
fn check_folder(layers: &[Tar], folder: &str, expected: &str) {
    assert_eq!(listed(layers, folder).unwrap(), expected);
}

fn listed(layers: &[Tar], folder: &str) -> Result<String, UnpackError> {
    let files = run(&ended(layers), folder)?;
    let files: Vec<String> = files
        .iter()
        .map(|(path, text)| format!("{path}={text}"))
        .collect();
    Ok(files.join(" "))
}

/// The error that refuses `layers`, and its metric label.
#[track_caller]
fn check_refused(layers: &[Tar], expected: &str) {
    let error = listed(layers, "/configs").unwrap_err();
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.reason(), "hostile");
}

fn ended(layers: &[Tar]) -> Vec<Vec<u8>> {
    layers.iter().map(|layer| layer.clone().end()).collect()
}

fn base() -> Tar {
    tar()
        .folder("configs/")
        .file("configs/a", "1")
        .file("configs/b/c", "2")
}

#[track_caller]
fn check_limit(layers: &[Vec<u8>], limits: &Limits, path: &str, expected: Exceeded) {
    let error = run_with(layers, "/configs", limits).unwrap_err();
    assert_eq!(error.reason(), "limit", "{error}");
    let UnpackError::Limit {
        layer,
        path: at,
        exceeded,
    } = error
    else {
        panic!("{error} is no limit");
    };
    assert_eq!((exceeded, at.as_str()), (expected, path));
    assert_eq!(layer, format!("layer-{}", layers.len() - 1));
}
