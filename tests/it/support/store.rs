//! A data folder of another version of the program.

use std::fs;
use std::path::Path;

use super::runtime::block_on;

/// Where the format stands in an index, behind what every index begins with.
const FORMAT: std::ops::Range<usize> = 8..12;

/// Makes the revisions of a data folder such as an older version wrote, of
/// which only that is looked at. No program may run on it.
pub(crate) fn make_older(data: &Path) {
    for revision in fs::read_dir(data.join("revisions")).unwrap() {
        let path = revision.unwrap().path().join("index.bin");
        let mut index = fs::read(&path).unwrap();
        let format = u32::from_le_bytes(index[FORMAT].try_into().unwrap());
        index[FORMAT].copy_from_slice(&(format - 1).to_le_bytes());
        // Stored files are read-only.
        fs::remove_file(&path).unwrap();
        fs::write(&path, index).unwrap();
    }
    run(data, "UPDATE revisions SET format = format - 1");
}

/// Takes the sums of all files away, as from a version that made none. No program
/// may run on it.
pub(crate) fn forget_sums(data: &Path) {
    run(data, "DELETE FROM revision_files");
}

fn run(data: &Path, statement: &'static str) {
    block_on(async {
        use sqlx::{ConnectOptions as _, Connection as _};

        let options = sqlx::sqlite::SqliteConnectOptions::new();
        let options = options.filename(data.join("almanac.db"));
        let mut connection = options.connect().await.unwrap();
        sqlx::raw_sql(statement)
            .execute(&mut connection)
            .await
            .unwrap();
        connection.close().await.unwrap();
    });
}
