//! Signatures apart from the image: those that its registry stores by an
//! extension, else those of a lookaside (containers-registries.d(5)).

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use crate::config_files::{self, FileError, FileKind};
use crate::digest::Digest;
use crate::error::Error;
use crate::pull::signatures::search::{Search, count};
use crate::reference::Reference;
use crate::registry::Client;
use crate::signatures::{SignatureKind, SignatureStores, StoreAddress, blob};

/// The most signatures of one digest at one place.
const MAX_SIGNATURES: usize = 128;
/// The largest signature, in bytes.
const MAX_SIGNATURE: u64 = 4 << 20;

/// Searches the signatures of one digest at a location.
pub(super) async fn run(
    search: &Search<'_>,
    stores: &SignatureStores,
    client: &Client,
    image: &Reference,
    digest: &Digest,
) -> Result<(), Error> {
    if client.stores_signatures(image).await? {
        return in_registry(search, client, image, digest).await;
    }
    let mut addresses = Vec::new();
    for name in [image, search.requested()] {
        let address = stores.address(name, digest);
        addresses.extend(address.filter(|address| !addresses.contains(address)));
    }
    for address in addresses {
        if !search.is_done() {
            in_store(search, client, image, digest, &address).await?;
        }
    }
    Ok(())
}

/// The list of signatures of the extension.
#[derive(Deserialize)]
struct StoredList {
    signatures: Vec<Stored>,
}

#[derive(Deserialize)]
struct Stored {
    #[serde(rename = "schemaVersion")]
    version: u32,
    #[serde(rename = "type")]
    kind: String,
    content: String,
}

async fn in_registry(
    search: &Search<'_>,
    client: &Client,
    image: &Reference,
    digest: &Digest,
) -> Result<(), Error> {
    let place = format!("the signatures that {} stores of {digest}", image.name());
    let failed = |problem: String| Error::SignatureStore {
        reference: image.clone(),
        place: place.clone(),
        problem,
    };
    let bytes = client.stored_signatures(image, digest).await?;
    let list: StoredList = serde_json::from_slice(&bytes)
        .map_err(|_| failed("it is not a list of signatures".into()))?;
    let known = list.signatures.into_iter();
    let known = known.filter(|one| one.version == 2 && one.kind == "atomic");
    let mut found = 0;
    for one in known {
        if found == MAX_SIGNATURES {
            return Err(failed(format!(
                "it has more than {MAX_SIGNATURES} signatures"
            )));
        }
        found += 1;
        match BASE64_STANDARD.decode(one.content) {
            Ok(bytes) => check(search, &bytes, digest).await,
            Err(_) => search.wrong(SignatureKind::Simple, "it is not a signature"),
        }
    }
    search.searched(place, count(found));
    Ok(())
}

async fn in_store(
    search: &Search<'_>,
    client: &Client,
    image: &Reference,
    digest: &Digest,
    address: &StoreAddress,
) -> Result<(), Error> {
    let mut found = 0;
    loop {
        let bytes = match address.signature(found + 1) {
            StoreAddress::Folder(path) => file(image, path).await?,
            StoreAddress::Http(url) => client
                .outside_file(image, &url)
                .await?
                .map(|bytes| bytes.to_vec()),
        };
        let Some(bytes) = bytes else {
            break;
        };
        if found == MAX_SIGNATURES {
            return Err(Error::SignatureStore {
                reference: image.clone(),
                place: address.to_string(),
                problem: format!("it has more than {MAX_SIGNATURES} signatures"),
            });
        }
        found += 1;
        check(search, &bytes, digest).await;
        if search.is_done() {
            break;
        }
    }
    search.searched(address.to_string(), count(found));
    Ok(())
}

async fn check(search: &Search<'_>, bytes: &[u8], digest: &Digest) {
    match blob::parse(bytes) {
        Ok(signature) => search.check(signature, digest).await,
        Err(problem) => search.wrong(SignatureKind::Simple, problem),
    }
}

/// A file of a folder of signatures; none if it does not exist.
async fn file(image: &Reference, path: std::path::PathBuf) -> Result<Option<Vec<u8>>, Error> {
    let read = |path: &Path| config_files::read(FileKind::Signature, path, MAX_SIGNATURE);
    let reading = tokio::task::spawn_blocking(move || match read(&path) {
        Err(error) if error.is_missing() => Ok(None),
        bytes => bytes.map(Some),
    });
    let read: Result<_, FileError> = reading.await.map_err(|error| Error::Setup {
        problem: format!("reading a signature of {image} failed: {error}"),
    })?;
    read.map_err(|source| Error::File {
        reference: image.clone(),
        source,
    })
}
