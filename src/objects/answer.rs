//! The documents that a store sends. Only the texts of some elements are read.

use std::borrow::Cow;

use crate::objects::error::ObjectProblem;
use fbc::text::display::clip;

/// The longest message of a store that is shown, in bytes.
const MAX_SHOWN: usize = 300;

/// One page of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) keys: Vec<String>,
    /// Asks for the next page.
    pub(super) next: Option<String>,
}

/// Reads the answer to `ListObjectsV2`.
pub(super) fn page(document: &str) -> Result<Page, ObjectProblem> {
    if !document.contains("<ListBucketResult") {
        return Err(ObjectProblem::Unreadable("it is no list of objects"));
    }
    let mut keys = Vec::new();
    let mut rest = document;
    while let Some((contents, after)) = element(rest, "Contents") {
        let Some((key, _)) = element(contents, "Key") else {
            return Err(ObjectProblem::Unreadable("an object without a key"));
        };
        keys.push(plain(key).into_owned());
        rest = after;
    }
    let text = |name| element(document, name).map(|(text, _)| plain(text).into_owned());
    // Some stores send an empty token with the last page.
    let is_last = text("IsTruncated").is_some_and(|text| text.trim() == "false");
    let next = text("NextContinuationToken").filter(|token| !is_last && !token.is_empty());
    Ok(Page { keys, next })
}

/// The refusal that an error document tells of.
pub(super) fn refusal(status: u16, document: &str) -> ObjectProblem {
    let (code, message) = reason(document);
    ObjectProblem::Refused {
        status,
        code,
        message,
    }
}

/// The code and the message of an error document; empty where it has none.
pub(super) fn reason(document: &str) -> (String, String) {
    let text = |name| {
        let found = element(document, name).map(|(text, _)| plain(text));
        clip(&found.unwrap_or_default(), MAX_SHOWN)
    };
    (text("Code"), text("Message"))
}

/// The text of the first element of a name, and what follows it. The documents have
/// no attributes on the elements that are read.
pub(super) fn element<'a>(document: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let (_, rest) = document.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>"))
}

/// A text without its entities.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return text.into();
    }
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
    ];
    let text = entities
        .iter()
        .fold(text.to_owned(), |text, (entity, sign)| {
            text.replace(entity, sign)
        });
    text.replace("&amp;", "&").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_keys_and_tells_how_to_go_on() {
        let document = "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"a\"><Name>b</Name>\
            <NextContinuationToken>a&amp;b</NextContinuationToken><Contents><Key>x/1</Key>\
            </Contents><Contents><Key>x/2&lt;</Key><Size>1</Size></Contents></ListBucketResult>";
        let wanted = Page {
            keys: vec!["x/1".into(), "x/2<".into()],
            next: Some("a&b".into()),
        };
        assert_eq!(page(document).unwrap(), wanted);
        let last = document.replace("<Name>", "<IsTruncated>false</IsTruncated><Name>");
        assert_eq!(page(&last).unwrap().next, None);
        let empty = document.replace("a&amp;b", "");
        assert_eq!(page(&empty).unwrap().next, None);
        assert!(page("<html>").is_err());
        assert!(page("<ListBucketResult><Contents></Contents>").is_err());
    }

    #[test]
    fn a_refusal_is_told_as_the_store_tells_it() {
        let document =
            "<Error><Code>AccessDenied</Code><Message>No &quot;b&quot;</Message></Error>";
        let refused = refusal(403, document).to_string();
        let told = "the store answered 403 AccessDenied: No \"b\"; allow ";
        assert!(refused.starts_with(told), "{refused}");
        assert_eq!(refusal(500, "").to_string(), "the store answered 500");
    }
}
