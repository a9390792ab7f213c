//! The forms of a revision that were made for an earlier one with the same content, and
//! forms that could not be made.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::time::{Duration, Instant};

use almanac::snapshot::{Comparing, Query, Snapshot};
use almanac::store::Encoding;

use crate::http::fruit;
use crate::stored_files::flip;
use crate::support::in_store::InStore;

/// What clients get of a snapshot, by the form. Those of other revisions with the same
/// content are the same.
fn sent(snapshot: &std::sync::Arc<Snapshot>) -> BTreeMap<&'static str, Vec<u8>> {
    let selection = snapshot.clone().select(&Query::default());
    let all = Comparing::All;
    let whole = |encoding| selection.whole(encoding, all).unwrap();
    let whole = |encoding| whole(encoding).map(|it| it.parts.concat());
    let segments = selection.segments(all).unwrap();
    let forms = [
        (
            "metas.deflate",
            segments.map(|it| selection.gzip(&it).parts.concat()),
        ),
        ("all.gz", whole(Encoding::Gzip)),
        ("all.zst", whole(Encoding::Zstd)),
    ];
    let forms = forms.into_iter();
    forms
        .filter_map(|(name, form)| Some((name, form?)))
        .collect()
}

/// Whether these forms are of the lines of the snapshot.
fn are_right(snapshot: &Snapshot, forms: &BTreeMap<&str, Vec<u8>>) -> bool {
    forms.iter().all(|(name, form)| {
        let mut plain = Vec::new();
        match *name {
            "all.zst" => plain = zstd::decode_all(&form[..]).unwrap_or_default(),
            _ => drop(flate2::read::GzDecoder::new(&form[..]).read_to_end(&mut plain)),
        }
        plain == snapshot.lines()
    })
}

/// A store whose revision has all forms, and these.
async fn encoded() -> (InStore, BTreeMap<&'static str, Vec<u8>>) {
    let place = InStore::new().await;
    place.publish(&fruit()).await;
    let encoding = place.encode();
    place.until_encoded().await;
    encoding.end().await;
    let forms = sent(&place.snapshot());
    assert_eq!(forms.len(), 3);
    assert!(are_right(&place.snapshot(), &forms));
    (place, forms)
}

#[tokio::test]
async fn a_damaged_form_of_the_revision_before_is_found_and_sent_no_more() {
    for damaged in ["metas.deflate", "all.gz", "all.zst"] {
        let (place, mut whole) = encoded().await;
        // Nobody has compared it since.
        flip(&place.file(damaged));
        place.publish(&fruit()).await;
        assert_eq!(sent(&place.snapshot()).len(), 3, "of the revision before");
        let scrub = place.scrub();
        place.until_repaired(damaged).await;
        let snapshot = place.snapshot();
        let forms = sent(&snapshot);
        assert!(are_right(&snapshot, &forms), "{damaged}");
        let damaged_form = whole.remove(damaged).unwrap();
        assert!(forms == whole, "{damaged}: {:?}", forms.keys());
        // Made anew: nothing damaged is copied.
        whole.insert(damaged, damaged_form);
        let encoding = place.encode();
        place.until_encoded().await;
        assert!(sent(&snapshot) == whole, "{damaged}");
        encoding.end().await;
        scrub.end().await;
    }
}

#[tokio::test]
async fn a_form_is_sent_again_after_its_damaged_file_was_replaced_by_a_whole_one() {
    for name in ["metas.deflate", "all.gz", "all.zst"] {
        let place = InStore::new().await;
        place.publish(&fruit()).await;
        let encoding = place.encode();
        place.until_encoded().await;
        let (path, snapshot) = (place.file(name), place.snapshot());
        let copy = path.with_extension("copy");
        fs::copy(&path, &copy).unwrap();
        flip(&path);
        assert_eq!(sent(&snapshot).len(), 2, "{name}");
        fs::rename(&copy, &path).unwrap();

        let scrub = place.scrub();
        let begun = Instant::now();
        while sent(&snapshot).len() < 3 {
            assert!(begun.elapsed() < Duration::from_mins(1), "{name}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(are_right(&snapshot, &sent(&snapshot)), "{name}");
        // The files are not read again and again.
        assert!(!snapshot.has_damage());
        scrub.end().await;
        encoding.end().await;
    }
}

#[tokio::test]
async fn undamaged_forms_of_the_revision_before_are_sent_until_others_are_made() {
    let (place, whole) = encoded().await;
    let scrub = place.scrub();
    for _ in 0..2 {
        place.publish(&fruit()).await;
        let id = place.snapshot().revision().id;
        // Its own files are compared after those.
        let begin = Instant::now();
        let before = place.publisher.status().verified;
        while place.publisher.status().verified == before {
            assert!(begin.elapsed() < Duration::from_mins(1));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(place.snapshot().revision().id, id);
        assert!(sent(&place.snapshot()) == whole);
        assert!(place.publisher.status().damage.is_none());
    }
    scrub.end().await;
}

#[tokio::test]
async fn a_repaired_revision_sends_the_undamaged_forms_of_before_at_once() {
    for damaged in ["metas.deflate", "all.gz", "all.zst"] {
        let (place, mut whole) = encoded().await;
        let before = place.snapshot().revision().id;
        flip(&place.file(damaged));
        flip(&place.file("index.bin"));
        let scrub = place.scrub();
        place.until_repaired("index.bin").await;
        let snapshot = place.snapshot();
        assert!(snapshot.revision().id > before);
        whole.remove(damaged);
        assert!(sent(&snapshot) == whole, "{damaged}");
        scrub.end().await;
    }
}

#[tokio::test]
async fn a_form_that_could_not_be_made_is_tried_again_after_ten_minutes() {
    let place = InStore::new().await;
    place.publish(&fruit()).await;
    let snapshot = place.snapshot();
    // A folder in its place that cannot be replaced.
    let blocks = Encoding::ALL.map(|encoding| place.file(encoding.file()));
    for block in &blocks {
        fs::create_dir_all(block.join("full")).unwrap();
    }
    let encoding = place.encode();
    for encoding in Encoding::ALL {
        snapshot.until_encoded(encoding).await;
    }
    assert!(sent(&snapshot).is_empty());
    for block in &blocks {
        fs::remove_dir_all(block).unwrap();
    }
    let later = async |time| {
        tokio::time::pause();
        tokio::time::advance(time).await;
        tokio::time::resume();
    };
    later(Duration::from_mins(9)).await;
    // A publication of any catalog is no reason to try it earlier.
    place.publisher.announce();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(sent(&snapshot).is_empty());
    later(Duration::from_mins(1)).await;
    place.until_encoded().await;
    let forms = sent(&snapshot);
    assert_eq!(forms.len(), 3);
    assert!(are_right(&snapshot, &forms));
    encoding.end().await;
}
