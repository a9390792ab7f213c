//! The certificates for a host: from its folder in `certs.d`
//! (containers-certs.d(5)), and from the bundles for all hosts.
//!
//! A folder is named `HOST` or `HOST:PORT`, as in an image reference. `*.crt`
//! are trusted authorities, `NAME.cert` and `NAME.key` are a client
//! certificate. The files are checked for each request and read when they
//! change.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::config_files::{self, FileError, FileKind};
use crate::error::causes;

/// The largest file of certificates, in bytes.
const MAX_CERTIFICATES: u64 = 4 << 20;

/// The files with certificates. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Certificates {
    bundles: Arc<[PathBuf]>,
    folders: Arc<[PathBuf]>,
}

/// The files for a request, in their current state: equal values mean equal
/// content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Chosen {
    /// The bundles for all hosts.
    bundles: Vec<Stamp>,
    /// The files in the folders of hosts.
    authorities: Vec<Stamp>,
    /// A certificate and its key.
    identity: Option<(Stamp, Stamp)>,
}

/// The trusted certificates, and the client certificate.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) trusted: Vec<CertificateDer<'static>>,
    pub(super) identity: Option<Identity>,
}

/// A client certificate with its chain, and its key.
pub(super) struct Identity {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

/// A file in a certain state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Stamp {
    path: PathBuf,
    length: u64,
    modified: Option<SystemTime>,
}

impl Certificates {
    pub(super) fn new(bundles: &[PathBuf], folders: &[PathBuf]) -> Self {
        Self {
            bundles: bundles.into(),
            folders: folders.into(),
        }
    }

    /// The first existing folder of a host (`HOST` or `HOST:PORT`).
    pub(super) fn folder(&self, host: &str) -> Option<PathBuf> {
        // Hosts are checked before; a path must never pass.
        if host.is_empty() || host.starts_with('.') || host.contains(['/', '\\']) {
            return None;
        }
        let mut folders = self.folders.iter().map(|folder| folder.join(host));
        folders.find(|folder| folder.is_dir())
    }

    /// The files with the authorities of each host in `trusted`, and with the
    /// client certificate of the host `own`.
    pub(super) fn choose(&self, trusted: &[&str], own: &str) -> Result<Chosen, FileError> {
        let mut chosen = Chosen::default();
        for path in self.bundles.iter() {
            chosen.bundles.push(Stamp::read(path)?);
        }
        for host in trusted {
            let Some(folder) = self.folder(host) else {
                continue;
            };
            for path in config_files::list(FileKind::Certificates, &folder, &[".crt"])? {
                chosen.authorities.push(Stamp::read(&path)?);
            }
            if *host == own && chosen.identity.is_none() {
                chosen.identity = pair(&folder)?;
            }
        }
        Ok(chosen)
    }
}

impl Chosen {
    /// Reads the trusted certificates and the client certificate.
    pub(super) fn load(&self) -> Result<Loaded, FileError> {
        let mut trusted = Vec::new();
        for Stamp { path, .. } in &self.bundles {
            trusted.extend(read_authorities(path)?);
        }
        let (bundled, mut broken) = (trusted.len(), None);
        for Stamp { path, .. } in &self.authorities {
            match read_authorities(path) {
                Ok(found) => trusted.extend(found),
                Err(error) => {
                    let problem = causes(&error);
                    tracing::warn!(problem, "a registry's file of authorities has no effect");
                    broken = Some(error);
                }
            }
        }
        if let Some(error) = broken.filter(|_| trusted.len() == bundled) {
            return Err(error);
        }
        let identity = self.identity.as_ref();
        let identity = identity.map(|(certificate, key)| read_identity(certificate, key));
        Ok(Loaded {
            trusted,
            identity: identity.transpose()?,
        })
    }
}

/// Reads a client certificate and its key. Both may stand in either file.
fn read_identity(certificate: &Stamp, key: &Stamp) -> Result<Identity, FileError> {
    let read = |path: &Path| config_files::read(FileKind::Certificates, path, MAX_CERTIFICATES);
    let mut pem = read(&certificate.path)?;
    pem.push(b'\n');
    pem.extend(read(&key.path)?);
    let refused = || {
        let problem = "it is not a PEM certificate with a matching key";
        FileError::content(FileKind::Certificates, &certificate.path, problem)
    };
    let chain = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let chain = chain.ok_or_else(refused)?;
    let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| refused())?;
    // A wrong key would only be found at the first handshake.
    let provider = rustls::crypto::ring::default_provider();
    rustls::sign::CertifiedKey::from_der(chain.clone(), key.clone_key(), &provider)
        .map_err(|_| refused())?;
    Ok(Identity { chain, key })
}

impl Stamp {
    fn read(path: &Path) -> Result<Self, FileError> {
        let metadata = fs::metadata(path)
            .map_err(|error| FileError::new(FileKind::Certificates, path, error))?;
        Ok(Self {
            path: path.to_owned(),
            length: metadata.len(),
            modified: metadata.modified().ok(),
        })
    }
}

