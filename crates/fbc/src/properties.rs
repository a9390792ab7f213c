//! The properties of a bundle, and the values of some of their types.

use crate::text::json::cursor::Cursor;
use crate::text::json::typed::{Text, fields, or_default};

/// The value of an `olm.package` property.
#[derive(Default)]
pub(crate) struct PackageProperty<'a> {
    pub(crate) package_name: Text<'a>,
    pub(crate) version: Text<'a>,
    pub(crate) release: Text<'a>,
}

fields!(PackageProperty<'a> {
    package_name = "packageName",
    version = "version",
    release = "release",
});

/// The value of an `olm.package.required` property.
#[derive(Default)]
pub(crate) struct PackageRequired<'a> {
    pub(crate) package_name: Text<'a>,
    pub(crate) version_range: Text<'a>,
}

fields!(PackageRequired<'a> {
    package_name = "packageName",
    version_range = "versionRange",
});

/// The value of an `olm.bundle.object` property.
#[derive(Default)]
pub(crate) struct BundleObject<'a> {
    pub(crate) data: Text<'a>,
    pub(crate) reference: Text<'a>,
}

fields!(BundleObject<'a> { data = "data", reference = "ref" });

/// Goes through the properties of a bundle. `take` gets the type of each, and
/// the cursor before its value, which it may move over the value.
pub(crate) fn each_property<'a>(line: &'a [u8], mut take: impl FnMut(&str, &mut Cursor<'a>)) {
    Cursor::new(line).each_member(|key, cursor| {
        if !key.eq_ignore_ascii_case("properties") || !cursor.enter_array() {
            return;
        }
        while cursor.next_element() {
            let before = cursor.position();
            let mut kind = String::new();
            // A value that comes before its type, because of its case.
            let mut waiting = None;
            cursor.each_member(|key, cursor| {
                if key.eq_ignore_ascii_case("type") {
                    kind = or_default(cursor);
                } else if key.eq_ignore_ascii_case("value") {
                    if kind.is_empty() {
                        waiting = Some(cursor.skip());
                    } else {
                        take(&kind, cursor);
                    }
                }
            });
            if let Some(value) = waiting {
                take(&kind, &mut Cursor::new(value));
            }
            // Only text that is not canonical has an empty value; move on in any case.
            if cursor.position() == before {
                cursor.step();
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_come_with_type_and_value_in_any_case() {
        let line = br#"{"Properties":[1,null,{"type":1,"value":2},{"Value":3,"type":"a"},{"type":"b","value":{"x":4}},{"type":"c"}],"name":"n"}"#;
        let mut found = Vec::new();
        each_property(line, |kind, cursor| {
            let value = String::from_utf8(cursor.skip().to_vec()).unwrap();
            found.push((kind.to_owned(), value));
        });
        let pair = |kind: &str, value: &str| (kind.to_owned(), value.to_owned());
        assert_eq!(
            found,
            [pair("", "2"), pair("a", "3"), pair("b", r#"{"x":4}"#)]
        );
        each_property(b"{\"properties\":[{", |_, _| panic!("there is no property"));
    }
}
