//! `registries.d`: where the signatures of an image are stored apart from its
//! registry, called lookasides (containers-registries.d(5)).

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use reqwest::Url;
use serde_json::{Map, Value};

use crate::config_files::{self, FileError, FileKind};
use crate::digest::Digest;
use crate::policy::registry_scopes;
use crate::reference::Reference;
use crate::yaml;

/// The largest file, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Where the places of signatures are configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignatureStoreFiles {
    /// A folder from the settings. It must exist.
    pub named: Option<PathBuf>,
    /// The usual folders, of which the first that exists applies.
    pub usual: Vec<PathBuf>,
    /// The folder of signatures for images without a configured place.
    pub default_store: Option<PathBuf>,
}

/// The configured places of signatures.
#[derive(Clone, Debug, Default)]
pub(crate) struct SignatureStores {
    /// By scope, without those that name no place.
    docker: BTreeMap<String, Url>,
    default: Option<Url>,
}

/// The address of the signatures of one digest, without their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreAddress {
    Folder(PathBuf),
    Http(Url),
}

/// One file or several, before all are merged.
#[derive(Default)]
struct Merged {
    docker: BTreeMap<String, Option<Url>>,
    /// That of `default-docker`.
    default: Option<Url>,
    /// The file of each scope, and of `default-docker`, which is none.
    files: BTreeMap<Option<String>, PathBuf>,
}

impl SignatureStores {
    /// Reads all files of the folder. It blocks.
    pub(crate) fn read(files: &SignatureStoreFiles) -> Result<Self, FileError> {
        let folder = match &files.named {
            Some(folder) => Some(folder),
            None => files.usual.iter().find(|folder| folder.exists()),
        };
        let mut merged = Merged::default();
        if let Some(folder) = folder {
            let kind = FileKind::SignatureStores;
            for path in config_files::list(kind, folder, &[".yaml"])? {
                let bytes = config_files::read(kind, &path, MAX_FILE)?;
                merged
                    .add(&bytes, &path)
                    .map_err(|problem| FileError::content(kind, &path, problem))?;
            }
        }
        let docker = merged.docker.into_iter();
        let docker = docker.filter_map(|(scope, url)| Some((scope, url?)));
        let usual = || Url::from_directory_path(files.default_store.as_ref()?).ok();
        Ok(Self {
            docker: docker.collect(),
            default: merged.default.or_else(usual),
        })
    }

    /// The place of the signatures of a digest, for an image with this name.
    /// The longest scope that names a place applies.
    pub(crate) fn address(&self, image: &Reference, digest: &Digest) -> Option<StoreAddress> {
        let scopes = registry_scopes(image);
        let mut found = scopes.iter().filter_map(|scope| self.docker.get(scope));
        let base = found.next().or(self.default.as_ref())?;
        let name = format!("{}@sha256={}", image.repository(), digest.hex());
        if base.scheme() == "file" {
            let folder = base.to_file_path().ok()?;
            return Some(StoreAddress::Folder(folder.join(name)));
        }
        let mut url = base.clone();
        let path = format!("{}/{name}", base.path().trim_end_matches('/'));
        url.set_path(&path);
        Some(StoreAddress::Http(url))
    }
}

impl StoreAddress {
    /// The address of one signature.
    pub(crate) fn signature(&self, number: usize) -> Self {
        match self {
            Self::Folder(path) => Self::Folder(path.join(format!("signature-{number}"))),
            Self::Http(url) => {
                let mut url = url.clone();
                url.set_path(&format!("{}/signature-{number}", url.path()));
                Self::Http(url)
            }
        }
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(f),
            Self::Http(url) => f.write_str(&crate::registry::url::redacted(url)),
        }
    }
}

/// Checks the content of a file.
pub(crate) fn check(bytes: &[u8]) -> Result<(), String> {
    Merged::default().add(bytes, Path::new(""))
}

