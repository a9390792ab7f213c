//! Random faults under load: replicas, the database and the bucket die and come back.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::clients::Clients;
use crate::fleet::{Fleet, Places, until_ready};
use crate::known::Known;

const REPLICAS: usize = 3;
/// The longest time from the end of a fault until all replicas show what was published.
const RECOVERY: Duration = Duration::from_secs(15);

/// Brings faults for some minutes. Whether nothing was lost or mixed.
pub(crate) fn run(minutes: u64, seed: u64, logs: Option<&Path>) -> bool {
    println!("faults for {minutes} minutes, {REPLICAS} replicas, 60 clients:");
    let mut random = fastrand::Rng::with_seed(seed);
    begin_logs(logs);
    let (known, places) = (Arc::new(Known::new()), Arc::new(Places::default()));
    let level = if logs.is_some() {
        "info,almanac::ingest=debug"
    } else {
        "info"
    };
    let mut fleet = Fleet::start_with(REPLICAS, 0, level);
    let first = known.next().image.digest();
    fleet.push(&known.last().image);
    assert!(fleet.until_all_at("a", &first));
    for number in 0..REPLICAS {
        fleet.replicas[number].until_pullable("a");
        let place = fleet.place(number);
        places.set(number, Some(place));
    }
    let clients = Clients::start(&known, &places);
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    let mut counts = BTreeMap::new();
    let (mut newest, mut slowest) = (0, Duration::ZERO);
    while Instant::now() < end {
        fleet.push(&known.next().image);
        let pause = |random: &mut fastrand::Rng, longest| {
            thread::sleep(Duration::from_secs_f64(1.0 + random.f64() * longest));
        };
        pause(&mut random, 4.0);
        let kind = match random.u32(..10) {
            0..4 => {
                let number = random.usize(..REPLICAS);
                known.happens(&format!("replica {number} killed"));
                places.kill(number);
                fleet.replicas[number].program.kill9();
                pause(&mut random, 6.0);
                known.happens(&format!("replica {number} starts"));
                // It accepts connections again before it is ready.
                places.set(number, None);
                keep_log(&fleet, number, logs);
                fleet.replicas[number].program.restart();
                let place = fleet.place(number);
                until_ready(place);
                until_current(&mut fleet, number);
                places.set(number, Some(place));
                "replica killed"
            }
            4..6 => {
                let number = random.usize(..REPLICAS);
                known.happens(&format!("replica {number} stopped"));
                let place = places.get(number);
                places.set(number, None);
                fleet.replicas[number].program.signal("STOP");
                pause(&mut random, 12.0);
                known.happens(&format!("replica {number} continues"));
                fleet.replicas[number].program.signal("CONT");
                until_current(&mut fleet, number);
                places.set(number, place);
                "replica stopped for a while"
            }
            6..8 => {
                known.happens("database killed");
                fleet.postgres.kill9();
                pause(&mut random, 10.0);
                known.happens("database starts");
                fleet.postgres.restart();
                "database killed"
            }
            _ => {
                known.happens("bucket killed");
                fleet.objects.kill();
                pause(&mut random, 10.0);
                known.happens("bucket starts");
                fleet.objects.restart();
                "bucket killed"
            }
        };
        known.happens(&format!("after: {kind}"));
        *counts.entry(kind).or_insert(0) += 1;
        let begin = Instant::now();
        // At most some publications are under way.
        let arrived = fleet.until_all_at("a", &known.last().image.digest());
        slowest = slowest.max(begin.elapsed());
        if begin.elapsed() > RECOVERY {
            known.wrong(&format!("it took {:?} to recover", begin.elapsed()));
        }
        newest = committed(&fleet, &known, newest);
        if !arrived {
            known.wrong("a publication was lost");
        }
    }
    clients.stop();
    for number in 0..REPLICAS {
        keep_log(&fleet, number, logs);
    }
    println!("  {counts:?}, recovered within {slowest:.1?}");
    known.report()
}

/// The newest generation, which is none before the one that was newest.
fn committed(fleet: &Fleet, known: &Known, before: u64) -> u64 {
    let newest = fleet.postgres.ask("SELECT max(newest) FROM tracks");
    let newest = newest.parse().unwrap();
    if newest < before {
        known.wrong("the database has lost a publication");
    }
    newest
}

/// Empties the logs that are kept.
fn begin_logs(logs: Option<&Path>) {
    let Some(folder) = logs else { return };
    fs::create_dir_all(folder).unwrap();
    for number in 0..REPLICAS {
        File::create(log_path(folder, number)).unwrap();
    }
}

/// Adds the log of a replica since its start to those that are kept.
fn keep_log(fleet: &Fleet, number: usize, logs: Option<&Path>) {
    let Some(folder) = logs else { return };
    let log = fleet.replicas[number].program.log();
    let path = log_path(folder, number);
    let mut kept = OpenOptions::new().append(true).open(path).unwrap();
    kept.write_all(log.as_bytes()).unwrap();
}

fn log_path(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("{number}.log"))
}

/// Waits until a replica shows what the fleet shows: only then it gets clients again.
fn until_current(fleet: &mut Fleet, number: usize) {
    let turned = "SELECT g.published::json->>'digest' FROM tracks t
                  JOIN generations g ON g.number = t.newest";
    let begin = Instant::now();
    loop {
        let wanted = fleet.postgres.ask(turned);
        let status = fleet.replicas[number].status("a");
        if status["revision"]["digest"] == wanted.as_str() {
            return;
        }
        assert!(
            begin.elapsed() < crate::fleet::PATIENCE,
            "replica {number} does not catch up"
        );
        thread::sleep(Duration::from_millis(50));
    }
}
