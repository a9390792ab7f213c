//! A small OCI registry on the loopback interface that lies on request.
//!
//! ```ignore
//! let registry = TestRegistry::start().await;
//! let layer = registry.put_blob(bytes);
//! let digest = registry.put_manifest("catalogs/a", "latest", manifest, OCI_MANIFEST);
//!
//! // Everything is well until told otherwise:
//! registry.misbehave(|behaviour| behaviour.status = Some(500));
//! registry.behave();
//!
//! // What was asked, oldest first:
//! assert_eq!(registry.lines(), ["HEAD /v2/catalogs/a/manifests/latest"]);
//! ```
//!
//! It stops, with all of its connections, when it is dropped.

mod answers;

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use images::digest::Digest;
use rustls::ServerConfig;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use self::answers::serve;

/// A registry that is running.
pub(crate) struct TestRegistry {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    server: AbortHandle,
}

/// How the registry behaves. The default is: well. The fields combine.
#[derive(Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct Behaviour {
    /// Who may pull.
    pub(crate) access: Access,
    /// Answer each request with this status and an OCI error document.
    pub(crate) status: Option<u16>,
    /// Answer so many requests with `status`, and the others well.
    pub(crate) times: Option<u32>,
    /// The `Retry-After` that goes with `status`.
    pub(crate) retry_after: Option<String>,
    /// The plain text that goes with `status`, in place of an error document.
    pub(crate) text: Option<&'static str>,
    /// Never answer.
    pub(crate) silent: bool,
    /// Answer HEAD with 405.
    pub(crate) no_head: bool,
    /// Value of the `Docker-Content-Digest` header.
    pub(crate) digest_header: DigestHeader,
    /// Answer HEAD with the digest of something else.
    pub(crate) wrong_head: bool,
    /// Add so many headers to manifests and blobs.
    pub(crate) more_headers: usize,
    /// Compress blobs with gzip, and say so.
    pub(crate) gzipped: bool,
    /// Call the encoding of blobs gzip, and change nothing.
    pub(crate) called_gzip: bool,
    /// List so many referrers on a page.
    pub(crate) page_of_referrers: Option<usize>,
    /// Answer manifest requests with a page that is no manifest.
    pub(crate) not_a_manifest: bool,
    /// Alter the last byte of each blob and manifest (other digest, same size).
    pub(crate) altered: bool,
    /// Break the connection after so many percent of a GET's body.
    pub(crate) cut: Option<u8>,
    /// End a GET's body politely after so many percent (more than 100: with
    /// bytes too many), without announcing a length.
    pub(crate) percent: Option<u16>,
    /// Send bodies in pieces of so many bytes, pausing before each.
    pub(crate) slow: Option<(usize, Duration)>,
    /// Answer ranges with all of the content, as a server that knows none.
    pub(crate) no_ranges: bool,
    /// Answer ranges with another part than the one that was asked for.
    pub(crate) wrong_range: bool,
    /// Give manifests an `ETag`, and answer conditions with it.
    pub(crate) etags: bool,
    /// Redirect blobs to this base URL (the path is appended).
    pub(crate) redirect_blobs: Option<String>,
    /// Store signatures, and answer each request for them with this document.
    pub(crate) stored_signatures: Option<String>,
}

/// Who may pull.
#[derive(Clone, Default)]
pub(crate) enum Access {
    /// Everybody.
    #[default]
    Open,
    /// Whoever sends this user and password.
    Basic(&'static str, &'static str),
    /// Whoever has a token from `/token`, which gives one to this user and
    /// password (or to this refresh token, as the password, by POST).
    Token(&'static str, &'static str),
    /// Whoever has a token from `/token`, which gives one to everybody.
    AnonymousToken,
    /// As `AnonymousToken`, with this realm in place of the registry's own.
    Realm(String),
    /// Nobody, with this challenge or none.
    Nobody(Option<&'static str>),
}

/// Value of the `Docker-Content-Digest` header.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum DigestHeader {
    /// The digest.
    #[default]
    Right,
    /// Another digest.
    Wrong,
    /// Something that is no digest.
    Nonsense,
    /// Nothing: there is no such header.
    Absent,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
}

