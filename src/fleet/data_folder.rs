//! Which fleet a data folder is of: the numbers of its revisions are that fleet's.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use crate::fleet::error::FleetError;
use crate::store::{DiskError, Store, sync_folder};

/// The file in a data folder that names the fleet whose numbers it has.
const OWNER: &str = "fleet";

/// Checks that the numbers of a data folder are those of a fleet, or of a node alone, as far
/// as it tells. Whether it tells nothing.
pub fn check_owner(folder: &Path, fleet: Option<&str>) -> Result<bool, FleetError> {
    let path = folder.join(OWNER);
    let owner = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        read => Some(read.map_err(DiskError::at("read", &path))?),
    };
    let shown = folder.display();
    match (owner.as_deref().map(str::trim), fleet) {
        (None, _) => Ok(true),
        (Some(owner), Some(fleet)) if owner == fleet => Ok(false),
        (Some(_), Some(_)) => Err(FleetError::Refused(format!(
            "{shown} is of another fleet: give each replica an empty data folder"
        ))),
        (Some(_), None) => Err(FleetError::Refused(format!(
            "{shown} is of a replica of a fleet: write database and objects, or give a node alone \
             an empty data folder"
        ))),
    }
}

/// Checks that a data folder is not that of a node alone.
pub async fn check_not_alone(folder: &Path) -> Result<(), FleetError> {
    if folder.join(OWNER).exists() {
        return Ok(());
    }
    let Some(store) = Store::open_beside(folder).await? else {
        return Ok(());
    };
    let catalogs = store.catalogs().await;
    store.close().await;
    if catalogs?.is_empty() {
        Ok(())
    } else {
        Err(is_alone(folder))
    }
}

fn is_alone(folder: &Path) -> FleetError {
    FleetError::Refused(format!(
        "{} has catalogs of a node alone, whose revisions have other numbers: give each replica an \
         empty data folder, and carry the catalogs over by `almanac export` and `almanac import`",
        folder.display()
    ))
}

/// Checks that the numbers of the folder of a store are those of a fleet, or of a node alone.
/// An empty folder becomes the fleet's.
pub async fn belong_to(store: &Store, fleet: Option<&str>) -> Result<(), FleetError> {
    let folder = store.folder();
    let is_free = check_owner(folder, fleet)?;
    let Some(fleet) = fleet.filter(|_| is_free) else {
        return Ok(());
    };
    if store.catalogs().await?.is_empty() {
        return write(folder, &folder.join(OWNER), fleet);
    }
    Err(is_alone(folder))
}

/// The fleet whose numbers the folder of a store has.
pub fn owner(store: &Store) -> Option<String> {
    let owner = std::fs::read_to_string(store.folder().join(OWNER)).ok()?;
    Some(owner.trim().to_owned())
}

fn write(folder: &Path, path: &Path, fleet: &str) -> Result<(), FleetError> {
    let new = path.with_extension("new");
    // A name that comes to the disk before its bytes would be that of no fleet.
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(fleet.as_bytes())?;
        file.sync_all()
    });
    written.map_err(DiskError::at("write", &new))?;
    std::fs::rename(&new, path).map_err(DiskError::at("create", path))?;
    Ok(sync_folder(folder)?)
}
