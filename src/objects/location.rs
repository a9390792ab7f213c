//! The setting that names a bucket: `s3://BUCKET[/PREFIX][?PARAMETERS]`, and the same with
//! `gs://` and `az://`.

use std::fmt;
use std::str::FromStr;

use reqwest::Url;

/// The region of stores that have none.
const REGION: &str = "us-east-1";
/// The longest prefix, in bytes. Keys have at most 1,024.
const MAX_PREFIX: usize = 512;

/// Where the objects are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Whose protocol the store speaks.
    pub store: Store,
    /// The bucket; Azure calls it a container.
    pub bucket: String,
    /// The beginning of all keys: empty, or with a slash at its end.
    pub prefix: String,
    /// The region, which signatures of S3 name.
    pub region: String,
    /// The URL of the store; `None` for the usual one.
    pub endpoint: Option<Url>,
    /// Where the bucket, or the account of Azure, stands in a URL.
    pub style: Style,
    /// Whether the key comes from the metadata service of the machine.
    pub asks_metadata: bool,
}

/// Whose protocol a store speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// That of Amazon S3.
    S3,
    /// That of Google Cloud Storage.
    Google,
    /// That of Azure, with the name of the account.
    Azure(String),
}

/// Where the bucket, or the account of Azure, stands in a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// In the path, as most stores but AWS want it.
    Path,
    /// In the host.
    Virtual,
}

/// A text that names no bucket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// Not `s3://BUCKET`.
    #[error(
        "write s3://BUCKET or s3://BUCKET/PREFIX, such as s3://catalogs/almanac, or the same \
         with gs:// or az://"
    )]
    Form,
    /// A user or a password in the URL.
    #[error("it has a user or a password: write credentials into a file or the environment")]
    Login,
    /// A bucket that no store has.
    #[error("{0:?} is no name of a bucket: 3 to 63 lower-case letters, digits, '-' and '.'")]
    Bucket(String),
    /// A prefix that is no plain path.
    #[error("the prefix {0:?} cannot be used: letters, digits, '-', '_', '.' and '/' only")]
    Prefix(String),
    /// An unknown parameter.
    #[error(
        "the parameter {0:?} is not known here; there are endpoint and credentials, for s3:// region \
         and style, and for az:// account and style"
    )]
    Parameter(String),
    /// A value of a parameter.
    #[error("the value of {0} cannot be used: {1}")]
    Value(&'static str, &'static str),
    /// No account of Azure.
    #[error("add the name of the storage account: az://CONTAINER?account=NAME")]
    Account,
}

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        let url: Url = text.parse().map_err(|_| LocationError::Form)?;
        if url.fragment().is_some() || url.port().is_some() {
            return Err(LocationError::Form);
        }
        let store = match url.scheme() {
            "s3" => Store::S3,
            "gs" => Store::Google,
            "az" => Store::Azure(String::new()),
            _ => return Err(LocationError::Form),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(LocationError::Login);
        }
        let bucket = url.host_str().ok_or(LocationError::Form)?.to_owned();
        if !is_bucket(&bucket) {
            return Err(LocationError::Bucket(bucket));
        }
        let prefix = url.path().trim_matches('/');
        let is_good = prefix.is_empty() || prefix.split('/').all(is_part);
        if prefix.len() > MAX_PREFIX || !is_good {
            return Err(LocationError::Prefix(prefix.chars().take(200).collect()));
        }
        let end = if prefix.is_empty() { "" } else { "/" };
        let mut location = Self {
            store,
            bucket,
            prefix: format!("{prefix}{end}"),
            region: REGION.to_owned(),
            endpoint: None,
            style: Style::Virtual,
            asks_metadata: false,
        };
        let mut style = None;
        for (name, value) in url.query_pairs() {
            location.set(&mut style, &name, &value)?;
        }
        if location.store == Store::Azure(String::new()) {
            return Err(LocationError::Account);
        }
        // No certificate of a store has a name with more labels than one before its own.
        let is_dotted = location.store == Store::S3 && location.bucket.contains('.');
        let default = if location.endpoint.is_some() || is_dotted {
            Style::Path
        } else {
            Style::Virtual
        };
        location.style = style.unwrap_or(default);
        Ok(location)
    }
}

