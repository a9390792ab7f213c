//! Serves the catalog of one folder over gRPC alone, from a cache that is built
//! once. Catalog images serve themselves this way.
//!
//! The cache is a data folder. The image build writes it; the server only reads
//! it, so it may be read-only and owned by another user. A cache fits a catalog
//! whose files have the same paths and contents. Dates and the location of the
//! folder are ignored, because an image build changes both.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::bus_error;
use crate::ingest::{self, Cause, FilesError, OnInvalid, PassError};
use crate::name::CatalogName;
use crate::serve::access::Access;
use crate::serve::{self, Listener};
use crate::snapshot::{Catalogs, Routing, Snapshot};
use crate::store::{Store, StoreError};
use ::images::digest::Digest;
use ::images::layers::Limits;
use fbc::problem::{Problem, Severity};

/// The name of the only catalog; every call addresses it.
const NAME: &str = "catalog";
/// The most problems that are logged one by one.
const MAX_LOGGED: usize = 50;
/// How long open streams may take to finish on shutdown. A pod has 30 s.
const DRAIN: Duration = Duration::from_secs(20);
/// Entries that a cache of opm has in its folder.
const OPM_ENTRIES: [&str; 2] = ["pogreb.v1", "digest"];

/// The folder to serve, and its options.
#[derive(Clone, Debug)]
pub struct Options {
    /// The catalog folder.
    pub folder: PathBuf,
    /// The folder of the cache; without one it is temporary.
    pub cache: Option<PathBuf>,
    /// End once the cache is built.
    pub cache_only: bool,
    /// The treatment of a cache that does not fit.
    pub integrity: Integrity,
    /// The port, on all addresses; 0 for any that is free.
    pub port: u16,
}

/// The treatment of a cache that is missing or does not fit the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// It is rebuilt.
    Rebuild,
    /// It is refused, except for a cache of opm, which is intact but unreadable
    /// here.
    RefuseOwn,
    /// It is refused.
    Refuse,
}

/// The state of a cache.
enum Cache {
    /// It was made of exactly this catalog.
    Fits(Box<Ready>),
    /// It is missing or unusable, for this reason.
    Unfit(String),
    /// opm made it.
    OfOpm,
}

/// A catalog that is ready to be served.
struct Ready {
    snapshot: Snapshot,
    problems: Vec<Problem>,
    /// Holds the lock of the cache, so that nobody writes to it.
    _store: Store,
}

/// Serves until `stop` completes, then lets open connections finish.
///
/// # Errors
/// When the catalog cannot be read, the cache is refused or the port is taken.
pub async fn serve_folder(options: Options, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    let started = Instant::now();
    bus_error::install();
    let mut stop = std::pin::pin!(stop);
    let ready = tokio::select! {
        ready = prepare(&options) => ready?,
        () = stop.as_mut() => {
            if options.cache_only {
                bail!("stopped before the cache was built");
            }
            return Ok(());
        }
    };
    log_problems(&ready.problems);
    let revision = ready.snapshot.revision();
    tracing::info!(
        configs = %options.folder.display(),
        digest = %revision.digest,
        packages = revision.counts.packages,
        bundles = revision.counts.bundles,
        quarantined = revision.counts.quarantined,
        elapsed = ?started.elapsed(),
        "catalog loaded"
    );
    if options.cache_only {
        return Ok(());
    }
    let listener = bind(options.port).await?;
    serve(listener, ready.snapshot, stop).await
}

/// Finds the catalog in the cache, or reads it.
async fn prepare(options: &Options) -> anyhow::Result<Ready> {
    let name: CatalogName = NAME.parse()?;
    let limits = Limits::default();
    let digest = ingest::digest_of_folder(&options.folder, &limits);
    // At the same time, because the start waits for both.
    let (digest, cache) = tokio::join!(digest, async {
        match &options.cache {
            Some(path) => open(path, &name).await,
            None => Ok(None),
        }
    });
    let digest = digest.context("cannot read the catalog")?;
    if let Some(path) = &options.cache {
        match judge(path, cache, &digest) {
            Cache::Fits(ready) => {
                tracing::info!(cache = %path.display(), "the cache fits the catalog");
                return Ok(*ready);
            }
            Cache::Unfit(reason) if options.integrity != Integrity::Rebuild => bail!(
                "the cache {} is refused: {reason}; build it with --cache-only, \
                 or let it be built at the start with --cache-enforce-integrity=false",
                path.display()
            ),
            Cache::OfOpm if options.integrity == Integrity::Refuse => bail!(
                "the cache {} is refused: opm made it, and almanac cannot read it; \
                 build it with --cache-only, in an empty folder",
                path.display()
            ),
            Cache::Unfit(reason) => {
                tracing::info!(cache = %path.display(), reason, "building the cache");
            }
            Cache::OfOpm => tracing::warn!(
                cache = %path.display(),
                "opm made the cache, and almanac cannot read it: building another"
            ),
        }
        match build(path, &name, options).await {
            Err(error) if !options.cache_only && is_of_cache(&error) => {
                tracing::warn!("cannot write the cache, using a temporary one: {error:#}");
            }
            built => return built,
        }
    }
    let temporary = TempDir::with_prefix("almanac-cache-").context("cannot make a cache")?;
    // Open files stay readable once the folder is removed. Removing it here
    // also cleans up after a forced end.
    build(temporary.path(), &name, options).await
}

