use std::collections::BTreeMap;
use std::io::{Seek as _, SeekFrom, Write as _};

use sqlx::sqlite::SqliteConnectOptions;

use super::*;
use crate::answers::index::{Index, SearchRow};
use crate::store::images::records::Image;
use crate::store::record::{IMAGE_RECORD, RECORD};
use crate::store::revision::RevisionId;
use crate::store::{
    Counts, ImageKind, NewRevision, Outcome, Pass, Revision, SourceIdentity, Store,
};
use ::images::digest::Digest;
use fbc::problem::{Code, Problem, Severity, Subject};

/// A store with one revision of each of two catalogs, the first with an image.
async fn store(folder: &Path) -> Vec<Revision> {
    let store = Store::open(folder).await.unwrap();
    let mut revisions = Vec::new();
    for name in ["a", "b"] {
        revisions.push(commit(&store, name).await);
    }
    assert!(store.record_image(revisions[0].id, &image()).await.unwrap());
    let pass = Pass {
        started: revisions[0].committed,
        finished: revisions[0].committed,
        outcome: Outcome::Committed,
        digest: None,
        stage: None,
        reason: None,
        error: None,
    };
    store
        .record_pass(&revisions[0].catalog, &pass)
        .await
        .unwrap();
    store.close().await;
    revisions
}

async fn commit(store: &Store, name: &str) -> Revision {
    let finished = store.write_revision().unwrap().finish(Index::default());
    let new = NewRevision {
        catalog: &name.parse().unwrap(),
        identity: SourceIdentity::from_text("quay.io/a/b:v1 linux/amd64"),
        digest: Digest::of(name.as_bytes()),
        counts: Counts {
            packages: 7,
            ..Counts::default()
        },
        blobs: &[Digest::of(b"layer")],
        problems: &[problem()],
        search: &[SearchRow {
            package: 3,
            name: "crane".into(),
            ..SearchRow::default()
        }],
    };
    store.commit(finished.unwrap(), new).await.unwrap()
}

fn problem() -> Problem {
    Problem {
        code: Code::ChannelNoHead,
        severity: Severity::Error,
        subject: Subject::default(),
        position: None,
        message: "has no head".into(),
    }
}

fn image() -> Image {
    Image {
        kind: ImageKind::Slim,
        origin: None,
        tags: BTreeMap::from([("latest".to_owned(), Digest::of(b"manifest"))]),
        manifests: Vec::new(),
        blobs: Vec::new(),
        signed: None,
        left_out: Vec::new(),
    }
}

/// Whether the store still has these revisions, with the same content.
async fn is_whole(folder: &Path, revisions: &[Revision]) -> bool {
    let store = Store::open(folder).await.unwrap();
    let mut whole = true;
    for revision in revisions {
        let Some(found) = store.current(&revision.catalog).await.unwrap() else {
            return false;
        };
        assert_eq!(format!("{found:?}"), format!("{revision:?}"));
        assert_eq!(store.problems(found.id).await.unwrap(), [problem()]);
        let searched = store.searcher(found.id).search(&["cr"]).await.unwrap();
        let searched: Vec<u32> = searched.unwrap().iter().map(|it| it.package).collect();
        assert_eq!(searched, [3]);
        assert!(store.open_revision(&found).is_ok());
        let found = store.image(found.id).await.unwrap();
        whole &= found == (revision.id == revisions[0].id).then(image);
    }
    store.close().await;
    whole
}

