//! AWS Signature Version 4, with the digest of the body.

use std::fmt::Write as _;
use std::time::SystemTime;

use reqwest::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use ring::hmac;

use crate::objects::access_key::AccessKey;
use ::images::digest::Digest;

const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const CONTENT: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// What a signature is made for, besides the request.
pub(super) struct Scope<'a> {
    pub(super) key: &'a AccessKey,
    pub(super) region: &'a str,
    pub(super) service: &'a str,
    pub(super) now: SystemTime,
}

impl Scope<'_> {
    /// Adds the signature to the headers of a request, all of which are signed. The
    /// values of `headers` are visible ASCII.
    pub(super) fn sign(&self, method: &Method, url: &Url, headers: &mut HeaderMap, body: &Digest) {
        let date = compact(self.now);
        let mut add = |name: HeaderName, value: &str| {
            // A header that cannot be written is missing from the signature too, and
            // the store refuses the request.
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        add(DATE, &date);
        add(CONTENT, &body.hex());
        add(HOST, &host(url));
        if let Some(token) = &self.key.token {
            add(TOKEN, token);
        }
        let mut lines: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap_or_default().trim()))
            .collect();
        lines.sort_unstable();
        let names: Vec<&str> = lines.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let mut request = format!("{method}\n{}\n{}\n", url.path(), query(url));
        for (name, value) in &lines {
            let _ = writeln!(request, "{name}:{value}");
        }
        let _ = write!(request, "\n{names}\n{}", body.hex());
        let day = date.get(..8).unwrap_or_default();
        let scope = format!("{day}/{}/{}/aws4_request", self.region, self.service);
        let request = Digest::of(request.as_bytes());
        let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", request.hex());
        let secret = format!("AWS4{}", self.key.secret);
        let key = [day, self.region, self.service, "aws4_request"]
            .iter()
            .fold(secret.into_bytes(), |key, part| mac(&key, part));
        let signature = mac(&key, &text);
        let signature = signature.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        let id = &self.key.id;
        let value = format!(
            "AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}"
        );
        if let Ok(mut value) = HeaderValue::from_str(&value) {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
    }
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

/// The host of a URL, with its port unless that is the usual one.
fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// The parameters as they are signed: sorted, and encoded but for the unreserved
/// signs.
fn query(url: &Url) -> String {
    let mut pairs: Vec<(String, String)> = url
        .query_pairs()
        .map(|(name, value)| (encoded(&name), encoded(&value)))
        .collect();
    pairs.sort();
    let pairs = pairs.iter().map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join("&")
}

pub(super) fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

/// A date as `20260102T030405Z`.
fn compact(now: SystemTime) -> String {
    let date = humantime::format_rfc3339_seconds(now).to_string();
    date.replace(['-', ':'], "")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    /// The example of the documentation of Amazon S3, "Signature Calculations for the
    /// Authorization Header", GET Object.
    #[test]
    fn the_documented_request_gets_the_documented_signature() {
        let key = AccessKey {
            id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            token: None,
        };
        let scope = Scope {
            key: &key,
            region: "us-east-1",
            service: "s3",
            now: UNIX_EPOCH + Duration::from_secs(1_369_353_600),
        };
        let url = "https://examplebucket.s3.amazonaws.com/test.txt"
            .parse()
            .unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("range", HeaderValue::from_static("bytes=0-9"));
        scope.sign(&Method::GET, &url, &mut headers, &Digest::of(b""));
        let wanted = "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        let signed = headers[AUTHORIZATION].to_str().unwrap();
        assert!(signed.ends_with(wanted), "{signed}");
        assert!(!format!("{headers:?}").contains("Signature="));
    }

    #[test]
    fn parameters_are_signed_in_order_and_encoded() {
        let url = "http://a/b?prefix=x%2Fy&list-type=2&marker=a%20b+c"
            .parse()
            .unwrap();
        assert_eq!(query(&url), "list-type=2&marker=a%20b%20c&prefix=x%2Fy");
        assert_eq!(compact(UNIX_EPOCH), "19700101T000000Z");
    }
}
