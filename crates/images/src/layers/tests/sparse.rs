//! Sparse files.

use tar::EntryType;

use crate::layers::testing::{Tar, run, tar};
use crate::layers::tests::{base, check, check_limit, listed};
use crate::layers::{Exceeded, Limits};

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
    let limit = Limits::for_testing().folder_bytes;
    let layer = old_sparse("configs/x", limit + 1, &[], "").end();
    check_limit(
        &[layer],
        &Limits::for_testing(),
        "configs/x",
        Exceeded::FolderBytes(limit),
    );
}
