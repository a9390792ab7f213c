//! A holder that is stopped and goes on, and one that dies before it has notified receivers.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Following, REPOSITORY, Shared, holder, push, replicas, until, until_all_at, until_at};
use crate::support::almanac::{Almanac, following};
use crate::support::image::Built;
use crate::support::postgres;
use crate::support::receiver::Receiver;
use crate::support::upstream::Upstream;

/// How long it is stopped: its session and its requests are long gone then.
const STOPPED: Duration = Duration::from_secs(20);
/// How long it is watched afterwards.
const WATCHED: Duration = Duration::from_secs(10);

/// Looks at what a replica serves: one of these contents, and none before the `last` one.
fn look(replica: &mut Almanac, all: &[&Built], last: &mut usize) {
    let status = replica.status("a");
    let digest = status["revision"]["digest"].as_str().unwrap();
    let mut all = all.iter();
    let found = all.position(|image| image.digest().to_string() == digest);
    let found = found.unwrap();
    assert!(found >= *last, "from {last} to {found}");
    *last = found;
}

#[test]
fn no_client_goes_back_when_a_holder_that_was_stopped_goes_on() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        first,
    }) = Following::start(2)
    else {
        return;
    };
    let place = holder(&shared);
    let mut stopped = replicas.swap_remove(place);
    let (mut of_stopped, mut of_other) = (0, 0);
    stopped.program.signal("STOP");
    let since = Instant::now();
    until("another holder", || holder(&shared) != place);
    let second = push(&upstream, "second");
    until_all_at(&mut replicas, "a", &second.digest());
    let third = push(&upstream, "third");
    until_all_at(&mut replicas, "a", &third.digest());
    let all = [&first, &second, &third];
    while since.elapsed() < STOPPED {
        look(&mut replicas[0], &all, &mut of_other);
        std::thread::sleep(Duration::from_millis(500));
    }
    let number = "SELECT max(number) FROM generations";
    let last = shared.postgres.ask(number);

    stopped.program.signal("CONT");
    let since = Instant::now();
    while since.elapsed() < WATCHED {
        look(&mut replicas[0], &all, &mut of_other);
        look(&mut stopped, &all, &mut of_stopped);
        std::thread::sleep(Duration::from_millis(20));
    }
    until_at(&mut stopped, "a", &third.digest());
    assert_eq!(shared.postgres.ask(number), last);
}

/// Waits until another replica follows the catalog than this one.
fn until_taken_over(shared: &Shared, from: usize) -> usize {
    let mut next = from;
    until("another holder", || {
        next = holder(shared);
        next != from
    });
    next
}

#[test]
fn webhooks_are_notified_once_and_by_the_next_holder_if_the_first_dies_before() {
    if postgres::is_missing() {
        return;
    }
    let (shared, upstream) = (Shared::start(), Upstream::start());
    let receiver = Receiver::start([]);
    let mut wanted = vec![push(&upstream, "first")];
    let config = format!(
        "{}\n[[webhook]]\nname = \"all\"\nurl = \"http://{}/\"\nallow_local = true\n\
         events = [\"published\"]\n",
        following(&upstream.reference(REPOSITORY, "latest")),
        receiver.address
    );
    let mut all = replicas(&shared, &config, 3);
    until_all_at(&mut all, "a", &wanted[0].digest());
    receiver.until(1);
    let unnotified = "SELECT count(*) FROM generations WHERE unnotified";
    shared.postgres.until(unnotified, "0");

    // The next holder knows that this was done.
    let first = holder(&shared);
    all[first].program.kill9();
    let second = until_taken_over(&shared, first);
    wanted.push(push(&upstream, "second"));
    receiver.until(2);
    shared.postgres.until(unnotified, "0");

    // As if it had died before: nobody can record that it is done.
    shared.postgres.ask(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
           AS 'BEGIN RAISE ''refused''; END';
         CREATE TRIGGER refuse BEFORE UPDATE ON generations
           FOR EACH ROW EXECUTE FUNCTION refuse()",
    );
    wanted.push(push(&upstream, "third"));
    receiver.until(3);
    shared.postgres.until(unnotified, "1");
    all[second].program.kill9();
    shared.postgres.ask("DROP TRIGGER refuse ON generations");
    until_taken_over(&shared, second);
    let events = receiver.until(4);
    let events = events.iter().map(|one| one.event()["subject"].clone());
    let events: Vec<Value> = events.collect();
    let mut wanted: Vec<String> = wanted.iter().map(|one| one.digest().to_string()).collect();
    wanted.push(wanted[2].clone());
    assert_eq!(events, wanted);
    shared.postgres.until(unnotified, "0");
}
