//! The settings of the registry client.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use serde::Deserialize;

use crate::config::cluster_names::Namespace;
use crate::config::layer::layer;
use crate::config::value::{Host, Timeout};

/// The registry client.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[command(next_help_heading = "Registries")]
#[serde(default, deny_unknown_fields)]
pub struct RegistrySettings {
    /// A registry (HOST or HOST:PORT) that is reached over plain http, or the
    /// host of a URL whose certificate is not verified; repeatable
    #[arg(long, value_name = "HOST")]
    pub insecure: Option<Vec<Host>>,

    /// A file with credentials (auth.json, config.json); repeatable
    /// [default: the files of podman and docker]
    #[arg(long = "auth-file", value_name = "FILE")]
    pub auth_files: Option<Vec<PathBuf>>,

    /// A PEM file of authorities to trust besides the system's, or with the
    /// certificate of a server itself; repeatable
    #[arg(long = "ca-file", value_name = "FILE")]
    pub ca_files: Option<Vec<PathBuf>>,

    /// A folder with certificates by registry (certs.d); repeatable
    /// [default: the folders of podman and docker]
    #[arg(long = "certs-dir", value_name = "DIR")]
    pub certs_dirs: Option<Vec<PathBuf>>,

    /// A registries.conf, or a folder of such files; repeatable
    /// [default: the files of podman]
    #[arg(long, value_name = "PATH")]
    pub registries_conf: Option<Vec<PathBuf>>,

    /// A file with an `ImageDigestMirrorSet`, `ImageTagMirrorSet` or
    /// `ImageContentSourcePolicy`, or a folder of such files; repeatable
    #[arg(long = "mirror-file", value_name = "PATH")]
    pub mirror_files: Option<Vec<PathBuf>>,

    /// The policy.json that decides which images are accepted
    /// [default: the file of podman]
    #[arg(long, value_name = "FILE")]
    pub policy_file: Option<PathBuf>,

    /// Scopes in which a bundle of sigstore needs no name; only in the file.
    #[arg(skip)]
    pub bundle_scopes: Option<Vec<String>>,

    /// A file with a `ClusterImagePolicy` or `ImagePolicy` of OpenShift, or a
    /// folder of such files; repeatable
    #[arg(long = "image-policy-file", value_name = "PATH")]
    pub image_policy_files: Option<Vec<PathBuf>>,

    /// The namespace whose `ImagePolicy` objects apply
    #[arg(long, value_name = "NAMESPACE")]
    pub image_policy_namespace: Option<Namespace>,

    /// The folder that tells where signatures are stored (registries.d)
    /// [default: the folder of podman]
    #[arg(long, value_name = "DIR")]
    pub registries_d: Option<PathBuf>,

    /// The timeout of a connection attempt; only in the file.
    #[arg(skip)]
    pub connect_timeout: Option<Timeout>,

    /// The longest time without a byte; only in the file.
    #[arg(skip)]
    pub idle_timeout: Option<Timeout>,

    /// The timeout of a manifest; only in the file.
    #[arg(skip)]
    pub manifest_timeout: Option<Timeout>,

    /// The timeout of a blob; only in the file.
    #[arg(skip)]
    pub blob_timeout: Option<Timeout>,

    /// The number of attempts; only in the file.
    #[arg(skip)]
    pub attempts: Option<NonZeroU32>,

    /// The most parallel requests to a registry; only in the file.
    #[arg(skip)]
    pub requests_per_host: Option<NonZeroUsize>,
}

layer!(
    RegistrySettings: insecure, auth_files, ca_files, certs_dirs, registries_conf, mirror_files,
    policy_file, bundle_scopes, image_policy_files, image_policy_namespace, registries_d, connect_timeout, idle_timeout, manifest_timeout, blob_timeout, attempts,
    requests_per_host
);
