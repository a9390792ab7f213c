//! One bucket, or a part of it.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::Either;
use futures_util::stream::{BoxStream, StreamExt as _};
use object_store::list::{PaginatedListOptions, PaginatedListResult};
use object_store::path::Path;
use object_store::{Extensions, GetOptions, GetRange, ObjectStoreExt as _, PutMode};
use tokio::time::Instant;

use crate::objects::client::{self, Client};
use crate::objects::error::{ObjectError, ObjectProblem};
use crate::objects::location::{Location, Store};
use crate::objects::settings::Settings;
use crate::objects::transport::{self, MAX_DOCUMENT, OfObject, SLOWEST, Transport};

/// The longest time without an answer, and without a byte of it.
const IDLE: Duration = Duration::from_secs(10);
/// The most objects of a page of a list: more do not fit into what is read of a document.
const PAGE: usize = 1000;
/// The most pages of a list.
const MAX_PAGES: usize = 10_000;

/// A bucket, or the part of it below a prefix, to which all names are relative. Cheap to
/// clone. Requests are sent again after failures that may pass.
#[derive(Clone)]
pub struct Bucket(Arc<Inner>);

struct Inner {
    location: Location,
    client: Arc<dyn Client>,
    transport: Transport,
}

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name below the prefix.
    pub name: String,
    /// Its length in bytes.
    pub size: u64,
    /// When it was written, by the clock of the store.
    pub modified: SystemTime,
}

impl Bucket {
    /// A client for a bucket. No request is sent.
    ///
    /// # Errors
    /// When a file of certificates cannot be used.
    pub fn new(settings: &Settings) -> Result<Self, String> {
        Self::with_idle(settings, IDLE)
    }

    fn with_idle(settings: &Settings, idle: Duration) -> Result<Self, String> {
        let transport = Transport::new(settings, idle)?;
        Ok(Self(Arc::new(Inner {
            location: settings.location.clone(),
            client: client::make(settings, &transport)?,
            transport,
        })))
    }

    /// The bucket.
    pub fn location(&self) -> &Location {
        &self.0.location
    }

    /// Writes an object, all of it or nothing, and replaces one that exists.
    ///
    /// # Errors
    /// When the store does not answer or refuses. The object may be there all the same.
    pub async fn put(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        self.write(name, bytes, PutMode::Overwrite).await
    }

    /// Writes an object unless one with its name exists. Returns whether it was written.
    ///
    /// # Errors
    /// As [`Bucket::put`].
    pub async fn put_if_absent(&self, name: &str, bytes: Bytes) -> Result<bool, ObjectError> {
        match self.write(name, bytes, PutMode::Create).await {
            Err(error) if error.problem == ObjectProblem::Exists => Ok(false),
            written => written.map(|()| true),
        }
    }

    async fn write(&self, name: &str, bytes: Bytes, mode: PutMode) -> Result<(), ObjectError> {
        let failed = self.failed("write", name);
        let path = self.path(name).map_err(&failed)?;
        let client = Arc::clone(&self.0.client);
        // The digest in a request for S3 is made in its first step, which takes seconds for
        // large objects: on a thread that may be held up.
        let mut put =
            Box::pin(async move { client.put_opts(&path, bytes.into(), mode.into()).await });
        let begun = tokio::task::spawn_blocking(move || match (&mut put).now_or_never() {
            Some(done) => Either::Left(done),
            None => Either::Right(put),
        });
        let written = match begun.await {
            Ok(Either::Left(done)) => done,
            Ok(Either::Right(put)) => put.await,
            Err(error) => Err(error.into()),
        };
        written
            .map(drop)
            .map_err(|error| failed(ObjectProblem::from_store(&error)))
    }

    /// Begins to read an object. `most` bytes bound the time that it may take.
    ///
    /// # Errors
    /// When there is none, or the store does not answer or refuses.
    pub async fn get(&self, name: &str, most: u64) -> Result<Body, ObjectError> {
        self.open(name, None, most).await
    }

