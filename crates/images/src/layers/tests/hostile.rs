//! Entries that no honest image has.

use tar::EntryType;

use crate::layers::testing::tar;
use crate::layers::tests::{base, check, check_refused};

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
        "layer layer-0, path \"configs/x\": this format of sparse files is not supported; \
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
