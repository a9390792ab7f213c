//! One bucket, or a part of it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{ETAG, HeaderValue, IF_NONE_MATCH};
use reqwest::{Method, StatusCode};

use crate::objects::answer::{self, Page};
use crate::objects::body::Body;
use crate::objects::error::{ObjectError, ObjectProblem};
use crate::objects::location::Location;
use crate::objects::sender::{MAX_DOCUMENT, Request, Sender, Settings, accept, text};
use crate::objects::signature::encoded;
use ::images::digest::Digest;

/// The longest time without an answer, and without a byte of it.
const IDLE: Duration = Duration::from_secs(10);
/// The most pages of a list.
const MAX_PAGES: usize = 10_000;

/// A bucket, or the part of it below a prefix, to which all keys are relative. Cheap
/// to clone.
#[derive(Clone)]
pub struct Bucket(Sender);

/// Whether an existing object is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is.
    Replace,
    /// It stays.
    IfAbsent,
}

impl Bucket {
    /// A client for a bucket. No request is sent.
    ///
    /// # Errors
    /// When a file of certificates cannot be used.
    pub fn new(settings: &Settings) -> Result<Self, String> {
        Sender::new(settings, IDLE).map(Self)
    }

    /// The bucket.
    pub fn location(&self) -> &Location {
        self.0.location()
    }

    /// Writes an object: all of it or nothing. The store gets its digest, to compare.
    /// Whether it was written: with [`Put::IfAbsent`], an existing object stays.
    ///
    /// # Errors
    /// When the store does not answer or refuses. The object may be there all the same.
    pub async fn put(&self, key: &str, body: Bytes, put: Put) -> Result<bool, ObjectError> {
        let digest = {
            let body = body.clone();
            tokio::task::spawn_blocking(move || Digest::of(&body)).await
        };
        let failed = self.0.failed("write", key);
        let digest = digest.map_err(|error| ObjectProblem::Broken(error.to_string()));
        let mut request = Request::of(Method::PUT, self.0.url(key));
        request.digest = digest.map_err(&failed)?;
        request.body = body;
        if put == Put::IfAbsent {
            let any = HeaderValue::from_static("*");
            request.headers.insert(IF_NONE_MATCH, any);
        }
        let answer = self.0.send(&request).await.map_err(&failed)?;
        if put == Put::IfAbsent && answer.status() == StatusCode::PRECONDITION_FAILED {
            return Ok(false);
        }
        accept(answer, self.0.idle())
            .await
            .map(|_| true)
            .map_err(&failed)
    }

    /// Begins to read an object of so many bytes at most.
    pub async fn get(&self, key: &str, size: u64) -> Result<Body, ObjectError> {
        let request = Request::of(Method::GET, self.0.url(key));
        let failed = self.0.failed("read", key);
        let answer = self.0.send(&request).await.map_err(&failed)?;
        let answer = accept(answer, self.0.idle()).await.map_err(&failed)?;
        Ok(Body {
            sender: self.0.clone(),
            key: key.to_owned(),
            tag: answer.headers().get(ETAG).cloned(),
            answer,
            received: 0,
            until: Instant::now() + self.0.limit(size),
        })
    }

    /// A small object as a whole; `None` when there is none.
    ///
    /// # Errors
    /// When it is larger than 4 MiB, or cannot be read.
    pub async fn read(&self, key: &str) -> Result<Option<Vec<u8>>, ObjectError> {
        let mut body = match self.get(key, MAX_DOCUMENT as u64).await {
            Err(ObjectError {
                problem: ObjectProblem::Missing,
                ..
            }) => return Ok(None),
            body => body?,
        };
        let mut bytes = Vec::new();
        while let Some(chunk) = body.chunk().await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_DOCUMENT {
                let problem = ObjectProblem::Unreadable("it is too large");
                return Err(self.0.failed("read", key)(problem));
            }
        }
        Ok(Some(bytes))
    }

    /// The keys that begin with `beginning`, a page of at most a thousand after another.
    pub fn list<'a>(&'a self, beginning: &'a str) -> Pages<'a> {
        Pages {
            bucket: self,
            beginning,
            next: None,
            is_last: false,
            left: MAX_PAGES,
        }
    }

    /// Whether the list has an object. Other keys may begin with its name, but come
    /// after it.
    pub async fn lists(&self, key: &str) -> Result<bool, ObjectError> {
        let page = self.page(key, None).await;
        let page = page.map_err(self.0.failed("list", key))?;
        let whole = format!("{}{key}", self.0.location().prefix);
        Ok(page.keys.first() == Some(&whole))
    }

    async fn page(&self, beginning: &str, next: Option<&str>) -> Result<Page, ObjectProblem> {
        let mut url = self.0.location().url("");
        let prefix = encoded(&format!("{}{beginning}", self.0.location().prefix));
        let mut query = format!("list-type=2&prefix={prefix}");
        if let Some(next) = next {
            query = format!("continuation-token={}&{query}", encoded(next));
        }
        url.set_query(Some(&query));
        let answer = self.0.send(&Request::of(Method::GET, url)).await?;
        let document = text(accept(answer, self.0.idle()).await?, self.0.idle()).await?;
        answer::page(&document)
    }

    /// Removes an object, if there is one.
    pub async fn delete(&self, key: &str) -> Result<(), ObjectError> {
        let failed = self.0.failed("remove", key);
        let request = Request::of(Method::DELETE, self.0.url(key));
        let answer = self.0.send(&request).await.map_err(&failed)?;
        match accept(answer, self.0.idle()).await {
            Ok(_) | Err(ObjectProblem::Missing) => Ok(()),
            Err(problem) => Err(failed(problem)),
        }
    }
}

