//! One catalog of a folder over gRPC alone, from a cache that is built once:
//! how the image of a catalog serves itself.
//!
//! The cache is a data folder. It is made by whoever builds an image and only
//! read by whoever serves it, so that it may lie where nobody can write, and be
//! another user's. It fits a catalog when it was made of files with the same
//! paths and contents: dates and the place of the folder do not count, since
//! both change on the way through an image.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::ingest::{self, Cause, FilesError, OnInvalid, PassError};
use crate::name::CatalogName;
use crate::serve::{self, Listener};
use crate::snapshot::{Catalogs, Routing, Snapshot};
use crate::store::{Store, StoreError};
use ::images::digest::Digest;
use ::images::layers::Limits;
use fbc::problem::{Problem, Severity};

/// The name of the catalog: there is one, and every call means it.
const NAME: &str = "catalog";
/// How many problems are logged one by one.
const LOGGED: usize = 50;
/// How long open streams may take to finish at the end. A pod has 30 s.
const DRAIN: Duration = Duration::from_secs(20);
/// What caches of the peer have in their folder.
const FOREIGN: [&str; 2] = ["pogreb.v1", "digest"];

/// What to serve, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The catalog folder.
    pub folder: PathBuf,
    /// Where the cache is kept; else it is temporary.
    pub cache: Option<PathBuf>,
    /// End once the cache is there.
    pub cache_only: bool,
    /// What becomes of a cache that does not fit.
    pub integrity: Integrity,
    /// The port, on all addresses; 0 for any that is free.
    pub port: u16,
}

/// What becomes of a cache that is missing or does not fit the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// It is built anew.
    Rebuild,
    /// It is refused, unless it is the peer's: that is not broken, but nothing
    /// that can be read here.
    RefuseOwn,
    /// It is refused.
    Refuse,
}

/// What there is of a cache.
enum Cache {
    /// It was made of just this catalog.
    Fits(Box<Ready>),
    /// There is none, or one that cannot be used, for this reason.
    Unfit(String),
    /// The peer has made it.
    Foreign,
}

/// A catalog that is ready to be served.
struct Ready {
    snapshot: Snapshot,
    problems: Vec<Problem>,
    /// Kept for its lock: nobody writes to the cache meanwhile.
    _store: Store,
}