    /// The same of a range of its bytes, which must begin inside of the object.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    pub async fn get_range(&self, name: &str, range: Range<u64>) -> Result<Body, ObjectError> {
        let length = range.end.saturating_sub(range.start);
        self.open(name, Some(GetRange::Bounded(range)), length)
            .await
    }

    async fn open(
        &self,
        name: &str,
        range: Option<GetRange>,
        most: u64,
    ) -> Result<Body, ObjectError> {
        let failed = self.failed("read", name);
        let path = self.path(name).map_err(&failed)?;
        let mut extensions = Extensions::new();
        extensions.insert(OfObject);
        let options = GetOptions {
            range,
            extensions,
            ..GetOptions::default()
        };
        let found = self.0.client.get_opts(&path, options).await;
        let found = found.map_err(|error| failed(ObjectProblem::from_store(&error)))?;
        Ok(Body {
            bucket: self.clone(),
            name: name.to_owned(),
            length: found.range.end - found.range.start,
            until: Instant::now() + self.0.transport.limit(most),
            bytes: found.into_stream(),
        })
    }

    /// A small object as a whole; `None` when there is none.
    ///
    /// # Errors
    /// When it is larger than 4 MiB, or cannot be read.
    pub async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, ObjectError> {
        let mut body = match self.get(name, MAX_DOCUMENT as u64).await {
            Err(error) if error.is_missing() => return Ok(None),
            body => body?,
        };
        let mut bytes = Vec::new();
        while let Some(chunk) = body.chunk().await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_DOCUMENT {
                let problem = ObjectProblem::Unreadable("it is too large".into());
                return Err(self.failed("read", name)(problem));
            }
        }
        Ok(Some(bytes))
    }

    /// The objects whose names begin so, a page after another, in the order of their
    /// names. One whose name is only the beginning is not in lists of Azure.
    pub fn list<'a>(&'a self, beginning: &'a str) -> Pages<'a> {
        Pages {
            bucket: self,
            beginning,
            most: PAGE,
            next: None,
            is_last: false,
            left: MAX_PAGES,
        }
    }

    /// The size and the time of an object; `None` when the list lacks it. It is the list that
    /// is asked: an answer to HEAD has no code, so it could be that of a proxy.
    ///
    /// # Errors
    /// When the store does not answer or refuses.
    pub async fn head(&self, name: &str) -> Result<Option<Listed>, ObjectError> {
        // Lists of Azure lack what has the beginning itself as its name.
        let is_azure = matches!(self.0.location.store, Store::Azure(_));
        let shorter = name.char_indices().last().map_or(0, |(end, _)| end);
        let mut pages = self.list(if is_azure { &name[..shorter] } else { name });
        pages.most = if is_azure { PAGE } else { 1 };
        while let Some(page) = pages.next().await? {
            let is_over = page.last().is_some_and(|last| *last.name >= *name);
            let found = page.into_iter().find(|object| object.name == name);
            if found.is_some() || is_over {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Removes an object, if there is one.
    ///
    /// # Errors
    /// When the store does not answer or refuses.
    pub async fn delete(&self, name: &str) -> Result<(), ObjectError> {
        let failed = self.failed("remove", name);
        let path = self.path(name).map_err(&failed)?;
        let removed = self.0.client.delete(&path).await;
        match removed.map_err(|error| ObjectProblem::from_store(&error)) {
            Ok(()) | Err(ObjectProblem::Missing) => Ok(()),
            Err(problem) => Err(failed(problem)),
        }
    }

    fn path(&self, name: &str) -> Result<Path, ObjectProblem> {
        let path = Path::parse(format!("{}{name}", self.0.location.prefix));
        path.map_err(|error| ObjectProblem::Unreadable(error.to_string()))
    }

    fn failed(&self, action: &'static str, name: &str) -> impl Fn(ObjectProblem) -> ObjectError {
        let location = &self.0.location;
        let subject = location.shown(&format!("{}{name}", location.prefix));
        move |problem| ObjectError {
            action,
            subject: subject.clone(),
            problem,
        }
    }
}

/// An object that is being read. A connection that breaks is replaced by another, which goes on
/// where it broke.
pub struct Body {
    bucket: Bucket,
    name: String,
    length: u64,
    /// When even the slowest way is through.
    until: Instant,
    bytes: BoxStream<'static, object_store::Result<Bytes>>,
}

impl Body {
    /// How many bytes the object, or its range, has.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// When the store breaks off for good, or sends too slowly.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ObjectError> {
        let idle = self.bucket.0.transport.idle;
        let left = self.until.saturating_duration_since(Instant::now());
        let problem = match tokio::time::timeout(idle.min(left), self.bytes.next()).await {
            Ok(bytes) => match bytes.transpose() {
                Ok(bytes) => return Ok(bytes),
                Err(error) => ObjectProblem::from_store(&error),
            },
            Err(_) if left > idle => transport::late(idle),
            Err(_) => {
                let slow = format!("it comes at less than {SLOWEST} bytes a second");
                ObjectProblem::Broken(slow)
            }
        };
        Err(self.bucket.failed("read", &self.name)(problem))
    }
}

/// A list of objects, which is read page by page: a bucket may have very many.
pub struct Pages<'a> {
    bucket: &'a Bucket,
    beginning: &'a str,
    /// The most objects of a page.
    most: usize,
    /// Where the next page begins; `None` for the first one.
    next: Option<String>,
    /// Whether the last page was read.
    is_last: bool,
    /// How many more there may be.
    left: usize,
}