/// A list of keys, which is read page by page: a bucket may have very many.
pub struct Pages<'a> {
    bucket: &'a Bucket,
    beginning: &'a str,
    /// Where the next page begins; `None` for the first one.
    next: Option<String>,
    /// Whether the last page was read.
    is_last: bool,
    /// How many more there may be.
    left: usize,
}

impl Pages<'_> {
    /// The keys of the next page; `None` after the last one.
    ///
    /// # Errors
    /// When the store does not answer or refuses, or gives no end.
    pub async fn next(&mut self) -> Result<Option<Vec<String>>, ObjectError> {
        let sender = &self.bucket.0;
        if self.is_last {
            return Ok(None);
        }
        let at = self.next.take();
        let failed = sender.failed("list", self.beginning);
        let page = self.bucket.page(self.beginning, at.as_deref()).await;
        let page = page.map_err(&failed)?;
        self.left = self.left.saturating_sub(1);
        self.is_last = page.next.is_none();
        if !self.is_last && (page.next == at || self.left == 0) {
            return Err(failed(ObjectProblem::Unreadable("the list has no end")));
        }
        self.next = page.next;
        let prefix = &sender.location().prefix;
        let own = page.keys.iter().filter_map(|key| key.strip_prefix(prefix));
        Ok(Some(own.map(str::to_owned).collect()))
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::objects::access_key::AccessKey;
    use crate::objects::credentials::CredentialSource;

    const SHORT: Duration = Duration::from_millis(400);

    /// A store that reads requests slowly, and answers each with these bytes; each byte
    /// after such a pause.
    async fn slow(answer: &'static [u8], pause: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut received = Vec::new();
                    let mut buffer = vec![0; 64 << 10];
                    while !is_whole(&received) {
                        let read = stream.read(&mut buffer).await.unwrap_or(0);
                        if read == 0 {
                            return;
                        }
                        received.extend_from_slice(&buffer[..read]);
                        tokio::time::sleep(SHORT / 5).await;
                    }
                    for byte in answer {
                        tokio::time::sleep(pause).await;
                        if stream.write_all(&[*byte]).await.is_err() {
                            return;
                        }
                    }
                    std::future::pending::<()>().await;
                });
            }
        });
        address
    }

    /// Whether a request has come with its body.
    fn is_whole(received: &[u8]) -> bool {
        let end = received.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let Some(end) = end else { return false };
        let head = String::from_utf8_lossy(&received[..end]).to_lowercase();
        let length = head.split("content-length: ").nth(1);
        let length = length.and_then(|rest| rest.lines().next()?.parse().ok());
        received.len() >= end + 4 + length.unwrap_or(0)
    }

    fn bucket(address: SocketAddr) -> Bucket {
        let settings = Settings {
            location: format!("s3://abc?endpoint=http://{address}")
                .parse()
                .unwrap(),
            credentials: CredentialSource::Key(AccessKey {
                id: "a".into(),
                secret: "b".into(),
                token: None,
            }),
            ca_files: Vec::new(),
        };
        Bucket(Sender::new(&settings, SHORT).unwrap())
    }

    #[tokio::test]
    async fn a_large_object_is_written_for_longer_than_a_small_one() {
        let address = slow(
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            Duration::ZERO,
        )
        .await;
        // At this way's speed it takes two seconds at least, and up to eight are left.
        let body = Bytes::from(vec![7; 1 << 20]);
        let begun = Instant::now();
        let written = bucket(address).put("a", body, Put::Replace).await;
        assert!(written.unwrap());
        assert!(begun.elapsed() > SHORT);
    }

    #[tokio::test]
    async fn a_store_that_sends_byte_after_byte_holds_nobody_for_long() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n123456789012345678901234567890";
        let address = slow(answer, SHORT / 20).await;
        let begun = Instant::now();
        let bucket = bucket(address);
        let read = async {
            let mut body = bucket.get("a", 30).await?;
            while body.chunk().await?.is_some() {}
            Ok::<_, ObjectError>(())
        };
        let read = tokio::time::timeout(Duration::from_secs(20), read).await;
        assert!(read.unwrap().is_err());
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[tokio::test]
    async fn a_silent_store_is_given_up() {
        let address = slow(b"", Duration::ZERO).await;
        let error = bucket(address).get("a", 1).await.err().unwrap();
        assert!(error.is_temporary());
        assert!(
            error
                .to_string()
                .contains("no answer within 400ms; check endpoint"),
            "{error}"
        );
    }
}
