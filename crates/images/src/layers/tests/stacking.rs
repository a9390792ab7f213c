//! Layers over one another: the upper one wins, and hides files of the lower one.

use crate::layers::testing::{Tar, tar};
use crate::layers::tests::{base, check, check_folder, check_refused, listed};

#[test]
fn upper_layers_and_later_entries_win() {
    check(&[base(), tar().file("configs/a", "9")], "a=9 b/c=2");
    check(&[base().file("configs/a", "8")], "a=8 b/c=2");
    check(
        &[base(), tar().folder("configs").folder("configs/b")],
        "a=1 b/c=2",
    );
}

#[test]
fn files_and_folders_replace_each_other() {
    check(&[base(), tar().file("configs/b", "3")], "a=1 b=3");
    check(
        &[base(), tar().folder("configs/a").file("configs/a/x", "3")],
        "a/x=3 b/c=2",
    );
    check(&[base(), tar().file("configs/a/x", "3")], "a/x=3 b/c=2");
    check(&[base().file("configs/b", "3")], "a=1 b=3");
    check(&[base(), tar().file("configs", "3")], "configs=3");
    check(&[base(), tar().file("configs", "3"), base()], "a=1 b/c=2");
    let above = tar().file("x/configs/a", "1");
    let error = listed(&[above.clone(), tar().file("x", "")], "/x/configs").unwrap_err();
    assert_eq!(error.reason(), "missing_folder");
    check_folder(
        &[above, tar().file("x", ""), tar().file("x/configs/b", "2")],
        "x/configs",
        "b=2",
    );
}

#[test]
fn whiteouts_hide_lower_layers() {
    let white = |paths: &[&str]| paths.iter().fold(tar(), |layer, path| layer.file(path, ""));
    for (whiteouts, expected) in [
        (&["configs/.wh.a"][..], "b/c=2"),
        (&["configs/.wh.b"], "a=1"),
        (&["configs/b/.wh.c"], "a=1"),
        (&["./configs/.wh.a", "/configs/b/.wh.c"], ""),
        (
            &[
                "configs/.wh.nothing",
                "configs/.wh.a-",
                ".wh.config",
                "other/.wh.configs",
            ],
            "a=1 b/c=2",
        ),
        (&["configs/.wh..wh..opq"], ""),
        (&["configs/b/.wh..wh..opq"], "a=1"),
        (
            &["other/.wh..wh..opq", "configs-extra/.wh..wh..opq"],
            "a=1 b/c=2",
        ),
        (
            &["configs/.wh..wh.plnk", "configs/.wh..wh.plnk/7.8"],
            "a=1 b/c=2",
        ),
    ] {
        check(&[base(), white(whiteouts)], expected);
    }
    for hidden in [".wh.configs", ".wh..wh..opq"] {
        let error = listed(&[base(), white(&[hidden])], "/configs").unwrap_err();
        assert_eq!(error.reason(), "missing_folder", "{hidden}");
    }
    for hidden in [
        ".wh.x",
        "x/.wh.y",
        "x/y/.wh.configs",
        "x/.wh..wh..opq",
        ".wh..wh..opq",
    ] {
        let layers = [tar().file("x/y/configs/a", "1"), white(&[hidden])];
        let error = listed(&layers, "x/y/configs").unwrap_err();
        assert_eq!(error.reason(), "missing_folder", "{hidden}");
    }
}

#[test]
fn a_whiteout_spares_its_own_layer_wherever_it_stands() {
    let added = |layer: Tar| layer.file("configs/new", "3");
    for whiteout in [".wh.configs", "configs/.wh..wh..opq", ".wh..wh..opq"] {
        check(&[base(), added(tar().file(whiteout, ""))], "new=3");
        check(&[base(), added(tar()).file(whiteout, "")], "new=3");
        check(
            &[base(), added(tar().file(whiteout, "")).file(whiteout, "")],
            "new=3",
        );
        check(
            &[base(), added(tar()).folder("configs").file(whiteout, "")],
            "new=3",
        );
    }
    check(
        &[
            base(),
            tar().file("configs/a", "9").file("configs/.wh.a", ""),
        ],
        "a=9 b/c=2",
    );
    check(
        &[
            base(),
            tar().file("configs/b/d", "9").file("configs/.wh.b", ""),
        ],
        "a=1 b/d=9",
    );
    // A whiteout in a lower layer hides nothing of an upper one.
    check(&[tar().file(".wh.configs", ""), base()], "a=1 b/c=2");
    check(
        &[tar().file("configs/.wh..wh..opq", ""), base()],
        "a=1 b/c=2",
    );
    // It may hide a symlink below which its own layer has a file.
    let linked = tar().symlink("configs", "etc").file("etc/x", "8");
    for layer in [
        tar().file(".wh.configs", "").file("configs/new", "3"),
        tar().file("configs/new", "3").file(".wh.configs", ""),
        tar().file("configs/new", "3").file(".wh..wh..opq", ""),
    ] {
        check(&[linked.clone(), layer], "new=3");
    }
    let emptied = tar()
        .file("configs/new", "3")
        .file("configs/.wh..wh..opq", "");
    check_refused(
        &[linked, emptied],
        "layer layer-1, path \"configs/new\": the path leads through the symlink \"configs\"",
    );
    // Both kinds after each other in one layer.
    let layer = tar()
        .file("configs/.wh..wh..opq", "")
        .file(".wh.configs", "");
    assert_eq!(
        listed(&[base(), layer], "/configs").unwrap_err().reason(),
        "missing_folder"
    );
}

#[test]
fn a_filtered_folder_hides_the_whole_one() {
    // oc-mirror: the image's own layers, a whiteout of the folder, and the
    // folder again with less in it.
    let filtered = tar().folder("configs").file("configs/b/c", "7");
    check(
        &[base(), tar().file(".wh.configs", ""), filtered.clone()],
        "b/c=7",
    );
    check(&[base(), tar().file("/.wh.configs", ""), filtered], "b/c=7");
}

#[test]
fn a_whiteout_that_hides_nothing_sensible_is_refused() {
    for name in [
        "configs/.wh.",
        "configs/.wh..",
        "configs/.wh...",
        "etc/.wh...",
    ] {
        check_refused(
            &[tar().file(name, "")],
            &format!("layer layer-0, path {name:?}: the whiteout has no valid name to hide"),
        );
    }
    check_refused(
        &[tar().file("configs/.wh.a/b", "")],
        "layer layer-0, path \"configs/.wh.a/b\": the whiteout has no valid name to hide",
    );
}