#[tokio::test]
async fn a_damaged_database_is_moved_aside_and_rebuilt() {
    for damage in ["head", "page", "cut", "empty", "gone"] {
        let folder = tempfile::tempdir().unwrap();
        let revisions = store(folder.path()).await;
        let path = folder.path().join(DATABASE);
        let mut file = fs::File::options().write(true).open(&path).unwrap();
        let length = file.metadata().unwrap().len();
        match damage {
            "head" => file.write_all(b"not a database").unwrap(),
            "page" => {
                file.seek(SeekFrom::Start(4096)).unwrap();
                file.write_all(&[0xa5; 4096]).unwrap();
            }
            "cut" => file.set_len(length / 2 / 4096 * 4096).unwrap(),
            "empty" => file.set_len(0).unwrap(),
            _ => fs::remove_file(&path).unwrap(),
        }
        // The rest of a log does not belong to the new database.
        fs::write(with_part(&path, "-wal"), "old").unwrap();
        assert!(is_whole(folder.path(), &revisions).await, "{damage}");
        let aside = folder.path().join(DAMAGED);
        assert_eq!(aside.exists(), damage != "gone", "{damage}");
        assert!(!folder.path().join(UNFINISHED).exists());
        // Only once.
        fs::remove_file(&aside).ok();
        assert!(is_whole(folder.path(), &revisions).await, "{damage}");
        assert!(!aside.exists(), "{damage}");
        let store = Store::open(folder.path()).await.unwrap();
        let pass = store.last_pass(&revisions[0].catalog).await.unwrap();
        assert!(pass.is_none(), "{damage}");
    }
}

fn damage(path: &Path) {
    let mut file = fs::File::options().write(true).open(path).unwrap();
    file.write_all(b"not a database").unwrap();
}

fn in_revision(folder: &Path, revision: &Revision, name: &str) -> PathBuf {
    let folder = folder.join(REVISIONS);
    folder.join(revision.id.to_string()).join(name)
}

#[tokio::test]
async fn a_kill_at_any_step_of_a_recovery_loses_nothing() {
    for steps in 0..=PARTS.len() + 1 {
        let folder = tempfile::tempdir().unwrap();
        let revisions = store(folder.path()).await;
        let path = folder.path().join(DATABASE);
        damage(&path);
        fs::write(with_part(&path, "-wal"), "old").unwrap();
        // Of an earlier recovery.
        let aside = folder.path().join(DAMAGED);
        fs::write(with_part(&aside, "-shm"), "older").unwrap();

        let found = scan(&folder.path().join(REVISIONS)).unwrap();
        build(folder.path(), &found).await.unwrap();
        for step in replacement(folder.path()).take(steps) {
            step.unwrap();
        }
        assert!(is_whole(folder.path(), &revisions).await, "{steps}");
        let damaged = fs::read(&aside).unwrap();
        assert!(damaged.starts_with(b"not a database"), "{steps}");
    }
}

#[tokio::test]
async fn an_unfinished_database_has_no_log() {
    let folder = tempfile::tempdir().unwrap();
    store(folder.path()).await;
    let found = scan(&folder.path().join(REVISIONS)).unwrap();
    // A journal of another database would be rolled back onto it.
    let unfinished = folder.path().join(UNFINISHED);
    fs::write(with_part(&unfinished, "-journal"), "old").unwrap();
    build(folder.path(), &found).await.unwrap();
    // The versions to write and to read: 1 means a journal, 2 a log.
    assert_eq!(fs::read(&unfinished).unwrap()[18..20], [1, 1]);
    for part in &PARTS[1..] {
        assert!(!with_part(&unfinished, part).exists(), "{part}");
    }
}

#[tokio::test]
async fn a_damaged_record_costs_no_files_and_no_other_revision() {
    let folder = tempfile::tempdir().unwrap();
    let revisions = store(folder.path()).await;
    let path = in_revision(folder.path(), &revisions[0], RECORD);
    let mut record = fs::read(&path).unwrap();
    let last = record.len() - 2;
    record[last] ^= 1;
    fs::remove_file(&path).unwrap();
    fs::write(&path, record).unwrap();
    fs::remove_file(folder.path().join(DATABASE)).unwrap();
    for _ in 0..2 {
        let store = Store::open(folder.path()).await.unwrap();
        let current = store.current(&revisions[0].catalog).await.unwrap();
        assert!(current.is_none());
        let current = store.current(&revisions[1].catalog).await.unwrap();
        assert_eq!(current.unwrap().id, revisions[1].id);
        let aside = folder.path().join(REVISIONS).join("lost-1");
        assert!(aside.join("metas.jsonl").exists());
        store.close().await;
    }
}

