//! What the rest of almanac sees of a fleet, if it has one.

use crate::fleet::replica::Replica;
use crate::fleet::track::SharedTrack;
use crate::fleet::track::Track;
use crate::name::CatalogName;

/// The fleet of this process, if it is a replica of one. Cheap to clone.
#[derive(Clone, Default)]
pub enum Coordinator {
    /// A node alone.
    #[default]
    Alone,
    /// A replica of a fleet.
    Fleet(Replica),
}

impl Coordinator {
    /// A catalog of this process. `identity` is that of its configuration.
    pub fn open(&self, catalog: &CatalogName, identity: &str) -> Track {
        match self {
            Self::Alone => Track::Alone,
            Self::Fleet(replica) => Track::Shared(SharedTrack::new(replica, catalog, identity)),
        }
    }

    /// The replica, if this process is one.
    pub fn replica(&self) -> Option<&Replica> {
        match self {
            Self::Alone => None,
            Self::Fleet(replica) => Some(replica),
        }
    }
}
