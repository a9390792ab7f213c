//! The parameters of a query.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::answers::rest::records::percent_encoded;
use crate::serve::http::api::operation::{DEFAULT_LIMIT, MAX_LIMIT, Operation, Parameter};
use crate::serve::http::api::problem::{Problem, cut};
use crate::serve::http::query::unescape;
use crate::snapshot::Snapshot;
use crate::store::RevisionId;
use ::images::digest::{Digest, Hasher};

/// The longest value, in bytes.
const MAX_VALUE: usize = 1_024;
/// How many parameters a query may have.
pub(crate) const MAX_PARAMETERS: usize = 128;
/// Identifies the content that a list is of: one catalog, or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content([u8; TOKEN_CONTENT]);

/// Parameters that select a part of a list and do not change the list.
const OF_PAGES: [&str; 3] = ["limit", "continue", "fields"];
/// How many bytes of the digests of the content and of the query a token has.
const TOKEN_CONTENT: usize = 8;
const TOKEN_LIST: usize = 4;

/// The parameters that a route knows.
#[derive(Clone, Copy)]
pub(crate) enum Known {
    /// Those that its operation declares.
    Declared(&'static [Parameter]),
    /// Those of a page, by their names.
    Named(&'static [&'static str]),
}

/// The parameters of a route.
#[derive(Default)]
pub(crate) struct Parameters {
    /// The parameters of the route.
    known: Known,
    /// Keys and values in the order of the query.
    given: Vec<(&'static str, String)>,
}

/// A page of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// The page size.
    pub(super) limit: usize,
    /// How many items come before it.
    pub(super) offset: usize,
    content: Content,
    /// Identifies the list.
    list: [u8; TOKEN_LIST],
}

impl Default for Known {
    fn default() -> Self {
        Self::Named(&[])
    }
}

impl From<&'static Operation> for Known {
    fn from(operation: &'static Operation) -> Self {
        Self::Declared(operation.parameters)
    }
}

impl From<&'static [&'static str]> for Known {
    fn from(names: &'static [&'static str]) -> Self {
        Self::Named(names)
    }
}

impl<const N: usize> From<&'static [&'static str; N]> for Known {
    fn from(names: &'static [&'static str; N]) -> Self {
        Self::Named(names)
    }
}

impl Known {
    /// The names in the order of the route.
    pub(crate) fn names(self) -> Vec<&'static str> {
        match self {
            Self::Declared(declared) => declared.iter().map(|one| one.name).collect(),
            Self::Named(names) => names.to_vec(),
        }
    }

    fn find(self, name: &str) -> Option<&'static str> {
        match self {
            Self::Declared(declared) => {
                let mut names = declared.iter().map(|one| one.name);
                names.find(|known| *known == name)
            }
            Self::Named(names) => names.iter().copied().find(|known| *known == name),
        }
    }

    /// Whether its operation lets a parameter be given several times.
    fn is_repeated(self, name: &str) -> bool {
        let Self::Declared(declared) = self else {
            return false;
        };
        let mut declared = declared.iter();
        declared.any(|one| one.name == name && one.is_repeated())
    }
}

