//! Files with secrets that other users of this machine can read.

use std::fs::{self, Metadata};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::objects::CredentialSource;
use ::images::signing::Password;

/// The bit of a file that others may read, and of a folder that others may pass.
const READ: u32 = 0o004;
const PASS: u32 = 0o001;

/// The most client keys of registries that are looked at.
const MAX_CLIENT_KEYS: usize = 1000;

/// Warns of each file that others can read.
pub(super) fn warn(config: &Config) {
    for (key, path) in secret_files(config) {
        if is_readable_by_others(&path) {
            let path = path.display();
            tracing::warn!(
                "{key}: every user of this machine can read {path}; `chmod o-r {path}` prevents it"
            );
        }
    }
}

/// The files with secrets, each with its key.
fn secret_files(config: &Config) -> Vec<(&'static str, PathBuf)> {
    let mut files: Vec<(&'static str, &PathBuf)> = Vec::new();
    let tls = [&config.grpc_tls, &config.http_tls].into_iter().flatten();
    files.extend(tls.map(|tls| ("key", &tls.key)));
    for catalog in &config.catalogs {
        let tokens = catalog.access.token_files.iter();
        files.extend(tokens.map(|path| ("token_files", path)));
    }
    let pulls = &config.distribution;
    files.extend(pulls.user_files.iter().map(|path| ("user_files", path)));
    let keys = pulls.token_key_files.iter();
    files.extend(keys.map(|path| ("token_key_files", path)));
    let registries = &config.registries;
    let auth_files = (registries.auth_files.iter()).chain(&registries.usual_auth_files);
    files.extend(auth_files.map(|path| ("auth_files", path)));
    let cluster = config.kubernetes.as_ref();
    let kubeconfig = cluster.and_then(|cluster| cluster.settings.kubeconfig.as_ref());
    files.extend(kubeconfig.map(|path| ("kubeconfig", path)));
    if let Some(key) = &config.signing_key {
        files.push(("key_file", &key.key));
        if let Password::File(path) = &key.password {
            files.push(("password_file", path));
        }
    }
    for webhook in &config.webhooks {
        let secrets = webhook.secret_files.iter();
        files.extend(secrets.map(|path| ("secret_files", path)));
        files.extend(webhook.token_file.iter().map(|path| ("token_file", path)));
    }
    if let Some(fleet) = &config.fleet {
        let password = fleet.password_file.iter();
        files.extend(password.map(|path| ("password_file", path)));
        if let CredentialSource::File(path) = &fleet.objects.credentials {
            files.push(("credentials_file", path));
        }
    }
    let mut files: Vec<_> = (files.into_iter())
        .map(|(key, path)| (key, path.clone()))
        .collect();
    let client_keys = client_keys(&registries.certificate_folders);
    files.extend(client_keys.map(|path| ("certs_dirs", path)));
    // A file of several catalogs is named once.
    files.sort_unstable();
    files.dedup();
    files
}

/// The keys of client certificates (`HOST/NAME.key`) in the folders for registries.
fn client_keys(folders: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    let content = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
    let hosts = (folders.iter().cloned()).flat_map(content);
    let files = hosts.flat_map(move |host| content(host.path()));
    let is_key = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "key");
    (files.map(|file| file.path()))
        .filter(is_key)
        .take(MAX_CLIENT_KEYS)
}

/// Whether others may read the file and pass all folders above it. One that is absent is
/// the matter of other checks.
fn is_readable_by_others(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else {
        return false;
    };
    let has = |metadata: Metadata, bit: u32| metadata.permissions().mode() & bit != 0;
    let is_readable = path.metadata().is_ok_and(|file| has(file, READ));
    let mut folders = path.ancestors().skip(1);
    is_readable && folders.all(|folder| folder.metadata().is_ok_and(|it| has(it, PASS)))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn a_file_is_readable_by_others_if_its_folders_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, "secret").unwrap();
        let set = |path: &Path, mode| {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        for (of_folder, of_file, wanted) in [
            (0o755, 0o644, true),
            (0o711, 0o604, true),
            (0o755, 0o600, false),
            (0o755, 0o640, false),
            (0o700, 0o644, false),
            (0o750, 0o666, false),
        ] {
            set(folder.path(), of_folder);
            set(&path, of_file);
            let found = is_readable_by_others(&path);
            assert_eq!(found, wanted, "{of_folder:o} {of_file:o}");
        }
        assert!(!is_readable_by_others(&folder.path().join("absent")));
    }
}
