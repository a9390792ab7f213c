//! The environment as a value, so that tests do not change the process, and the
//! variables that locate the files of other tools. `config::variables` reads those of
//! settings.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::objects::{CredentialSource, Store};
use ::images::credentials::Secret;
use ::images::{MirrorFiles, SignatureStoreFiles};

/// The variable for the file, which is not a setting.
pub(super) const CONFIG: &str = "ALMANAC_CONFIG";
/// The variable for the bearer token of commands, which is not a setting.
pub(super) const TOKEN: &str = "ALMANAC_TOKEN";
/// The variable for the password of the signing key, which no file contains.
pub(super) const SIGNING_PASSWORD: &str = "ALMANAC_SIGNING_PASSWORD";

/// Variables and their values. An empty value means that the variable is not
/// set, because tools such as Compose cannot omit a variable.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// The variables of this process.
    pub fn from_process() -> Self {
        env::vars_os().collect()
    }

    /// The names of all variables.
    pub(super) fn names(&self) -> impl Iterator<Item = &OsStr> {
        self.0.keys().map(OsString::as_os_str)
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        let value = self.0.get(OsStr::new(name))?;
        (!value.is_empty()).then_some(value)
    }

    /// The configuration file that the environment names.
    pub fn config_file(&self) -> Option<&Path> {
        self.get(CONFIG).map(Path::new)
    }

    /// The bearer token for the URLs of catalogs.
    pub fn token(&self) -> Option<&OsStr> {
        self.get(TOKEN)
    }

    /// The file with logins of curl and others: the one that `NETRC` names, else
    /// that in the home folder.
    pub fn netrc(&self) -> Option<PathBuf> {
        let named = self.get("NETRC").map(PathBuf::from);
        named.or_else(|| self.below("HOME", ".netrc"))
    }

    /// The password of the signing key.
    pub fn signing_password(&self) -> Option<Secret> {
        let text = self.get(SIGNING_PASSWORD)?.to_str()?;
        Some(Secret::from(text.to_owned()))
    }

    /// The credential files of other tools: the one that `REGISTRY_AUTH_FILE`
    /// names, else the usual ones of podman and docker.
    pub(super) fn auth_files(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        if let Some(path) = self.get("REGISTRY_AUTH_FILE") {
            return (vec![path.into()], Vec::new());
        }
        let user = rustix::process::getuid().as_raw();
        let usual = [
            self.below("XDG_RUNTIME_DIR", "containers/auth.json")
                .or_else(|| Some(format!("/run/containers/{user}/auth.json").into())),
            self.below("XDG_CONFIG_HOME", "containers/auth.json")
                .or_else(|| self.below("HOME", ".config/containers/auth.json")),
            self.below("DOCKER_CONFIG", "config.json")
                .or_else(|| self.below("HOME", ".docker/config.json")),
            self.below("HOME", ".dockercfg"),
        ];
        (Vec::new(), usual.into_iter().flatten().collect())
    }

    /// The `registries.conf` of other tools: the one that
    /// `CONTAINERS_REGISTRIES_CONF` names, else those in the user's and the
    /// system's folder.
    pub(super) fn registries_conf(&self) -> MirrorFiles {
        if let Some(path) = self.get("CONTAINERS_REGISTRIES_CONF") {
            return MirrorFiles {
                named: vec![path.into()],
                ..MirrorFiles::default()
            };
        }
        MirrorFiles {
            usual: self.container_folders(),
            ..MirrorFiles::default()
        }
    }

    /// The folders of other tools for the certificates of registries.
    pub(super) fn certificate_folders(&self) -> Vec<PathBuf> {
        let mut folders = self.containers("certs.d");
        folders.push("/etc/docker/certs.d".into());
        folders
    }

    /// The kubeconfig of other tools: the first of the files that `KUBECONFIG` names.
    pub(super) fn kubeconfig(&self) -> Option<PathBuf> {
        let mut files = env::split_paths(self.get("KUBECONFIG")?);
        files.find(|path| !path.as_os_str().is_empty())
    }

    /// The name of this machine, which is the name of a pod.
    pub(crate) fn host_name(&self) -> String {
        if let Some(name) = self.get("HOSTNAME").and_then(OsStr::to_str) {
            return name.to_owned();
        }
        // Neither shells nor systemd export the variable.
        let known = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        match known.trim() {
            "" => "almanac".to_owned(),
            name => name.to_owned(),
        }
    }

    /// The key of a store of objects that the tools of its provider would take.
    pub(crate) fn object_credentials(&self, store: &Store) -> CredentialSource {
        let text = |name| self.get(name).and_then(OsStr::to_str).map(str::to_owned);
        CredentialSource::from_variables(store, text)
    }

    /// The locations of `policy.json`.
    pub(super) fn policies(&self) -> Vec<PathBuf> {
        self.containers("policy.json")
    }

    /// The folders of `registries.d`, and that of signatures without another
    /// place.
    pub(super) fn signature_stores(&self) -> SignatureStoreFiles {
        let default_store = if rustix::process::geteuid().is_root() {
            Some("/var/lib/containers/sigstore".into())
        } else {
            self.below("HOME", ".local/share/containers/sigstore")
        };
        SignatureStoreFiles {
            named: None,
            usual: self.containers("registries.d"),
            default_store,
        }
    }

    /// A file or folder of podman's: the user's, then the system's.
    fn containers(&self, name: &str) -> Vec<PathBuf> {
        let folders = self.container_folders().into_iter();
        folders.map(|folder| folder.join(name)).collect()
    }

    /// The folders of podman: the user's, then the system's.
    fn container_folders(&self) -> Vec<PathBuf> {
        let user = self.below("HOME", ".config/containers");
        user.into_iter().chain(["/etc/containers".into()]).collect()
    }

    fn below(&self, variable: &str, rest: &str) -> Option<PathBuf> {
        Some(Path::new(self.get(variable)?).join(rest))
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        let owned = |(name, value): (K, V)| (name.into(), value.into());
        Self(variables.into_iter().map(owned).collect())
    }
}
