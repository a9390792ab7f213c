//! The results of passes over each catalog.

use std::fmt;
use std::time::SystemTime;

use sqlx::Row as _;

use crate::name::CatalogName;
use crate::store::revisions::record_catalog;
use crate::store::sql::{self, seconds, time};
use crate::store::{Store, StoreError};

/// Passes per catalog that are kept.
const KEPT: i64 = 50;

/// A pass that changed something or failed.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Pass {
    /// When it began.
    #[serde(skip)]
    pub started: SystemTime,
    /// When it ended.
    #[serde(skip)]
    pub finished: SystemTime,
    /// How it ended.
    pub outcome: Outcome,
    /// The digest that the source was at, if it was resolved.
    pub digest: Option<String>,
    /// The stage that failed.
    pub stage: Option<String>,
    /// A short label of the reason.
    pub reason: Option<String>,
    /// The message.
    pub error: Option<String>,
}

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// With a new revision.
    Committed,
    /// With a catalog that is too invalid to serve.
    Refused,
    /// With an error.
    Failed,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Committed => "committed",
            Self::Refused => "refused",
            Self::Failed => "failed",
        })
    }
}

impl Store {
    /// Records a pass.
    pub async fn record_pass(&self, catalog: &CatalogName, pass: &Pass) -> Result<(), StoreError> {
        record_catalog(&self.pool, catalog).await?;
        let statement = sqlx::query(
            "INSERT INTO passes (catalog, started, finished, outcome, digest, stage, reason, error)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(catalog.as_str())
        .bind(seconds(pass.started))
        .bind(seconds(pass.finished))
        .bind(pass.outcome.to_string())
        .bind(&pass.digest)
        .bind(&pass.stage)
        .bind(&pass.reason)
        .bind(&pass.error);
        sql::execute(&self.pool, "record the pass", statement).await?;
        let statement = sqlx::query(
            "DELETE FROM passes WHERE catalog = ?1 AND id <=
               (SELECT id FROM passes WHERE catalog = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        )
        .bind(catalog.as_str())
        .bind(KEPT);
        sql::execute(&self.pool, "remove old passes", statement).await
    }

    /// The last pass over a catalog that changed something or failed.
    pub async fn last_pass(&self, catalog: &CatalogName) -> Result<Option<Pass>, StoreError> {
        let query = sqlx::query("SELECT * FROM passes WHERE catalog = ? ORDER BY id DESC LIMIT 1");
        let query = query.bind(catalog.as_str());
        let row = sql::first(&self.pool, "look up the last pass", query).await?;
        Ok(row.map(|row| Pass {
            started: time(row.get("started")),
            finished: time(row.get("finished")),
            outcome: match row.get("outcome") {
                "committed" => Outcome::Committed,
                "refused" => Outcome::Refused,
                _ => Outcome::Failed,
            },
            digest: row.get("digest"),
            stage: row.get("stage"),
            reason: row.get("reason"),
            error: row.get("error"),
        }))
    }
}
