//! A holder that is stopped for a minute, and then goes on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Following, HOLDER, Shared, push, until, until_all_at, until_at};
use crate::support::almanac::Almanac;
use crate::support::image::Built;

/// How long it is stopped: its leases, its sessions and its requests are long gone then.
const STOPPED: Duration = Duration::from_mins(1);
/// How long it is watched afterwards.
const WATCHED: Duration = Duration::from_secs(10);

/// What was seen of the catalog `a`, which must not go back.
#[derive(Default)]
struct Seen {
    /// The number of the content that each replica last showed.
    shown: BTreeMap<&'static str, usize>,
    /// Who had each epoch of the lease.
    holders: BTreeMap<String, String>,
}

impl Seen {
    /// Looks at a replica and at the rows.
    fn look(&mut self, shared: &Shared, name: &'static str, replica: &mut Almanac, all: &[&Built]) {
        let status = replica.status("a");
        let digest = status["revision"]["digest"].as_str();
        let digest = digest.unwrap_or_else(|| panic!("{name} serves nothing: {status:#}"));
        let mut contents = all.iter().map(|image| image.digest().to_string());
        let number = contents.position(|known| known == digest).unwrap();
        let last = self.shown.insert(name, number);
        assert!(
            last <= Some(number),
            "{name} went from {last:?} to {number}"
        );
        let rows = "SELECT epoch, holder FROM leases WHERE holder IS NOT NULL";
        for row in shared.postgres.ask(rows).lines() {
            let (epoch, holder) = row.split_once('|').unwrap();
            let known = self.holders.entry(epoch.to_owned());
            let known = known.or_insert_with(|| holder.to_owned());
            assert_eq!(known, holder, "epoch {epoch} has two holders");
        }
    }
}

/// Between an announcement and its moment, which others hold up.
#[test]
fn a_holder_that_was_stopped_for_a_minute_publishes_nothing_when_it_goes_on() {
    let Some(Following {
        shared,
        upstream,
        mut replicas,
        first,
    }) = Following::start(2)
    else {
        return;
    };
    // So many that the two are never half.
    shared.postgres.ask(
        "INSERT INTO replicas (name, version, format, wants, ready, expires)
         SELECT 'other', '0', 0, ARRAY[id], true, clock_timestamp() + interval '1 hour'
         FROM tracks, generate_series(1, 3)",
    );
    let ready = "SELECT count(*) FROM replicas WHERE ready AND name <> 'other'";
    shared.postgres.until(ready, "2");
    let second = push(&upstream, "second");
    let receipts = "SELECT count(*) FROM receipts JOIN generations USING (track, number)
                    WHERE flips IS NULL";
    shared.postgres.until(receipts, "2");
    // Those that get lost are left again.
    shared.postgres.ask("DELETE FROM receipts");
    shared.postgres.until(receipts, "2");

    let holder = shared.postgres.ask(HOLDER);
    let mut stopped = replicas.swap_remove(holder.parse().unwrap());
    let mut seen = Seen::default();
    seen.look(&shared, "the holder", &mut stopped, &[&first, &second]);
    stopped.program.signal("STOP");
    let since = Instant::now();
    until("another holder", || {
        let now = shared.postgres.ask(HOLDER);
        !now.is_empty() && now != holder
    });
    let others = "DELETE FROM replicas WHERE name = 'other'";
    shared.postgres.ask(others);
    // The next one goes on with what was announced.
    until_all_at(&mut replicas, "a", &second.digest());
    let third = push(&upstream, "third");
    until_all_at(&mut replicas, "a", &third.digest());
    let all = [&first, &second, &third];
    while since.elapsed() < STOPPED {
        seen.look(&shared, "the other", &mut replicas[0], &all);
        std::thread::sleep(Duration::from_millis(500));
    }
    let number = "SELECT max(number) FROM generations";
    let last = shared.postgres.ask(number);

    stopped.program.signal("CONT");
    let since = Instant::now();
    while since.elapsed() < WATCHED {
        seen.look(&shared, "the other", &mut replicas[0], &all);
        seen.look(&shared, "the holder", &mut stopped, &all);
        std::thread::sleep(Duration::from_millis(20));
    }
    until_at(&mut stopped, "a", &third.digest());
    assert_eq!(shared.postgres.ask(number), last);
    // Only the epochs of holders, in their order.
    let order = "SELECT count(*) FROM generations a JOIN generations b USING (track)
                 WHERE a.number < b.number AND a.epoch > b.epoch";
    assert_eq!(shared.postgres.ask(order), "0");
    assert!(seen.holders.len() > 1, "{:?}", seen.holders);
}