impl Parameters {
    /// Reads the query of a URL. An empty value counts as absent. Of the `known` parameters,
    /// those in `repeated` may be given several times.
    pub(super) fn read(query: &str, known: Known, repeated: &[&str]) -> Result<Self, Problem> {
        let mut parameters = Self {
            known,
            given: Vec::new(),
        };
        let mut count = 0;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            count += 1;
            if count > MAX_PARAMETERS {
                let detail = format!("there are more than {MAX_PARAMETERS} parameters");
                return Err(Problem::invalid_parameter("", detail));
            }
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let unescaped = |text, name| {
                unescape(text).map_err(|_| {
                    let detail = format!("the escapes in {:?} do not make UTF-8 text", cut(text));
                    Problem::invalid_parameter(name, detail)
                })
            };
            let key = unescaped(key, "")?;
            let Some(key) = known.find(&key) else {
                return Err(Problem::unknown_parameter(&key, &known.names()));
            };
            let value = unescaped(value, key)?;
            if value.len() > MAX_VALUE {
                let detail = format!("{key} is longer than {MAX_VALUE} bytes");
                return Err(Problem::invalid_parameter(key, detail));
            }
            let is_repeated = repeated.contains(&key) || known.is_repeated(key);
            if !is_repeated && parameters.given.iter().any(|(name, _)| *name == key) {
                let detail = format!("{key} is given more than once; give it once");
                return Err(Problem::invalid_parameter(key, detail));
            }
            parameters.given.push((key, value.into_owned()));
        }
        Ok(parameters)
    }

    /// The value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// The values of a parameter that may be given several times.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.given.iter().filter(move |(key, _)| *key == name);
        named
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// A parameter that is `true` or `false` (default `false`).
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(Problem::invalid_parameter(
                name,
                format!("{name} is true or false, and not {:?}", cut(other)),
            )),
        }
    }

    /// The page that `limit` and `continue` ask for.
    pub(crate) fn page(&self, content: Content) -> Result<Page, Problem> {
        let limit = match self.get("limit") {
            None => DEFAULT_LIMIT,
            Some(text) => text
                .parse()
                .ok()
                // Digits only: parsing would accept a sign.
                .filter(|limit| (1..=MAX_LIMIT).contains(limit) && !text.starts_with('+'))
                .ok_or_else(|| {
                    let detail = format!(
                        "limit is a number from 1 to {MAX_LIMIT}, not {:?}",
                        cut(text)
                    );
                    Problem::invalid_parameter("limit", detail)
                })?,
        };
        let offset = match self.get("continue") {
            None => 0,
            Some(token) => read_token(token, content, self.list())?,
        };
        Ok(Page {
            limit,
            offset,
            content,
            list: self.list(),
        })
    }

    /// Identifies the list: a digest of all parameters but those of the page.
    fn list(&self) -> [u8; TOKEN_LIST] {
        let mut hasher = Hasher::default();
        let mut add = |text: &str| {
            hasher.update(&text.len().to_le_bytes());
            hasher.update(text.as_bytes());
        };
        self.known.names().into_iter().for_each(&mut add);
        for (key, value) in self.given.iter().filter(|(key, _)| !OF_PAGES.contains(key)) {
            add(key);
            add(value);
        }
        let digest = hasher.finish();
        std::array::from_fn(|at| digest.as_bytes()[at])
    }

    /// The selected fields, in the order of `known`; `None` for all.
    pub(super) fn fields(
        &self,
        known: &'static [&'static str],
    ) -> Result<Option<Vec<&'static str>>, Problem> {
        let Some(text) = self.get("fields") else {
            return Ok(None);
        };
        let wanted: Vec<&str> = text.split(',').map(str::trim).collect();
        if let Some(unknown) = wanted.iter().find(|field| !known.contains(field)) {
            return Err(Problem::unknown_field(unknown, known));
        }
        let known = known.iter().copied();
        Ok(Some(known.filter(|field| wanted.contains(field)).collect()))
    }

    /// The same query with another token.
    pub(super) fn next(&self, continued: &str) -> String {
        let mut query = String::from("?");
        for (key, value) in self.given.iter().filter(|(key, _)| *key != "continue") {
            query.push_str(key);
            query.push('=');
            query.push_str(&percent_encoded(value));
            query.push('&');
        }
        query.push_str("continue=");
        query.push_str(continued);
        query
    }
}

impl Page {
    /// The indexes of this page in a list of `total` items.
    pub(super) fn range(self, total: usize) -> std::ops::Range<usize> {
        let start = self.offset.min(total);
        start..start.saturating_add(self.limit).min(total)
    }

    /// The token of the next page, if there is one.
    pub(super) fn next(self, total: usize) -> Option<String> {
        let end = self.range(total).end;
        if end >= total {
            return None;
        }
        let mut token = self.content.0.to_vec();
        token.extend(self.list);
        token.extend(u32::try_from(end).ok()?.to_be_bytes());
        Some(URL_SAFE_NO_PAD.encode(token))
    }
}

