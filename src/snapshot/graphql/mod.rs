//! The questions of catalogd's GraphQL API, answered from stored lines.
//!
//! `schema` makes a GraphQL schema from what the index knows of the fields of
//! blobs, once for a snapshot, at the latest when it is first asked; `blob` finds values in
//! lines, and `effort` bounds what one answer may take. What a query may look
//! like is the business of who takes it from a client.

mod blob;
mod effort;
mod schema;

use std::sync::Arc;
use std::time::Duration;

use async_graphql::parser::types::ExecutableDocument;
use async_graphql::{Request, Response, ServerError, Variables, dynamic};

pub use effort::Cancel;

use self::effort::Effort;
use crate::snapshot::Snapshot;

/// The longest that making an answer may take.
pub const MAX_TIME: Duration = Duration::from_secs(5);

/// What a client wants to know.
#[derive(Debug)]
pub struct Question {
    /// The query, parsed and found to be within bounds.
    pub document: ExecutableDocument,
    /// Values for its variables: an object, or null.
    pub variables: serde_json::Value,
    /// Which of its operations is meant, when it has several.
    pub operation: Option<String>,
}

/// No GraphQL schema can be made of a catalog: a defect of almanac.
#[derive(Clone, Debug, thiserror::Error)]
#[error("no GraphQL schema can be made of the catalog: {0}")]
pub struct SchemaError(String);

/// A schema, or why there is none.
pub(super) type Schema = Result<dynamic::Schema, SchemaError>;

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
        let response = schema.execute(request).await;
        Ok(match effort.exceeded() {
            // What was answered until then is not the answer.
            Some(limit) => Response::from_errors(vec![ServerError::new(limit.to_string(), None)]),
            None => response,
        })
    }
}
