//! Which folder is read, and what is in it.

use crate::layers::testing::tar;
use crate::layers::tests::{base, check, check_folder, listed};
use crate::layers::{LayerRejection, UnpackError};

#[test]
fn only_files_under_the_folder_come_out() {
    let layer = base()
        .file("etc/passwd", "x")
        .file("configs-extra/a", "x")
        .file("config", "x")
        .file("other/configs/a", "x");
    check(&[layer], "a=1 b/c=2");
}

#[test]
fn the_folder_is_spelled_in_many_ways() {
    for folder in [
        "/configs",
        "configs",
        "configs/",
        "./configs",
        "//configs/./",
    ] {
        check_folder(&[base()], folder, "a=1 b/c=2");
    }
    for folder in ["", "/", "."] {
        check_folder(
            &[base().file("z", "3")],
            folder,
            "configs/a=1 configs/b/c=2 z=3",
        );
    }
    let layer = tar()
        .file("/configs/a", "1")
        .file("./configs/b", "2")
        .file("configs//./c", "3");
    check(&[layer], "a=1 b=2 c=3");
}

#[test]
fn a_deep_folder_and_a_folder_that_is_one_file() {
    let layer = tar()
        .file("x/y/configs/a", "1")
        .file("x/y/z", "2")
        .file("x/z", "3");
    let layers = [layer];
    check_folder(&layers, "x/y/configs", "a=1");
    check_folder(&layers, "/x/z", "z=3");
    check_folder(&layers, "/x/y/z", "z=2");
}

#[test]
fn files_come_in_the_order_of_a_walk() {
    let layer = tar()
        .file("configs/a.yaml", "")
        .file("configs/b", "")
        .file("configs/a/z", "")
        .file("configs/B", "")
        .file("configs/a/b/c", "")
        .file("configs/a-", "");
    check(&[layer], "B= a/b/c= a/z= a-= a.yaml= b=");
}

#[test]
fn a_label_that_climbs_is_refused() {
    for folder in ["..", "configs/../etc", "/../x"] {
        let error = listed(&[base()], folder).unwrap_err();
        assert!(matches!(
            error,
            UnpackError::Folder {
                rejection: LayerRejection::ParentComponent,
                ..
            }
        ));
        assert_eq!(error.reason(), "hostile");
    }
    let error = listed(&[base()], &"x".repeat(301)).unwrap_err();
    assert!(matches!(
        error,
        UnpackError::Folder {
            rejection: LayerRejection::TooLong(300),
            ..
        }
    ));
}

#[test]
fn a_missing_folder_is_an_error_and_an_empty_one_is_not() {
    for layers in [
        vec![],
        vec![tar()],
        vec![tar().file("a", "1")],
        vec![tar().file("configs-/a", "")],
    ] {
        let error = listed(&layers, "/configs").unwrap_err();
        assert_eq!(error.to_string(), "the image has no folder \"/configs\"");
        assert_eq!(error.reason(), "missing_folder");
    }
    check(&[tar().folder("configs")], "");
    check_folder(&[], "/", "");
    let error = listed(&[tar().file("configs", "1")], "/configs/a").unwrap_err();
    assert_eq!(error.to_string(), "the image has no folder \"/configs/a\"");
}
