//! Lists in pages (distribution-spec): the response with a page names the next one in
//! its `Link` header (RFC 8288).

use bytes::Bytes;
use http::HeaderMap;
use http::header::LINK;
use reqwest::Url;

/// The longest header that is read, in bytes.
const MAX_LINK: usize = 8 << 10;

/// A page of a list.
pub(crate) struct Page {
    pub(crate) bytes: Bytes,
    /// The query of the next page.
    pub(crate) next: Option<String>,
}

/// The query of the page after the one at `url`. A link to another path is none: a
/// list stays at its path, and credentials at their registry.
pub(super) fn next_query(url: &Url, headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(LINK).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let mut targets = texts
        .filter(|text| text.len() <= MAX_LINK)
        .flat_map(targets);
    let next = url.join(targets.next()?).ok()?;
    let query = next.query().filter(|query| !query.is_empty())?;
    (next.path() == url.path()).then(|| query.to_owned())
}

/// The targets of the links to a next page: `<TARGET>; rel="next", …`.
fn targets(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, link)) = rest.split_once('<') {
        let Some((target, after)) = link.split_once('>') else {
            break;
        };
        let end = after.find('<').unwrap_or(after.len());
        let parameters = after[..end].trim_end().trim_end_matches(',').split(';');
        if parameters.into_iter().any(is_next) {
            found.push(target);
        }
        rest = &after[end..];
    }
    found
}

/// Whether a parameter of a link calls it the next page.
fn is_next(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else {
        return false;
    };
    let mut relations = value.trim().trim_matches('"').split_ascii_whitespace();
    name.trim().eq_ignore_ascii_case("rel")
        && relations.any(|relation| relation.eq_ignore_ascii_case("next"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(links: &[&str]) -> Option<String> {
        let url = Url::parse("https://quay.io/v2/a/referrers/sha256:0?n=1").unwrap();
        let mut headers = HeaderMap::new();
        for link in links {
            headers.append(LINK, link.parse().unwrap());
        }
        next_query(&url, &headers)
    }

    #[test]
    fn the_next_page_is_found_in_every_notation() {
        for link in [
            r#"</v2/a/referrers/sha256:0?last=b&n=1>; rel="next""#,
            "</v2/a/referrers/sha256:0?last=b&n=1>;rel=next",
            r#"<?last=b&n=1>; title="x"; REL="prev next""#,
            r#"<https://quay.io/v2/a/referrers/sha256:0?last=b&n=1>; rel="next""#,
            // As a registry behind a proxy names itself; it is asked where it was.
            r#"<http://10.0.0.1:5000/v2/a/referrers/sha256:0?last=b&n=1>; rel="next""#,
            r#"</v2/a?x>; rel="first", </v2/a/referrers/sha256:0?last=b&n=1>; rel="next""#,
        ] {
            assert_eq!(next(&[link]).as_deref(), Some("last=b&n=1"), "{link}");
        }
        let two = ["</x>; rel=first", "<?b>; rel=next"];
        assert_eq!(next(&two).as_deref(), Some("b"));
    }

    #[test]
    fn a_link_elsewhere_is_no_next_page() {
        for link in [
            "",
            "rel=next",
            "<?b",
            "<?b>",
            "<?b>; rel=last",
            "<?b>; rel",
            "</v2/a/referrers/sha256:0>; rel=next",
            "</v2/other/referrers/sha256:0?b>; rel=next",
            "<//>; rel=next",
        ] {
            assert_eq!(next(&[link]), None, "{link}");
        }
        let long = format!("<?{}>; rel=next", "b".repeat(MAX_LINK));
        assert_eq!(next(&[&long]), None);
    }

    proptest::proptest! {
        #[test]
        fn no_header_makes_it_panic(text in r#"[<>?;="a-c, ]{0,60}"#) {
            let _ = targets(&text);
        }
    }
}
