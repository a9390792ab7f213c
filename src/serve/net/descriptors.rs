//! How many files and connections the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::serve::net::connection_limit::MORE;

/// What files, the store and the registry client may need besides connections.
const OTHERS: u64 = 200;

/// Takes as many descriptors as the process may have, and says so when that
/// is less than a listener with so many connections needs.
pub fn raise_descriptor_limit(connections: usize) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::debug!(%error, "the limit of open files stays as it is");
            limit.current
        }
    };
    let needed = OTHERS + (connections + MORE) as u64;
    if let Some(current) = current.filter(|&current| current < needed) {
        tracing::warn!(
            limit = current,
            needed,
            "fewer files may be open than connections are let in: raise the limit (ulimit -n), \
             or lower max_connections where that can be set"
        );
    }
}
