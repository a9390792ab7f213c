//! The environment: almanac's own variables, and those that locate the files of
//! other tools.
//!
//! A table maps variables to settings; clap's `env` attribute does not fit:
//!
//! - Flags, environment and file are separate layers of one type, so that
//!   commands can also use the environment without the flags, and a reload can
//!   resolve the layers again.
//! - An empty variable means that the setting is absent. clap would parse it.
//! - Lists have separators that flags do not have: spaces or colons.
//! - Errors name the variable. clap would name a flag that nobody wrote.
//! - The environment is a value, so that tests do not change the process.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::config::error::ConfigError;
use crate::config::settings::Settings;
use crate::objects::{CredentialSource, Store};
use ::images::credentials::Secret;
use ::images::{MirrorFiles, SignatureStoreFiles};

/// The prefix of all variables of almanac.
const PREFIX: &str = "ALMANAC_";
/// The variable for the file, which is not a setting.
const CONFIG: &str = "ALMANAC_CONFIG";
/// The variable for the bearer token of commands, which is not a setting.
const TOKEN: &str = "ALMANAC_TOKEN";
/// The variable for the password of the signing key, which no file contains.
const SIGNING_PASSWORD: &str = "ALMANAC_SIGNING_PASSWORD";

/// Stores the value of a variable in the settings, or returns the reason why it
/// is invalid.
type Setter = fn(&mut Settings, &OsStr) -> Result<(), String>;

/// The table of variables: each with the function that reads it, its name, and the
/// setting.
macro_rules! variables {
    ($($name:literal: $read:ident, $($field:ident).+;)*) => {
        &[$(($name, stringify!($read), |settings, value| {
            settings.$($field).+ = $read(value)?;
            Ok(())
        }),)*]
    };
}

/// The variables of settings: `ALMANAC_` and the name of the flag.
const VARIABLES: &[(&str, &str, Setter)] = variables! {
    "ALMANAC_CATALOGS": words, catalogs;
    "ALMANAC_DATA_DIR": path, data_dir;
    "ALMANAC_GRPC": value, grpc;
    "ALMANAC_HTTP": value, http;
    "ALMANAC_ADMIN": value, admin;
    "ALMANAC_DRAIN": value, drain;
    "ALMANAC_MAX_CONNECTIONS": value, max_connections;
    "ALMANAC_POLL": value, poll;
    "ALMANAC_KUBE_VERSION": value, kube_version;
    "ALMANAC_PLATFORM": value, platform;
    "ALMANAC_ON_INVALID": value, on_invalid;
    "ALMANAC_OFFLINE": flag, offline;
    "ALMANAC_DEFAULT_CATALOG": value, default_catalog;
    "ALMANAC_DATABASE": hidden, database;
    "ALMANAC_OBJECTS": hidden, objects;
    "ALMANAC_INSECURE": list, registries.insecure;
    "ALMANAC_AUTH_FILE": paths, registries.auth_files;
    "ALMANAC_CA_FILE": paths, registries.ca_files;
    "ALMANAC_CERTS_DIR": paths, registries.certs_dirs;
    "ALMANAC_REGISTRIES_CONF": paths, registries.registries_conf;
    "ALMANAC_MIRROR_FILE": paths, registries.mirror_files;
    "ALMANAC_POLICY_FILE": path, registries.policy_file;
    "ALMANAC_IMAGE_POLICY_FILE": paths, registries.image_policy_files;
    "ALMANAC_IMAGE_POLICY_NAMESPACE": value, registries.image_policy_namespace;
    "ALMANAC_REGISTRIES_D": path, registries.registries_d;
    "ALMANAC_KUBECONFIG": path, kubernetes.kubeconfig;
    "ALMANAC_LOG": value, log.filter;
    "ALMANAC_LOG_FORMAT": value, log.format;
};

