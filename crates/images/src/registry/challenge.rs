//! The `WWW-Authenticate` header (RFC 9110, section 11.6.1; token scheme of the
//! distribution project).
//!
//! Docker and podman keep the parameters before a syntax error, and registries
//! are tested with these clients only. So does this parser: it accepts an
//! unquoted scope (`scope=repository:a:pull`), several spaces after the scheme,
//! and parameters without commas. The strict parser of the `http-auth` crate
//! drops the whole challenge there, and has no limits.

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

/// The longest header that is read, in bytes.
const MAX_HEADER: usize = 8 << 10;
/// The most challenges, and the most parameters of one.
const MAX_ITEMS: usize = 32;

/// The authentication that a registry wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// A user and a password with every request.
    Basic,
    /// A token of a token service.
    Bearer(Bearer),
}

/// A token service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bearer {
    /// Its address, as written.
    pub(super) realm: String,
    /// The name of the registry at the token service.
    pub(super) service: Option<String>,
}

/// The challenge to answer: the first for a token, else one for a password;
/// none if the registry offers neither.
pub(super) fn choose(headers: &HeaderMap) -> Option<Challenge> {
    let offers = headers
        .get_all(WWW_AUTHENTICATE)
        .iter()
        .take(MAX_ITEMS)
        .filter_map(|value| value.to_str().ok())
        .filter(|text| text.len() <= MAX_HEADER)
        .flat_map(parse)
        .collect::<Vec<_>>();
    let bearer = offers.iter().find_map(|offer| {
        let realm = offer.parameter("realm").filter(|_| offer.is("bearer"))?;
        Some(Challenge::Bearer(Bearer {
            realm: realm.into(),
            service: offer.parameter("service").map(Into::into),
        }))
    });
    let basic = || offers.iter().any(|offer| offer.is("basic"));
    bearer.or_else(|| basic().then_some(Challenge::Basic))
}

#[derive(Debug, PartialEq, Eq)]
struct Offer {
    scheme: String,
    parameters: Vec<(String, String)>,
}

impl Offer {
    fn is(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        let found = self
            .parameters
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// Parses `scheme key=value, key="value", scheme ...`. A word before `=` is a
/// parameter of the scheme before it; any other word is a new scheme.
fn parse(text: &str) -> Vec<Offer> {
    let mut offers: Vec<Offer> = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let Some((word, after)) = token(rest) else {
            return offers;
        };
        let Some(value) = after.trim_start_matches([' ', '\t']).strip_prefix('=') else {
            if offers.len() == MAX_ITEMS {
                return offers;
            }
            offers.push(Offer {
                scheme: word.into(),
                parameters: Vec::new(),
            });
            rest = after;
            continue;
        };
        let Some((value, after)) = value_of(value.trim_start_matches([' ', '\t'])) else {
            return offers;
        };
        match offers.last_mut() {
            Some(offer) if offer.parameters.len() < MAX_ITEMS => {
                offer.parameters.push((word.into(), value));
            }
            _ => return offers,
        }
        rest = after;
    }
}

fn token(text: &str) -> Option<(&str, &str)> {
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)))
        .unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn value_of(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        return token(text).map(|(value, rest)| (value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn chosen(lines: &[&str]) -> Option<Challenge> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_str(line).unwrap());
        }
        choose(&headers)
    }

    fn bearer(realm: &str, service: Option<&str>) -> Challenge {
        Challenge::Bearer(Bearer {
            realm: realm.into(),
            service: service.map(Into::into),
        })
    }

    #[test]
    fn the_token_service_is_found() {
        for line in [
            r#"Bearer realm="https://a/token",service="reg",scope="repository:x:pull""#,
            r#"bearer REALM="https://a/token" , Service=reg"#,
            r#"Basic realm="x, y", Bearer realm="https://a/token",service="reg""#,
            r#"Bearer service="reg", realm="https://\a/token", error="invalid_token""#,
            r#"Bearer  realm="https://a/token" service="reg""#,
            r#"Bearer realm="https://a/token",service="reg",scope=repository:x:pull"#,
        ] {
            assert_eq!(
                chosen(&[line]),
                Some(bearer("https://a/token", Some("reg"))),
                "{line}"
            );
        }
        let lines = ["Basic realm=x", r#"Bearer realm="https://a""#];
        assert_eq!(chosen(&lines), Some(bearer("https://a", None)));
    }

    #[test]
    fn a_password_is_the_second_choice() {
        assert_eq!(
            chosen(&[r#"Basic realm="Registry Realm""#]),
            Some(Challenge::Basic)
        );
        assert_eq!(chosen(&["Basic"]), Some(Challenge::Basic));
        assert_eq!(chosen(&["Bearer", "basic"]), Some(Challenge::Basic));
    }

    #[test]
    fn a_header_with_a_syntax_error_is_no_challenge() {
        for line in [
            "",
            ",,,",
            "=",
            "Bearer",
            "Bearer realm",
            "Bearer realm=",
            r#"Bearer realm="never closed"#,
            r#"Bearer realm="ends with \"#,
            r#"realm="https://a""#,
            "Negotiate abc==",
            "\"",
        ] {
            assert_eq!(chosen(&[line]), None, "{line}");
        }
        let long = format!("Bearer realm=\"{}\"", "a".repeat(MAX_HEADER));
        assert_eq!(chosen(&[&long]), None);
        assert_eq!(chosen(&vec!["Basic"; 10_000]), Some(Challenge::Basic));
        assert!(parse(&"a ".repeat(4000)).len() <= MAX_ITEMS);
        assert!(
            parse(&format!("a {}", "b=c,".repeat(2000)))[0]
                .parameters
                .len()
                <= MAX_ITEMS
        );
    }

    proptest::proptest! {
        #[test]
        fn no_header_makes_it_panic(text in r#"[a-c="\\, é]{0,60}"#) {
            let _ = parse(&text);
        }
    }
}
