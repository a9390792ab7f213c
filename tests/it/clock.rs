//! A clock that is wrong, and is corrected while almanac runs.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use crate::support::almanac::{Almanac, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::clock::Clock;
use crate::support::http::{Reply, ask};
use crate::support::program::PATIENCE;

const YEAR: Duration = Duration::from_hours(365 * 24);

/// An almanac with this clock that follows a folder, in which there is one package.
fn started(clock: &Clock, folder: &Path) -> Almanac {
    Catalog::one("first").write_to(folder, Format::Yaml);
    let variables = clock.variables();
    let variables = variables
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let source = format!("file:{}", folder.display());
    let mut almanac = Almanac::start_with(&following(&source), &variables);
    almanac.until_whole("a");
    almanac
}

/// The catalog, for a client that has one with this date.
fn since(almanac: &mut Almanac, date: Option<&str>) -> Reply {
    let headers = date.map(|date| ("If-Modified-Since", date));
    let address = almanac.program.address("http");
    let path = "/catalogs/a/api/v1/all";
    ask(address, "GET", path, headers.as_slice(), b"").unwrap()
}

fn modified(reply: &Reply) -> String {
    reply.header("last-modified").unwrap().to_owned()
}

/// Waits until the program is this far from the time, in years.
fn until_clock(almanac: &mut Almanac, years: i32) {
    let begun = Instant::now();
    loop {
        let reply = since(almanac, None);
        let date = httpdate::parse_http_date(reply.header("date").unwrap()).unwrap();
        let now = SystemTime::now();
        let expected = match years {
            ..0 => now - YEAR * years.unsigned_abs(),
            _ => now + YEAR * years.unsigned_abs(),
        };
        let ahead = date.duration_since(expected).unwrap_or_default();
        let behind = expected.duration_since(date).unwrap_or_default();
        if ahead.max(behind) < YEAR / 4 {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "the clock shows {date:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until a package is served.
fn until_served(almanac: &mut Almanac, name: &str) {
    let begun = Instant::now();
    while !almanac.packages("a").unwrap().contains(&name.to_owned()) {
        assert!(begun.elapsed() < PATIENCE, "{name} is not served");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_clock_that_was_behind_hides_no_content_once_it_is_right() {
    let Some(clock) = Clock::right() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = started(&clock, folder.path());
    let first = modified(&since(&mut almanac, None));
    Catalog::one("second").write_to(folder.path(), Format::Yaml);
    until_served(&mut almanac, "second");
    let second = modified(&since(&mut almanac, None));

    almanac.stop();
    clock.set("-10y");
    almanac.program.restart();
    almanac.program.wait_until_ready();
    until_clock(&mut almanac, -10);
    assert_eq!(since(&mut almanac, Some(&first)).status, 200);
    assert_eq!(since(&mut almanac, Some(&second)).status, 304);
    // Other content has a later date, by any clock.
    Catalog::one("third").write_to(folder.path(), Format::Yaml);
    until_served(&mut almanac, "third");
    assert_eq!(since(&mut almanac, Some(&second)).status, 200);

    clock.set("+0");
    until_clock(&mut almanac, 0);
    for before in [first, second] {
        let reply = since(&mut almanac, Some(&before));
        assert_eq!(reply.status, 200, "{before}");
        assert!(reply.text().contains("third"));
        let third = modified(&reply);
        assert_eq!(since(&mut almanac, Some(&third)).status, 304);
    }
}

#[test]
fn a_clock_that_was_ahead_hides_no_content_once_it_is_right() {
    let Some(clock) = Clock::right() else {
        return;
    };
    clock.set("+10y");
    let folder = tempfile::tempdir().unwrap();
    let mut almanac = started(&clock, folder.path());
    until_clock(&mut almanac, 10);
    let ahead = modified(&since(&mut almanac, None));

    clock.set("+0");
    until_clock(&mut almanac, 0);
    let reply = since(&mut almanac, None);
    let right = modified(&reply);
    assert_ne!(right, ahead);
    for date in [&ahead, &right] {
        assert_eq!(since(&mut almanac, Some(date)).status, 304, "{date}");
    }
    Catalog::one("second").write_to(folder.path(), Format::Yaml);
    until_served(&mut almanac, "second");
    for date in [&ahead, &right] {
        let reply = since(&mut almanac, Some(date));
        assert!(reply.text().contains("second"), "{date}");
    }
}