fn read_token(token: &str, content: Content, list: [u8; TOKEN_LIST]) -> Result<usize, Problem> {
    let read = URL_SAFE_NO_PAD.decode(token).ok();
    let parts = read.as_ref().and_then(|bytes| {
        let (of, rest) = bytes.split_at_checked(TOKEN_CONTENT)?;
        let (list, offset) = rest.split_at_checked(TOKEN_LIST)?;
        Some((of, list, offset.try_into().ok()?))
    });
    let wrong = |detail: &str| Err(Problem::invalid_parameter("continue", detail));
    let Some((of, given_list, offset)) = parts else {
        return wrong("continue is not a token; copy it from the response before");
    };
    if given_list != list {
        return wrong("continue is from another query; repeat that query");
    }
    if of != content.0 {
        return Err(Problem::expired());
    }
    Ok(u32::from_be_bytes(offset) as usize)
}

impl Content {
    /// The content of one catalog.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        Self::cut(&snapshot.revision().content)
    }

    /// The contents of these catalogs; `None` for one without content.
    pub(super) fn of_all<'a>(
        catalogs: impl IntoIterator<Item = (&'a str, Option<&'a Snapshot>)>,
    ) -> Self {
        let mut hasher = Hasher::default();
        for (name, snapshot) in catalogs {
            hasher.update(name.as_bytes());
            // Names have no blank.
            hasher.update(b" ");
            if let Some(snapshot) = snapshot {
                hasher.update(snapshot.revision().content.as_bytes());
            }
        }
        Self::cut(&hasher.finish())
    }

    /// A history whose newest revision is this one: others may have the same content.
    pub(super) fn of_history(newest: Option<RevisionId>) -> Self {
        let newest = newest.map(|newest| newest.to_string());
        Self::cut(&Digest::of(newest.unwrap_or_default().as_bytes()))
    }

    fn cut(digest: &Digest) -> Self {
        Self(std::array::from_fn(|at| digest.as_bytes()[at]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["limit", "continue", "fields", "channel", "q"];

    #[test]
    fn parameters_are_read_once_each() {
        let read = |query: &str| Parameters::read(query, KNOWN.into(), &["channel"]);
        let parameters = read("q=a+b%26c&limit=&channel=x&channel=y&&fields").unwrap();
        assert_eq!(parameters.get("q"), Some("a b&c"));
        assert_eq!(parameters.get("limit"), None);
        assert_eq!(parameters.all("channel").collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(
            parameters.next("t"),
            "?q=a%20b%26c&limit=&channel=x&channel=y&fields=&continue=t"
        );
        let many = "channel=a&".repeat(MAX_PARAMETERS + 1);
        let long = format!("q={}", "a".repeat(MAX_VALUE + 1));
        for bad in [
            "bogus=1", "Q=1", "q=1&q=2", "q=%zz", "q=%ff", "%", &many, &long,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn fields_come_in_the_order_of_the_answer() {
        let fields = |query: &str| {
            let parameters = Parameters::read(query, KNOWN.into(), &[]).unwrap();
            parameters.fields(&["name", "version", "head"]).ok()
        };
        assert_eq!(
            fields("fields=head, name"),
            Some(Some(vec!["name", "head"]))
        );
        assert_eq!(fields("fields="), Some(None));
        for bad in ["fields=name,", "fields=Name", "fields=,"] {
            assert_eq!(fields(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_page_ends_with_the_list() {
        let page = |limit, offset| {
            let list = [0; TOKEN_LIST];
            let page = Page {
                limit,
                offset,
                content: Content::of_all([]),
                list,
            };
            page.range(10)
        };
        assert_eq!(page(4, 0), 0..4);
        assert_eq!(page(4, 8), 8..10);
        assert_eq!(page(4, 90), 10..10);
    }
}
