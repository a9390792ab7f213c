//! The scopes that each transport allows (containers-policy.json(5),
//! containers-transports(5)). Those of unknown transports, and of `docker`, are
//! any text.

use crate::policy::parse::members::shown;

/// Checks a scope of a transport. The empty one is always allowed.
pub(super) fn check_scope(transport: &str, scope: &str) -> Result<(), String> {
    let (is_good, takes): (fn(&str) -> bool, _) = match transport {
        "oci" | "oci-archive" | "dir" | "sif" => (
            is_canonical_path,
            "absolute paths without \"//\", \".\" and \"..\" and without a slash at the end",
        ),
        "docker-archive" | "tarball" => (|_| false, "only the empty one"),
        "atomic" => (is_openshift_image, "HOST[/NAMESPACE[/STREAM[:TAG]]]"),
        _ => return Ok(()),
    };
    if scope.is_empty() || is_good(scope) {
        return Ok(());
    }
    let scope = shown(scope);
    Err(format!("it has no scope {scope:?}: it takes {takes}"))
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

/// Whether a text has the shape of an image in the registry of OpenShift 3.
fn is_openshift_image(text: &str) -> bool {
    let mut parts = text.split('/').skip(1);
    let namespace = parts.next();
    let stream = parts.next();
    namespace.is_none_or(|name| !name.contains(':'))
        && stream.is_none_or(|name| name.matches(':').count() <= 1)
        && parts.next().is_none()
}