impl Location {
    fn set(
        &mut self,
        style: &mut Option<Style>,
        name: &str,
        value: &str,
    ) -> Result<(), LocationError> {
        match (name, &mut self.store) {
            ("region", Store::S3) if is_word(value, 60) => value.clone_into(&mut self.region),
            ("region", Store::S3) => return Err(LocationError::Value("region", "write eu-west-1")),
            ("account", Store::Azure(account)) if is_word(value, 24) => value.clone_into(account),
            ("account", Store::Azure(_)) => {
                return Err(LocationError::Value("account", "write its name"));
            }
            ("endpoint", _) => self.endpoint = Some(endpoint(value)?),
            ("style", Store::S3 | Store::Azure(_)) => {
                *style = Some(match value {
                    "path" => Style::Path,
                    "virtual" => Style::Virtual,
                    _ => return Err(LocationError::Value("style", "write path or virtual")),
                });
            }
            ("credentials", _) if value == "metadata" => self.asks_metadata = true,
            ("credentials", _) => {
                return Err(LocationError::Value(
                    "credentials",
                    "write metadata, or leave it out",
                ));
            }
            (name, _) => return Err(LocationError::Parameter(name.chars().take(50).collect())),
        }
        Ok(())
    }

    /// The URL of the store for its client, unless it is the usual one: of S3 with the bucket
    /// in the host, of Azure with the account, as [`Style`] says.
    pub(super) fn root(&self) -> Option<String> {
        let mut url = self.endpoint.clone()?;
        let label = match &self.store {
            Store::S3 => Some(&self.bucket).filter(|_| self.style == Style::Virtual),
            Store::Google => None,
            Store::Azure(account) => Some(account),
        };
        if let Some(label) = label {
            if self.style == Style::Virtual {
                let host = url.host_str().map(|host| format!("{label}.{host}"));
                // Both parts are names of hosts; an address keeps its host and is refused
                // by the store.
                let _ = url.set_host(host.as_deref());
            } else {
                url.set_path(label);
            }
        }
        Some(url.as_str().trim_end_matches('/').to_owned())
    }

    /// The bucket, the prefix and the endpoint, which tell it from others. There are no
    /// secrets in it.
    pub fn place(&self) -> String {
        let account = match &self.store {
            Store::Azure(account) => format!(" of the account {account}"),
            _ => String::new(),
        };
        match &self.endpoint {
            Some(endpoint) => {
                let endpoint = endpoint.as_str().trim_end_matches('/');
                format!("{self}{account} at {endpoint}")
            }
            None => format!("{self}{account}"),
        }
    }

    /// The name of an object in messages.
    pub(super) fn shown(&self, key: &str) -> String {
        let scheme = match self.store {
            Store::S3 => "s3",
            Store::Google => "gs",
            Store::Azure(_) => "az",
        };
        format!("{scheme}://{}/{key}", self.bucket)
    }
}

/// Without the parameters: the bucket and the prefix.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            self.shown(self.prefix.trim_end_matches('/'))
                .trim_end_matches('/'),
        )
    }
}

fn endpoint(text: &str) -> Result<Url, LocationError> {
    let refused = |problem| Err(LocationError::Value("endpoint", problem));
    let Ok(url) = text.parse::<Url>() else {
        return refused("write https://HOST[:PORT]");
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(LocationError::Login);
    }
    if url.path() != "/" || url.query().is_some() || url.host_str().is_none() {
        return refused("write https://HOST[:PORT]");
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if ::images::is_loopback(&url) => Ok(url),
        "http" => refused("only an endpoint of this machine may go without TLS; write https://"),
        _ => refused("write https://HOST[:PORT]"),
    }
}

fn is_bucket(text: &str) -> bool {
    let inside =
        |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.' | b'_');
    (3..=63).contains(&text.len())
        && text.bytes().all(inside)
        && !text.contains("..")
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
}

/// Nothing that an encoding could change, so that signatures and names in lists are
/// the key itself.
fn is_part(text: &str) -> bool {
    let inside = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    !text.is_empty() && text.bytes().all(inside) && text != "." && text != ".."
}

