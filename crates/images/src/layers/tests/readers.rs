//! Where bytes come from and go to, and any bytes at all.

use std::io::{self, Read};

use proptest::prelude::*;
use tar::EntryType;

use crate::layers::testing::{gzip, run, run_into, run_with, tar, zstd};
use crate::layers::tests::base;
use crate::layers::{Damage, Layer, Limits, UnpackError, unpack};

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
        let files = run_into(&layers, "/configs", &Limits::default(), &mut spool).unwrap();
        assert_eq!(files.len(), 2);
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
