//! The environment: the settings that stand in it, and where it says that
//! the files of other tools are.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::config::error::ConfigError;
use crate::config::settings::Settings;
use ::images::MirrorFiles;

/// What the names of all our variables begin with.
const PREFIX: &str = "ALMANAC_";
/// Names the file; the only variable that is no setting.
const CONFIG: &str = "ALMANAC_CONFIG";

/// Puts the value of a variable where it belongs, or says what is wrong.
type Setter = fn(&mut Settings, &OsStr) -> Result<(), String>;

/// Every setting that can stand in the environment: `ALMANAC_` and the name of
/// the flag.
const VARIABLES: &[(&str, Setter)] = &[
    ("ALMANAC_CATALOGS", |s, v| {
        s.catalogs = words(v)?;
        Ok(())
    }),
    ("ALMANAC_DATA_DIR", |s, v| {
        s.data_dir = Some(v.into());
        Ok(())
    }),
    ("ALMANAC_GRPC", |s, v| put(&mut s.grpc, v)),
    ("ALMANAC_HTTP", |s, v| put(&mut s.http, v)),
    ("ALMANAC_ADMIN", |s, v| put(&mut s.admin, v)),
    ("ALMANAC_DRAIN", |s, v| put(&mut s.drain, v)),
    ("ALMANAC_MAX_CONNECTIONS", |s, v| {
        put(&mut s.max_connections, v)
    }),
    ("ALMANAC_POLL", |s, v| put(&mut s.poll, v)),
    ("ALMANAC_KUBE_VERSION", |s, v| put(&mut s.kube_version, v)),
    ("ALMANAC_PLATFORM", |s, v| put(&mut s.platform, v)),
    ("ALMANAC_ON_INVALID", |s, v| put(&mut s.on_invalid, v)),
    ("ALMANAC_OFFLINE", |s, v| put_flag(&mut s.offline, v)),
    ("ALMANAC_DEFAULT_CATALOG", |s, v| {
        put(&mut s.default_catalog, v)
    }),
    ("ALMANAC_INSECURE", |s, v| {
        s.registries.insecure = Some(words(v)?);
        Ok(())
    }),
    ("ALMANAC_AUTH_FILE", |s, v| {
        s.registries.auth_files = Some(paths(v));
        Ok(())
    }),
    ("ALMANAC_CA_FILE", |s, v| {
        s.registries.ca_files = Some(paths(v));
        Ok(())
    }),
    ("ALMANAC_CERTS_DIR", |s, v| {
        s.registries.certs_dirs = Some(paths(v));
        Ok(())
    }),
    ("ALMANAC_REGISTRIES_CONF", |s, v| {
        s.registries.registries_conf = Some(paths(v));
        Ok(())
    }),
    ("ALMANAC_MIRROR_FILE", |s, v| {
        s.registries.mirror_files = Some(paths(v));
        Ok(())
    }),
    ("ALMANAC_POLICY_FILE", |s, v| {
        s.registries.policy_file = Some(v.into());
        Ok(())
    }),
    ("ALMANAC_LOG", |s, v| put(&mut s.log.filter, v)),
    ("ALMANAC_LOG_FORMAT", |s, v| put(&mut s.log.format, v)),
];

