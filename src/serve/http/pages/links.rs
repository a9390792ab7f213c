//! The addresses of pages. Every name is escaped as a whole.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::answers::rest::records::percent_encoded;
use crate::store::MAX_WORDS;
use ::images::digest::Digest;

/// A catalog, or a page below it.
pub(super) fn catalog(catalog: &str, below: &str) -> String {
    format!("/catalogs/{}{below}", percent_encoded(catalog))
}

/// A package in a catalog.
pub(super) fn package(catalog: &str, package: &str) -> String {
    format!(
        "/catalogs/{}/packages/{}",
        percent_encoded(catalog),
        percent_encoded(package)
    )
}

/// A page of a package.
pub(super) fn tab(catalog: &str, name: &str, tab: &str) -> String {
    let package = package(catalog, name);
    match tab {
        "" => package,
        tab => format!("{package}/{tab}"),
    }
}

/// A version of a package.
pub(super) fn bundle(catalog: &str, name: &str, bundle: &str) -> String {
    let package = package(catalog, name);
    format!("{package}/bundles/{}", percent_encoded(bundle))
}

/// A package in all catalogs.
pub(super) fn across(package: &str) -> String {
    format!("/packages/{}", percent_encoded(package))
}

/// A kind with its providers.
pub(super) fn kind(group: &str, kind: &str) -> String {
    // A segment of a path cannot be empty.
    let group = if group.is_empty() { "core" } else { group };
    format!("/apis/{}/{}", percent_encoded(group), percent_encoded(kind))
}

/// An icon, by the digest of its bytes.
pub(super) fn icon(catalog: &str, digest: &Digest) -> String {
    format!(
        "/catalogs/{}/icons/{}",
        percent_encoded(catalog),
        digest.hex()
    )
}

/// A mirror plan with one package.
pub(super) fn plan(catalog: &str, package: &str) -> String {
    with("/mirror", &[("pick", &pick(catalog, package))])
}

/// A package in the basket of a mirror plan.
pub(super) fn pick(catalog: &str, package: &str) -> String {
    format!("{catalog}/{package}")
}

/// A path with parameters. Empty values are left out.
pub(super) fn with(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut link = path.to_owned();
    let mut sign = '?';
    for (key, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
        link.push(sign);
        link.push_str(key);
        link.push('=');
        link.push_str(&percent_encoded(value));
        sign = '&';
    }
    link
}

/// The segments of a path without their escapes; `None` if one of them is no text.
pub(super) fn segments(path: &str) -> Option<Vec<Cow<'_, str>>> {
    let segments = path.split('/').skip(1);
    let texts = segments.map(|segment| percent_decode_str(segment).decode_utf8().ok());
    texts.collect()
}

/// The search for a word of a catalog; `None` if a search would refuse it: too long, or
/// without a letter or digit.
pub(super) fn search(parameter: &str, text: &str) -> Option<String> {
    let good = text.len() <= 200 && text.chars().any(char::is_alphanumeric);
    let words = text.split(|sign: char| !sign.is_alphanumeric());
    let few = words.filter(|word| !word.is_empty()).count() <= MAX_WORDS;
    (good && few).then(|| with("/search", &[(parameter, text)]))
}

/// The address of a link in a catalog, if a browser may be sent there: `http`, `https`
/// or `mailto` only, without control characters.
pub(super) fn outward(address: &str) -> Option<&str> {
    let address = address.trim();
    let scheme = address.split_once(':')?.0.to_ascii_lowercase();
    let rest = &address[scheme.len() + 1..];
    let good = match scheme.as_str() {
        "http" | "https" => rest.starts_with("//") && rest.len() > 2,
        "mailto" => !rest.is_empty(),
        _ => false,
    };
    let clean = !address
        .chars()
        .any(|sign| sign.is_control() || sign.is_whitespace());
    (good && clean && address.len() <= 2_000).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_and_mail_addresses_lead_outward() {
        for good in [
            "https://a.example/b",
            "HTTP://a",
            " https://a ",
            "mailto:a@b",
        ] {
            assert_eq!(outward(good), Some(good.trim()), "{good}");
        }
        for bad in [
            "javascript:alert(1)",
            "java\nscript:alert(1)",
            "data:text/html,x",
            "//a.example",
            "/a",
            "a",
            "https:a",
            "https://",
            "https://a b",
            "https://a\u{0}",
            "mailto:",
            "",
        ] {
            assert_eq!(outward(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_word_that_a_search_would_refuse_is_no_link() {
        assert_eq!(search("q", "a b").as_deref(), Some("/search?q=a%20b"));
        for bad in ["", "!?", &"a".repeat(201), &"a ".repeat(31)] {
            assert_eq!(search("q", bad), None, "{bad}");
        }
    }

    #[test]
    fn a_segment_of_a_path_keeps_its_plus() {
        let segments = segments("/bundles/a.v1.0.0+b%2Fc").unwrap();
        assert_eq!(segments, ["bundles", "a.v1.0.0+b/c"]);
        assert_eq!(super::segments("/%ff"), None);
    }

    #[test]
    fn names_stay_one_segment() {
        assert_eq!(
            bundle("a", "b/c", "d?e"),
            "/catalogs/a/packages/b%2Fc/bundles/d%3Fe"
        );
        assert_eq!(
            with("/a", &[("b", ""), ("c", "d&e"), ("f", "g")]),
            "/a?c=d%26e&f=g"
        );
    }
}
