//! For tests of what uses a fleet.

use crate::objects::{self, CredentialSource};
use crate::store::RevisionId;
use crate::store::fleet::{Fleet, Generation, GenerationId, Lease, ReplicaId, Settings, TrackId};

/// A fleet whose database and bucket do not exist. Nothing is asked until it is used.
///
/// # Panics
/// Never: its settings are constants that can be used.
pub fn unreachable() -> Fleet {
    let settings = Settings {
        database: "postgres://a@127.0.0.1:1/a".parse().unwrap(),
        password_file: None,
        ca_files: Vec::new(),
        objects: objects::Settings {
            location: "s3://bucket/a?endpoint=http://127.0.0.1:1".parse().unwrap(),
            credentials: CredentialSource::from_key("a", "a"),
            ca_files: Vec::new(),
        },
        name: "a".into(),
        stale: None,
    };
    Fleet::open(&settings).unwrap()
}

/// A generation of some track.
pub fn generation_id(number: i64) -> GenerationId {
    GenerationId {
        track: TrackId(1),
        number,
    }
}

/// The right to follow a track.
pub fn lease(epoch: i64) -> Lease {
    Lease {
        track: TrackId(1),
        holder: ReplicaId(1),
        epoch,
    }
}

/// A generation of it, without a moment.
pub fn generation(number: i64) -> Generation {
    Generation {
        id: generation_id(number),
        revision: RevisionId(number),
        content: format!("sha256:{number}"),
        image: None,
        flips: None,
        resolved: None,
        untold: false,
        modified: number,
        not_before: None,
    }
}
