//! The limit of open files and connections of the process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::serve::net::connection_limit::MORE;

/// Descriptors for files, the store and the registry client.
const OTHERS: u64 = 200;

/// Raises the limit of open files to its maximum. Warns if that is not enough for
/// a listener with so many connections.
pub fn raise_descriptor_limit(connections: usize) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::debug!(%error, "cannot raise the limit of open files");
            limit.current
        }
    };
    let needed = OTHERS + (connections + MORE) as u64;
    if let Some(current) = current.filter(|&current| current < needed) {
        tracing::warn!(
            limit = current,
            needed,
            "the limit of open files is below the connection limit: raise it (ulimit -n), or \
             lower max_connections where that can be set"
        );
    }
}