#[derive(Default)]
struct State {
    behaviour: Behaviour,
    /// By repository and tag or digest.
    manifests: HashMap<(String, String), (String, Bytes)>,
    blobs: HashMap<Digest, Bytes>,
    tokens: HashSet<String>,
    tokens_given: u32,
    has_tls: bool,
    /// Referrers of an image, by repository and digest; none: there is no
    /// such API.
    referrers: Option<HashMap<(String, String), Vec<Value>>>,
    requests: Vec<Recorded>,
    /// Bytes of blobs that were sent, and of how many at once.
    sent: u64,
    sending: usize,
    most_at_once: usize,
}

impl TestRegistry {
    /// Starts an empty registry on a free port of 127.0.0.1.
    pub(crate) async fn start() -> Self {
        Self::start_at("127.0.0.1:0", None).await
    }

    /// Starts an empty registry at an address, with TLS if it is told how.
    pub(crate) async fn start_at(address: &str, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = State {
            has_tls: tls.is_some(),
            ..State::default()
        };
        let state = Arc::new(Mutex::new(state));
        let tls = tls.map(TlsAcceptor::from);
        let server = tokio::spawn(serve(listener, tls, Arc::clone(&state))).abort_handle();
        Self {
            address,
            state,
            server,
        }
    }

    /// `127.0.0.1:PORT`.
    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    /// `127.0.0.1:PORT/REPOSITORY:TAG`.
    pub(crate) fn reference(&self, repository: &str, tag: &str) -> String {
        format!("{}/{repository}:{tag}", self.address)
    }

    /// Changes how the registry behaves from now on.
    pub(crate) fn misbehave(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.lock().behaviour);
    }

    /// Behaves well again.
    pub(crate) fn behave(&self) {
        self.lock().behaviour = Behaviour::default();
    }

    /// Keeps a blob; every repository has it.
    pub(crate) fn put_blob(&self, bytes: impl Into<Bytes>) -> Digest {
        let bytes = bytes.into();
        let digest = Digest::of(&bytes);
        self.lock().blobs.insert(digest, bytes);
        digest
    }

    /// Keeps a manifest under its digest and moves the tag to it.
    pub(crate) fn put_manifest(
        &self,
        repository: &str,
        tag: &str,
        bytes: impl Into<Bytes>,
        media_type: &str,
    ) -> Digest {
        let bytes = bytes.into();
        let digest = Digest::of(&bytes);
        let mut state = self.lock();
        for name in [tag.to_owned(), digest.to_string()] {
            let manifest = (media_type.to_owned(), bytes.clone());
            state
                .manifests
                .insert((repository.to_owned(), name), manifest);
        }
        digest
    }

    /// Names a manifest among those that refer to another.
    pub(crate) fn put_referrer(&self, repository: &str, subject: &Digest, descriptor: Value) {
        let mut state = self.lock();
        let referrers = state.referrers.get_or_insert_default();
        let key = (repository.to_owned(), subject.to_string());
        referrers.entry(key).or_default().push(descriptor);
    }

    /// The requests so far, oldest first.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.lock().requests.clone()
    }

    /// The requests so far as `METHOD PATH`, oldest first.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |request: &Recorded| format!("{} {}", request.method, request.path);
        self.lock().requests.iter().map(line).collect()
    }

    /// Forgets the requests so far.
    pub(crate) fn forget_requests(&self) {
        self.lock().requests.clear();
    }

    /// Moves a tag to what another one leads to.
    pub(crate) fn move_tag(&self, repository: &str, tag: &str, other: &str) {
        let mut state = self.lock();
        let key = |tag: &str| (repository.to_owned(), tag.to_owned());
        let manifest = state.manifests[&key(other)].clone();
        state.manifests.insert(key(tag), manifest);
    }

    /// Keeps a blob that lies in a file, of whatever size.
    pub(crate) fn put_blob_of_file(&self, digest: Digest, path: &Path) {
        let bytes = crate::support::file::map(path);
        self.lock().blobs.insert(digest, bytes);
    }

    /// How many bytes of blobs were sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.lock().sent
    }

    /// How many blobs were on their way at once at most.
    pub(crate) fn most_at_once(&self) -> usize {
        self.lock().most_at_once
    }

    /// Takes no token that was given out so far.
    pub(crate) fn revoke_tokens(&self) {
        self.lock().tokens.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl Drop for TestRegistry {
    fn drop(&mut self) {
        self.server.abort();
    }
}
