//! Go's way of reading JSON into types, where it differs from serde's.

use serde::{Deserialize, Deserializer};

/// `null` gives the zero value, as Go reads it.
pub fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
