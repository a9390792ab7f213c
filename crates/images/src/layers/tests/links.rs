//! Symbolic and hard links, of files and of the folder.

use crate::layers::UnpackError;
use crate::layers::testing::tar;
use crate::layers::tests::{base, check, check_folder, check_refused, listed};

#[test]
fn symlinks_inside_the_folder_give_the_contents_they_lead_to() {
    check(&[base().symlink("configs/l", "a")], "a=1 b/c=2 l=1");
    check(&[base().symlink("configs/b/l", "../a")], "a=1 b/c=2 b/l=1");
    check(
        &[base().symlink("configs/l", "/configs/b/c")],
        "a=1 b/c=2 l=2",
    );
    check(
        &[base().symlink("configs/l", "../configs/./b//c")],
        "a=1 b/c=2 l=2",
    );
    check(
        &[base().symlink("configs/l", "../../../configs/a")],
        "a=1 b/c=2 l=1",
    );
    check(
        &[base().symlink("configs/l", "m").symlink("configs/m", "a")],
        "a=1 b/c=2 l=1 m=1",
    );
    // The end of all layers counts, not when the link was made.
    let lower = tar().symlink("configs/l", "a");
    check(
        &[lower.clone(), base(), tar().file("configs/a", "9")],
        "a=9 b/c=2 l=9",
    );
    check(&[lower, tar().file("configs/l", "3")], "l=3");
}

#[test]
fn symlinks_that_lead_nowhere_good_are_refused() {
    for (target, expected) in [
        ("missing", "the symlink's target \"missing\" is missing"),
        ("a/b", "the symlink's target \"a/b\" is missing"),
        (
            "",
            "the symlink's target \"\" is a folder; only symlinks to files are supported",
        ),
        (
            "b",
            "the symlink's target \"b\" is a folder; only symlinks to files are supported",
        ),
        (
            ".",
            "the symlink's target \".\" is a folder; only symlinks to files are supported",
        ),
        (
            "../etc/x",
            "the symlink's target \"../etc/x\" is outside the folder",
        ),
        (
            "../../../etc/x",
            "the symlink's target \"../../../etc/x\" is outside the folder",
        ),
        (
            "/etc/x",
            "the symlink's target \"/etc/x\" is outside the folder",
        ),
        ("/", "the symlink's target \"/\" is outside the folder"),
        ("..", "the symlink's target \"..\" is outside the folder"),
        ("l", "the symlink to \"l\" leads through too many symlinks"),
        ("x/../a", "the symlink's target \"x/../a\" is missing"),
    ] {
        check_refused(
            &[tar().file("etc/x", ""), base().symlink("configs/l", target)],
            &format!("layer layer-1, path \"configs/l\": {expected}"),
        );
    }
    // Gone again before the end: nobody sees it.
    check(
        &[
            base().symlink("configs/l", "/etc/x"),
            tar().file("configs/.wh.l", ""),
        ],
        "a=1 b/c=2",
    );
    // Outside the folder nobody follows it.
    check(&[base().symlink("etc/l", "../../..")], "a=1 b/c=2");
}

#[test]
fn a_folder_behind_symlinks_is_found_in_the_image() {
    let stored = tar()
        .file("var/data/a", "1")
        .file("var/data/b/c", "2")
        .file("var/x", "3");
    for layers in [
        vec![stored.clone().symlink("configs", "var/data")],
        vec![stored.clone().symlink("configs", "/var/data/")],
        vec![stored.clone().symlink("configs", "../../var/./data")],
        vec![
            tar().symlink("configs", "data/data").symlink("data", "var"),
            stored.clone(),
        ],
        vec![
            tar().symlink("configs", "one").symlink("one", "/two/data"),
            tar().symlink("two", "three").symlink("three", "./var"),
            stored.clone(),
        ],
    ] {
        check(&layers, "a=1 b/c=2");
    }
    let above = [stored.clone().symlink("srv", "var")];
    check_folder(&above, "srv/data", "a=1 b/c=2");
    check_folder(&above, "srv/x", "x=3");
    check_folder(
        &[stored.clone().symlink("var/up", "..")],
        "var/up/var/data",
        "a=1 b/c=2",
    );
    check_folder(&[tar().file("v/a", "1").symlink("v/c", ".")], "v/a", "a=1");
    // A link inside, seen from both names.
    let inside = stored.clone().symlink("configs", "var/data");
    check(
        &[inside.symlink("var/data/l", "/configs/b/c")],
        "a=1 b/c=2 l=2",
    );
    // The link was replaced by a folder of its own.
    check(
        &[
            stored.symlink("configs", "var/data"),
            tar().folder("configs"),
        ],
        "",
    );
}

