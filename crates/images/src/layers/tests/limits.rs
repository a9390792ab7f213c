//! Where more is refused, and what odd input may cost.

use crate::layers::testing::{gzip, run_with, tar, zstd};
use crate::layers::tests::{base, check_limit};
use crate::layers::{Exceeded, Limits, UnpackError};

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
        Exceeded::FolderBytes(1 << 20),
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
        Exceeded::FolderBytes(1 << 20),
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
        Exceeded::FolderBytes(1 << 20),
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
        Exceeded::FolderBytes(1 << 20),
    );
    let links = big.symlink("configs/b", "a").symlink("configs/c", "a");
    check_limit(
        &[links.end()],
        &limits,
        "configs/c",
        Exceeded::FolderBytes(1 << 20),
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
