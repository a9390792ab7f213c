//! What packages, channels and deprecations say.

use std::borrow::Cow;

use crate::csv;
use crate::csv::Icon;
use crate::document::{
    ChannelBlob, Defect, DeprecationBlob, DeprecationsBlob, EntryBlob, PackageBlob,
};
use crate::message::{Ends, Span};
use crate::object::Object;
use crate::problem::Code;
use crate::text::json::typed::{Text, fields};

pub(crate) fn read_package(
    object: &Object<'_>,
    name: &str,
    messages: &mut Vec<u8>,
) -> (PackageBlob, Ends) {
    let mut defects = Vec::new();
    let default_channel: Text<'_> = object.field("defaultChannel", &mut defects);
    let description: Text<'_> = object.field("description", &mut defects);
    let icon: Option<Icon<'_>> = object.field("icon", &mut defects);
    if let Some(icon) = &icon
        && !is_base64(&icon.base64data.0)
    {
        defects.push(Defect {
            code: Code::PackageIconInvalid,
            message: "has an icon whose \"base64data\" is not base64; encode the picture anew, or \
                      remove the icon"
                .into(),
        });
    }
    let start = messages.len();
    csv::put_end(messages, icon.as_ref(), None);
    let plain = Span::since(messages, start);
    let start = messages.len();
    csv::put_end(messages, icon.as_ref(), Some(&description.0));
    let described = Span::since(messages, start);
    let blob = PackageBlob {
        name: name.to_owned(),
        default_channel: default_channel.0.into_owned(),
        defects,
    };
    (blob, Ends { plain, described })
}

/// Whether a text is base64, as the peers decode it: line ends do not count.
pub fn is_base64(text: &str) -> bool {
    use base64::Engine as _;
    let lines = memchr::memchr2(b'\r', b'\n', text.as_bytes()).is_some();
    let text = if lines {
        Cow::Owned(text.replace(['\r', '\n'], ""))
    } else {
        Cow::Borrowed(text)
    };
    // What is decoded is not kept: only so much at once, all but the last
    // without padding.
    let mut decoded = [0; 3 * 1024];
    let end = text.len().saturating_sub(4);
    memchr::memchr(b'=', &text.as_bytes()[..end]).is_none()
        && text.as_bytes().chunks(4 * 1024).all(|chunk| {
            let engine = base64::engine::general_purpose::STANDARD;
            engine.decode_slice(chunk, &mut decoded).is_ok()
        })
}

pub(crate) fn read_channel(object: &Object<'_>, name: &str, package: &str) -> ChannelBlob {
    let mut defects = Vec::new();
    let entries: Vec<EntryBlob> = object.list("entries", &mut defects);
    ChannelBlob {
        name: name.to_owned(),
        package: package.to_owned(),
        entries,
        defects,
    }
}

#[derive(Default, PartialEq)]
struct DeprecationEntry {
    reference: DeprecationReference,
    message: String,
}

fields!(DeprecationEntry { reference = "reference", message = "message" });

#[derive(Default, PartialEq)]
struct DeprecationReference {
    schema: String,
    name: String,
}

fields!(DeprecationReference { schema = "schema", name = "name" });

pub(crate) fn read_deprecations(object: &Object<'_>, package: &str) -> DeprecationsBlob {
    let mut defects = Vec::new();
    let entries: Vec<DeprecationEntry> = object.list("entries", &mut defects);
    let entries = entries.into_iter().map(|entry| DeprecationBlob {
        schema: entry.reference.schema,
        name: entry.reference.name,
        message: entry.message,
    });
    DeprecationsBlob {
        package: package.to_owned(),
        entries: entries.collect(),
        defects,
    }
}
