//! Full-text search over the packages of a revision.
//!
//! Words are matched by SQLite's FTS5, as beginnings, whatever their case and
//! accents. How well a package fits is told by the columns in which all words
//! are found, and not by how rare they are: rows of all catalogs lie in one
//! table, and what one catalog holds must not change the order of another's
//! answers.

use std::fmt::Write as _;

use sqlx::{QueryBuilder, Row as _, Sqlite, SqlitePool, Transaction};

use super::{RevisionId, StoreError};

/// What a package is found by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchRow {
    /// Its number in the index's `queries`.
    pub package: u32,
    /// Its name.
    pub name: String,
    /// What people call it.
    pub display_name: String,
    /// Its keywords.
    pub keywords: String,
    /// The kinds it provides.
    pub kinds: String,
    /// Who provides it.
    pub provider: String,
    /// Its description.
    pub description: String,
}

/// Searches in one revision. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Searcher {
    pool: SqlitePool,
    revision: RevisionId,
}

/// How many rows one statement writes.
const ROWS: usize = 100;
/// How many words are searched for at most.
const MAX_WORDS: usize = 16;

/// The sets of columns that all words may be found in, from the one that says
/// most.
const COLUMNS: [&str; 4] = [
    "{name}",
    "{name display_name}",
    "{name display_name keywords kinds provider}",
    "{name display_name keywords kinds provider description}",
];

impl super::Store {
    /// Searches in a revision.
    pub fn searcher(&self, revision: RevisionId) -> Searcher {
        Searcher {
            pool: self.pool.clone(),
            revision,
        }
    }
}

impl Searcher {
    /// The words that a text is searched by: runs of letters and digits. At
    /// most sixteen count.
    pub fn words(text: &str) -> Vec<&str> {
        text.split(|sign: char| !sign.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .take(MAX_WORDS)
            .collect()
    }

    /// The packages that have a word beginning with each of the given, by
    /// their numbers in the index's `queries`: the best first, and those that
    /// are equally good by name. Nothing when the revision is no longer there.
    pub async fn search(&self, words: &[&str]) -> Result<Option<Vec<u32>>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new("SELECT package, min(rank) FROM (");
        for (rank, columns) in COLUMNS.iter().enumerate() {
            if rank > 0 {
                query.push(" UNION ALL ");
            }
            // The first join is the one with few rows.
            query
                .push("SELECT package, ")
                .push(rank)
                .push(" AS rank FROM search JOIN search_packages AS rows ON rows.id = search.rowid WHERE rows.revision = ")
                .push_bind(self.revision.0)
                .push(" AND search MATCH ")
                .push_bind(expression(columns, words));
        }
        // Numbers follow names.
        query.push(") GROUP BY package ORDER BY min(rank), package");
        let sql = StoreError::sql;
        let rows = query
            .build()
            .fetch_all(&self.pool)
            .await
            .map_err(sql("search"))?;
        if rows.is_empty() && !self.is_there().await? {
            return Ok(None);
        }
        let package = |row: &sqlx::sqlite::SqliteRow| u32::try_from(row.get::<i64, _>(0)).ok();
        Ok(Some(rows.iter().filter_map(package).collect()))
    }

    async fn is_there(&self) -> Result<bool, StoreError> {
        let row = sqlx::query("SELECT 1 FROM revisions WHERE id = ?")
            .bind(self.revision.0)
            .fetch_optional(&self.pool)
            .await
            .map_err(StoreError::sql("look up a revision"))?;
        Ok(row.is_some())
    }
}

/// Words as FTS5 takes them: each quoted, so that none of them is syntax, and
/// each as the beginning of a word.
fn expression(columns: &str, words: &[&str]) -> String {
    let mut expression = format!("{columns} : (");
    for (at, word) in words.iter().take(MAX_WORDS).enumerate() {
        if at > 0 {
            expression.push_str(" AND ");
        }
        let _ = write!(expression, "\"{}\" *", word.replace('"', "\"\""));
    }
    expression.push(')');
    expression
}

/// Writes the rows of a revision.
pub(super) async fn insert(
    transaction: &mut Transaction<'_, Sqlite>,
    revision: i64,
    rows: &[SearchRow],
) -> Result<(), StoreError> {
    let sql = StoreError::sql;
    let mut next: i64 = sqlx::query("SELECT coalesce(max(id), 0) + 1 FROM search_packages")
        .fetch_one(&mut **transaction)
        .await
        .map_err(sql("number search rows"))?
        .get(0);
    for rows in rows.chunks(ROWS) {
        let numbered = || (next..).zip(rows);
        QueryBuilder::<Sqlite>::new("INSERT INTO search_packages (id, revision, package) ")
            .push_values(numbered(), |mut row, (id, values)| {
                row.push_bind(id)
                    .push_bind(revision)
                    .push_bind(i64::from(values.package));
            })
            .build()
            .execute(&mut **transaction)
            .await
            .map_err(sql("record packages to search"))?;
        QueryBuilder::<Sqlite>::new(
            "INSERT INTO search
               (rowid, name, display_name, keywords, kinds, provider, description) ",
        )
        .push_values(numbered(), |mut row, (id, values)| {
            row.push_bind(id)
                .push_bind(&values.name)
                .push_bind(&values.display_name)
                .push_bind(&values.keywords)
                .push_bind(&values.kinds)
                .push_bind(&values.provider)
                .push_bind(&values.description);
        })
        .build()
        .execute(&mut **transaction)
        .await
        .map_err(sql("record words to search"))?;
        next += rows.len() as i64;
    }
    Ok(())
}
