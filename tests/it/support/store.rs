//! What another version of the program left in a data folder.

use std::fs;
use std::path::Path;

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
        fs::write(&path, index).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        use sqlx::{ConnectOptions as _, Connection as _};

        let options = sqlx::sqlite::SqliteConnectOptions::new();
        let options = options.filename(data.join("almanac.db"));
        let mut connection = options.connect().await.unwrap();
        sqlx::raw_sql("UPDATE revisions SET format = format - 1")
            .execute(&mut connection)
            .await
            .unwrap();
        connection.close().await.unwrap();
    });
}
