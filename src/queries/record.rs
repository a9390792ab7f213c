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
                static FIELDS: std::sync::LazyLock<Vec<&'static str>> =
                    std::sync::LazyLock::new(|| {
                        let schema = $crate::queries::schema::TypeSchema::new::<$record>();
                        let fields = schema.fields().into_iter();
                        fields.map(|field| &*field.leak()).collect()
                    });
                &FIELDS
            }
        }
    )*};
}

pub(crate) use records;

records!(PackageSummary<'_>, PackageDetails<'_>, ChannelRecord<'_>);
