//! Errors of downloads.

use std::io;
use std::time::Duration;

/// Reasons to refuse a text as the URL of a catalog.
#[derive(Debug, thiserror::Error)]
pub enum CatalogUrlError {
    /// Not a URL.
    #[error("{text:?} is no URL: {problem}")]
    Url {
        /// The text.
        text: String,
        /// Why it is not a URL.
        problem: String,
    },
    /// Neither http nor https.
    #[error("{0:?} is neither an http nor an https URL")]
    Scheme(String),
    /// It has only a host.
    #[error("{0:?} names no catalog; write http://HOST:PORT/catalogs/NAME")]
    NoCatalog(String),
    /// It has a user, a password, a query or a fragment. The message leaves the
    /// text out, as it may be secret.
    #[error("the URL of a catalog has no user, no password, no query and no fragment")]
    Parts,
}

/// Reasons why a download fails.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The settings cannot be used; no request was sent.
    #[error("cannot set up a connection: {0}")]
    Setup(String),
    /// No response, or only a part of one.
    #[error("{url}: {problem}")]
    Request {
        /// The URL of the request.
        url: String,
        /// Why it failed.
        problem: String,
    },
    /// A response without a catalog.
    #[error("{url}: {status}{message}")]
    Status {
        /// The URL of the request.
        url: String,
        /// The status.
        status: u16,
        /// The body after a colon, or nothing.
        message: String,
    },
    /// A response that is neither plain nor gzip.
    #[error("{url}: the answer is encoded as {encoding:?}, which was not asked for")]
    Encoding {
        /// The URL of the request.
        url: String,
        /// The encoding.
        encoding: String,
    },
    /// The response exceeds the limit.
    #[error("{url}: the answer passes the limit of {limit} bytes")]
    TooLarge {
        /// The URL of the request.
        url: String,
        /// The limit.
        limit: u64,
    },
    /// The download took too long.
    #[error("{url}: not all there after {}", humantime::format_duration(*.limit))]
    Timeout {
        /// The URL of the request.
        url: String,
        /// The time limit.
        limit: Duration,
    },
    /// The response cannot be decompressed or written.
    #[error("{url}: {source}")]
    Write {
        /// The URL of the request.
        url: String,
        /// Why it failed.
        source: io::Error,
    },
}
