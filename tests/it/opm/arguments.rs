//! Arguments, and failures that they lead to.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use super::{Place, end, opm, packages};
use crate::support::catalog::Catalog;
use crate::support::program::Start;

#[test]
fn what_cannot_be_served_is_a_failure() {
    let place = Place::of(&Catalog::small());
    let nowhere = place.path("nowhere");
    let start = |folder: &Path| {
        opm(["serve", folder.to_str().unwrap(), "-p=0", "-t"])
            .argument(place.termination_log().to_str().unwrap())
    };
    place.refused(start(&nowhere), "cannot read");

    fs::create_dir(&nowhere).unwrap();
    place.refused(start(&nowhere), "there is no file");

    fs::write(nowhere.join("a.yaml"), "name: no schema\n").unwrap();
    place.refused(start(&nowhere), "schema-missing");

    let taken = TcpListener::bind("[::]:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let configs = place.configs();
    let start = opm(["serve", configs.to_str().unwrap(), "--termination-log"])
        .argument(place.termination_log().to_str().unwrap())
        .argument(format!("-p{port}"));
    place.refused(start, &format!("cannot listen on [::]:{port}"));
}

#[test]
fn arguments_that_cannot_be_used_are_a_failure() {
    for (arguments, message) in [
        (&["serve"][..], "FOLDER"),
        (&["serve", "a", "b"], "'b'"),
        (&["serve", "a", "--nope"], "--nope"),
        (&["serve", "a", "--port=70000"], "70000"),
        (&["serve", "a", "--cache-only=maybe"], "true or false"),
        (&["serve", "a", "--cache-enforce-integrity"], "--cache-dir"),
        (&[], "Usage"),
    ] {
        let run = opm(arguments.iter().copied()).run();
        assert_eq!(run.status.code(), Some(1), "{run:?}");
        assert!(run.stderr.contains(message), "{message}: {run:?}");
    }
    for arguments in [
        &["--help"][..],
        &["serve", "--help"],
        &["--version"],
        &["version"],
    ] {
        let run = opm(arguments.iter().copied()).run();
        assert!(run.status.success() && !run.stdout.is_empty(), "{run:?}");
    }
}

#[test]
fn arguments_that_cannot_be_read_are_told_in_the_termination_log_too() {
    let place = Place::of(&Catalog::small());
    place.refused(place.serve().argument("--nope"), "--nope");
    fs::remove_file(place.termination_log()).unwrap();
    place.refused(place.serve().argument("--cache-only=maybe"), "maybe");
    fs::remove_file(place.termination_log()).unwrap();
    let log = place.termination_log();
    let words = ["opm", "serve", "/configs", "--nope", "-t"];
    let run = Start::new(words).argument(log.to_str().unwrap()).run();
    assert_eq!(run.status.code(), Some(2), "{run:?}");
    assert!(fs::read_to_string(&log).unwrap().contains("--nope"));
}

#[test]
fn flags_without_a_meaning_are_taken_and_named() {
    let place = Place::of(&Catalog::small());
    let flags = [
        "--cache-dir=",
        "--pprof-addr=localhost:6060",
        "--pprof-capture-profiles",
        "--skip-tls-verify",
        "--cache-only=false",
        "--debug=false",
        "--skip-tls=false",
        "--use-http=true",
        // The last one counts, and an empty name is none.
        "--debug",
        "--debug",
        "--pprof-addr=",
        "--termination-log=",
    ];
    let mut program = flags
        .into_iter()
        .fold(place.serve(), Start::argument)
        .start();
    assert_eq!(packages(&mut program), ["etcd"]);
    let log = end(program);
    assert!(log.contains("--pprof") && log.contains("pulling"), "{log}");
}

#[test]
fn a_termination_log_that_cannot_be_written_is_no_failure_of_its_own() {
    let place = Place::of(&Catalog::small());
    let log = place.path("nowhere/termination-log");
    let run = opm(["serve", "/nowhere/configs", "-t", log.to_str().unwrap()]).run();
    assert_eq!(run.status.code(), Some(1), "{run:?}");
    assert!(run.stderr.contains("/nowhere/configs"), "{run:?}");

    // Only so much of a message is read, and no sign is cut in two.
    let folder = place.path(&("ü".repeat(200) + "/").repeat(15));
    let start = opm(["serve", folder.to_str().unwrap(), "-t"]);
    let run = start
        .argument(place.termination_log().to_str().unwrap())
        .run();
    assert_eq!(run.status.code(), Some(1));
    let log = fs::read_to_string(place.termination_log()).unwrap();
    assert!((4000..=4096).contains(&log.len()), "{}", log.len());
}
