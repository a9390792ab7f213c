//! Queries of catalogd's GraphQL API, answered from stored lines.
//!
//! `schema` makes a GraphQL schema from the fields in the index, once per
//! snapshot, at the latest for the first query. `page` selects the blobs of a
//! schema. `blob` finds values in lines,
//! and `effort` bounds time and size of an answer. The HTTP side bounds the
//! query itself.

mod blob;
mod effort;
mod page;
mod resolve;
mod schema;
pub(super) mod schema_error;

use std::sync::Arc;

use async_graphql::parser::types::ExecutableDocument;
use async_graphql::{Request, Response, ServerError, Variables};

pub use effort::{Cancel, MAX_TIME};
pub use schema_error::SchemaError;

use self::effort::Effort;
use crate::snapshot::Snapshot;

/// The member of `extensions` that tells of pages with fewer items than there are,
/// or than were asked for.
const LIMITS: &str = "limits";

/// A query and its parameters.
#[derive(Debug)]
pub struct Question {
    /// The query, parsed and found to be within bounds.
    pub document: ExecutableDocument,
    /// Values for its variables: an object, or null.
    pub variables: serde_json::Value,
    /// The operation to run, when the document has several.
    pub operation: Option<String>,
}

impl Snapshot {
    /// Makes the schema, so that no question has to wait for that.
    pub fn prepare_graphql(&self) {
        self.graphql.get_or_init(|| schema::build(self));
    }

    /// Answers a question. The work is done in one go on the calling thread;
    /// `cancel` ends it early.
    pub async fn answer_graphql(
        self: &Arc<Self>,
        question: Question,
        cancel: &Cancel,
    ) -> Result<Response, SchemaError> {
        let schema = self.graphql.get_or_init(|| schema::build(self)).clone()?;
        let effort = Arc::new(Effort::new(MAX_TIME, cancel.clone()));
        let mut request = Request::new("")
            .variables(Variables::from_json(question.variables))
            .data(Arc::clone(self))
            .data(Arc::clone(&effort));
        request.set_parsed_query(question.document);
        request.operation_name = question.operation;
        let mut response = schema.execute(request).await;
        let cuts = effort.cuts();
        if !cuts.is_empty()
            && let Ok(cuts) = async_graphql::to_value(&cuts)
        {
            response.extensions.insert(LIMITS.to_owned(), cuts);
        }
        Ok(match effort.exceeded() {
            // A partial response is dropped.
            Some(limit) => Response::from_errors(vec![ServerError::new(limit.to_string(), None)]),
            None => response,
        })
    }
}
