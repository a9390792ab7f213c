//! The dialects of tar, compressions, and damage to either.

use tar::EntryType;

use crate::layers::testing::{gzip, run, tar, zstd};
use crate::layers::tests::{base, check};

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
                "layer layer-0 is compressed with {name}; only gzip, zstd and plain tar are supported"
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
        (tar().pax(&[("path", b"x")]).end(), "without its entry"),
        (tar().pax(&[("path", b"x")]).cut(), "without its entry"),
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
