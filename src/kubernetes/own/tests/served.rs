//! The status of a catalog that is served from the store.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{STATUS, Server, own_catalogs};
use crate::name::CatalogName;
use crate::snapshot::testing::Stored;
use crate::snapshot::{AnnouncedBy, AttemptFailure, Catalogs, Publisher, Routing};

const IMAGE: &str = "registry.example/catalog:v1";

/// An object for `IMAGE`, which is served from the store. From here on, only the clock
/// moves.
async fn serving() -> (Server, Catalogs, Publisher, Stored) {
    let name: CatalogName = "a".parse().unwrap();
    let stored = Stored::new(&name, IMAGE).await;
    let routing = Routing {
        announced: AnnouncedBy::Almanac,
        ..Routing::default()
    };
    let (catalogs, mut publishers) = Catalogs::new([(name, routing)], None);
    let publisher = publishers.remove(0);
    publisher.publish(stored.open());
    publisher.update(|status| status.set_source(IMAGE.to_owned()));
    tokio::time::pause();
    let server = Server::with(&json!({"source": {"type": "Image", "image": {"ref": IMAGE}}}));
    (server, catalogs, publisher, stored)
}

#[tokio::test]
async fn an_hour_of_polls_of_a_served_catalog_makes_one_write() {
    let (server, catalogs, publisher, _stored) = serving().await;
    let (stop, _) = own_catalogs(&server, catalogs);
    for _ in 0..360 {
        sleep(Duration::from_secs(10)).await;
        publisher.update(|status| status.set_resolved(Instant::now()));
    }
    stop.cancel();
    assert_eq!(server.status_writes(), 1, "{:?}", server.writes());
    let serving = &server.status()["conditions"][1];
    assert_eq!(serving["reason"], "Available", "{serving}");
}

/// Another replica, or catalogd, has announced a digest that almanac does not have.
#[tokio::test]
async fn stored_content_is_not_announced_over_another_digest_before_it_is_resolved() {
    let (server, catalogs, publisher, _stored) = serving().await;
    let newer = format!("registry.example/catalog@sha256:{}", "1".repeat(64));
    server.rewrite("11", |status| {
        *status = json!({"resolvedSource": {"type": "Image", "image": {"ref": newer}}});
    });
    let (stop, _) = own_catalogs(&server, catalogs);
    sleep(Duration::from_mins(10)).await;
    assert_eq!(server.status_writes(), 0, "{:?}", server.writes());
    // Its registry says that it is current.
    publisher.update(|status| status.set_resolved(Instant::now()));
    sleep(Duration::from_secs(5)).await;
    stop.cancel();
    assert_eq!(server.status_writes(), 1);
    let reference = server.status()["resolvedSource"]["image"]["ref"].clone();
    assert_ne!(reference, newer);
}

#[tokio::test]
async fn a_failure_is_written_at_once_also_when_it_ended_before_the_writer_looked() {
    let (server, catalogs, publisher, _stored) = serving().await;
    // The pass was faster than the first look of the writer.
    publisher.update(|status| {
        status.failure = Some(AttemptFailure {
            text: "no route".to_owned(),
            reason: "unreachable",
            is_of_content: false,
        });
    });
    let begin = Instant::now();
    let (stop, _) = own_catalogs(&server, catalogs);
    sleep(Duration::from_secs(20)).await;
    stop.cancel();
    let writes = server.writes();
    let (at, _) = writes.iter().find(|(_, it)| it.contains(STATUS)).unwrap();
    assert!(*at - begin < Duration::from_secs(5), "{:?}", *at - begin);
    let condition = &server.status()["conditions"][0];
    assert_eq!(condition["reason"], "Retrying");
    assert_eq!(condition["message"], "source catalog content: no route");
}

#[tokio::test]
async fn whatever_another_writer_changes_almanac_repeats_itself_ever_less_often() {
    let changes: [fn(&mut Value, u64); 4] = [
        |status, number| {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(number);
            let time = humantime::format_rfc3339_seconds(time).to_string();
            status["lastUnpacked"] = time.into();
            status["urls"]["base"] = "https://other.svc/catalogs/a".into();
        },
        |status, number| status["conditions"][0]["message"] = number.to_string().into(),
        |status, number| {
            let digest = format!("registry.example/catalog@sha256:{number:064x}");
            status["resolvedSource"]["image"]["ref"] = digest.into();
        },
        |status, number| status["conditions"][1]["observedGeneration"] = (number + 7).into(),
    ];
    for (kind, change) in changes.into_iter().enumerate() {
        let (server, catalogs, publisher, _stored) = serving().await;
        publisher.update(|status| status.set_resolved(Instant::now()));
        let (stop, _) = own_catalogs(&server, catalogs);
        sleep(Duration::from_secs(20)).await;
        assert_eq!(server.status_writes(), 1);
        for number in 0..3_600 {
            sleep(Duration::from_millis(500)).await;
            server.rewrite(&format!("c{number}"), |status| change(status, number));
        }
        stop.cancel();
        // Half an hour: after 30 seconds, one, two, four, eight and sixteen minutes.
        let writes = server.status_writes();
        assert!((3..=8).contains(&writes), "{kind}: {writes}");
        let events = server.writes();
        let told = events.iter().filter(|(_, it)| it.ends_with("Overwritten"));
        assert!(told.count() > 0, "{kind}: {events:?}");
        tokio::time::resume();
    }
}

#[tokio::test]
async fn a_pass_that_ends_after_the_lease_is_lost_writes_nothing() {
    let (server, catalogs, publisher, _stored) = serving().await;
    let newer = format!("registry.example/catalog@sha256:{}", "1".repeat(64));
    server.rewrite("11", |status| {
        *status = json!({"resolvedSource": {"type": "Image", "image": {"ref": newer}}});
    });
    let (stop, _) = own_catalogs(&server, catalogs);
    sleep(Duration::from_secs(30)).await;
    for renewal in 0..60 {
        server.lead("other", renewal);
        sleep(Duration::from_secs(2)).await;
        if renewal == 10 {
            publisher.update(|status| status.set_resolved(Instant::now()));
        }
    }
    assert_eq!(server.status_writes(), 0, "{:?}", server.writes());
    // The other one is gone.
    sleep(Duration::from_secs(30)).await;
    stop.cancel();
    assert_eq!(server.status_writes(), 1);
}