/// Variables and their values. An empty value counts as none, as composing
/// tools write it.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// Those that the program was started with.
    pub fn of_process() -> Self {
        env::vars_os().collect()
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        let value = self.0.get(OsStr::new(name))?;
        (!value.is_empty()).then_some(value)
    }

    /// The file that is named here.
    pub fn config_file(&self) -> Option<&Path> {
        self.get(CONFIG).map(Path::new)
    }

    /// The settings that stand here.
    pub fn settings(&self) -> Result<Settings, ConfigError> {
        let mut settings = Settings::default();
        for &(name, set) in VARIABLES {
            if let Some(value) = self.get(name) {
                set(&mut settings, value)
                    .map_err(|problem| ConfigError::Variable { name, problem })?;
            }
        }
        Ok(settings)
    }

    /// The variables that look like ours and are not: most likely misspelt.
    pub fn unknown(&self) -> Vec<String> {
        let names = self.0.keys().map(|name| name.to_string_lossy());
        names
            .filter(|name| name.starts_with(PREFIX) && !is_known(name) && !is_service(name))
            .map(std::borrow::Cow::into_owned)
            .collect()
    }

    /// The files with credentials that other tools would use: the one that
    /// `REGISTRY_AUTH_FILE` names, else those of podman's and docker's that
    /// are there.
    pub(super) fn auth_files(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        if let Some(path) = self.get("REGISTRY_AUTH_FILE") {
            return (vec![path.into()], Vec::new());
        }
        let usual = [
            self.below("XDG_RUNTIME_DIR", "containers/auth.json"),
            self.below("HOME", ".config/containers/auth.json"),
            self.below("DOCKER_CONFIG", "config.json")
                .or_else(|| self.below("HOME", ".docker/config.json")),
            self.below("HOME", ".dockercfg"),
        ];
        (Vec::new(), usual.into_iter().flatten().collect())
    }

    /// Where other tools look for `registries.conf`: what
    /// `CONTAINERS_REGISTRIES_CONF` names, else the user's or the system's, and
    /// the folders of both.
    pub(super) fn registries_conf(&self) -> MirrorFiles {
        if let Some(path) = self.get("CONTAINERS_REGISTRIES_CONF") {
            return MirrorFiles {
                named: vec![path.into()],
                ..MirrorFiles::default()
            };
        }
        let mut folders = self.containers("registries.conf.d");
        // Of folders the user's outweighs the system's, and comes last.
        folders.reverse();
        MirrorFiles {
            usual: self.containers("registries.conf"),
            usual_folders: folders,
            ..MirrorFiles::default()
        }
    }

    /// Where other tools look for the certificates of a registry.
    pub(super) fn certificate_folders(&self) -> Vec<PathBuf> {
        let mut folders = self.containers("certs.d");
        folders.push("/etc/docker/certs.d".into());
        folders
    }

    /// Where other tools look for `policy.json`.
    pub(super) fn policies(&self) -> Vec<PathBuf> {
        self.containers("policy.json")
    }

    /// A file or folder of podman's: the user's, then the system's.
    fn containers(&self, name: &str) -> Vec<PathBuf> {
        let user = self.below("HOME", ".config/containers");
        let system = Some(PathBuf::from("/etc/containers"));
        let folders = [user, system].into_iter().flatten();
        folders.map(|folder| folder.join(name)).collect()
    }

    fn below(&self, variable: &str, rest: &str) -> Option<PathBuf> {
        Some(Path::new(self.get(variable)?).join(rest))
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        let variables = variables.into_iter();
        Self(
            variables
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

fn is_known(name: &str) -> bool {
    name == CONFIG || VARIABLES.iter().any(|(known, _)| *known == name)
}

/// Whether Kubernetes may have set it, which tells every pod about services;
/// one that is named `almanac` gives `ALMANAC_PORT` and the like.
fn is_service(name: &str) -> bool {
    name.ends_with("_PORT")
        || ["_PORT_", "_SERVICE_HOST", "_SERVICE_PORT"]
            .iter()
            .any(|part| name.contains(part))
}

fn put<T: FromStr<Err: Display>>(place: &mut Option<T>, value: &OsStr) -> Result<(), String> {
    *place = Some(parse(text(value)?)?);
    Ok(())
}

fn put_flag(place: &mut bool, value: &OsStr) -> Result<(), String> {
    *place = match text(value)? {
        "true" | "1" => true,
        "false" | "0" | "" => false,
        other => return Err(format!("{other:?} is neither true nor false")),
    };
    Ok(())
}

fn words<T: FromStr<Err: Display>>(value: &OsStr) -> Result<Vec<T>, String> {
    text(value)?.split_whitespace().map(parse).collect()
}

/// Paths with a ':' between them, as in `PATH`.
fn paths(value: &OsStr) -> Vec<PathBuf> {
    env::split_paths(value).collect()
}

fn parse<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| {
        let problem = error.to_string();
        let shown = format!("{text:?}");
        // Most messages begin with what was written.
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