#[test]
fn a_folder_behind_symlinks_without_end_is_refused() {
    let dangling = listed(&[tar().symlink("configs", "/nowhere")], "/configs").unwrap_err();
    assert_eq!(dangling.to_string(), "the image has no folder \"/nowhere\"");
    for layers in [
        [tar().symlink("configs", "configs"), tar()],
        [tar().symlink("configs", "x"), tar().symlink("x", "configs")],
        [tar().symlink("configs", "x/../y"), tar()],
    ] {
        assert_eq!(listed(&layers, "/configs").unwrap_err().reason(), "hostile");
    }
    let chain = (0..20).fold(tar().symlink("configs", "l0"), |layer, i| {
        layer.symlink(&format!("l{i}"), &format!("l{}", i + 1))
    });
    let error = listed(&[chain], "/configs").unwrap_err();
    assert!(
        matches!(error, UnpackError::TooManyRounds { limit: 8, .. }),
        "{error}"
    );
    assert_eq!(error.reason(), "limit");
}

#[test]
fn an_entry_below_a_symlink_is_refused() {
    check_refused(
        &[
            base().symlink("configs/l", "b"),
            tar().file("configs/l/x", ""),
        ],
        "layer layer-1, path \"configs/l/x\": the path leads through the symlink \"configs/l\"",
    );
    check_refused(
        &[tar().symlink("configs", "etc").file("configs/x", "")],
        "layer layer-0, path \"configs/x\": the path leads through the symlink \"configs\"",
    );
    check(&[tar().symlink("configs", "etc"), base()], "a=1 b/c=2");
}

#[test]
fn hardlinks_are_the_file_they_were_made_of() {
    check(
        &[base().hardlink("configs/l", "configs/a")],
        "a=1 b/c=2 l=1",
    );
    check(
        &[base(), tar().hardlink("configs/l", "/configs/b/c")],
        "a=1 b/c=2 l=2",
    );
    let replaced = base()
        .hardlink("configs/l", "./configs/a")
        .file("configs/a", "9");
    check(&[replaced], "a=9 b/c=2 l=1");
    let symlink = base()
        .symlink("configs/s", "a")
        .hardlink("configs/b/l", "configs/s");
    check(
        &[symlink.file("configs/b/a", "4")],
        "a=1 b/a=4 b/c=2 b/l=4 s=1",
    );
    check(&[base().hardlink("etc/l", "nowhere")], "a=1 b/c=2");
}

#[test]
fn hardlinks_to_anything_else_are_refused() {
    for (target, expected) in [
        (
            "etc/passwd",
            "the hardlink's target \"etc/passwd\" is outside the folder",
        ),
        (
            "configs/../etc",
            "the hardlink's target \"configs/../etc\" is outside the folder",
        ),
        ("a", "the hardlink's target \"a\" is outside the folder"),
        (
            "configs/x",
            "the hardlink's target \"configs/x\" is missing",
        ),
        (
            "configs/l",
            "the hardlink's target \"configs/l\" is missing",
        ),
        (
            "configs/b",
            "the hardlink's target \"configs/b\" is not a file",
        ),
    ] {
        check_refused(
            &[
                tar().file("etc/passwd", ""),
                base().hardlink("configs/l", target),
            ],
            &format!("layer layer-1, path \"configs/l\": {expected}"),
        );
    }
    let hidden = tar()
        .file("configs/.wh.a", "")
        .hardlink("configs/l", "configs/a");
    assert_eq!(
        listed(&[base(), hidden], "/configs").unwrap_err().reason(),
        "hostile"
    );
}
