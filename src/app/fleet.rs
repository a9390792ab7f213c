//! Joins a fleet: several replicas over one database and one bucket.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::sync::watch;

use crate::config::Config;
use crate::fleet::{
    self, Backend, Coordinator, Fleet, FleetError, Migrated, Replica, Settings, check_not_alone,
    check_owner,
};
use crate::ingest::archive::{
    self, ArchiveError, Export, Exported, FleetCatalog, FleetImport, Imported, Progress,
};
use crate::snapshot::FleetStatus;
use crate::store::Store;

use ::images::layers::Limits;

/// How long a start waits for the database and the bucket.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same for a start that has something to serve.
const QUICK: Duration = Duration::from_secs(2);
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(500);
/// Of a command that needs one.
pub const NO_FLEET: &str = "the configuration has no database: name a file with --config that has \
    database and objects, for a fleet";

/// The fleet of the configuration, if it has one. The replica joins it once it follows its
/// catalogs.
///
/// # Errors
/// When the database, the bucket or the data folder belong to others, or when the first
/// two do not answer and nothing is stored that could be served.
pub(super) async fn join(
    config: &Config,
    store: &Store,
    retry_now: &watch::Sender<()>,
) -> anyhow::Result<Coordinator> {
    let Some(settings) = &config.fleet else {
        fleet::belong_to(store, None).await?;
        return Ok(Coordinator::Alone);
    };
    let shared = Fleet::open(settings).with_context(|| named(settings))?;
    let owner = fleet::owner(store);
    let patience = if owner.is_some() { QUICK } else { PATIENCE };
    let checked = reach(patience, Backend::Either, || shared.check()).await;
    let owner = match (checked, owner) {
        (Ok(id), _) => {
            fleet::belong_to(store, Some(&id)).await?;
            id
        }
        // What is stored is served meanwhile.
        (Err(error), Some(owner)) if error.is_temporary() => {
            tracing::warn!(
                %error, database = %settings.database, objects = %settings.objects.location,
                "the fleet does not answer: serving what is stored here"
            );
            owner
        }
        (Err(error), _) => return Err(anyhow::Error::new(error).context(named(settings))),
    };
    tracing::info!(
        database = %settings.database, objects = %settings.objects.location,
        name = settings.name, "replica of a fleet"
    );
    let status = FleetStatus {
        name: settings.name.clone(),
        database: settings.database.to_string(),
        objects: settings.objects.location.to_string(),
        replicas: 0,
        follows: Vec::new(),
        waits: BTreeMap::new(),
        panics: BTreeMap::new(),
        has_started: false,
        answered: None,
        heard: Instant::now(),
        stale: settings.stale,
        error: None,
        lost: 0,
        bucket_error: None,
    };
    let replica = Replica::new(shared, store.clone(), status, owner, retry_now.clone());
    Ok(Coordinator::Fleet(replica))
}

/// Tries the database, the bucket and the data folder of a configuration, and leaves no
/// trace in them. Returns what a start would fail for.
pub(super) async fn check(config: &Config) -> Vec<anyhow::Error> {
    let Some(settings) = &config.fleet else {
        let owner = check_owner(&config.data_dir, None);
        return owner.err().into_iter().map(Into::into).collect();
    };
    let (mut shared, mut folder) = (Vec::new(), Vec::new());
    match Fleet::open(settings) {
        Ok(fleet) => {
            let known = reach(PATIENCE, Backend::Database, || fleet.check_database()).await;
            let id = known.as_deref().ok();
            // It may have problems of its own, whatever the database says.
            let bucket = reach(PATIENCE, Backend::Bucket, || fleet.try_bucket(id)).await;
            let owner = id.map(|id| check_owner(&config.data_dir, Some(id)));
            folder.extend(owner.and_then(Result::err));
            shared.extend(known.err().into_iter().chain(bucket.err()));
            fleet.close().await;
        }
        Err(error) => shared.push(error),
    }
    folder.extend(check_not_alone(&config.data_dir).await.err());
    let named = |error| anyhow::Error::new(error).context(named(settings));
    let shared = shared.into_iter().map(named);
    shared.chain(folder.into_iter().map(Into::into)).collect()
}

/// Does work that checks a fleet, again while its database or bucket does not answer.
async fn reach<T, F: Future<Output = Result<T, FleetError>>>(
    patience: Duration,
    of: Backend,
    check: impl Fn() -> F,
) -> Result<T, FleetError> {
    let mut last = None;
    let trying = async {
        loop {
            match check().await {
                Err(error) if error.is_temporary() => last = Some(error),
                checked => return checked,
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    if let Ok(checked) = tokio::time::timeout(patience, trying).await {
        return checked;
    }
    Err(last.unwrap_or(FleetError::NoAnswer {
        of,
        after: patience,
    }))
}

/// Brings the database of a configuration to this version.
///
/// # Errors
/// When it cannot be reached or changed.
pub async fn migrate(settings: Settings) -> anyhow::Result<(String, Migrated)> {
    let migrated = fleet::migrate(&settings).await;
    let migrated = migrated.with_context(|| named(&settings))?;
    Ok((settings.database.to_string(), migrated))
}

/// Imports an archive into the fleet of a configuration.
pub async fn import_into_fleet(
    config: &Config,
    archive: &Path,
    older: bool,
    progress: &Progress,
) -> Result<Vec<Imported>, ArchiveError> {
    let catalogs = config.catalogs.iter().map(|catalog| {
        let (source, identity) = (catalog.source.clone(), catalog.track_identity());
        (catalog.name.clone(), FleetCatalog { source, identity })
    });
    let import = FleetImport {
        archive,
        data: config.data_dir.clone(),
        catalogs: catalogs.collect(),
        limits: config.unpack.clone(),
        older,
    };
    let settings = config.fleet.as_ref();
    let settings = settings.ok_or_else(|| FleetError::Refused(NO_FLEET.into()))?;
    let fleet = Fleet::open(settings)?;
    let imported = archive::import_into_fleet(&fleet, &import, progress).await;
    fleet.close().await;
    imported
}

/// Exports what a fleet serves.
pub async fn export_of_fleet(
    settings: &Settings,
    export: &Export,
    limits: &Limits,
    progress: &Progress,
) -> Result<Exported, ArchiveError> {
    let fleet = Fleet::open(settings)?;
    let exported = archive::export_of_fleet(&fleet, export, limits, progress).await;
    fleet.close().await;
    exported
}

fn named(settings: &Settings) -> String {
    format!(
        "fleet of {} and {}",
        settings.database, settings.objects.location
    )
}
