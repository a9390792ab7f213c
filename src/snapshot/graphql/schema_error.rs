//! A GraphQL schema, or the reason why there is none.

use async_graphql::dynamic;

/// No GraphQL schema can be made of a catalog: a defect of almanac.
#[derive(Clone, Debug, thiserror::Error)]
#[error("no GraphQL schema can be made of the catalog: {0}")]
pub struct SchemaError(pub(super) String);

/// A schema, or why there is none.
pub(crate) type GraphqlSchema = Result<dynamic::Schema, SchemaError>;
