//! Catalogs for the tests of drawings.

use fbc::document::{
    Blobs, ChannelBlob, DeprecationBlob, DeprecationsBlob, EntryBlob, Located, PackageBlob,
};

/// Package `etcd` for the tests of all forms.
pub(super) fn sample() -> Blobs {
    fn at<T>(blob: T) -> Located<T> {
        Located {
            blob,
            meta: 0,
            file: 0,
            document: 1,
            line: 1,
        }
    }
    let entry = |name: &str, replaces: &str, skips: &[&str], skip_range: &str| EntryBlob {
        name: name.into(),
        replaces: replaces.into(),
        skips: skips.iter().map(|skip| (*skip).to_owned()).collect(),
        skip_range: skip_range.into(),
    };
    let channel = |name: &str, entries: Vec<EntryBlob>| {
        at(ChannelBlob {
            name: name.into(),
            package: "etcd".into(),
            entries,
            defects: Vec::new(),
        })
    };
    let deprecation = |schema: &str, name: &str| DeprecationBlob {
        schema: schema.into(),
        name: name.into(),
        message: "Old.".into(),
    };
    Blobs {
        packages: vec![at(PackageBlob {
            name: "etcd".into(),
            default_channel: "stable".into(),
            defects: Vec::new(),
        })],
        channels: vec![
            channel("alpha", vec![entry("etcd.v2", "", &[], ">=1.0.0 <2.0.0")]),
            channel(
                "stable",
                vec![
                    entry("etcd.v1.0", "etcd.v0.9", &[], ""),
                    entry("etcd.v1.1", "etcd.v1.0", &["etcd.v1.0"], ""),
                    entry("etcd.v1.1-bad", "etcd.v1.0", &[], ""),
                    entry("etcd.v2", "etcd.v1.1", &["etcd.v1.0", "etcd.v1.1-bad"], ""),
                ],
            ),
        ],
        deprecations: vec![at(DeprecationsBlob {
            package: "etcd".into(),
            entries: vec![
                deprecation("olm.channel", "alpha"),
                deprecation("olm.bundle", "etcd.v1.0"),
            ],
            defects: Vec::new(),
        })],
        ..Blobs::default()
    }
}

/// The same with two heads, a cycle, and a deprecation of the package.
pub(super) fn broken_sample() -> Blobs {
    let mut blobs = sample();
    blobs.channels.remove(0);
    let entries = &mut blobs.channels[0].blob.entries;
    entries.truncate(2);
    entries[0].replaces = "etcd.v1.1".into();
    entries[1].skips.clear();
    for name in ["etcd.v3", "etcd.v4"] {
        let mut entry = entries[0].clone();
        entry.name = name.into();
        entry.replaces.clear();
        entries.push(entry);
    }
    let deprecations = &mut blobs.deprecations[0].blob.entries;
    deprecations[0].schema = "olm.package".into();
    deprecations[0].name.clear();
    blobs
}
