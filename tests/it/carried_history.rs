//! The history in archives: revisions, dates and events on the importing side.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::export_import::{Carried, import, import_with};
use crate::support::almanac::Almanac;
use crate::support::receiver::Receiver;

/// Dates have seconds.
fn pause() {
    std::thread::sleep(Duration::from_millis(1100));
}

/// The revisions of the catalog `a`, the newest first.
fn revisions(almanac: &mut Almanac) -> Vec<Value> {
    let revisions = told(almanac, "/catalogs/a/api/v1/revisions");
    revisions["items"].as_array().unwrap().clone()
}

fn told(almanac: &mut Almanac, path: &str) -> Value {
    let reply = almanac.http(path);
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    serde_json::from_slice(&reply.body).unwrap()
}

/// What was served at a moment is found by its time, and clients that compare dates notice
/// the way back.
#[test]
fn a_catalog_that_an_import_takes_back_is_published_at_that_moment() {
    let folder = tempfile::tempdir().unwrap();
    let mut carried = Carried::start(&folder);
    let first = carried.export("first.tar", "etcd", &[]);
    pause();
    let second = carried.export("second.tar", "kafka", &[]);
    let data = folder.path().join("there");
    assert!(import(&second, &data).status.success());
    let config = format!("offline = true\n{}", carried.config);
    let modified = |there: &mut Almanac| {
        let reply = there.all("a");
        httpdate::parse_http_date(reply.header("last-modified").unwrap()).unwrap()
    };
    let mut there = Almanac::start_in(&data, &config);
    let newer = modified(&mut there);
    there.stop();
    pause();
    let before = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    pause();
    let finished = import_with(&first, &data, &["--older"]);
    assert!(finished.status.success(), "{finished:?}");
    // Once more: nothing goes back.
    let finished = import_with(&first, &data, &["--older"]);
    assert!(finished.stderr.contains("nothing is new"), "{finished:?}");
    assert!(
        finished.stderr.contains("already there: a at"),
        "{finished:?}"
    );

    let mut there = Almanac::start_in(&data, &config);
    assert_eq!(there.packages("a").unwrap(), ["etcd"]);
    assert!(modified(&mut there) > newer);
    let revisions = revisions(&mut there);
    let published = |at: usize| revisions[at]["published"].as_str().unwrap().to_owned();
    assert!(
        published(0) > before && before > published(1),
        "{revisions:?}"
    );
    let changes = told(
        &mut there,
        &format!("/catalogs/a/api/v1/changes?to={before}"),
    );
    assert_eq!(changes["to"]["revision"], revisions[1]["revision"]);
    let updates = told(&mut there, &format!("/api/v1/changes?since={before}"));
    assert_eq!(
        updates["items"][0]["revision"], revisions[0]["revision"],
        "{updates}"
    );
}

/// Numbers are of all catalogs of a store, so those of another one may be taken.
#[test]
fn the_history_of_a_second_almanac_comes_with_other_numbers() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut first = Carried::start(&folders[0]);
    for (name, package) in [("1.tar", "etcd"), ("2.tar", "kafka"), ("3.tar", "vault")] {
        first.export(name, package, &[]);
    }
    let whole = first.export("whole.tar", "etcd", &[]);
    let data = folders[0].path().join("there");
    let finished = import_with(&whole, &data, &[]);
    assert!(finished.status.success(), "{finished:?}");

    // The other one has published less often.
    let mut second = Carried::named(&folders[1], ["c", "d"]);
    let begin = second.export("begin.tar", "etcd", &[]);
    assert!(import(&begin, &data).status.success());
    pause();
    second.export("between.tar", "kafka", &[]);
    pause();
    let since = format!("--since={}", begin.display());
    let end = second.export("end.tar", "vault", &[&since]);
    let finished = import(&end, &data);
    assert!(finished.status.success(), "{finished:?}");
    assert!(!finished.stderr.contains("gap"), "{finished:?}");

    let mut there = Almanac::start_in(&data, &format!("offline = true\n{}", second.config));
    let path = |almanac: &mut Almanac| told(almanac, "/catalogs/c/api/v1/revisions");
    let (here, there) = (path(&mut second.almanac), path(&mut there));
    let dates = |revisions: &Value| {
        let items = revisions["items"].as_array().unwrap().iter();
        let dates = items.map(|one| (one["published"].clone(), one["content"].clone()));
        dates.collect::<Vec<_>>()
    };
    assert_eq!(dates(&there), dates(&here));
    assert!(dates(&there).len() >= 3, "{there}");
}

/// An archive between two others that was not imported is missed in the history alone.
#[test]
fn an_archive_that_was_left_out_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut carried = Carried::start(&folder);
    let first = carried.export("first.tar", "etcd", &[]);
    let since = format!("--since={}", first.display());
    let second = carried.export("second.tar", "kafka", &[&since]);
    let since = format!("--since={}", second.display());
    // With all that it needs.
    let third = carried.export("third.tar", "etcd", &["--catalog=a", &since]);
    let data = folder.path().join("there");
    assert!(import(&first, &data).status.success());
    let skipped = import_with(&third, &data, &["--output=json"]);
    assert!(skipped.status.success(), "{skipped:?}");
    let report: Value = serde_json::from_str(&skipped.stdout).unwrap();
    assert!(report["catalogs"][0]["gapAfter"].is_u64(), "{report}");

    let data = folder.path().join("all");
    for archive in [&first, &second, &third] {
        let finished = import(archive, &data);
        assert!(finished.status.success(), "{finished:?}");
        assert!(!finished.stderr.contains("has a gap"), "{finished:?}");
    }
}

/// The import itself needs no way to receivers.
#[test]
fn webhooks_hear_of_an_import_at_the_next_start_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut carried = Carried::start(&folder);
    let first = carried.export("first.tar", "etcd", &[]);
    let second = carried.export("second.tar", "kafka", &[]);
    let data = folder.path().join("there");
    let receiver = Receiver::start([]);
    let config = format!(
        "offline = true\n{}\n[[webhook]]\nname = \"it\"\nurl = \"http://{}/\"\n\
         allow_local = true\ncatalogs = [\"a\"]\n",
        carried.config, receiver.address
    );
    for (archive, count) in [(&first, 1), (&second, 2)] {
        assert!(import(archive, &data).status.success());
        let mut there = Almanac::start_in(&data, &config);
        let told = receiver.until(count).pop().unwrap();
        assert_eq!(told.kind(), "published");
        let revision = there.status("a")["revision"]["id"].to_string();
        assert_eq!(told.event()["data"]["revision"], revision.trim_matches('"'));
        there.stop();
    }
    let mut there = Almanac::start_in(&data, &config);
    there.until("a", "a pass", |status| status["state"] == "serving");
    there.stop();
    assert_eq!(receiver.received().len(), 2);
    let changes = &receiver.received()[1].event()["data"]["changes"];
    assert!(changes["total"].as_u64() > Some(0), "{changes}");
}
