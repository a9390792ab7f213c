//! The settings of the registry client.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use serde::Deserialize;

use crate::config::cluster_names::Namespace;
use crate::config::declaration::{FlagPath, Group as _, settings};
use crate::config::value::{Host, Timeout};
use ::images::Settings as Defaults;

settings! {
    /// The registry client.
    #[derive(Clone, Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct RegistrySettings in "Registries" {
        /// Registries over plain http, `HOST[:PORT]`; for a [URL](commands.md#sources), hosts
        /// whose certificate is not verified.
        pub insecure: Option<Vec<Host>>,
            flag "--insecure HOST", variable "ALMANAC_INSECURE";

        /// Files with [credentials](registries.md#credentials) (`auth.json`, `config.json`), by
        /// precedence; `[]` for none.
        pub auth_files: Option<Vec<PathBuf>>, otherwise "the files of podman and docker",
            example "[]",
            flag "--auth-file FILE", variable "ALMANAC_AUTH_FILE";

        /// PEM files of authorities to trust besides the system's, or with the certificate of a
        /// server itself.
        pub ca_files: Option<Vec<PathBuf>>,
            flag "--ca-file FILE", variable "ALMANAC_CA_FILE";

        /// Folders with certificates by registry (`certs.d`).
        pub certs_dirs: Option<Vec<PathBuf>>, otherwise "the folders of podman and docker",
            example r#"["/etc/containers/certs.d"]"#,
            flag "--certs-dir DIR", variable "ALMANAC_CERTS_DIR";

        /// `registries.conf` files, or folders of them; later ones win.
        pub registries_conf: Option<Vec<PathBuf>>, otherwise "the files of podman",
            example r#"["/etc/containers/registries.conf", "/etc/containers/registries.conf.d"]"#,
            flag "--registries-conf PATH", variable "ALMANAC_REGISTRIES_CONF";

        /// [Mirror sets](registries.md#mirrors) of OpenShift (`ImageDigestMirrorSet`,
        /// `ImageTagMirrorSet`, `ImageContentSourcePolicy`), files or folders.
        pub mirror_files: Option<Vec<PathBuf>>,
            flag "--mirror-file PATH", variable "ALMANAC_MIRROR_FILE";

        /// The [`policy.json`](signatures.md#policyjson) that admits images.
        pub policy_file: Option<PathBuf>, otherwise "the file of podman",
            example "/etc/containers/policy.json",
            flag "--policy-file FILE", variable "ALMANAC_POLICY_FILE";

        /// Scopes in which a [bundle without a name](../how-to/verify-signatures.md#bundles) is
        /// a signature.
        pub bundle_scopes: Option<Vec<String>>;

        /// [Image policies](signatures.md#policies-of-openshift) of OpenShift
        /// (`ClusterImagePolicy`, `ImagePolicy`), files or folders.
        pub image_policy_files: Option<Vec<PathBuf>>,
            flag "--image-policy-file PATH", variable "ALMANAC_IMAGE_POLICY_FILE";

        /// The namespace whose `ImagePolicy` objects apply.
        pub image_policy_namespace: Option<Namespace>, example "openshift-marketplace",
            flag "--image-policy-namespace NAMESPACE", variable "ALMANAC_IMAGE_POLICY_NAMESPACE";

        /// The [`registries.d`](signatures.md#registriesd) folder, with the places of signatures.
        pub registries_d: Option<PathBuf>, otherwise "the folder of podman",
            example "/etc/containers/registries.d",
            flag "--registries-d DIR", variable "ALMANAC_REGISTRIES_D";

        /// Connection setup with TLS.
        pub connect_timeout: Option<Timeout> = Timeout(Defaults::default().connect_timeout);
        /// Time without a byte.
        pub idle_timeout: Option<Timeout> = Timeout(Defaults::default().idle_timeout);
        /// One manifest, token request included.
        pub manifest_timeout: Option<Timeout> = Timeout(Defaults::default().manifest_timeout);
        /// One blob with all resumptions.
        pub blob_timeout: Option<Timeout> = Timeout(Defaults::default().blob_timeout);
        /// [Tries](operations.md#pulling) per request without progress.
        pub attempts: Option<NonZeroU32> = Defaults::default().attempts;
        /// Concurrent requests per registry, one for polls only.
        pub requests_per_host: Option<NonZeroUsize> = Defaults::default().requests_per_host;
    }
}

impl RegistrySettings {
    /// The paths that flags name.
    pub(crate) fn paths_of_flags(&self) -> Vec<FlagPath> {
        self.clone().flag_paths()
    }
}
