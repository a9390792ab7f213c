//! A package as its line shows it.

use std::borrow::Cow;

use crate::text::json::cursor::Cursor;
use crate::text::json::typed::{Text, or_default};

/// A package, read from its canonical line.
#[derive(Debug, Default)]
pub struct PackageView<'a> {
    /// Its description, or empty.
    pub description: String,
    /// Its icon in base64, and a media type that is safe to send.
    pub icon: Option<(Cow<'a, str>, String)>,
}

impl<'a> PackageView<'a> {
    /// Reads the canonical line of a package.
    pub fn of(line: &'a [u8]) -> Self {
        let mut view = Self::default();
        Cursor::new(line).each_member(|key, value| {
            if key.eq_ignore_ascii_case("description") {
                view.description = or_default(value);
            } else if key.eq_ignore_ascii_case("icon") {
                let mut data = Cow::Borrowed("");
                let mut media_type = String::new();
                value.each_member(|key, value| {
                    if key.eq_ignore_ascii_case("base64data") {
                        data = or_default::<Text<'_>>(value).0;
                    } else if key.eq_ignore_ascii_case("mediatype") {
                        media_type = or_default(value);
                    }
                });
                let media_type = safe_type(&media_type).to_owned();
                view.icon = (!data.is_empty()).then_some((data, media_type));
            }
        });
        view
    }
}

/// The media type of an icon. Anything that is not an image becomes a type that
/// browsers do not interpret.
pub(super) fn safe_type(media_type: &str) -> &str {
    let name = media_type.strip_prefix("image/").unwrap_or("");
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    if (1..=100).contains(&name.len()) && name.bytes().all(good) {
        media_type
    } else {
        "application/octet-stream"
    }
}
