//! Packages, channels and deprecations: their fields, checked.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::document::{
    ChannelBlob, Defect, DeprecationBlob, DeprecationsBlob, EntryBlob, PackageBlob,
};
use crate::object::Object;
use crate::problem::Code;
use crate::text::json::typed::{Text, fields};
use crate::visit::{IconParts, PackageParts, Visitor};

#[derive(Default)]
struct Icon<'a> {
    base64data: Text<'a>,
    mediatype: Text<'a>,
}

fields!(Icon<'a> { base64data = "base64data", mediatype = "mediatype" });

pub(crate) fn read_package(
    object: &Object<'_>,
    name: &str,
    visitor: &mut impl Visitor,
) -> PackageBlob {
    let mut defects = Vec::new();
    let default_channel: Text<'_> = object.field("defaultChannel", &mut defects);
    let description: Text<'_> = object.field("description", &mut defects);
    let icon: Option<Icon<'_>> = object.field("icon", &mut defects);
    if let Some(icon) = &icon
        && !is_base64(&icon.base64data.0)
    {
        let message = "has an icon whose \"base64data\" is not base64; encode the picture anew, \
                       or remove the icon";
        defects.push(Defect::new(Code::PackageIconInvalid, message));
    }
    visitor.package(&PackageParts {
        name,
        description: &description.0,
        icon: icon.as_ref().map(|icon| IconParts {
            data: &icon.base64data.0,
            media_type: &icon.mediatype.0,
        }),
    });
    PackageBlob {
        name: name.to_owned(),
        default_channel: default_channel.0.into_owned(),
        defects,
    }
}

/// Whether a text is base64 to Go's decoder, which ignores line ends.
pub fn is_base64(text: &str) -> bool {
    let lines = memchr::memchr2(b'\r', b'\n', text.as_bytes()).is_some();
    let text = if lines {
        Cow::Owned(text.replace(['\r', '\n'], ""))
    } else {
        Cow::Borrowed(text)
    };
    // Decoding in small chunks needs no memory. Only the last has padding.
    let mut decoded = [0; 3 * 1024];
    let end = text.len().saturating_sub(4);
    memchr::memchr(b'=', &text.as_bytes()[..end]).is_none()
        && text
            .as_bytes()
            .chunks(4 * 1024)
            .all(|chunk| STANDARD.decode_slice(chunk, &mut decoded).is_ok())
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
pub(crate) struct DeprecationEntry {
    pub(crate) reference: DeprecationReference,
    message: String,
}

fields!(DeprecationEntry { reference = "reference", message = "message" });

#[derive(Default, PartialEq)]
pub(crate) struct DeprecationReference {
    pub(crate) schema: String,
    pub(crate) name: String,
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
