//! Settings of the cluster.

use fbc::text::display::clip;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The objects to read from the cluster, and the credentials for it.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The treatment of `ClusterCatalogs`.
    pub cluster_catalogs: ClusterCatalogs,
    /// A label selector for them; `None` for all.
    pub selector: Option<String>,
    /// The file with the address and the credentials of the API server. Without
    /// it, the service account of the pod is used.
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of the Lease of the leader; `None` for that of the pod.
    pub namespace: Option<String>,
    /// The name of the pod, which the Lease shows.
    pub pod: String,
    /// The URL of almanac in the status, without a slash at its end.
    pub service_url: String,
    /// Whether mirror sets are read.
    pub mirror_sets: bool,
    /// Whether image policies are read.
    pub image_policies: bool,
    /// The namespace whose `ImagePolicy` objects are read too.
    pub policy_namespace: Option<String>,
    /// Whether ports have the TLS profile of the cluster.
    pub tls_profile: bool,
    /// The secret with credentials for registries.
    pub pull_secret: Option<SecretName>,
    /// Whether the secrets that almanac's service account names count, too.
    pub image_pull_secrets: bool,
}

/// The treatment of `ClusterCatalogs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClusterCatalogs {
    /// They are not read.
    #[default]
    Off,
    /// Follow by digest, and serve, the images that catalogd resolves.
    Follow,
    /// They are resolved and served, and their status is written, in the place of
    /// catalogd.
    Own,
}

/// The name of a secret: `NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretName {
    /// Its namespace.
    pub namespace: String,
    /// Its name there.
    pub name: String,
}

/// A text that does not name a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the name of a secret, such as \"openshift-config/pull-secret\"")]
pub struct SecretNameError(String);

impl FromStr for SecretName {
    type Err = SecretNameError;

    fn from_str(text: &str) -> Result<Self, SecretNameError> {
        let is_name = |part: &str| {
            let sign = |byte: u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte)
            };
            part.starts_with(|sign: char| sign.is_ascii_alphanumeric())
                && part.len() <= 253
                && part.bytes().all(sign)
        };
        match text.split_once('/') {
            Some((namespace, name)) if is_name(namespace) && is_name(name) => Ok(Self {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err(SecretNameError(clip(text, 600))),
        }
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Settings {
    /// Whether anything is read.
    pub fn is_on(&self) -> bool {
        self.cluster_catalogs != ClusterCatalogs::Off
            || self.mirror_sets
            || self.image_policies
            || self.tls_profile
            || self.has_credentials()
    }

    /// Whether credentials for registries are read.
    pub(super) fn has_credentials(&self) -> bool {
        self.image_pull_secrets || self.pull_secret.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_a_namespace_and_a_name() {
        let name = "openshift-config/pull-secret"
            .parse::<SecretName>()
            .unwrap();
        assert_eq!(name.namespace, "openshift-config");
        assert_eq!(name.to_string(), "openshift-config/pull-secret");
        for text in ["", "a", "/a", "a/", "a/b/c", "A/b", "a/b c", "../b"] {
            assert!(text.parse::<SecretName>().is_err(), "{text}");
        }
    }
}
