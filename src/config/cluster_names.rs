//! Names of Kubernetes in the settings: namespaces, and selectors of labels.

use std::str::FromStr;

use crate::config::value::{ValueError, deserialized_from_text};

/// The longest name of a namespace, and of a label without its prefix, in bytes.
const MAX_LABEL: usize = 63;
/// The longest prefix of a label, in bytes.
const MAX_PREFIX: usize = 253;

/// The name of a namespace: a label of DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace(pub String);

/// A selector of labels as the API server takes it, such as `team=catalogs,!old`;
/// empty for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(pub String);

impl FromStr for Namespace {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text.len() <= MAX_LABEL && is_label(text) {
            return Ok(Self(text.to_owned()));
        }
        let problem = "write lower-case letters, digits and '-', such as olmv1-system";
        Err(ValueError::new(text, "namespace", problem))
    }
}

impl FromStr for Selector {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let written = text.trim();
        if written.is_empty() || requirements(written).into_iter().all(is_requirement) {
            return Ok(Self(written.to_owned()));
        }
        let problem = "write labels with commas between them, such as \"team=catalogs\", \
            \"team in (a, b)\" or \"!old\"";
        Err(ValueError::new(text, "label selector", problem))
    }
}

deserialized_from_text! {
    Namespace, "a namespace such as \"olmv1-system\"";
    Selector, "a label selector such as \"team=catalogs\"";
}

/// The parts between commas outside of parentheses.
fn requirements(text: &str) -> Vec<&str> {
    let mut is_inside = false;
    let parts = text.split(|sign| {
        match sign {
            '(' => is_inside = true,
            ')' => is_inside = false,
            _ => {}
        }
        sign == ',' && !is_inside
    });
    parts.collect()
}

/// A label alone, or with an operator and its values.
fn is_requirement(text: &str) -> bool {
    let text = text.trim();
    if let Some(key) = text.strip_prefix('!') {
        return is_key(key.trim());
    }
    for operator in ["!=", "==", "="] {
        if let Some((key, value)) = text.split_once(operator) {
            return is_key(key.trim()) && is_value(value.trim());
        }
    }
    if let Some((key, number)) = text.split_once(['<', '>']) {
        return is_key(key.trim()) && number.trim().parse::<i64>().is_ok();
    }
    let Some((before, values)) = text.split_once('(') else {
        return is_key(text);
    };
    let mut words = before.split_whitespace();
    let is_set = words.next().is_some_and(is_key)
        && matches!(words.next(), Some("in" | "notin"))
        && words.next().is_none();
    let values = values.strip_suffix(')');
    is_set && values.is_some_and(|values| values.split(',').all(|it| is_value(it.trim())))
}

/// `[PREFIX/]NAME`, where the prefix is a name of DNS.
fn is_key(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let is_prefix = |prefix: &str| prefix.len() <= MAX_PREFIX && prefix.split('.').all(is_label);
    prefix.is_none_or(is_prefix) && !name.is_empty() && is_value(name)
}

fn is_value(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_end = |sign: char| sign.is_ascii_alphanumeric();
    let ends_well = text.starts_with(is_end) && text.ends_with(is_end);
    text.is_empty() || (text.len() <= MAX_LABEL && text.bytes().all(inside) && ends_well)
}

fn is_label(text: &str) -> bool {
    let is_end = |sign: char| sign.is_ascii_lowercase() || sign.is_ascii_digit();
    let inside = |sign: char| is_end(sign) || sign == '-';
    text.starts_with(is_end) && text.ends_with(is_end) && text.chars().all(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_taken_as_the_api_server_takes_it() {
        for good in [
            "",
            "a",
            "!a",
            "! a",
            "a=b",
            "a==b",
            "a = b , c!=d",
            "a=",
            "example.com/team=B_c.d",
            "a in (b, c),d notin (e)",
            "a in (b,)",
            "a>1,b < -2",
        ] {
            assert!(good.parse::<Selector>().is_ok(), "{good}");
        }
        let long = "a".repeat(64);
        for bad in [
            "a=b=c,,",
            "a=b,",
            ",",
            "a b",
            "!",
            "=b",
            "-a",
            "a=-b",
            "a in b",
            "a in (b",
            "a in (b) c",
            "a on (b)",
            "a b in (c)",
            "a>b",
            "A.b/c=d",
            "/c",
            "a/b/c",
            &long,
        ] {
            assert!(bad.parse::<Selector>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_namespace_is_a_label() {
        for good in ["a", "olmv1-system", "0"] {
            assert_eq!(good.parse(), Ok(Namespace(good.to_owned())));
        }
        for bad in ["", "A_B", "a.b", "-a", "a-", &"a".repeat(64)] {
            assert!(bad.parse::<Namespace>().is_err(), "{bad}");
        }
    }
}
