//! A holder that is stopped and goes on, and one that dies before it has notified receivers.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::archives::hook;
use super::fixture::{prepared, start};
use super::until_at;
use crate::support::almanac::Almanac;
use crate::support::image::{Built, image_of};
use crate::support::receiver::Receiver;

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
    let Some(mut fleet) = start(2) else { return };
    let place = fleet.holder();
    let mut stopped = fleet.replicas.swap_remove(place);
    let (mut of_stopped, mut of_other) = (0, 0);
    stopped.program.signal("STOP");
    let since = Instant::now();
    fleet.until_holder_is_not(place);
    let second = fleet.publish("second");
    let third = fleet.publish("third");
    let all = [&image_of("first"), &second, &third];
    while since.elapsed() < STOPPED {
        look(&mut fleet.replicas[0], &all, &mut of_other);
        std::thread::sleep(Duration::from_millis(500));
    }
    let number = "SELECT max(number) FROM generations";
    let last = fleet.postgres.ask(number);

    stopped.program.signal("CONT");
    let since = Instant::now();
    while since.elapsed() < WATCHED {
        look(&mut fleet.replicas[0], &all, &mut of_other);
        look(&mut stopped, &all, &mut of_stopped);
        std::thread::sleep(Duration::from_millis(20));
    }
    until_at(&mut stopped, "a", &third);
    assert_eq!(fleet.postgres.ask(number), last);
}

#[test]
fn webhooks_are_notified_once_and_by_the_next_holder_if_the_first_dies_before() {
    let Some(mut fleet) = prepared() else { return };
    let receiver = Receiver::start([]);
    fleet.catalogs += &hook(&receiver);
    let mut wanted = vec![fleet.serve_first(3)];
    receiver.until(1);
    let unnotified = "SELECT count(*) FROM generations WHERE unnotified";
    fleet.postgres.until(unnotified, "0");

    // The next holder knows that this was done.
    let first = fleet.holder();
    fleet.replicas[first].program.kill9();
    let second = fleet.until_holder_is_not(first);
    wanted.push(fleet.push("second"));
    receiver.until(2);
    fleet.postgres.until(unnotified, "0");

    // As if it had died before: nobody can record that it is done.
    fleet.postgres.ask(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
           AS 'BEGIN RAISE ''refused''; END';
         CREATE TRIGGER refuse BEFORE UPDATE ON generations
           FOR EACH ROW EXECUTE FUNCTION refuse()",
    );
    wanted.push(fleet.push("third"));
    receiver.until(3);
    fleet.postgres.until(unnotified, "1");
    fleet.replicas[second].program.kill9();
    fleet.postgres.ask("DROP TRIGGER refuse ON generations");
    fleet.until_holder_is_not(second);
    let events = receiver.until(4);
    let events = events.iter().map(|one| one.event()["subject"].clone());
    let events: Vec<Value> = events.collect();
    let mut wanted: Vec<String> = wanted.iter().map(|one| one.digest().to_string()).collect();
    wanted.push(wanted[2].clone());
    assert_eq!(events, wanted);
    fleet.postgres.until(unnotified, "0");
}
