//! The authorities of the trial, and certificates of any host.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};

use rustls::ServerConfig;
use tempfile::TempDir;

use crate::support::tls::{Authority, Pair};

/// Who signs the certificate of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Signer {
    /// An authority of the system.
    Trusted,
    /// An authority that only `certs.d` can name.
    Private,
    /// An authority that nobody trusts.
    Stranger,
}

struct Authorities {
    trusted: Authority,
    private: Authority,
    stranger: Authority,
    clients: Authority,
    /// With the file of the system's authorities, and an empty folder.
    folder: TempDir,
}

static AUTHORITIES: LazyLock<Authorities> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let trusted = Authority::new();
    std::fs::write(folder.path().join("system.pem"), trusted.pem()).unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    Authorities {
        trusted,
        private: Authority::new(),
        stranger: Authority::new(),
        clients: Authority::new(),
        folder,
    }
});

impl Signer {
    fn authority(self) -> &'static Authority {
        match self {
            Self::Trusted => &AUTHORITIES.trusted,
            Self::Private => &AUTHORITIES.private,
            Self::Stranger => &AUTHORITIES.stranger,
        }
    }

    /// Its certificate in PEM.
    pub(super) fn pem(self) -> String {
        self.authority().pem()
    }
}

/// The variables that make programs trust the system of the trial.
pub(super) fn variables() -> [(&'static str, PathBuf); 2] {
    let folder = AUTHORITIES.folder.path();
    [
        ("SSL_CERT_FILE", folder.join("system.pem")),
        ("SSL_CERT_DIR", folder.join("empty")),
    ]
}

/// A client's certificate that hosts accept.
pub(super) fn client() -> Pair {
    AUTHORITIES.clients.sign()
}

/// How a host shows itself.
pub(super) fn server(signer: Signer, host: &str, wants_certificate: bool) -> Arc<ServerConfig> {
    type Known = Mutex<HashMap<(Signer, String, bool), Arc<ServerConfig>>>;
    static KNOWN: LazyLock<Known> = LazyLock::new(Mutex::default);
    let key = (signer, host.to_owned(), wants_certificate);
    if let Some(known) = KNOWN.lock().unwrap().get(&key) {
        return Arc::clone(known);
    }
    let pair = signer.authority().sign_for(&[host]);
    let clients = wants_certificate.then_some(&AUTHORITIES.clients);
    let config = pair.server(clients);
    KNOWN.lock().unwrap().insert(key, Arc::clone(&config));
    config
}
