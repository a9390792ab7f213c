//! What all records have in common.

use utoipa::ToSchema;

use crate::answers::rest::records::{ChannelRecord, PackageDetails, PackageSummary};

/// A record whose fields clients may select.
pub(crate) trait Record: ToSchema {
    /// The names of its fields in their order.
    fn fields() -> &'static [&'static str];
}

/// Makes types records. The names of their fields come from their schemas.
macro_rules! records {
    ($($record:ty),* $(,)?) => {$(
        impl $crate::queries::record::Record for $record {
            fn fields() -> &'static [&'static str] {
                static NAMES: std::sync::LazyLock<Vec<String>> = std::sync::LazyLock::new(|| {
                    $crate::queries::schema::TypeSchema::new::<$record>().fields()
                });
                static FIELDS: std::sync::LazyLock<Vec<&'static str>> =
                    std::sync::LazyLock::new(|| NAMES.iter().map(String::as_str).collect());
                &FIELDS
            }
        }
    )*};
}

pub(crate) use records;

records!(PackageSummary<'_>, PackageDetails<'_>, ChannelRecord<'_>);