/// The certificates of a file, of which at least one has to be usable.
fn read_authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let pem = config_files::read(FileKind::Certificates, path, MAX_CERTIFICATES)?;
    let mut found = Vec::new();
    let mut broken = 0;
    for der in CertificateDer::pem_slice_iter(&pem) {
        // One unusable authority would make the whole client fail.
        let usable = der
            .ok()
            .filter(|der| RootCertStore::empty().add(der.clone()).is_ok());
        match usable {
            Some(certificate) => found.push(certificate),
            None => broken += 1,
        }
    }
    if found.is_empty() {
        let problem = "it is not a PEM file with a usable certificate";
        return Err(FileError::content(FileKind::Certificates, path, problem));
    }
    if broken > 0 {
        tracing::warn!(path = %path.display(), broken, "certificates in the file are not usable and have no effect");
    }
    Ok(found)
}

/// The first certificate of a folder with its key.
fn pair(folder: &Path) -> Result<Option<(Stamp, Stamp)>, FileError> {
    let found = config_files::list(FileKind::Certificates, folder, &[".cert", ".key"])?;
    for path in &found {
        let is_key = path.extension().is_some_and(|ending| ending == "key");
        let other = path.with_extension(if is_key { "cert" } else { "key" });
        if !found.contains(&other) {
            // Its path has a file name, as `path` has one.
            let name = other.file_name().unwrap_or_default().to_string_lossy();
            let problem =
                format!("{name} is missing next to it (trusted authorities are named *.crt)");
            return Err(FileError::content(FileKind::Certificates, path, problem));
        }
    }
    match found
        .iter()
        .find(|path| path.extension().is_some_and(|e| e == "cert"))
    {
        None => Ok(None),
        Some(certificate) => {
            let key = certificate.with_extension("key");
            Ok(Some((Stamp::read(certificate)?, Stamp::read(&key)?)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate() -> (String, String) {
        let signed = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        (signed.cert.pem(), signed.signing_key.serialize_pem())
    }

    #[test]
    fn a_host_has_the_certificates_of_its_folder() {
        let first = tempfile::tempdir().unwrap();
        let second = tempfile::tempdir().unwrap();
        let (pem, key) = certificate();
        let put = |folder: &Path, host: &str, name: &str, content: &str| {
            fs::create_dir_all(folder.join(host)).unwrap();
            fs::write(folder.join(host).join(name), content).unwrap();
        };
        put(first.path(), "a.example:5000", "ca.crt", &pem);
        put(first.path(), "a.example:5000", "client.cert", &pem);
        put(first.path(), "a.example:5000", "client.key", &key);
        put(second.path(), "a.example:5000", "other.crt", &pem);
        put(second.path(), "b.example", "ca.crt", &pem);
        let certificates =
            Certificates::new(&[], &[first.path().to_owned(), second.path().to_owned()]);

        let chosen = certificates.choose(&["a.example:5000"], "a.example:5000");
        let loaded = chosen.unwrap().load().unwrap();
        assert_eq!(loaded.trusted.len(), 1);
        assert!(loaded.identity.is_some());
        // The authorities apply to a redirect, the client certificate does not.
        let chosen = certificates.choose(&["a.example:5000", "b.example"], "b.example");
        let loaded = chosen.unwrap().load().unwrap();
        assert_eq!(loaded.trusted.len(), 2);
        assert!(loaded.identity.is_none());
        for host in ["a.example", "c.example", "", "..", "a/b"] {
            let chosen = certificates.choose(&[host], host).unwrap();
            assert_eq!(chosen, Chosen::default(), "{host}");
        }
    }

    #[test]
    fn a_changed_file_is_another_choice() {
        let folder = tempfile::tempdir().unwrap();
        let bundle = folder.path().join("ca.pem");
        let (pem, _) = certificate();
        fs::write(&bundle, &pem).unwrap();
        let certificates = Certificates::new(std::slice::from_ref(&bundle), &[]);
        let before = certificates.choose(&["a"], "a").unwrap();
        assert_eq!(before, certificates.choose(&["a"], "a").unwrap());
        fs::write(&bundle, pem.clone() + &pem).unwrap();
        assert_ne!(before, certificates.choose(&["a"], "a").unwrap());
    }

    #[test]
    fn an_invalid_certificate_is_rejected_by_name() {
        let (pem, key) = certificate();
        for (files, named) in [
            (vec![("ca.crt", "")], "ca.crt"),
            (vec![("ca.crt", "nothing")], "ca.crt"),
            (vec![("client.cert", pem.as_str())], "client.cert"),
            (vec![("client.key", key.as_str())], "client.key"),
            (
                vec![("client.cert", "nothing"), ("client.key", key.as_str())],
                "client.cert",
            ),
        ] {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("a")).unwrap();
            for (name, content) in files {
                fs::write(folder.path().join("a").join(name), content).unwrap();
            }
            let certificates = Certificates::new(&[], &[folder.path().to_owned()]);
            let loaded = certificates.choose(&["a"], "a").and_then(|c| c.load());
            let error = loaded.err().unwrap().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn a_broken_authority_is_passed_over_if_another_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let host = folder.path().join("a");
        fs::create_dir(&host).unwrap();
        let (pem, _) = certificate();
        let no_certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        fs::write(host.join("1.crt"), "no pem").unwrap();
        fs::write(host.join("2.crt"), no_certificate).unwrap();
        let certificates = Certificates::new(&[], &[folder.path().to_owned()]);
        let load = || certificates.choose(&["a"], "a").unwrap().load();
        assert!(load().is_err());
        fs::write(host.join("3.crt"), no_certificate.to_owned() + &pem).unwrap();
        assert_eq!(load().unwrap().trusted.len(), 1);
    }
}
