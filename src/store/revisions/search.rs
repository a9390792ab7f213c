//! Full-text search over the packages of a revision.
//!
//! SQLite's FTS5 matches the beginnings of words, without case and accents.
//! The rank of a package depends on the columns that have all words, not on how
//! rare the words are: all catalogs share one table, and one catalog must not
//! change the order of another's results.

use std::fmt::Write as _;

use sqlx::{QueryBuilder, Row as _, Sqlite, SqlitePool, Transaction};

use crate::answers::index::SearchRow;
use crate::store::revisions::revision_exists;
use crate::store::{RevisionId, StoreError, sql};

/// Searches in one revision. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Searcher {
    pool: SqlitePool,
    revision: RevisionId,
}

/// A package that a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// How well it matches; 0 is best. The ranks of all revisions compare.
    pub rank: u32,
    /// Its number in the index's `queries`.
    pub package: u32,
}

/// Rows per statement.
const ROWS: usize = 50;
/// The most words of a search.
pub const MAX_WORDS: usize = 16;

/// Sets of columns that have all words, the most significant one first.
const COLUMNS: [&str; 4] = [
    "{name}",
    "{name display_name}",
    "{name display_name keywords kinds provider}",
    "{name display_name keywords kinds provider description}",
];

impl crate::store::Store {
    /// Searches in a revision.
    pub fn searcher(&self, revision: RevisionId) -> Searcher {
        Searcher {
            pool: self.pool.clone(),
            revision,
        }
    }
}

impl Searcher {
    /// The words of a text: runs of letters and digits, with combining accents.
    pub fn words(text: &str) -> Vec<&str> {
        // As FTS5's tokenizer divides words.
        let accent = |sign| ('\u{300}'..='\u{36f}').contains(&sign);
        text.split(|sign: char| !sign.is_alphanumeric() && !accent(sign))
            .filter(|word| word.contains(char::is_alphanumeric))
            .collect()
    }

    /// The packages with words that begin with each of `words` (only the first
    /// [`MAX_WORDS`] count): the best first, equally good ones by name. `None` when
    /// the revision was removed.
    pub async fn search(&self, words: &[&str]) -> Result<Option<Vec<Found>>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new("SELECT package, min(rank) FROM (");
        for (rank, columns) in COLUMNS.iter().enumerate() {
            if rank > 0 {
                query.push(" UNION ALL ");
            }
            // In this order of the join, words are looked up once; otherwise
            // once for each row of the revision.
            query
                .push("SELECT package, ")
                .push(rank)
                .push(" AS rank FROM search CROSS JOIN search_packages AS rows ON rows.id = search.rowid WHERE rows.revision = ")
                .push_bind(self.revision.0)
                .push(" AND search MATCH ")
                .push_bind(expression(columns, words));
        }
        // Packages are numbered in the order of their names.
        query.push(") GROUP BY package ORDER BY min(rank), package");
        let rows = sql::all(&self.pool, "search", query.build()).await?;
        if rows.is_empty() && !revision_exists(&self.pool, self.revision).await? {
            return Ok(None);
        }
        let found = |row: &sqlx::sqlite::SqliteRow| {
            Some(Found {
                rank: u32::try_from(row.get::<i64, _>(1)).ok()?,
                package: u32::try_from(row.get::<i64, _>(0)).ok()?,
            })
        };
        Ok(Some(rows.iter().filter_map(found).collect()))
    }
}

/// An FTS5 expression: each word is quoted, so that none is syntax, and matches
/// the beginning of a word.
fn expression(columns: &str, words: &[&str]) -> String {
    let mut expression = format!("{columns} : (");
    for (at, word) in words.iter().take(MAX_WORDS).enumerate() {
        if at > 0 {
            expression.push_str(" AND ");
        }
        // A zero byte ends a text in SQLite.
        let word = word.replace('"', "\"\"").replace('\0', " ");
        let _ = write!(expression, "\"{word}\" *");
    }
    expression.push(')');
    expression
}