/// Serves until `stop` comes, then lets open connections finish.
///
/// # Errors
/// When the catalog cannot be read, the cache is refused or the port is taken.
pub async fn serve_folder(options: Options, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut stop = std::pin::pin!(stop);
    let ready = tokio::select! {
        ready = prepare(&options) => ready?,
        () = stop.as_mut() => {
            if options.cache_only {
                bail!("told to end before the cache was there");
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
        "the catalog is loaded"
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
    // Side by side, since a start waits for both.
    let (digest, cache) = tokio::join!(digest, async {
        match &options.cache {
            Some(path) => open(path, &name).await,
            None => Ok(None),
        }
    });
    let digest = digest.context("the catalog cannot be read")?;
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
            Cache::Foreign if options.integrity == Integrity::Refuse => bail!(
                "the cache {} is refused: it is one of opm, which almanac cannot read; \
                 build it with --cache-only, in an empty folder",
                path.display()
            ),
            Cache::Unfit(reason) => {
                tracing::info!(cache = %path.display(), reason, "building the cache");
            }
            Cache::Foreign => tracing::warn!(
                cache = %path.display(),
                "the cache is one of opm, which almanac cannot read: building another"
            ),
        }
        match build(path, &name, options).await {
            Err(error) if !options.cache_only && is_of_cache(&error) => {
                tracing::warn!("the cache cannot be kept, a temporary one has to do: {error:#}");
            }
            built => return built,
        }
    }
    let temporary = TempDir::with_prefix("almanac-cache-").context("cannot make a cache")?;
    // What is open stays readable when the folder goes, here and not only at
    // the end, which may come by force.
    build(temporary.path(), &name, options).await
}

/// Whether what was opened can be used for the catalog with this digest.
fn judge(path: &Path, opened: Result<Option<Ready>, StoreError>, digest: &Digest) -> Cache {
    match opened {
        Ok(Some(ready)) if ready.snapshot.revision().digest == *digest => {
            Cache::Fits(Box::new(ready))
        }
        Ok(Some(ready)) => Cache::Unfit(format!(
            "it was made of a catalog with the digest {}, and this one has {digest}",
            ready.snapshot.revision().digest
        )),
        Ok(None) if FOREIGN.iter().any(|entry| path.join(entry).exists()) => Cache::Foreign,
        Ok(None) => Cache::Unfit("there is none that this version can read".into()),
        Err(error) => Cache::Unfit(error.to_string()),
    }
}

/// Opens a cache to read it, if there is one.
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

/// Reads the catalog into a cache, and opens that.
async fn build(path: &Path, name: &CatalogName, options: &Options) -> anyhow::Result<Ready> {
    let new = !path.exists();
    let store = Store::open(path).await?;
    // Who builds an image can still put right what is wrong; who starts a
    // server is better off with the rest of the packages.
    let on_invalid = if options.cache_only {
        OnInvalid::Reject
    } else {
        OnInvalid::Quarantine
    };
    let limits = Limits::default();
    let stored = ingest::store_folder(&store, name, &options.folder, &limits, on_invalid).await;
    store.close().await;
    if let Err(PassError {
        cause: Cause::Refused(problems),
        ..
    }) = &stored
    {
        log_problems(problems);
    }
    stored?;
    store.let_all_read(new)?;
    drop(store);
    let ready = open(path, name).await?;
    ready.with_context(|| format!("the cache {} is gone", path.display()))
}

/// Whether it was the cache that failed, and not the catalog.
fn is_of_cache(error: &anyhow::Error) -> bool {
    let of_pass = error.downcast_ref::<PassError>().is_some_and(|error| {
        matches!(
            error.cause,
            Cause::Store(_) | Cause::Files(FilesError::Spool { .. })
        )
    });
    of_pass || error.is::<StoreError>()
}

/// All that is wrong, errors first: whoever depends on a package that is left
/// out finds nothing, and should find out why.
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
            "packages with errors are left out of what is served"
        );
    }
    for problem in errors.iter().take(LOGGED) {
        tracing::error!("{problem}");
    }
    for problem in warnings.iter().take(LOGGED.saturating_sub(errors.len())) {
        tracing::warn!("{problem}");
    }
    if problems.len() > LOGGED {
        tracing::warn!(
            "{} more problems; `almanac check` lists them",
            problems.len() - LOGGED
        );
    }
}

/// All addresses, of IPv6 and IPv4; of IPv4 alone where that is all there is.
async fn bind(port: u16) -> anyhow::Result<Listener> {
    let everywhere = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    match serve::bind("grpc", everywhere).await {
        Err(error) if error.problem.kind() != std::io::ErrorKind::AddrInUse => {
            tracing::debug!(%error, "no IPv6");
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
    // Kept to the end, with what it published.
    let publisher = publishers.pop().context("there is one catalog")?;
    publisher.publish(snapshot);
    let (drain, draining) = watch::channel(false);
    let limits = serve::Limits::default();
    serve::raise_descriptor_limit(limits.connections);
    let service = serve::grpc::Service::new(catalogs, limits, draining)
        .context("cannot set up gRPC reflection")?;
    let address = listener.address();
    let stopping = CancellationToken::new();
    let connections = TaskTracker::new();
    tokio::spawn(crate::app::memory::give_back(stopping.clone()));
    let server = tokio::spawn(service.serve(listener, stopping.clone(), connections.clone()));
    tracing::info!(service = "grpc", %address, "listening");
    tracing::info!(port = address.port(), "serving registry");

    stop.await;
    tracing::info!(longest = ?DRAIN, "stopping: open connections may finish");
    drain.send_replace(true);
    stopping.cancel();
    connections.close();
    let finished = tokio::time::timeout(DRAIN, async {
        // It ends with `stopping`, and a panic of it has been shown.
        let _ = server.await;
        connections.wait().await;
    });
    if finished.await.is_err() {
        tracing::warn!(left = connections.len(), "connections were cut");
    }
    drop(publisher);
    tracing::info!("stopped");
    Ok(())
}