impl Merged {
    fn add(&mut self, bytes: &[u8], path: &Path) -> Result<(), String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
        let mut documents = yaml::documents(text)?.into_iter();
        let Some(document) = documents.next() else {
            return Ok(());
        };
        let Value::Object(members) = document else {
            return Err("it is not an object".into());
        };
        match members.get("default-docker") {
            None | Some(Value::Null) => {}
            Some(section) => {
                if let Some(other) = self.files.insert(None, path.to_owned()) {
                    return Err(format!("{} has default-docker as well", other.display()));
                }
                self.default =
                    place(section).map_err(|problem| format!("default-docker: {problem}"))?;
            }
        }
        for (scope, section) in object(members.get("docker"), "docker")? {
            let url = place(section).map_err(|problem| format!("docker: {scope:?}: {problem}"))?;
            self.docker.insert(scope.clone(), url);
            if let Some(other) = self.files.insert(Some(scope.clone()), path.to_owned()) {
                return Err(format!(
                    "{} has the scope {scope:?} as well",
                    other.display()
                ));
            }
        }
        Ok(())
    }
}

/// The place that a section names. Unknown keys are ignored.
fn place(section: &Value) -> Result<Option<Url>, String> {
    let section: Map<String, Value> = object(Some(section), "it")?
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let text = |key: &str| match section.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        Some(_) => Err(format!("{key} is not a string")),
    };
    for key in ["lookaside-staging", "sigstore-staging"] {
        text(key)?;
    }
    if let Some(word) = text("use-sigstore-attachments")?
        && !matches!(
            word.to_ascii_lowercase().as_str(),
            "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n"
        )
    {
        return Err("use-sigstore-attachments is neither true nor false".into());
    }
    // The second is the older name.
    let (lookaside, sigstore) = (text("lookaside")?, text("sigstore")?);
    let Some(place) = lookaside.or(sigstore) else {
        return Ok(None);
    };
    let url = Url::parse(place).map_err(|_| format!("{place:?} is not a URL"))?;
    let is_usable = match url.scheme() {
        "file" => url.to_file_path().is_ok_and(|path| is_plain(&path)),
        "http" | "https" => url.has_host() && url.username().is_empty() && url.password().is_none(),
        _ => false,
    };
    if url.scheme() == "file" && !is_usable {
        return Err(format!(
            "{place:?} names a host: write a path with three slashes, as in file:///PATH"
        ));
    }
    if !is_usable {
        return Err(format!(
            "{:?} is not a place of signatures: file, http and https are supported, without a user",
            crate::registry::url::redacted(&url)
        ));
    }
    Ok(Some(url))
}

fn is_plain(path: &Path) -> bool {
    path.is_absolute()
}

