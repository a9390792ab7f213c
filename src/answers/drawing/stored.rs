//! The blobs of a drawing from the stored channels of a package, for drawings of what
//! is served.

use crate::answers::rest::records::ChannelRecord;
use fbc::document::{
    Blobs, ChannelBlob, DeprecationBlob, DeprecationsBlob, EntryBlob, Located, PackageBlob,
};

/// The blobs of a package, as far as a drawing needs them.
pub fn blobs(package: &str, deprecation: Option<&str>, channels: &[ChannelRecord<'_>]) -> Blobs {
    let default = channels.iter().find(|channel| channel.default);
    let mut deprecations = Vec::new();
    let mut deprecate = |schema: &str, name: &str, message: Option<&str>| {
        deprecations.extend(message.map(|message| DeprecationBlob {
            schema: schema.to_owned(),
            name: name.to_owned(),
            message: message.to_owned(),
        }));
    };
    deprecate("olm.package", "", deprecation);
    for channel in channels {
        deprecate("olm.channel", &channel.name, channel.deprecation.as_deref());
        for entry in &channel.entries {
            deprecate("olm.bundle", &entry.name, entry.deprecation.as_deref());
        }
    }
    let channels = channels.iter().map(|channel| {
        let entries = channel.entries.iter().map(|entry| EntryBlob {
            name: entry.name.clone().into_owned(),
            replaces: entry.replaces.clone().into_owned(),
            skips: entry
                .skips
                .iter()
                .map(|skip| skip.clone().into_owned())
                .collect(),
            skip_range: entry.skip_range.clone().into_owned(),
        });
        located(ChannelBlob {
            name: channel.name.clone().into_owned(),
            package: package.to_owned(),
            entries: entries.collect(),
            defects: Vec::new(),
        })
    });
    Blobs {
        channels: channels.collect(),
        packages: vec![located(PackageBlob {
            name: package.to_owned(),
            default_channel: default.map_or_else(String::new, |channel| channel.name.to_string()),
            defects: Vec::new(),
        })],
        deprecations: vec![located(DeprecationsBlob {
            package: package.to_owned(),
            entries: deprecations,
            defects: Vec::new(),
        })],
        ..Blobs::default()
    }
}

fn located<T>(blob: T) -> Located<T> {
    Located {
        blob,
        meta: 0,
        file: 0,
        document: 1,
        line: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::drawing::Drawing;
    use crate::answers::rest::records::EntryRecord;

    #[test]
    fn a_stored_channel_is_drawn_as_its_blobs_are() {
        let channel = ChannelRecord {
            name: "stable".into(),
            default: true,
            entries: vec![
                EntryRecord {
                    name: "a.v2".into(),
                    replaces: "a.v1".into(),
                    ..EntryRecord::default()
                },
                EntryRecord {
                    name: "a.v1".into(),
                    deprecation: Some("old".into()),
                    ..EntryRecord::default()
                },
            ],
            ..ChannelRecord::default()
        };
        let blobs = blobs("a", Some("gone"), &[channel]);
        let text = Drawing::new(&blobs, "a", None).unwrap().mermaid();
        for part in ["a (deprecated): stable (default)", "a.v2", "deprecated"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