/// The name of a region or an account.
fn is_word(text: &str, longest: usize) -> bool {
    let inside = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    !text.is_empty() && text.len() <= longest && text.bytes().all(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_names_a_bucket_a_prefix_and_a_store() {
        let location: Location = "s3://catalogs".parse().unwrap();
        assert_eq!(location.to_string(), "s3://catalogs");
        assert_eq!(
            (location.store, location.style),
            (Store::S3, Style::Virtual)
        );
        let text = "s3://catalogs/a/b/?region=eu-west-1&endpoint=https://s3.example:9000";
        let location: Location = text.parse().unwrap();
        assert_eq!(location.to_string(), "s3://catalogs/a/b");
        assert_eq!(
            (&*location.prefix, &*location.region),
            ("a/b/", "eu-west-1")
        );
        assert_eq!(
            location.place(),
            "s3://catalogs/a/b at https://s3.example:9000"
        );
        let location: Location = "gs://some_catalogs/a".parse().unwrap();
        assert_eq!(location.store, Store::Google);
        let location: Location = "az://catalogs/a?account=ours".parse().unwrap();
        assert_eq!(location.place(), "az://catalogs/a of the account ours");
        for (text, asks) in [
            ("gs://catalogs", false),
            ("gs://catalogs?credentials=metadata", true),
            ("s3://catalogs?credentials=metadata", true),
        ] {
            assert_eq!(
                text.parse::<Location>().unwrap().asks_metadata,
                asks,
                "{text}"
            );
        }
    }

    #[test]
    fn the_bucket_or_the_account_stands_in_the_path_or_the_host() {
        for (text, root) in [
            ("s3://catalogs", None),
            ("s3://some.catalogs", None),
            (
                "s3://catalogs?endpoint=https://s3.example:9000",
                Some("https://s3.example:9000"),
            ),
            (
                "s3://catalogs?endpoint=https://s3.example&style=virtual",
                Some("https://catalogs.s3.example"),
            ),
            ("gs://catalogs", None),
            (
                "gs://catalogs?endpoint=http://127.0.0.1:80",
                Some("http://127.0.0.1"),
            ),
            ("az://catalogs?account=ours", None),
            (
                "az://catalogs?account=ours&endpoint=https://blob.example:10000",
                Some("https://blob.example:10000/ours"),
            ),
            (
                "az://catalogs?account=ours&endpoint=https://blob.example&style=virtual",
                Some("https://ours.blob.example"),
            ),
        ] {
            let location: Location = text.parse().unwrap();
            assert_eq!(location.root().as_deref(), root, "{text}");
        }
        let dotted: Location = "s3://some.catalogs".parse().unwrap();
        assert_eq!(dotted.style, Style::Path);
    }

    #[test]
    fn a_location_has_no_secret_and_nothing_unknown() {
        for text in [
            "",
            "catalogs",
            "http://catalogs",
            "s3://",
            "s3://Catalogs_1",
            "s3://ab",
            "s3://me:secret@catalogs",
            "s3://catalogs/a b",
            "s3://catalogs/a/../b",
            "s3://catalogs/a//b",
            "s3://catalogs?regoin=a",
            "s3://catalogs?region=",
            "s3://catalogs?endpoint=http://s3.example",
            "s3://catalogs?endpoint=https://a:b@s3.example",
            "s3://catalogs?endpoint=https://s3.example/path",
            "s3://catalogs?style=host",
            "s3://catalogs?credentials=file",
            "s3://catalogs?account=a",
            "gs://catalogs?region=a",
            "gs://catalogs?style=path",
            "az://catalogs",
            "az://catalogs?account=",
            "az://catalogs?account=a/b",
        ] {
            let refused = text.parse::<Location>();
            // The parser of URLs resolves the dots, which leaves a plain path.
            if !text.contains("..") {
                let error = refused.expect_err(text).to_string();
                assert!(!error.contains("secret"), "{error}");
            }
        }
        let local = "s3://catalogs?endpoint=http://127.0.0.1:9000";
        assert!(local.parse::<Location>().is_ok());
    }
}
