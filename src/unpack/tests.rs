//! What comes out of honest, odd and hostile images.

use std::io::{self, Read};

use proptest::prelude::*;
use tar::EntryType;

use super::testing::{Tar, gzip, run, run_into, run_with, tar, zstd};
use super::{Damage, Exceeded, Layer, Limits, Refusal, UnpackError, unpack};

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

/// What `layers` are refused with, and its metric label.
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

// Folders and paths

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
            UnpackError::Label {
                refusal: Refusal::ParentComponent,
                ..
            }
        ));
        assert_eq!(error.reason(), "hostile");
    }
    let error = listed(&[base()], &"x".repeat(301)).unwrap_err();
    assert!(matches!(
        error,
        UnpackError::Label {
            refusal: Refusal::TooLong(300),
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

// Layers

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
    // What it hides may be a symlink that its own layer has something below.
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
fn a_filtered_catalog_hides_the_whole_one() {
    // oc-mirror: the catalog's own layers, a whiteout of the folder, and the
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
            &format!("layer layer-0, path {name:?}: the whiteout names nothing that it could hide"),
        );
    }
    check_refused(
        &[tar().file("configs/.wh.a/b", "")],
        "layer layer-0, path \"configs/.wh.a/b\": the whiteout names nothing that it could hide",
    );
}

// Links

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
        ("missing", "the symlink's target \"missing\" is not there"),
        ("a/b", "the symlink's target \"a/b\" is not there"),
        (
            "",
            "the symlink's target \"\" is a folder; only symlinks to files are read",
        ),
        (
            "b",
            "the symlink's target \"b\" is a folder; only symlinks to files are read",
        ),
        (
            ".",
            "the symlink's target \".\" is a folder; only symlinks to files are read",
        ),
        (
            "../etc/x",
            "the symlink's target \"../etc/x\" is outside the catalog folder",
        ),
        (
            "../../../etc/x",
            "the symlink's target \"../../../etc/x\" is outside the catalog folder",
        ),
        (
            "/etc/x",
            "the symlink's target \"/etc/x\" is outside the catalog folder",
        ),
        (
            "/",
            "the symlink's target \"/\" is outside the catalog folder",
        ),
        (
            "..",
            "the symlink's target \"..\" is outside the catalog folder",
        ),
        ("l", "the symlink to \"l\" leads through too many symlinks"),
        ("x/../a", "the symlink's target \"x/../a\" is not there"),
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
        .file("var/catalog/a", "1")
        .file("var/catalog/b/c", "2")
        .file("var/x", "3");
    for layers in [
        vec![stored.clone().symlink("configs", "var/catalog")],
        vec![stored.clone().symlink("configs", "/var/catalog/")],
        vec![stored.clone().symlink("configs", "../../var/./catalog")],
        vec![
            tar()
                .symlink("configs", "data/catalog")
                .symlink("data", "var"),
            stored.clone(),
        ],
        vec![
            tar()
                .symlink("configs", "one")
                .symlink("one", "/two/catalog"),
            tar().symlink("two", "three").symlink("three", "./var"),
            stored.clone(),
        ],
    ] {
        check(&layers, "a=1 b/c=2");
    }
    let above = [stored.clone().symlink("srv", "var")];
    check_folder(&above, "srv/catalog", "a=1 b/c=2");
    check_folder(&above, "srv/x", "x=3");
    check_folder(
        &[stored.clone().symlink("var/up", "..")],
        "var/up/var/catalog",
        "a=1 b/c=2",
    );
    check_folder(&[tar().file("v/a", "1").symlink("v/c", ".")], "v/a", "a=1");
    // A link inside, seen from both names.
    let inside = stored.clone().symlink("configs", "var/catalog");
    check(
        &[inside.symlink("var/catalog/l", "/configs/b/c")],
        "a=1 b/c=2 l=2",
    );
    // The link was replaced by a folder of its own.
    check(
        &[
            stored.symlink("configs", "var/catalog"),
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
            "the hardlink's target \"etc/passwd\" is outside the catalog folder",
        ),
        (
            "configs/../etc",
            "the hardlink's target \"configs/../etc\" is outside the catalog folder",
        ),
        (
            "a",
            "the hardlink's target \"a\" is outside the catalog folder",
        ),
        (
            "configs/x",
            "the hardlink's target \"configs/x\" is not there",
        ),
        (
            "configs/l",
            "the hardlink's target \"configs/l\" is not there",
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

// Hostile entries

#[test]
fn special_files_are_refused_under_the_folder_only() {
    for (entry_type, name) in [
        (EntryType::Fifo, "a fifo"),
        (EntryType::Char, "a character device"),
        (EntryType::Block, "a block device"),
        (EntryType::new(b'V'), "an entry of an unknown type"),
    ] {
        check_refused(
            &[base().entry(entry_type, b"configs/x", b"", b"")],
            &format!(
                "layer layer-0, path \"configs/x\": {name} is neither a file, a folder nor a link"
            ),
        );
        check(&[base().entry(entry_type, b"dev/x", b"", b"")], "a=1 b/c=2");
    }
    let pax = [
        ("GNU.sparse.major", &b"2"[..]),
        ("GNU.sparse.name", b"configs/real"),
    ];
    check_refused(
        &[base().pax(&pax).file("configs/x", "data")],
        "layer layer-0, path \"configs/x\": a sparse file of this format is not read; \
         the old GNU format, 0.0, 0.1 and 1.0 are",
    );
    check(
        &[
            tar().entry(EntryType::GNUSparse, b"log", b"", b"data"),
            base(),
        ],
        "a=1 b/c=2",
    );
}

#[test]
fn paths_that_climb_are_refused_everywhere() {
    for path in [
        "../x",
        "configs/../../x",
        "etc/..",
        "/..",
        "a/../configs/x",
        "../.wh.x",
    ] {
        check_refused(
            &[base().file(path, "")],
            &format!("layer layer-0, path {path:?}: the path has a \"..\" component"),
        );
    }
    check(
        &[base().file("configs/..x", "3").file("x..", "")],
        "..x=3 a=1 b/c=2",
    );
}

#[test]
fn paths_that_are_no_text_are_refused_under_the_folder() {
    for (path, expected) in [
        (
            &b"configs/\xff"[..],
            "path \"configs/\u{fffd}\": the path is not UTF-8",
        ),
        (
            b"configs/.wh.\xff",
            "path \"configs/.wh.\u{fffd}\": the path is not UTF-8",
        ),
        (b"", "path \"\": the root of the image is not a folder"),
        (b"./", "path \"./\": the root of the image is not a folder"),
    ] {
        check_refused(
            &[base().entry(EntryType::Regular, path, b"", b"")],
            &format!("layer layer-0, {expected}"),
        );
    }
    check(
        &[base().entry(EntryType::Regular, b"etc/\xff", b"", b"")],
        "a=1 b/c=2",
    );
    check(&[tar().folder("./").folder("/"), base()], "a=1 b/c=2");
    let zero = base().pax(&[("path", b"configs/a\0b")]).file("x", "");
    check_refused(
        &[zero],
        "layer layer-0, path \"configs/a\\0b\": the path has a zero byte",
    );
    let zero = base()
        .pax(&[("linkpath", b"b\0c")])
        .symlink("configs/l", "x");
    check_refused(
        &[zero],
        "layer layer-0, path \"configs/l\": the path has a zero byte",
    );
}

// Formats

#[test]
fn long_names_come_in_two_dialects() {
    let name = format!("{}/{}", "d".repeat(120), "n".repeat(120));
    let path = format!("configs/{name}");
    let expected = format!("a=1 b/c=2 {name}=3");
    let gnu = tar().entry(
        EntryType::GNULongName,
        b"././@LongLink",
        b"",
        format!("{path}\0").as_bytes(),
    );
    check(&[base(), gnu.clone().file("configs/cut", "3")], &expected);
    check(
        &[
            base(),
            tar()
                .pax(&[("path", path.as_bytes())])
                .file("configs/cut", "3"),
        ],
        &expected,
    );
    // The GNU name goes before the PAX path, in any order.
    check(
        &[base(), gnu.pax(&[("path", b"configs/x")]).file("y", "3")],
        &expected,
    );

    let link = tar().entry(
        EntryType::GNULongLink,
        b"././@LongLink",
        b"",
        b"configs/a\0",
    );
    check(
        &[base(), link.hardlink("configs/l", "cut")],
        "a=1 b/c=2 l=1",
    );
    check(
        &[
            base(),
            tar().pax(&[("linkpath", b"a")]).symlink("configs/l", "cut"),
        ],
        "a=1 b/c=2 l=1",
    );
    // Said of one entry, not of those after it.
    check(
        &[tar()
            .pax(&[("path", b"configs/x")])
            .file("y", "3")
            .file("configs/z", "4")],
        "x=3 z=4",
    );
    // An empty value unsets; global headers say nothing of paths.
    check(
        &[tar()
            .pax(&[("path", b"etc/x"), ("path", b"")])
            .file("configs/z", "4")],
        "z=4",
    );
    let global = tar().entry(
        EntryType::XGlobalHeader,
        b"pax",
        b"",
        b"19 path=configs/no\n",
    );
    check(&[global.file("configs/z", "4")], "z=4");
}

#[test]
fn a_value_that_looks_like_a_record_is_none() {
    let value = b"\n17 path=etc/evil\n";
    let layer = tar().pax(&[("SCHILY.xattr.user.x", value), ("mtime", b"1.5")]);
    check(&[layer.file("configs/z", "4")], "z=4");
}

#[test]
fn sizes_are_read_as_the_peers_read_them() {
    // A PAX size replaces the header's.
    let mut header = tar::Header::new_ustar();
    header.set_path("configs/a").unwrap();
    header.set_size(0);
    header.set_cksum();
    let layer = tar()
        .pax(&[("size", b"3")])
        .raw(header.as_bytes())
        .raw(b"xyz");
    check(&[layer.file("configs/b", "2")], "a=xyz b=2");
    // Links have no contents, whatever their size says.
    header.set_path("configs/l").unwrap();
    header.set_entry_type(EntryType::Symlink);
    header.set_link_name("a").unwrap();
    header.set_size(512);
    header.set_cksum();
    check(
        &[base().raw(header.as_bytes()).file("configs/z", "2")],
        "a=1 b/c=2 l=1 z=2",
    );
    // Folders from before they had a type.
    let layer = tar().entry(EntryType::new(0), b"configs/", b"", b"");
    check(&[layer.file("configs/z", "2")], "z=2");
}

#[test]
fn compressions_are_told_by_their_first_bytes() {
    let plain = base().end();
    let (head, tail) = plain.split_at(700);
    let skippable = [
        &[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..],
        &zstd(&plain),
    ]
    .concat();
    for bytes in [
        plain.clone(),
        gzip(&plain),
        [gzip(head), gzip(tail)].concat(),
        [gzip(b""), gzip(&plain), gzip(b"")].concat(),
        zstd(&plain),
        [zstd(head), zstd(tail)].concat(),
        skippable,
    ] {
        let files = run(&[bytes], "/configs").unwrap();
        assert_eq!(files.len(), 2);
    }
    assert_eq!(
        run(&[gzip(&tar().end()), plain], "/configs").unwrap().len(),
        2
    );
    for (bytes, name) in [(&b"BZh91AY&SY...."[..], "bzip2"), (b"\xfd7zXZ\0...", "xz")] {
        let error = run(&[bytes.to_vec()], "/configs").unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "layer layer-0 is compressed with {name}; only gzip, zstd and plain tar are read"
            )
        );
        assert_eq!(error.reason(), "unsupported");
    }
}

#[test]
fn damaged_archives_name_their_layer() {
    let good = base().end();
    let mut checksum = good.clone();
    checksum[1536] ^= 1;
    let mut size = tar::Header::new_gnu();
    size.as_old_mut().size = *b"zzzzzzzzzzzz";
    size.set_cksum();
    let mut huge = tar::Header::new_gnu();
    huge.set_size(u64::MAX);
    huge.set_cksum();
    let mut wrong_sum = gzip(&good);
    let end = wrong_sum.len() - 6;
    wrong_sum[end] ^= 1;
    let long = tar().entry(
        EntryType::GNULongName,
        b"l",
        b"",
        &vec![b'a'; (1 << 20) + 1],
    );
    let pax = |contents: &[u8]| {
        tar()
            .entry(EntryType::XHeader, b"x", b"", contents)
            .file("a", "")
    };
    for (bytes, expected) in [
        (good[..600].to_vec(), "cut inside a header"),
        (good[..1024 + 512 + 100].to_vec(), "cut inside a header"),
        (
            tar().file("configs/a", "1").cut()[..512].to_vec(),
            "cut inside a file",
        ),
        (
            tar().file("configs/a", "1").cut()[..600].to_vec(),
            "cut inside a file",
        ),
        (
            tar().file("etc/a", "1").cut()[..600].to_vec(),
            "cut inside a file",
        ),
        (checksum, "checksum"),
        (size.as_bytes().to_vec(), "size in a header"),
        (huge.as_bytes().to_vec(), "size in a header"),
        ([good.clone(), b"x".to_vec()].concat(), "after the end"),
        ([good.clone(), good.clone()].concat(), "after the end"),
        (
            b"{\"schema\": \"olm.package\"}".to_vec(),
            "cut inside a header",
        ),
        (vec![b'x'; 2000], "checksum"),
        (gzip(&good)[..100].to_vec(), "compressed bytes"),
        (
            gzip(&good)[..gzip(&good).len() - 1].to_vec(),
            "compressed bytes",
        ),
        (wrong_sum, "compressed bytes"),
        (
            [gzip(&good), b"garbage after it".to_vec()].concat(),
            "compressed bytes",
        ),
        (
            zstd(&good)[..zstd(&good).len() - 1].to_vec(),
            "compressed bytes",
        ),
        (
            [zstd(&good), b"garbage".to_vec()].concat(),
            "compressed bytes",
        ),
        (tar().pax(&[("path", b"x")]).end(), "announces an entry"),
        (tar().pax(&[("path", b"x")]).cut(), "announces an entry"),
        (long.file("a", "").end(), "longer than 1048576"),
        (pax(b"no records").end(), "extended header is not valid"),
        (pax(b"99 path=a\n").end(), "extended header is not valid"),
        (pax(b"0 path=a\n").end(), "extended header is not valid"),
        (pax(b"9 path=ab").end(), "extended header is not valid"),
        (
            pax(b"18446744073709551616 path=a\n").end(),
            "extended header is not valid",
        ),
        (
            tar().pax(&[("size", b"-1")]).file("a", "").end(),
            "size in a header",
        ),
    ] {
        // The layer below is fine.
        let error = run(&[base().end(), bytes], "/configs").unwrap_err();
        assert!(
            error.to_string().contains(expected),
            "{error} is not {expected}"
        );
        assert!(
            error
                .to_string()
                .starts_with("layer layer-1 is damaged after"),
            "{error}"
        );
        assert_eq!(error.reason(), "damaged");
    }
}

#[test]
fn an_archive_without_an_end_marker_is_read() {
    assert_eq!(run(&[base().cut()], "/configs").unwrap().len(), 2);
    let padded = [base().end(), vec![0; 10_240]].concat();
    assert_eq!(run(&[padded], "/configs").unwrap().len(), 2);
    assert_eq!(
        run(&[Vec::new(), base().end()], "/configs").unwrap().len(),
        2
    );
}

// Limits

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

#[test]
fn each_limit_stops_the_layer_that_passes_it() {
    let limits = Limits::for_testing();
    let zeros = |count: usize| "\0".repeat(count);
    // A bomb outside the folder, one inside, one in front of the archive's end.
    let outside = gzip(&tar().file("etc/bomb", &zeros(5 << 20)).end());
    check_limit(
        &[base().end(), outside],
        &limits,
        "etc/bomb",
        Exceeded::Bytes(4 << 20),
    );
    let inside = zstd(&tar().file("configs/bomb", &zeros(2 << 20)).end());
    check_limit(
        &[inside],
        &limits,
        "configs/bomb",
        Exceeded::CatalogBytes(1 << 20),
    );
    let trailer = gzip(&[base().end(), vec![0; 5 << 20]].concat());
    check_limit(&[trailer], &limits, "configs/b/c", Exceeded::Bytes(4 << 20));
    // Added up over layers, hidden files too.
    let part = tar()
        .file("configs/.wh.a", "")
        .file("configs/a", &zeros(600 << 10))
        .end();
    check_limit(
        &[part.clone(), part],
        &limits,
        "configs/a",
        Exceeded::CatalogBytes(1 << 20),
    );

    let many = (0..150)
        .fold(tar(), |layer, i| layer.file(&format!("etc/{i}"), ""))
        .end();
    check_limit(
        &[many.clone(), many],
        &limits,
        "etc/49",
        Exceeded::Entries(200),
    );
    let extensions = (0..201)
        .fold(tar(), |layer, _| layer.pax(&[("mtime", b"1")]))
        .end();
    check_limit(&[extensions], &limits, "", Exceeded::Entries(200));
    let many = (0..120)
        .fold(tar(), |layer, i| layer.file(&format!("configs/{i}"), ""))
        .end();
    check_limit(&[many], &limits, "configs/98", Exceeded::Files(100));
    let deep = "d/".repeat(120);
    let deep = tar()
        .pax(&[("path", format!("configs/{deep}").as_bytes())])
        .folder("x")
        .end();
    let path = format!("configs/{}", "d/".repeat(120));
    check_limit(&[deep], &limits, &path, Exceeded::Files(100));

    let long = "n".repeat(301);
    let name = tar().pax(&[("path", long.as_bytes())]).file("x", "").end();
    check_limit(
        &[name],
        &limits,
        &format!("{}…", "n".repeat(256)),
        Exceeded::Path(300),
    );
    let link = tar()
        .pax(&[("linkpath", long.as_bytes())])
        .symlink("configs/l", "x")
        .end();
    check_limit(&[link], &limits, "configs/l", Exceeded::Path(300));
}

#[test]
fn a_declared_size_is_refused_before_it_is_written() {
    let mut header = tar::Header::new_gnu();
    header.set_path("configs/huge").unwrap();
    header.set_size(1 << 60);
    header.set_cksum();
    let layer = tar().raw(header.as_bytes()).cut();
    check_limit(
        &[layer],
        &Limits::for_testing(),
        "configs/huge",
        Exceeded::CatalogBytes(1 << 20),
    );
}

#[test]
fn links_do_not_multiply_a_file_past_the_limit() {
    let big = tar().file("configs/a", &"x".repeat(400 << 10));
    let limits = Limits::for_testing();
    let links = big
        .clone()
        .hardlink("configs/b", "configs/a")
        .hardlink("configs/c", "configs/a");
    check_limit(
        &[links.end()],
        &limits,
        "configs/c",
        Exceeded::CatalogBytes(1 << 20),
    );
    let links = big.symlink("configs/b", "a").symlink("configs/c", "a");
    check_limit(
        &[links.end()],
        &limits,
        "configs/c",
        Exceeded::CatalogBytes(1 << 20),
    );
}

#[test]
fn following_symlinks_takes_bounded_time() {
    let limits = Limits {
        files: 10_000,
        entries: 10_000,
        path: 4096,
        ..Limits::default()
    };
    let long = format!("{}a", "./".repeat(2000));
    let mut layer = base();
    for i in 0..600 {
        layer = layer
            .pax(&[("linkpath", long.as_bytes())])
            .symlink(&format!("configs/l{i}"), "");
    }
    let error = run_with(&[layer.end()], "/configs", &limits).unwrap_err();
    assert!(
        matches!(
            error,
            UnpackError::Limit {
                exceeded: Exceeded::LinkSteps(_),
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn names_take_bounded_memory() {
    let limits = Limits {
        path: 1 << 20,
        ..Limits::default()
    };
    let long = "x".repeat(1 << 19);
    let layer = (0..200).fold(tar(), |layer, i| {
        layer
            .pax(&[("linkpath", long.as_bytes())])
            .symlink(&format!("configs/{i}"), "")
    });
    let error = run_with(&[layer.end()], "/configs", &limits).unwrap_err();
    assert!(
        matches!(
            error,
            UnpackError::Limit {
                exceeded: Exceeded::Names(_),
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn limits_are_written_in_part_and_without_unknown_keys() {
    let limits: Limits = serde_json::from_str(r#"{"entries": 7}"#).unwrap();
    assert_eq!(
        limits,
        Limits {
            entries: 7,
            ..Limits::default()
        }
    );
    assert!(serde_json::from_str::<Limits>(r#"{"entry": 7}"#).is_err());
}

// Readers

#[test]
fn a_failing_reader_is_not_taken_for_a_damaged_archive() {
    struct Failing(io::Cursor<Vec<u8>>);
    impl Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = buffer.len().min(7);
            match self.0.read(&mut buffer[..most])? {
                0 => Err(io::Error::other("digest does not match")),
                count => Ok(count),
            }
        }
    }
    for bytes in [
        base().end(),
        gzip(&base().end()),
        zstd(&base().end()),
        Vec::new(),
    ] {
        let open = |_| {
            let reader = Failing(io::Cursor::new(bytes.clone()));
            Ok(Layer {
                name: "sha256:x".into(),
                reader,
            })
        };
        let mut spool = tempfile::tempfile().unwrap();
        let error = unpack(0..1, open, "/configs", &Limits::default(), &mut spool).unwrap_err();
        assert!(matches!(error, UnpackError::Read { .. }), "{error}");
        assert_eq!(error.reason(), "io");
    }
    let closed = |_| Err::<Layer<io::Empty>, _>(io::Error::other("gone"));
    let mut spool = tempfile::tempfile().unwrap();
    let error = unpack(0..1, closed, "/configs", &Limits::default(), &mut spool).unwrap_err();
    assert!(matches!(error, UnpackError::Open { index: 0, .. }));
}

#[test]
fn the_spool_holds_only_what_is_in_the_folder() {
    let mut spool = tempfile::tempfile().unwrap();
    let layers = [base().file("etc/x", "xxxx").end()];
    for _ in 0..2 {
        let tree = run_into(&layers, "/configs", &Limits::default(), &mut spool).unwrap();
        assert_eq!(tree.files().len(), 2);
        assert_eq!(spool.metadata().unwrap().len(), 2);
    }
}

#[test]
fn contents_larger_than_every_buffer_come_out_whole() {
    let text: String = (0..200_000).map(|i| i.to_string()).collect();
    let layer = tar()
        .file("configs/a", "1")
        .file("configs/b", &text)
        .file("configs/c", "3");
    let files = run_with(&[gzip(&layer.end())], "/configs", &Limits::default()).unwrap();
    assert_eq!(files[1].1, text);
    assert_eq!(files[2], ("c".into(), "3".into()));
}

#[test]
fn damage_keeps_its_cause() {
    let error = run(&[gzip(&base().end())[..60].to_vec()], "/configs").unwrap_err();
    let UnpackError::Damaged {
        damage: Damage::Compressed(cause),
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(cause.kind(), io::ErrorKind::UnexpectedEof);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..3000), start in 0..4_usize) {
        let magic = [&[][..], &[0x1f, 0x8b, 8, 0], &[0x28, 0xb5, 0x2f, 0xfd], &[0x50, 0x2a, 0x4d, 0x18]];
        let _ = run(&[[magic[start], &bytes].concat()], "/configs");
    }

    #[test]
    fn no_changed_archive_makes_it_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        summed in any::<bool>(),
        folder in prop::sample::select(vec!["/configs", "", "configs/b", "configs/l"]),
    ) {
        let layer = base()
            .pax(&[("path", b"configs/p"), ("size", b"1")])
            .file("x", "1")
            .entry(EntryType::GNULongName, b"l", b"", b"configs/long\0")
            .file("y", "2")
            .symlink("configs/l", "b/c")
            .hardlink("configs/h", "configs/a")
            .file("configs/b/.wh..wh..opq", "")
            .entry(EntryType::GNUSparse, b"s", b"", b"");
        let mut bytes = layer.end();
        for (index, byte) in changes {
            let length = bytes.len();
            bytes[index.index(length)] = byte;
        }
        if summed {
            sum_up(&mut bytes);
        }
        let _ = run(&[base().end(), bytes], folder);
    }
}

/// Makes the checksums of changed headers right again, so that the changes are
/// looked at.
fn sum_up(bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(512) {
        if &block[257..262] == b"ustar" {
            let mut header = tar::Header::from_byte_slice(block).clone();
            header.set_cksum();
            block.copy_from_slice(header.as_bytes());
        }
    }
}

// Sparse files

/// A header of an old GNU sparse file with these parts.
fn old_sparse(path: &str, size: u64, parts: &[(u64, u64)], stored: &str) -> Tar {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(EntryType::GNUSparse);
    header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_size(stored.len() as u64);
    let octal =
        |number: u64| -> [u8; 12] { format!("{number:011o}\0").into_bytes().try_into().unwrap() };
    let gnu = header.as_gnu_mut().unwrap();
    gnu.realsize = octal(size);
    for (entry, (offset, length)) in gnu.sparse.iter_mut().zip(parts) {
        entry.offset = octal(*offset);
        entry.numbytes = octal(*length);
    }
    header.set_cksum();
    tar().raw(header.as_bytes()).raw(stored.as_bytes())
}

#[test]
fn holes_are_zeros() {
    let expected = "x=\0\0ab\0c\0\0\0";
    let parts = [(2, 2), (5, 1), (9, 0)];
    check(&[old_sparse("configs/x", 9, &parts, "abc")], expected);
    let records: [(&str, &[u8]); 3] = [
        ("GNU.sparse.size", b"9"),
        ("GNU.sparse.name", b"configs/x"),
        ("GNU.sparse.map", b"2,2,5,1"),
    ];
    check(&[tar().pax(&records).file("stand-in", "abc")], expected);
    // Larger than every buffer, and a hole alone.
    let size = 700_000;
    let files = run(
        &[old_sparse("configs/x", size, &[(size - 1, 1)], "!").end()],
        "/configs",
    );
    let contents = &files.unwrap()[0].1;
    assert_eq!(contents.len() as u64, size);
    assert!(contents.trim_start_matches('\0') == "!");
    check(&[old_sparse("configs/x", 3, &[], "")], "x=\0\0\0");
}

#[test]
fn maps_that_do_not_fit_are_refused() {
    for (size, parts) in [
        (9, &[(2, 2)][..]),
        (9, &[(2, 4)]),
        (4, &[(2, 3)]),
        (9, &[(5, 1), (2, 2)]),
        (9, &[(2, 2), (3, 1)]),
        (9, &[(u64::from(u32::MAX), 3)]),
        (9, &[]),
    ] {
        let layer = old_sparse("configs/x", size, parts, "abc");
        assert_eq!(
            listed(&[layer], "/configs").unwrap_err().to_string(),
            "layer layer-0 is damaged after \"configs/x\": the map of a sparse file is not valid"
        );
        // Nobody wants to know what is beside the folder.
        check(
            &[old_sparse("log", size, parts, "abc"), base()],
            "a=1 b/c=2",
        );
    }
    for map in [&b"1"[..], b"a,b", b"-1,3", b",", b"99999999999999999999,3"] {
        let records: [(&str, &[u8]); 2] = [("GNU.sparse.size", b"9"), ("GNU.sparse.map", map)];
        let layers = [tar().pax(&records).file("configs/x", "abc").end()];
        assert_eq!(run(&layers, "/configs").unwrap_err().reason(), "damaged");
    }
}

#[test]
fn a_hole_counts_as_what_it_is_read_as() {
    let limit = Limits::for_testing().catalog_bytes;
    let layer = old_sparse("configs/x", limit + 1, &[], "").end();
    check_limit(
        &[layer],
        &Limits::for_testing(),
        "configs/x",
        Exceeded::CatalogBytes(limit),
    );
}
