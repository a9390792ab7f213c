//! Makes the clients of the three kinds of stores. Each gets its key from a [`Supply`], so that
//! none looks for one where nobody has told it to.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::list::PaginatedListStore;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};

use crate::objects::credentials::CredentialSource;
use crate::objects::error::ObjectProblem;
use crate::objects::location::{Store, Style};
use crate::objects::settings::Settings;
use crate::objects::supply::Supply;
use crate::objects::transport::Transport;

/// How often a request is sent again, and the pauses.
const RETRY: RetryConfig = RetryConfig {
    max_retries: 3,
    // The rest of an object that has been read for so long is not asked for.
    retry_timeout: Duration::from_hours(1),
    backoff: BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_secs(5),
        base: 4.0,
    },
};

/// A client of a bucket.
pub(super) trait Client: ObjectStore + PaginatedListStore {}

impl<T: ObjectStore + PaginatedListStore> Client for T {}

/// The client that a builder of the crate makes, with the key that the settings name.
macro_rules! client {
    ($builder:expr, $settings:ident, $transport:ident) => {{
        let base = $builder
            .with_http_connector($transport.clone())
            .with_retry(RETRY);
        let Settings {
            location,
            credentials,
            ..
        } = $settings.clone();
        let builder = base.clone();
        let supply = Supply::new($settings.credentials.clone(), move |text| {
            let mut builder = builder.clone();
            for (name, value) in credentials.options(&location.store, text)? {
                let name = name.to_lowercase().parse();
                builder = builder.with_config(name.map_err(|_| unusable(&credentials))?, value);
            }
            let client = builder.build().map_err(|_| unusable(&credentials))?;
            Ok(Arc::clone(client.credentials()))
        });
        let client = base.with_credentials(Arc::new(supply)).build();
        client.map(|client| Arc::new(client) as Arc<dyn Client>)
    }};
}

/// Makes the client of a bucket. No request is sent.
///
/// # Errors
/// When the crate refuses the settings.
pub(super) fn make(settings: &Settings, transport: &Transport) -> Result<Arc<dyn Client>, String> {
    let location = &settings.location;
    let made = match &location.store {
        Store::S3 => {
            let mut builder = AmazonS3Builder::new()
                .with_bucket_name(&location.bucket)
                .with_region(&location.region)
                .with_config(AmazonS3ConfigKey::RoleSessionName, "almanac")
                .with_virtual_hosted_style_request(location.style == Style::Virtual)
                // Not all stores know the request that removes many objects.
                .with_disable_bulk_delete(true);
            if let Some(root) = location.root() {
                builder = builder.with_endpoint(root);
            }
            client!(builder, settings, transport)
        }
        Store::Google => {
            let mut builder = GoogleCloudStorageBuilder::new().with_bucket_name(&location.bucket);
            if let Some(root) = location.root() {
                builder = builder.with_base_url(&root);
            }
            client!(builder, settings, transport)
        }
        Store::Azure(account) => {
            let mut builder = MicrosoftAzureBuilder::new()
                .with_account(account)
                .with_container_name(&location.bucket);
            if let Some(root) = location.root() {
                builder = builder.with_endpoint(root);
            }
            client!(builder, settings, transport)
        }
    };
    made.map_err(|error| format!("{location}: {error}"))
}

/// The reasons of parsers are left out: they may repeat a part of the key.
fn unusable(source: &CredentialSource) -> ObjectProblem {
    let place = match source {
        CredentialSource::File(path) => format!("credentials_file: {}", path.display()),
        source => format!("{source:?}"),
    };
    ObjectProblem::NoCredentials(format!("{place} has no key that can be used"))
}
