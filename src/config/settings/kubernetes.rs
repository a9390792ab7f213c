//! The settings of the cluster.

use std::path::PathBuf;

use serde::Deserialize;

use crate::config::cluster_names::{Namespace, Selector};
use crate::config::layer::layer;
use crate::config::value::{Address, deserialized_from_text};
use crate::kubernetes::{ClusterCatalogs, SecretName};

/// The cluster.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[command(next_help_heading = "Kubernetes")]
#[serde(default, deny_unknown_fields)]
pub struct KubernetesSettings {
    /// The treatment of `ClusterCatalogs`; only in the file.
    #[arg(skip)]
    pub cluster_catalogs: Option<ClusterCatalogs>,

    /// A label selector for them; only in the file.
    #[arg(skip)]
    pub selector: Option<Selector>,

    /// The kubeconfig for the settings in `[kubernetes]`
    /// [default: KUBECONFIG, else the service account of the pod]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The namespace of the leader's Lease; only in the file.
    #[arg(skip)]
    pub namespace: Option<Namespace>,

    /// The URL of almanac in the status of `ClusterCatalogs`; only in the file.
    #[arg(skip)]
    pub service_url: Option<String>,

    /// The address of the admission webhook; only in the file.
    #[arg(skip)]
    pub webhook: Option<Address>,

    /// Whether mirror sets are read; only in the file.
    #[arg(skip)]
    pub mirror_sets: Option<bool>,

    /// Whether image policies are read; only in the file.
    #[arg(skip)]
    pub image_policies: Option<bool>,

    /// The secret with credentials for registries; only in the file.
    #[arg(skip)]
    pub pull_secret: Option<SecretName>,

    /// Whether the secrets of the service account count, too; only in the file.
    #[arg(skip)]
    pub image_pull_secrets: Option<bool>,
}

impl KubernetesSettings {
    /// Whether the cluster names catalogs.
    pub(crate) fn names_catalogs(&self) -> bool {
        self.cluster_catalogs.unwrap_or_default() != ClusterCatalogs::Off
    }
}

layer!(
    KubernetesSettings: cluster_catalogs, selector, kubeconfig, namespace, service_url, webhook, mirror_sets, image_policies,
    pull_secret, image_pull_secrets
);

deserialized_from_text! {
    SecretName, "the name of a secret such as \"openshift-config/pull-secret\"";
}
