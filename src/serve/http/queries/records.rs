//! Stored records, and JSON of new ones.

use bytes::Bytes;
use serde::Serialize;

use crate::answers::rest::records::ChannelRecord;
use crate::serve::http::queries::problem::Problem;
use crate::snapshot::Snapshot;

/// Reads stored channels.
pub(super) fn read(stored: &[Bytes]) -> Result<Vec<ChannelRecord<'_>>, Problem> {
    let channels = stored.iter().map(Snapshot::channel_record);
    channels.collect::<Result<_, _>>().map_err(|error| {
        tracing::error!(%error, "a stored channel cannot be read");
        Problem::internal()
    })
}

/// The JSON of a record.
pub(super) fn json(value: &impl Serialize) -> Result<Bytes, Problem> {
    let json = serde_json::to_vec(value).map_err(|error| {
        tracing::error!(%error, "a record cannot be written as JSON");
        Problem::internal()
    })?;
    Ok(json.into())
}
