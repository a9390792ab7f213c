//! The settings of the cluster.

use std::path::PathBuf;

use serde::Deserialize;

use crate::config::cluster_names::{Namespace, Selector};
use crate::config::declaration::{Shown, plain_setting, settings};
use crate::config::value::{Address, deserialized_from_text};
use crate::kubernetes::{ClusterCatalogs, SecretName};

/// The Service of catalogd, upstream.
const SERVICE_URL: &str = "https://catalogd-service.olmv1-system.svc";

settings! {
    /// The cluster.
    #[derive(Clone, Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct KubernetesSettings in "Kubernetes" {
        /// `follow`: serve what catalogd resolves; `own`: resolve `ClusterCatalogs` and write
        /// their status.
        pub cluster_catalogs: Option<ClusterCatalogs> = ClusterCatalogs::default();

        /// Label selector for `ClusterCatalogs`, as of `kubectl`.
        pub selector: Option<Selector>, example "team=catalogs";

        /// Address and credentials of the API server, for `[kubernetes]`.
        pub kubeconfig: Option<PathBuf>,
            otherwise "`KUBECONFIG`, else the service account of the pod", example "/etc/almanac/kubeconfig",
            flag "--kubeconfig FILE", variable "ALMANAC_KUBECONFIG";

        /// `own` only: namespace of the Lease `almanac-cluster-catalogs`.
        pub namespace: Option<Namespace>, otherwise "that of the pod", example "olmv1-system";

        /// `own` only: URL of almanac's Service in the status.
        pub service_url: Option<ServiceUrl> = ServiceUrl(SERVICE_URL.to_owned());

        /// `own` only: address of catalogd's admission webhook; `[http_tls]` must not require
        /// client certificates.
        pub webhook: Option<Address>, example "0.0.0.0:9443";

        /// Mirror sets of the cluster count for pulls.
        pub mirror_sets: Option<bool> = false;

        /// Image policies of the cluster count for pulls.
        pub image_policies: Option<bool> = false;

        /// Secret with credentials, `NAMESPACE/NAME`.
        pub pull_secret: Option<SecretName>, example "openshift-config/pull-secret";

        /// Adds the `imagePullSecrets` of almanac's service account.
        pub image_pull_secrets: Option<bool> = false;
    }
}

/// The URL of almanac in the status of `ClusterCatalogs`, as it is written.
#[derive(Clone, Debug, Deserialize)]
pub struct ServiceUrl(pub String);

impl KubernetesSettings {
    /// Whether the cluster names catalogs.
    pub(crate) fn names_catalogs(&self) -> bool {
        self.cluster_catalogs() != ClusterCatalogs::Off
    }
}

deserialized_from_text! {
    SecretName, "the name of a secret such as \"openshift-config/pull-secret\"";
}

plain_setting! {
    ServiceUrl: {
        "type": "string",
        "maxLength": 262,
        "pattern": "^https?://[^/?#@ ][^?#@ ]*$"
    };
}

impl Shown for ServiceUrl {
    fn shown(&self) -> String {
        self.0.clone()
    }
}