/// The members of an object that may be missing.
fn object<'a>(
    value: Option<&'a Value>,
    name: &str,
) -> Result<impl Iterator<Item = (&'a String, &'a Value)>, String> {
    match value {
        None | Some(Value::Null) => Ok(None.into_iter().flatten()),
        Some(Value::Object(members)) => Ok(Some(members).into_iter().flatten()),
        Some(_) => Err(format!("{name} is not an object")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> Result<SignatureStores, String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let files = SignatureStoreFiles {
            named: Some(folder.path().to_owned()),
            default_store: Some("/var/lib/store".into()),
            ..SignatureStoreFiles::default()
        };
        SignatureStores::read(&files).map_err(|error| error.to_string())
    }

    fn address(stores: &SignatureStores, image: &str) -> String {
        let digest = Digest::of(b"");
        let address = stores.address(&image.parse().unwrap(), &digest).unwrap();
        address.to_string().replace(&digest.hex(), "HEX")
    }

    #[test]
    fn the_longest_scope_with_a_place_applies() {
        let stores = read(&[
            (
                "a.yaml",
                "docker:\n  quay.io:\n    sigstore: https://a.example/base/\n    unknown: [1]\n  \
                 quay.io/team:\n    use-sigstore-attachments: true\n  quay.io/team/app:\n    \
                 lookaside: file:///srv/signatures\n    sigstore: https://b.example\n  \
                 '*.example.com':\n    lookaside-staging: file:///x\n    lookaside: http://c.example:8080/s\n",
            ),
            ("b.yaml", "default-docker:\n  lookaside: https://d.example\n"),
            ("c.txt", "{"),
            ("d.yaml", ""),
        ])
        .unwrap();
        for (image, expected) in [
            (
                "quay.io/other/app:v1",
                "https://a.example/base/other/app@sha256=HEX",
            ),
            // The section of the team names no place.
            (
                "quay.io/team/more:v1",
                "https://a.example/base/team/more@sha256=HEX",
            ),
            ("quay.io/team/app:v1", "/srv/signatures/team/app@sha256=HEX"),
            (
                "x.example.com:5000/a:v1",
                "http://c.example:8080/s/a@sha256=HEX",
            ),
            (
                "docker.io/busybox:v1",
                "https://d.example/library/busybox@sha256=HEX",
            ),
        ] {
            assert_eq!(address(&stores, image), expected, "{image}");
        }
        let stores = read(&[]).unwrap();
        let expected = "/var/lib/store/team/app@sha256=HEX";
        assert_eq!(address(&stores, "quay.io/team/app:v1"), expected);
        let first = stores.address(&"quay.io/a:v1".parse().unwrap(), &Digest::of(b""));
        assert!(
            first
                .unwrap()
                .signature(7)
                .to_string()
                .ends_with("/signature-7")
        );
    }

    #[test]
    fn an_invalid_file_is_an_error_for_all_images() {
        let good = "docker: {quay.io: {lookaside: 'https://a.example'}}";
        assert!(read(&[("a.yaml", good)]).is_ok());
        for (files, problem) in [
            (
                vec![("a.yaml", good), ("b.yaml", good)],
                "a.yaml has the scope \"quay.io\" as well",
            ),
            (
                vec![
                    ("a.yaml", "default-docker: {}"),
                    ("b.yaml", "default-docker: {}"),
                ],
                "a.yaml has default-docker as well",
            ),
            (vec![("a.yaml", "docker: []")], "docker is not an object"),
            (vec![("a.yaml", "[]")], "it is not an object"),
            (vec![("a.yaml", "docker: {a: {}, a: {}}")], "repeated"),
            (
                vec![("a.yaml", "docker: {a: {lookaside: []}}")],
                "lookaside is not a string",
            ),
            (vec![("a.yaml", "docker: {a: {lookaside: x}}")], "not a URL"),
            (
                vec![("a.yaml", "docker: {a: {lookaside: 'file://srv/x'}}")],
                "three slashes",
            ),
            (
                vec![("a.yaml", "docker: {a: {lookaside: 'ftp://x/y'}}")],
                "ftp://x/y",
            ),
            (
                vec![("a.yaml", "docker: {a: {use-sigstore-attachments: maybe}}")],
                "neither",
            ),
            (vec![("a.yaml", "docker: {")], "YAML"),
        ] {
            let error = read(&files).unwrap_err();
            assert!(error.contains(problem), "{files:?}: {error}");
        }
    }

    #[test]
    fn the_users_folder_replaces_that_of_the_system() {
        let folder = tempfile::tempdir().unwrap();
        let (user, system) = (folder.path().join("user"), folder.path().join("system"));
        std::fs::create_dir(&system).unwrap();
        std::fs::write(
            system.join("a.yaml"),
            "default-docker: {lookaside: 'https://system.example'}",
        )
        .unwrap();
        let files = SignatureStoreFiles {
            usual: vec![user.clone(), system],
            ..SignatureStoreFiles::default()
        };
        let read = || {
            let stores = SignatureStores::read(&files).unwrap();
            stores.address(&"quay.io/a:v1".parse().unwrap(), &Digest::of(b""))
        };
        assert!(
            read()
                .unwrap()
                .to_string()
                .starts_with("https://system.example/a@")
        );
        std::fs::create_dir(&user).unwrap();
        assert_eq!(read(), None);
        let missing = SignatureStoreFiles {
            named: Some(folder.path().join("missing")),
            ..SignatureStoreFiles::default()
        };
        assert!(SignatureStores::read(&missing).is_err());
    }
}