/// Writes the rows of a revision.
pub(crate) async fn insert(
    transaction: &mut Transaction<'_, Sqlite>,
    revision: RevisionId,
    rows: &[SearchRow],
) -> Result<(), StoreError> {
    let query = sqlx::query("SELECT coalesce(max(id), 0) + 1 FROM search_packages");
    let row = sql::first(&mut **transaction, "number search rows", query).await?;
    let mut next: i64 = row.map_or(1, |row| row.get(0));
    for rows in rows.chunks(ROWS) {
        let first = next;
        let numbered = || (first..).zip(rows);
        next = numbered().last().map_or(next, |(id, _)| id + 1);
        let mut packages =
            QueryBuilder::<Sqlite>::new("INSERT INTO search_packages (id, revision, package) ");
        packages.push_values(numbered(), |mut row, (id, values)| {
            row.push_bind(id)
                .push_bind(revision.0)
                .push_bind(i64::from(values.package));
        });
        let mut words = QueryBuilder::<Sqlite>::new(
            "INSERT INTO search
               (rowid, name, display_name, keywords, kinds, provider, description) ",
        );
        words.push_values(numbered(), |mut row, (id, values)| {
            row.push_bind(id)
                .push_bind(&values.name)
                .push_bind(&values.display_name)
                .push_bind(&values.keywords)
                .push_bind(&values.kinds)
                .push_bind(&values.provider)
                .push_bind(&values.description);
        });
        for mut rows in [packages, words] {
            // Kept, a statement of so many values would hold their memory.
            let statement = rows.build().persistent(false);
            sql::execute(&mut **transaction, "record packages to search", statement).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::index::Index;
    use crate::store::{Counts, NewRevision, Revision, SourceIdentity, Store};
    use ::images::digest::Digest;

    /// A revision of the catalog `a` whose packages have these names and
    /// descriptions.
    async fn revision(store: &Store, packages: &[(&str, &str)]) -> Revision {
        let rows: Vec<SearchRow> = (0..)
            .zip(packages)
            .map(|(package, (name, description))| SearchRow {
                package,
                name: (*name).to_owned(),
                description: (*description).to_owned(),
                ..SearchRow::default()
            })
            .collect();
        let finished = store.write_revision().unwrap().finish(Index::default());
        let new = NewRevision {
            catalog: &"a".parse().unwrap(),
            identity: SourceIdentity::from_text("file:/a"),
            digest: Digest::of(b""),
            counts: Counts::default(),
            blobs: &[],
            problems: &[],
            search: &rows,
        };
        store.commit(finished.unwrap(), new).await.unwrap()
    }

    async fn rows(store: &Store) -> (i64, i64) {
        let sql = "SELECT (SELECT count(*) FROM search), (SELECT count(*) FROM search_packages)";
        let row = sqlx::query(sql).fetch_one(&store.pool).await.unwrap();
        (row.get(0), row.get(1))
    }

    #[tokio::test]
    async fn words_come_and_go_with_their_revision() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).await.unwrap();
        let first = revision(&store, &[("crane", ""), ("winch", "for a Crâne")]).await;
        let searcher = store.searcher(first.id);
        let packages = |found: Option<Vec<Found>>| -> Option<Vec<u32>> {
            Some(found?.iter().map(|found| found.package).collect())
        };
        let search = async |words: &[&str]| packages(searcher.search(words).await.unwrap());
        assert_eq!(search(&["crane"]).await, Some(vec![0, 1]));
        assert_eq!(search(&["cr", "wi"]).await, Some(vec![1]));
        assert_eq!(search(&["ship"]).await, Some(vec![]));
        assert_eq!(rows(&store).await, (2, 2));

        // More rows than one statement writes.
        let names: Vec<String> = (0..250).map(|number| format!("ship{number}")).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
        let second = revision(&store, &many).await;
        assert_eq!(rows(&store).await, (252, 252));
        // Packages of another revision are not found.
        assert_eq!(search(&["ship"]).await, Some(vec![]));
        let newer = store.searcher(second.id);
        let found = newer.search(&["ship249"]).await.unwrap();
        assert_eq!(packages(found), Some(vec![249]));

        store.retire(&second).await.unwrap();
        assert_eq!(rows(&store).await, (250, 250));
        assert_eq!(search(&["crane"]).await, None, "the revision is gone");
        store.close().await;
    }

    #[tokio::test]
    async fn nothing_in_a_word_is_syntax() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).await.unwrap();
        let revision = revision(&store, &[("crane", "a")]).await;
        let searcher = store.searcher(revision.id);
        for word in [
            "\"", "\"\"", "a\"", "*", "^a", "(", ")", "NOT", "OR", "AND", "NEAR", "name", ":",
            "{name}", "-", "+", "\0", "a\0b", "'", ";", "--", "\u{301}", "\u{feff}", "a b",
        ] {
            assert!(searcher.search(&[word]).await.is_ok(), "{word:?}");
            assert!(searcher.search(&["a", word]).await.is_ok(), "{word:?}");
        }
        store.close().await;
    }

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        assert_eq!(
            Searcher::words("cert-manager v1.2 \"ä*"),
            ["cert", "manager", "v1", "2", "ä"]
        );
        assert_eq!(Searcher::words("nai\u{308}ve \u{301}"), ["nai\u{308}ve"]);
        assert!(Searcher::words(" --\"").is_empty());
    }
}