impl Pages<'_> {
    /// The objects of the next page; `None` after the last one.
    ///
    /// # Errors
    /// When the store does not answer or refuses, or gives no end.
    pub async fn next(&mut self) -> Result<Option<Vec<Listed>>, ObjectError> {
        if self.is_last {
            return Ok(None);
        }
        let Inner {
            location, client, ..
        } = &*self.bucket.0;
        let at = self.next.take();
        let beginning = format!("{}{}", location.prefix, self.beginning);
        let options = PaginatedListOptions {
            max_keys: Some(self.most),
            page_token: at.clone(),
            ..PaginatedListOptions::default()
        };
        let failed = self.bucket.failed("list", self.beginning);
        let page = client.list_paginated(Some(&beginning), options).await;
        let page = page.map_err(|error| failed(ObjectProblem::from_store(&error)))?;
        let PaginatedListResult { result, page_token } = page;
        self.next = page_token.filter(|token| !token.is_empty());
        self.left = self.left.saturating_sub(1);
        self.is_last = self.next.is_none();
        if !self.is_last && (self.next == at || self.left == 0) {
            let problem = ObjectProblem::Unreadable("the list has no end".into());
            return Err(failed(problem));
        }
        let objects = result.objects.into_iter();
        let own = objects.filter_map(|object| {
            Some(Listed {
                name: object
                    .location
                    .as_ref()
                    .strip_prefix(&location.prefix)?
                    .to_owned(),
                size: object.size,
                modified: object.last_modified.into(),
            })
        });
        Ok(Some(own.collect()))
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
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
            credentials: CredentialSource::from_key("a", "b"),
            ca_files: Vec::new(),
        };
        Bucket::with_idle(&settings, SHORT).unwrap()
    }

    #[tokio::test]
    async fn a_key_that_nothing_names_is_looked_for_nowhere() {
        for location in ["s3://abc?", "gs://abc?", "az://abc?account=a&"] {
            let location = format!("{location}endpoint=http://127.0.0.1:1");
            let settings = Settings {
                location: location.parse().unwrap(),
                credentials: CredentialSource::None,
                ca_files: Vec::new(),
            };
            let bucket = Bucket::new(&settings).unwrap();
            let error = bucket.put("a", Bytes::new()).await.unwrap_err();
            let is_named = matches!(error.problem, ObjectProblem::NoCredentials(_));
            assert!(is_named && !error.is_temporary(), "{error}");
        }
    }

    #[tokio::test]
    async fn a_large_object_is_written_for_longer_than_a_small_one() {
        let address = slow(
            b"HTTP/1.1 200 OK\r\netag: a\r\ncontent-length: 0\r\n\r\n",
            Duration::ZERO,
        )
        .await;
        // At this way's speed it takes two seconds at least, and up to eight are left.
        let body = Bytes::from(vec![7; 1 << 20]);
        let begun = Instant::now();
        bucket(address).put("a", body).await.unwrap();
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