/// Whether an opened cache fits the catalog with this digest.
fn judge(path: &Path, opened: Result<Option<Ready>, StoreError>, digest: &Digest) -> Cache {
    match opened {
        Ok(Some(ready)) if ready.snapshot.revision().digest == *digest => {
            Cache::Fits(Box::new(ready))
        }
        Ok(Some(ready)) => Cache::Unfit(format!(
            "it was made of a catalog with the digest {}, and this one has {digest}",
            ready.snapshot.revision().digest
        )),
        Ok(None) if OPM_ENTRIES.iter().any(|entry| path.join(entry).exists()) => Cache::OfOpm,
        Ok(None) => Cache::Unfit("it is missing, or this version cannot read it".into()),
        Err(error) => Cache::Unfit(error.to_string()),
    }
}

/// Opens a cache for reading, if it exists.
async fn open(path: &Path, name: &CatalogName) -> Result<Option<Ready>, StoreError> {
    let Some(store) = Store::open_to_read(path).await? else {
        return Ok(None);
    };
    let Some(revision) = store.current(name).await? else {
        return Ok(None);
    };
    let problems = store.problems(revision.id).await?;
    let snapshot = Snapshot::open(&store, revision)?;
    store.close().await;
    Ok(Some(Ready {
        snapshot,
        problems,
        _store: store,
    }))
}

/// Builds a cache from the catalog, and opens it.
async fn build(path: &Path, name: &CatalogName, options: &Options) -> anyhow::Result<Ready> {
    let new = !path.exists();
    let store = Store::open(path).await?;
    // An image build should fail, so that the author corrects the catalog. A
    // server should rather serve the other packages.
    let on_invalid = if options.cache_only {
        OnInvalid::Reject
    } else {
        OnInvalid::Quarantine
    };
    let limits = Limits::default();
    let stored = ingest::store_folder(&store, name, &options.folder, &limits, on_invalid).await;
    let retired = match &stored {
        Ok((revision, _)) => store.retire(revision).await,
        Err(_) => Ok(()),
    };
    store.close().await;
    if let Err(PassError {
        cause: Cause::Refused(problems),
        ..
    }) = &stored
    {
        log_problems(problems);
    }
    stored?;
    retired?;
    store.let_all_read(new)?;
    drop(store);
    let ready = open(path, name).await?;
    ready.with_context(|| format!("the cache {} disappeared", path.display()))
}

/// Whether the cache failed, and not the catalog.
fn is_of_cache(error: &anyhow::Error) -> bool {
    let of_pass = error.downcast_ref::<PassError>().is_some_and(|error| {
        matches!(
            error.cause,
            Cause::Store(_) | Cause::Files(FilesError::Spool { .. })
        )
    });
    of_pass || error.is::<StoreError>()
}

/// Logs all problems, errors first: the users of a missing package need the
/// reason.
fn log_problems(problems: &[Problem]) {
    let (errors, warnings): (Vec<_>, Vec<_>) = problems
        .iter()
        .partition(|problem| problem.severity > Severity::Warning);
    if errors
        .iter()
        .any(|problem| !problem.subject.package.is_empty())
    {
        tracing::error!(
            problems = errors.len(),
            "packages with errors are not served"
        );
    }
    for problem in errors.iter().take(MAX_LOGGED) {
        tracing::error!("{problem}");
    }
    for problem in warnings
        .iter()
        .take(MAX_LOGGED.saturating_sub(errors.len()))
    {
        tracing::warn!("{problem}");
    }
    if problems.len() > MAX_LOGGED {
        tracing::warn!(
            "{} more problems; `almanac check` lists them",
            problems.len() - MAX_LOGGED
        );
    }
}

/// Binds all addresses of IPv6 and IPv4, or of IPv4 alone without IPv6.
async fn bind(port: u16) -> anyhow::Result<Listener> {
    let everywhere = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    match serve::bind("grpc", everywhere).await {
        Err(error) if error.problem.kind() != std::io::ErrorKind::AddrInUse => {
            tracing::debug!(%error, "IPv6 is not available");
            Ok(serve::bind("grpc", SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await?)
        }
        bound => Ok(bound?),
    }
}

async fn serve(
    listener: Listener,
    snapshot: Snapshot,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let (catalogs, mut publishers) = Catalogs::new([(NAME.parse()?, Routing::default())], None);
    // It lives to the end, because it owns the published snapshot.
    let publisher = publishers.pop().context("there is one catalog")?;
    publisher.publish(snapshot);
    let (drain, draining) = watch::channel(false);
    let limits = serve::Limits::default();
    serve::raise_descriptor_limit(limits.connections);
    let service = serve::grpc::Service::new(catalogs, Access::default(), limits, draining)
        .context("cannot set up gRPC reflection")?;
    let address = listener.address;
    let stopping = CancellationToken::new();
    let connections = TaskTracker::new();
    tokio::spawn(crate::app::memory::give_back(stopping.clone()));
    let server = tokio::spawn(service.serve(listener, stopping.clone(), connections.clone()));
    tracing::info!(service = "grpc", %address, "listening");
    tracing::info!(port = address.port(), "serving registry");

    stop.await;
    tracing::info!(longest = ?DRAIN, "stopping; open connections may finish");
    drain.send_replace(true);
    stopping.cancel();
    connections.close();
    let finished = tokio::time::timeout(DRAIN, async {
        // It ends with `stopping`. The panic hook has reported a panic already.
        let _ = server.await;
        connections.wait().await;
    });
    if finished.await.is_err() {
        tracing::warn!(left = connections.len(), "connections were cut off");
    }
    drop(publisher);
    tracing::info!("stopped");
    Ok(())
}
