//! The setting that names a bucket: `s3://BUCKET[/PREFIX][?PARAMETERS]`.

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
    /// The bucket.
    pub bucket: String,
    /// The beginning of all keys: empty, or with a slash at its end.
    pub prefix: String,
    /// The region, which signatures name.
    pub region: String,
    /// The URL of the store; `None` for that of AWS in the region.
    pub endpoint: Option<Url>,
    /// Where the bucket stands in a URL.
    pub style: Style,
}

/// Where the bucket stands in a URL.
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
    #[error("write s3://BUCKET or s3://BUCKET/PREFIX, such as s3://catalogs/almanac")]
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
    #[error("the parameter {0:?} is not known; there are region, endpoint and style")]
    Parameter(String),
    /// A value of a parameter.
    #[error("the value of {0} cannot be used: {1}")]
    Value(&'static str, &'static str),
}

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        let url: Url = text.parse().map_err(|_| LocationError::Form)?;
        if url.scheme() != "s3" || url.fragment().is_some() || url.port().is_some() {
            return Err(LocationError::Form);
        }
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
        let mut location = Self {
            bucket,
            prefix: if prefix.is_empty() {
                String::new()
            } else {
                format!("{prefix}/")
            },
            region: REGION.to_owned(),
            endpoint: None,
            style: Style::Virtual,
        };
        let mut style = None;
        for (name, value) in url.query_pairs() {
            match &*name {
                "region" if is_region(&value) => location.region = value.into_owned(),
                "region" => return Err(LocationError::Value("region", "write eu-west-1")),
                "endpoint" => location.endpoint = Some(endpoint(&value)?),
                "style" => {
                    style = Some(match &*value {
                        "path" => Style::Path,
                        "virtual" => Style::Virtual,
                        _ => return Err(LocationError::Value("style", "write path or virtual")),
                    });
                }
                _ => return Err(LocationError::Parameter(name.chars().take(50).collect())),
            }
        }
        // No certificate of a store has a name with more labels than one before its own.
        let default = if location.endpoint.is_some() || location.bucket.contains('.') {
            Style::Path
        } else {
            Style::Virtual
        };
        location.style = style.unwrap_or(default);
        Ok(location)
    }
}

impl Location {
    /// The URL of an object, or of the bucket for an empty key.
    pub(super) fn url(&self, key: &str) -> Url {
        let mut url = if let Some(endpoint) = &self.endpoint {
            endpoint.clone()
        } else {
            let host = format!("https://s3.{}.amazonaws.com/", self.region);
            // A region has letters, digits and '-' only.
            host.parse().unwrap_or_else(|_| unreachable!("{host}"))
        };
        if self.style == Style::Virtual {
            let host = url.host_str().map(|host| format!("{}.{host}", self.bucket));
            // Both parts are names of hosts; an address keeps its host and is refused
            // by the store.
            let _ = url.set_host(host.as_deref());
            url.set_path(key);
        } else {
            url.set_path(&format!("{}/{key}", self.bucket));
        }
        url
    }

    /// The bucket, the prefix and the endpoint, which tell it from others. There are no
    /// secrets in it.
    pub fn place(&self) -> String {
        match &self.endpoint {
            Some(endpoint) => format!("{self} at {}", endpoint.as_str().trim_end_matches('/')),
            None => self.to_string(),
        }
    }

    /// The name of an object in messages.
    pub(super) fn shown(&self, key: &str) -> String {
        format!("s3://{}/{key}", self.bucket)
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
    let inside = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.');
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

fn is_region(text: &str) -> bool {
    let inside = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    !text.is_empty() && text.len() <= 60 && text.bytes().all(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_names_a_bucket_a_prefix_and_a_store() {
        let location: Location = "s3://catalogs".parse().unwrap();
        assert_eq!(location.to_string(), "s3://catalogs");
        let url = location.url("a/b");
        assert_eq!(
            url.as_str(),
            "https://catalogs.s3.us-east-1.amazonaws.com/a/b"
        );
        let text = "s3://catalogs/a/b/?region=eu-west-1&endpoint=https://s3.example:9000";
        let location: Location = text.parse().unwrap();
        assert_eq!(location.to_string(), "s3://catalogs/a/b");
        assert_eq!(location.prefix, "a/b/");
        let url = location.url("a/b/c");
        assert_eq!(url.as_str(), "https://s3.example:9000/catalogs/a/b/c");
        let text = "s3://catalogs?endpoint=https://s3.example&style=virtual";
        let location: Location = text.parse().unwrap();
        assert_eq!(location.url("c").as_str(), "https://catalogs.s3.example/c");
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