#[tokio::test]
async fn revisions_without_any_record_are_kept_and_their_numbers_not_assigned_again() {
    let folder = tempfile::tempdir().unwrap();
    let revisions = store(folder.path()).await;
    for revision in &revisions {
        fs::remove_file(in_revision(folder.path(), revision, RECORD)).unwrap();
    }
    for round in 3..5 {
        fs::remove_file(folder.path().join(DATABASE)).unwrap();
        let store = Store::open(folder.path()).await.unwrap();
        for lost in ["lost-1", "lost-2"] {
            let lost = folder.path().join(REVISIONS).join(lost);
            assert!(lost.join("metas.jsonl").exists());
        }
        let next = commit(&store, "a").await;
        assert_eq!(next.id, RevisionId(round));
        store.close().await;
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_read_stops_the_recovery() {
    let folder = tempfile::tempdir().unwrap();
    let revisions = store(folder.path()).await;
    let path = in_revision(folder.path(), &revisions[0], RECORD);
    let record = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    damage(&folder.path().join(DATABASE));
    let refused = Store::open(folder.path()).await;
    assert!(matches!(refused, Err(StoreError::File(_))), "{refused:?}");
    fs::remove_dir(&path).unwrap();
    fs::write(&path, record).unwrap();
    assert!(is_whole(folder.path(), &revisions).await);
}

#[tokio::test]
async fn an_older_database_takes_the_newest_files() {
    let folder = tempfile::tempdir().unwrap();
    let before = store(folder.path()).await;
    let path = folder.path().join(DATABASE);
    let older = fs::read(&path).unwrap();

    let store = Store::open(folder.path()).await.unwrap();
    let newer = commit(&store, "a").await;
    assert!(store.record_image(newer.id, &image()).await.unwrap());
    store.retire(&newer).await.unwrap();
    store.close().await;
    drop(store);
    assert!(!in_revision(folder.path(), &before[0], RECORD).exists());

    fs::write(&path, older).unwrap();
    let revisions = [newer, before[1].clone()];
    assert!(is_whole(folder.path(), &revisions).await);
    // The newest has its own image.
    let store = Store::open(folder.path()).await.unwrap();
    let earlier = store.earlier_image(&revisions[0].catalog).await.unwrap();
    assert_eq!(earlier, None);
    store.close().await;
}

#[tokio::test]
async fn missing_and_damaged_records_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let revisions = store(folder.path()).await;
    let store = Store::open(folder.path()).await.unwrap();
    let damaged = async |revision: &Revision| {
        let damaged = store.damaged_records(revision.id).await.unwrap();
        damaged
            .into_iter()
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
    };
    assert!(damaged(&revisions[0]).await.is_empty());
    fs::remove_file(in_revision(folder.path(), &revisions[0], RECORD)).unwrap();
    assert_eq!(damaged(&revisions[0]).await, [RECORD]);
    let path = in_revision(folder.path(), &revisions[0], IMAGE_RECORD);
    fs::remove_file(&path).unwrap();
    fs::write(&path, "0000000\nno record").unwrap();
    assert_eq!(damaged(&revisions[0]).await, [RECORD, IMAGE_RECORD]);
    assert!(damaged(&revisions[1]).await.is_empty(), "it has no image");
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let revisions = store(folder.path()).await;
    let path = folder.path().join(DATABASE);
    let change = async |statement: &'static str| {
        let options = SqliteConnectOptions::new().filename(&path);
        let pool = SqlitePool::connect_with(options).await.unwrap();
        sqlx::query(statement).execute(&pool).await.unwrap();
        pool.close().await;
    };
    change(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'later', 1, x'00', 0)",
    )
    .await;
    let refused = Store::open(folder.path()).await;
    let told = refused.err().map(|error| error.to_string());
    let told = told.unwrap_or_default();
    assert!(told.contains("a newer version of almanac; run"), "{told}");
    assert!(!folder.path().join(DAMAGED).exists());
    // The rows and folders are those of before.
    change("DELETE FROM _sqlx_migrations WHERE version = 9999").await;
    assert!(is_whole(folder.path(), &revisions).await);
}
