//! The client of the API server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::client::ClientBuilder;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

use tower::BoxError;
use tower::util::MapErrLayer;

use crate::error_chain::error_chain;
use crate::kubernetes::settings::Settings;

/// The longest time to connect to the API server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The credentials for the API server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A kubeconfig that cannot be used.
    #[error("the kubeconfig {} cannot be used: {problem}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The reason.
        problem: String,
    },
    /// There is no kubeconfig, and this is no pod with a service account.
    #[error(
        "the API server of the cluster is unknown: this is not a pod with a service account \
         ({0}); name a kubeconfig with --kubeconfig or KUBECONFIG"
    )]
    NoCluster(String),
    /// The client cannot be made.
    #[error("the client of the API server cannot be set up: {0}")]
    Client(String),
}

/// A request that got no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot reach the API server {address}")]
struct NoAnswer {
    /// Scheme, host and port.
    address: String,
    source: Arc<dyn std::error::Error + Send + Sync>,
}

/// A client with the credentials that the settings name.
pub(super) async fn connect(settings: &Settings) -> Result<Client, ClientError> {
    let mut config = match &settings.kubeconfig {
        Some(path) => from_file(path).await?,
        None => Config::incluster().map_err(|error| ClientError::NoCluster(error_chain(&error)))?,
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // Each caller repeats what is worth it: a repetition here would hide for
    // minutes that the server rejects requests.
    config.default_retry = false;
    let address = address(&config.cluster_url);
    let builder = ClientBuilder::try_from(config);
    let builder = builder.map_err(|error| ClientError::Client(error_chain(&error)))?;
    let naming = MapErrLayer::new(move |error: BoxError| -> BoxError {
        if error.is::<kube::Error>() {
            return error;
        }
        let (address, source) = (address.clone(), error.into());
        Box::new(NoAnswer { address, source })
    });
    Ok(builder.with_layer(&naming).build())
}

/// Scheme, host and port of a server, without a user.
fn address(url: &http::Uri) -> String {
    let scheme = url.scheme_str().unwrap_or("https");
    let authority = url.authority().map_or("", |authority| authority.as_str());
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}")
}

async fn from_file(path: &Path) -> Result<Config, ClientError> {
    let unusable = |error: kube::config::KubeconfigError| ClientError::Kubeconfig {
        path: path.to_owned(),
        problem: error_chain(&error),
    };
    let file = path.to_owned();
    let read = tokio::task::spawn_blocking(move || Kubeconfig::read_from(file));
    let kubeconfig = match read.await {
        Ok(kubeconfig) => kubeconfig.map_err(unusable)?,
        Err(error) => return Err(ClientError::Client(error.to_string())),
    };
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options);
    config.await.map_err(unusable)
}
