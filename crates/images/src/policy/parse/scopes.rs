//! The scopes that each transport allows (containers-policy.json(5),
//! containers-transports(5)). Those of unknown transports, and of `docker`, are
//! any text.

use crate::digest::{is_digest, is_hexadecimal};
use crate::policy::parse::members::shown;
use crate::reference::{Reference, is_registry};

/// The longest scope of an image policy, in bytes.
const MAX_SCOPE: usize = 512;

/// Checks a scope of a transport. The empty one is always allowed.
pub(super) fn check_scope(transport: &str, scope: &str) -> Result<(), String> {
    let (is_good, takes): (fn(&str) -> bool, _) = match transport {
        "oci" | "oci-archive" | "dir" | "sif" => (
            is_canonical_path,
            "absolute paths without \"//\", \".\" and \"..\" and without a slash at the end",
        ),
        "docker-archive" | "tarball" => (|_| false, "only the empty one"),
        "atomic" => (is_openshift_image, "HOST[/NAMESPACE[/STREAM[:TAG]]]"),
        "containers-storage" => (
            is_storage_scope,
            "[[DRIVER@]/ROOT] and perhaps a name, @DIGEST and @ID",
        ),
        "docker-daemon" => (|scope| !is_digest(scope), "names, and no digests"),
        _ => return Ok(()),
    };
    if scope.is_empty() || is_good(scope) {
        return Ok(());
    }
    let scope = shown(scope);
    Err(format!("it has no scope {scope:?}: it takes {takes}"))
}

/// The scope as images are compared with it: hosts of registries are kept in
/// lower case.
pub(super) fn folded(transport: &str, scope: String) -> String {
    if transport != "docker" || !scope.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return scope;
    }
    match scope.split_once('/') {
        Some((host, path)) => format!("{}/{path}", host.to_ascii_lowercase()),
        None => scope.to_ascii_lowercase(),
    }
}

/// Checks a scope of an image policy: `*.DOMAIN`, or a host with a dot (or
/// `localhost`) and perhaps a path, a tag or a digest. The API of OpenShift takes
/// no others, and they would match no image.
pub(super) fn check_image_scope(scope: &str) -> Result<(), String> {
    let is_host = |host: &str| {
        let name = host.split(':').next().unwrap_or_default();
        is_registry(host) && (name.contains('.') || name.eq_ignore_ascii_case("localhost"))
    };
    let is_good = match (scope.strip_prefix("*."), scope.split_once('/')) {
        (Some(domain), _) => is_registry(domain) && !domain.contains([':', '[']),
        (None, None) => is_host(scope),
        (None, Some((host, _))) => is_host(host) && scope.parse::<Reference>().is_ok(),
    };
    if is_good && scope.len() <= MAX_SCOPE {
        return Ok(());
    }
    let scope = shown(scope);
    Err(format!(
        "the scope {scope:?} is neither *.DOMAIN nor HOST[:PORT][/REPOSITORY[:TAG|@DIGEST]]"
    ))
}

/// Whether a path is absolute, and written in the shortest way.
fn is_canonical_path(text: &str) -> bool {
    let parts = text.strip_prefix('/');
    parts.is_some_and(|parts| {
        parts
            .split('/')
            .all(|part| !matches!(part, "" | "." | ".."))
    })
}

/// Whether a text is a local storage, and perhaps an image in it.
fn is_storage_scope(text: &str) -> bool {
    let storage = text.strip_prefix('[').and_then(|text| text.split_once(']'));
    let Some((storage, image)) = storage else {
        return false;
    };
    let root = match storage.split_once('@') {
        Some(("", _)) => return false,
        Some((_, root)) => root,
        None => storage,
    };
    let is_id = |text: &str| is_hexadecimal(text, 64);
    root.starts_with('/')
        && match image.splitn(3, '@').collect::<Vec<_>>()[..] {
            [_, version] => is_id(version) || is_digest(version),
            [_, digest, id] => is_digest(digest) && is_id(id),
            _ => true,
        }
}

/// Whether a text has the shape of an image in the registry of OpenShift 3.
fn is_openshift_image(text: &str) -> bool {
    let mut parts = text.split('/').skip(1);
    let namespace = parts.next();
    let stream = parts.next();
    namespace.is_none_or(|name| !name.contains(':'))
        && stream.is_none_or(|name| name.matches(':').count() <= 1)
        && parts.next().is_none()
}
