//! Times and amounts.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use images::digest::Digest;

use crate::clients::Clients;
use crate::fleet::{Fleet, HELD, PATIENCE, Places, until_ready};
use crate::known::{Known, VARIANTS};
use crate::support::http::ask;

const REPLICAS: usize = 3;
/// The catalogs beside the one that changes.
const FURTHER: usize = 19;
/// The time between two looks at what a replica serves.
const LOOK: Duration = Duration::from_millis(5);

/// From a new digest in the registry to all replicas, under load.
pub(crate) fn publications(count: u64) -> bool {
    println!("publications, {REPLICAS} replicas, 50 clients:");
    let (known, places) = (Arc::new(Known::new()), Arc::new(Places::default()));
    let mut fleet = Fleet::start(REPLICAS, 0);
    let first = known.next().image.digest();
    fleet.push(&known.last().image);
    assert!(fleet.until_all_at("a", &first));
    until_pullable(&mut fleet);
    for number in 0..REPLICAS {
        let place = fleet.place(number);
        places.set(number, Some(place));
    }
    let clients = Clients::start(&known, &places);
    let (mut lasts, mut apart, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let mut puts = Vec::new();
    for number in 0..count {
        let variant = known.next();
        let stored = fleet.objects.bytes();
        fleet.objects.forget_requests();
        let watching: Vec<_> = (0..REPLICAS).map(|it| watch(&places, it)).collect();
        // All watchers know the tag from before.
        thread::sleep(Duration::from_millis(200));
        let begin = Instant::now();
        fleet.push(&variant.image);
        let turned: Vec<Instant> = watching.into_iter().map(|it| it.join().unwrap()).collect();
        let (first, last) = (turned.iter().min().unwrap(), turned.iter().max().unwrap());
        lasts.push(last.duration_since(begin));
        apart.push(last.duration_since(*first));
        // Later ones bring nothing that was not there before.
        if number as usize + 1 < VARIANTS {
            let requests = fleet.objects.requests();
            puts.push(requests.iter().filter(|it| it.starts_with("PUT")).count());
            bytes.push(fleet.objects.bytes().saturating_sub(stored));
        }
    }
    let arrived = fleet.until_all_at("a", &known.last().image.digest());
    clients.stop();
    print("from the new digest to the last replica", &mut lasts);
    print("from the first replica to the last", &mut apart);
    bytes.sort_unstable();
    puts.sort_unstable();
    println!(
        "  for new content at the median {} objects of {} KiB were put, with {} KiB of lines",
        puts[puts.len() / 2],
        bytes[bytes.len() / 2] >> 10,
        known.last().text.len() >> 10
    );
    let good = known.report();
    if !arrived {
        println!("  VIOLATION the last publication did not arrive");
    }
    good && arrived
}

fn until_pullable(fleet: &mut Fleet) {
    for replica in &mut fleet.replicas {
        replica.until_pullable("a");
    }
}

/// When a replica first shows another entity tag.
fn watch(places: &Arc<Places>, number: usize) -> thread::JoinHandle<Instant> {
    let address = places.get(number).unwrap().http;
    thread::spawn(move || {
        let tag = || {
            let reply = ask(address, "HEAD", "/catalogs/a/api/v1/all", &[], b"");
            let reply = reply.ok()?;
            reply.header("etag").map(str::to_owned)
        };
        let (before, begin) = (tag(), Instant::now());
        loop {
            let now = tag();
            if now.is_some() && now != before {
                return Instant::now();
            }
            assert!(begin.elapsed() < PATIENCE, "a publication did not arrive");
            thread::sleep(LOOK);
        }
    })
}

/// From the end or the hang of a replica until others follow all its catalogs.
pub(crate) fn takeovers(count: u64) -> bool {
    println!("takeovers, {REPLICAS} replicas, {} catalogs:", FURTHER + 1);
    let known = Known::new();
    let mut fleet = Fleet::start(REPLICAS, FURTHER);
    settle(&mut fleet, &known);
    for signal in ["KILL", "STOP"] {
        let mut times = Vec::new();
        for round in 0..count {
            let number = round as usize % REPLICAS;
            // It has some to lose.
            until_follows(&fleet, number);
            let begin = Instant::now();
            fleet.replicas[number].program.signal(signal);
            fleet.until_followed(Some(&number.to_string()));
            times.push(begin.elapsed());
            if signal == "KILL" {
                fleet.replicas[number].program.kill9();
                fleet.replicas[number].program.restart();
            } else {
                fleet.replicas[number].program.signal("CONT");
            }
        }
        print(
            &format!("all catalogs are followed after SIG{signal}"),
            &mut times,
        );
    }
    true
}

/// Publishes something in all catalogs, and waits until all replicas have it.
fn settle(fleet: &mut Fleet, known: &Known) -> Digest {
    let image = &known.next().image;
    fleet.push(image);
    fleet.push_still(image);
    let digest = image.digest();
    assert!(fleet.until_all_at("a", &digest));
    for number in 0..FURTHER {
        assert!(fleet.until_all_at(&format!("c{number}"), &digest));
    }
    fleet.until_followed(None);
    digest
}

fn until_follows(fleet: &Fleet, number: usize) {
    let has = format!("SELECT count(*) > 3 FROM ({HELD}) held WHERE name = '{number}'");
    let begin = Instant::now();
    while fleet.postgres.ask(&has) != "t" {
        assert!(begin.elapsed() < PATIENCE, "{number} follows nothing");
        thread::sleep(Duration::from_millis(100));
    }
}

/// What the database and the bucket are asked when nothing changes.
pub(crate) fn idle(seconds: u64) -> bool {
    println!("idle, {REPLICAS} replicas, {} catalogs:", FURTHER + 1);
    let known = Known::new();
    let mut fleet = Fleet::start(REPLICAS, FURTHER);
    // The server's own upkeep counts as transactions, too.
    fleet.postgres.ask("ALTER SYSTEM SET autovacuum = off");
    fleet.postgres.ask("SELECT pg_reload_conf()");
    settle(&mut fleet, &known);
    // Catalogs spread, images are made.
    thread::sleep(Duration::from_secs(20));
    let committed = || -> u64 {
        let asked = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
        fleet.postgres.ask(asked).parse().unwrap()
    };
    let before = committed();
    fleet.objects.forget_requests();
    thread::sleep(Duration::from_secs(seconds));
    let statements = committed().saturating_sub(before) as f64;
    let each = statements / seconds as f64 * 60.0 / REPLICAS as f64;
    println!("  {each:.0} statements a minute for each replica");
    println!(
        "  {} requests to the bucket",
        fleet.objects.requests().len()
    );
    true
}

/// The start of a replica, with an empty and with a warm cache.
pub(crate) fn starts(count: u64) -> bool {
    println!("starts, {} catalogs:", FURTHER + 1);
    let known = Known::new();
    let mut fleet = Fleet::start(1, FURTHER);
    settle(&mut fleet, &known);
    until_pullable(&mut fleet);
    let (mut empty, mut warm) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let begin = Instant::now();
        let replica = fleet.another(1);
        fleet.replicas.push(replica);
        until_ready(fleet.place(1));
        empty.push(begin.elapsed());
        let replica = &mut fleet.replicas[1];
        replica.stop();
        let begin = Instant::now();
        replica.program.restart();
        until_ready(fleet.place(1));
        warm.push(begin.elapsed());
        fleet.replicas.pop();
    }
    print("ready with an empty cache", &mut empty);
    print("ready with a warm cache", &mut warm);
    true
}

fn print(what: &str, times: &mut [Duration]) {
    if times.is_empty() {
        return;
    }
    times.sort_unstable();
    let at = |share: f64| {
        let last = times.len() - 1;
        times[(last as f64 * share).round() as usize].as_secs_f64()
    };
    println!(
        "  {what}: median {:.2} s, 99th percentile {:.2} s, largest {:.2} s ({} times)",
        at(0.5),
        at(0.99),
        at(1.0),
        times.len()
    );
}