/// Variables and their values. An empty value means that the variable is not
/// set, because tools such as Compose cannot omit a variable.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// The variables of this process.
    pub fn of_process() -> Self {
        env::vars_os().collect()
    }

    /// The variable that sets an option, by the option's long name, with its form
    /// where that is a list.
    pub fn variable_of(option: &str) -> Option<(&'static str, &'static str)> {
        if option == "config" {
            return Some((CONFIG, ""));
        }
        let named = |name: &str| {
            let rest = name.strip_prefix(PREFIX).unwrap_or_default();
            rest.to_lowercase().replace('_', "-") == option
        };
        let (name, read, _) = VARIABLES.iter().find(|(name, _, _)| named(name))?;
        let form = match *read {
            "words" | "list" => "separated by blanks",
            "paths" => "separated by colons",
            "flag" => "true or false",
            _ => "",
        };
        Some((name, form))
    }

    /// The variables of all settings.
    #[cfg(test)]
    pub(crate) fn of_settings() -> impl Iterator<Item = &'static str> {
        VARIABLES.iter().map(|(name, ..)| *name)
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

    /// The settings in the environment.
    pub fn settings(&self) -> Result<Settings, ConfigError> {
        let mut settings = Settings::default();
        for &(name, _, set) in VARIABLES {
            if let Some(value) = self.get(name) {
                set(&mut settings, value)
                    .map_err(|problem| ConfigError::Variable { name, problem })?;
            }
        }
        Ok(settings)
    }

    /// Unknown variables with almanac's prefix, which are probably misspelt.
    pub fn unknown(&self) -> Vec<String> {
        let names = self.0.keys().map(|name| name.to_string_lossy());
        names
            .filter(|name| name.starts_with(PREFIX) && !is_known(name) && !is_service(name))
            .map(std::borrow::Cow::into_owned)
            .collect()
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

fn is_known(name: &str) -> bool {
    [CONFIG, TOKEN, SIGNING_PASSWORD].contains(&name)
        || VARIABLES.iter().any(|(known, _, _)| *known == name)
}

/// Whether Kubernetes may have set the variable: every pod gets variables such as
/// `ALMANAC_PORT` for a Service named `almanac`.
fn is_service(name: &str) -> bool {
    name.ends_with("_PORT")
        || ["_PORT_", "_SERVICE_HOST", "_SERVICE_PORT"]
            .iter()
            .any(|part| name.contains(part))
}

fn value<T: FromStr<Err: Display>>(value: &OsStr) -> Result<Option<T>, String> {
    parse(text(value)?).map(Some)
}

/// A value that may have a secret, so that errors do not repeat it.
fn hidden<T: FromStr<Err: Display>>(value: &OsStr) -> Result<Option<T>, String> {
    let parsed = text(value)?.parse().map(Some);
    parsed.map_err(|error: T::Err| error.to_string())
}

fn flag(value: &OsStr) -> Result<bool, String> {
    match text(value)? {
        "true" | "1" => Ok(true),
        "false" | "0" | "" => Ok(false),
        other => Err(format!("{other:?} is neither true nor false")),
    }
}

fn words<T: FromStr<Err: Display>>(value: &OsStr) -> Result<Vec<T>, String> {
    text(value)?.split_whitespace().map(parse).collect()
}

fn list<T: FromStr<Err: Display>>(value: &OsStr) -> Result<Option<Vec<T>>, String> {
    words(value).map(Some)
}

#[expect(clippy::unnecessary_wraps, reason = "as the others of the table")]
fn path(value: &OsStr) -> Result<Option<PathBuf>, String> {
    Ok(Some(value.into()))
}

/// Paths separated by ':', as in `PATH`.
#[expect(clippy::unnecessary_wraps, reason = "as the others of the table")]
fn paths(value: &OsStr) -> Result<Option<Vec<PathBuf>>, String> {
    Ok(Some(env::split_paths(value).collect()))
}

fn parse<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| {
        let problem = error.to_string();
        let shown = format!("{text:?}");
        // Most messages start with the text itself.
        if problem.starts_with(&shown) {
            problem
        } else {
            format!("{shown} cannot be used: {problem}")
        }
    })
}

fn text(value: &OsStr) -> Result<&str, String> {
    value
        .to_str()
        .ok_or_else(|| "its value is not UTF-8".to_owned())
}
