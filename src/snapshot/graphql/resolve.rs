//! Shared by all resolvers: the snapshot, and errors of single values.

use std::sync::Arc;

use async_graphql::dynamic::{FieldFuture, FieldValue, ResolverContext};

use crate::snapshot::Snapshot;
use crate::snapshot::graphql::effort::Effort;

/// Computes a field's value. A failure becomes an error of the answer, and the
/// value null.
pub(super) fn answer<'a>(
    ctx: &ResolverContext<'a>,
    ask: impl FnOnce(&ResolverContext<'a>, &Effort) -> Result<Option<FieldValue<'a>>, String>,
) -> FieldFuture<'a> {
    let made = match ctx.data::<Arc<Effort>>() {
        Ok(effort) => ask(ctx, effort),
        Err(error) => Err(error.message),
    };
    FieldFuture::Value(made.unwrap_or_else(|message| {
        let error = async_graphql::Error::new(message).into_server_error(ctx.item.pos);
        ctx.add_error(ctx.set_error_path(error));
        None
    }))
}

/// The snapshot that the query is for.
pub(super) fn snapshot<'a>(ctx: &'a ResolverContext<'_>) -> Result<&'a Snapshot, String> {
    let snapshot = ctx.data::<Arc<Snapshot>>();
    Ok(snapshot.map_err(|error| error.message)?)
}
