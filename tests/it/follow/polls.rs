//! Polls: what a source is asked, and how often.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{HEAD, REPOSITORY, serving_first, text};
use crate::support::almanac::{Almanac, catalog, following};
use crate::support::catalog::Catalog;
use crate::support::image::image_of;
use crate::support::upstream::Upstream;

#[test]
fn a_moved_tag_is_served_after_a_poll() {
    let (upstream, mut almanac) = serving_first();
    assert_eq!(almanac.all("a").text(), text(&Catalog::one("first")));
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);

    let second = image_of("second");
    upstream.push(REPOSITORY, "latest", &second);
    let status = almanac.until_at("a", &second.digest());
    assert_eq!(status["state"], "serving");
    assert_eq!(status["last_result"]["outcome"], "committed");
    assert_eq!(almanac.all("a").text(), text(&Catalog::one("second")));
    assert_eq!(almanac.packages("a").unwrap(), ["second"]);
}

#[test]
fn an_unchanged_digest_costs_one_request_a_poll_and_writes_nothing() {
    let (upstream, mut almanac) = serving_first();
    almanac.until_pullable("a");
    almanac.until_encoded(1);
    // What the first pass still has to tidy up is done by the next poll, which ends before
    // the one after it asks.
    upstream.forget_requests();
    almanac.until("a", "two polls", |_| upstream.asked(HEAD) >= 2);

    let files = almanac.files("");
    let begin = Instant::now();
    upstream.forget_requests();
    almanac.until("a", "five polls", |_| upstream.asked(HEAD) >= 5);
    // A tenth of a second between polls, or a tenth less than that.
    assert!(begin.elapsed() > Duration::from_millis(4 * 90));
    let lines = upstream.lines();
    assert!(lines.iter().all(|line| line == HEAD), "{lines:?}");
    assert_eq!(almanac.files(""), files);
    let status = almanac.status("a");
    assert_eq!(status["failures"], 0);
    assert_eq!(status["revision"]["id"], 1);
}

#[test]
fn a_digest_is_pulled_once_and_never_polled() {
    let upstream = Upstream::start();
    let image = image_of("etcd");
    upstream.push(REPOSITORY, "latest", &image);
    let source = format!("{}/{REPOSITORY}@{}", upstream.host(), image.digest());
    let mut almanac = Almanac::start(&following(&source));
    let status = almanac.until("a", "the end of following", |status| {
        status["revision"]["digest"] == image.digest().to_string()
            && status["next_pass"].is_null()
            && !status["last_pass"].is_null()
    });
    assert_eq!(status["failures"], 0);
    // No alert about a pass that is overdue.
    almanac.until_metrics("almanac_next_pass_timestamp_seconds{catalog=\"a\"} NaN\n");
    upstream.forget_requests();
    sleep(Duration::from_millis(500));
    assert_eq!(upstream.lines(), [""; 0]);

    // What is stored is that digest, so a start has nothing to ask.
    almanac.stop();
    almanac.program.restart();
    sleep(Duration::from_millis(500));
    assert_eq!(almanac.all("a").text(), text(&Catalog::one("etcd")));
    assert_eq!(upstream.lines(), [""; 0]);
}

#[test]
fn a_catalog_that_is_never_polled_is_looked_at_once_a_start() {
    let (upstream, mut almanac) = serving_first();
    almanac.stop();
    let source = upstream.reference(REPOSITORY, "latest");
    let config = format!("{}poll = \"never\"\n", catalog("a", &source));
    upstream.forget_requests();
    almanac.restart_with(&config);
    almanac.until("a", "a pass", |status| !status["last_pass"].is_null());
    sleep(Duration::from_millis(500));
    assert_eq!(upstream.lines(), [HEAD]);
    assert!(almanac.status("a")["next_pass"].is_null());
}
