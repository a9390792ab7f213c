//! What a start of a replica, `serve --check` and `migrate` refuse.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use super::fixture::{TestFleet, credentials, prepared, prepared_on, start, unprepared};
use super::{
    assert_good, assert_refused, check, check_in, check_with, until_at, until_reported,
    until_serving,
};
use crate::support::almanac::Almanac;
use crate::support::image::image_of;
use crate::support::objects::{KEY, Lies, PLATFORM_TOKEN, SESSION};
use crate::support::port;
use crate::support::postgres::Postgres;
use crate::support::program::{PATIENCE, Start};
use crate::support::tls::Authority;

#[test]
fn a_database_without_tables_is_refused_with_the_command_that_makes_them() {
    let Some(fleet) = unprepared() else {
        return;
    };
    let config = fleet.config();
    // The bucket has a problem of its own.
    fleet.objects.lie(|lies| lies.empty_lists = true);
    let refused = check(&config);
    assert_refused(&refused, &["almanac migrate", "allow the key to list"]);
    fleet.objects.behave();
    assert!(fleet.objects.keys().is_empty());
    let refused = check(&config);
    assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");

    let made = fleet.try_migrate();
    assert!(made.stdout.contains("has the tables"), "{made:?}");
    assert_good(&check(&config));
    let same = fleet.try_migrate();
    assert!(same.stdout.contains("nothing was changed"), "{same:?}");
    // A newer version has added tables; those of this one fit.
    fleet.postgres.ask(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (99, 'later', true, '\\x00', 0)",
    );
    fleet.migrate();
    assert_good(&check(&config));
}

#[test]
fn a_database_of_another_program_or_version_is_refused() {
    let Some(fleet) = prepared() else { return };
    let config = fleet.config();
    let others = "UPDATE fleet SET needs = 1;
        UPDATE _sqlx_migrations SET checksum = '\\x00'";
    for (change, word) in [
        ("UPDATE fleet SET needs = 99", "of a newer version"),
        (others, "another program's"),
        // The fleet of an earlier version has this table, and other migrations.
        ("CREATE TABLE leases ()", "export with that version"),
    ] {
        fleet.postgres.ask(change);
        assert_refused(&check(&config), &[word]);
        assert_refused(&fleet.try_migrate(), &[word]);
    }
}

#[test]
fn nothing_is_written_beside_tables_of_another_program() {
    let migrations = "CREATE TABLE _sqlx_migrations (version bigint PRIMARY KEY, checksum bytea);";
    let filled = format!("{migrations} INSERT INTO _sqlx_migrations VALUES (20200101000000, '')");
    for (made, tables) in [
        ("CREATE TABLE users (a int)", "users"),
        ("CREATE TABLE replicas (name text)", "replicas"),
        (&*filled, "_sqlx_migrations"),
    ] {
        let Some(fleet) = unprepared() else { return };
        fleet.postgres.ask(made);
        assert_refused(&fleet.try_migrate(), &["another program's"]);
        let found = "SELECT string_agg(relname, ' ') FROM pg_class
            WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace";
        assert_eq!(fleet.postgres.ask(found), tables);
    }
}

#[test]
fn a_preparation_does_not_wait_for_others_for_long() {
    let Some(fleet) = prepared() else { return };
    thread::scope(|scope| {
        let locking = scope.spawn(|| {
            let lock = "BEGIN; LOCK TABLE _sqlx_migrations;
                DO $$ BEGIN
                  FOR looks IN 1..600 LOOP
                    IF EXISTS (SELECT 1 FROM pg_class WHERE relname = 'refused') THEN RETURN; END IF;
                    PERFORM pg_sleep(0.1);
                  END LOOP;
                END $$;
                COMMIT";
            fleet.postgres.ask(lock)
        });
        let is_locked = "SELECT count(*) > 0 FROM pg_locks
            WHERE relation = '_sqlx_migrations'::regclass AND mode = 'AccessExclusiveLock'";
        fleet.postgres.until(is_locked, "t");
        assert_refused(&fleet.try_migrate(), &["another session locks it"]);
        fleet.postgres.ask("CREATE TABLE refused ()");
        locking.join().unwrap();
    });
    fleet.migrate();
}

#[test]
fn a_database_that_takes_no_changes_is_refused() {
    let Some(fleet) = prepared() else { return };
    fleet.set_in_database("default_transaction_read_only = on");
    let refused = check(&fleet.config());
    for refused in [refused, fleet.try_migrate()] {
        assert_refused(&refused, &["name the primary in database"]);
    }
}

#[test]
fn a_user_whom_the_database_does_not_take_is_refused_with_what_to_do() {
    let Some(fleet) = prepared() else { return };
    let Some(empty) = unprepared() else { return };
    let folder = tempfile::tempdir().unwrap();
    fleet.postgres.ask(
        "DROP ROLE IF EXISTS guarded;
         CREATE ROLE guarded LOGIN PASSWORD 'right';
         GRANT SELECT ON ALL TABLES IN SCHEMA public TO guarded;",
    );
    let config = |fleet: &TestFleet, user: &str, password: &str| {
        let file = folder.path().join("password");
        std::fs::write(&file, format!("{password}\n")).unwrap();
        let url = fleet.postgres.url_of(user, "127.0.0.1");
        let own = fleet.config().replace(&fleet.postgres.url(), &url);
        format!("{own}\n[fleet]\npassword_file = {file:?}\n")
    };
    let right = config(&fleet, "guarded", "right");
    let words = [
        "DELETE on fleet, generations",
        "INSERT on fleet, generations",
        "UPDATE on generation_numbers",
        "grant SELECT, INSERT",
    ];
    assert_refused(&check(&right), &words);
    // In a database of its own it may make no tables.
    let file = folder.path().join("almanac.toml");
    std::fs::write(&file, config(&empty, "guarded", "right")).unwrap();
    let refused = Start::new(["migrate", "--config", file.to_str().unwrap()]).run();
    assert_refused(&refused, &["owner of the database"]);

    fleet.postgres.ask(
        "GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO guarded;
         GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA public TO guarded;",
    );
    assert_good(&check(&right));
    for (user, password) in [("guarded", "wrong"), ("nobody", "right")] {
        let refused = check(&config(&fleet, user, password));
        assert_refused(&refused, &["check the user in database"]);
        assert!(!refused.stderr.contains(password), "{refused:?}");
    }
}

#[test]
fn the_database_must_show_a_certificate_with_its_name() {
    let authority = Authority::new();
    // Addresses of this machine that count as those of another.
    let certificate = authority.sign_for(&["127.0.0.2"]);
    let Some(fleet) = prepared_on(|| Postgres::with_tls(&certificate)) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, authority.pem()).unwrap();
    let trusted = format!("\n[fleet]\nca_files = [{file:?}]\n");
    let at = |host: &str, more: &str| {
        let url = fleet.postgres.url_of("almanac", host);
        let own = fleet.config().replace(&fleet.postgres.url(), &url);
        check(&(own + more))
    };
    assert_good(&at("127.0.0.2", &trusted));
    for (host, more) in [("127.0.0.3", &*trusted), ("127.0.0.2", "")] {
        assert_refused(&at(host, more), &["check ca_files"]);
    }
}

/// What stands before a database.
#[derive(Clone, Copy)]
enum Before {
    /// A pooler that drops the settings of sessions.
    Dropping,
    /// Something that refuses them, with this code and message.
    Refusing(&'static str, &'static str),
}

/// Listens before a database, until the test ends.
fn stand_before(database: SocketAddr, before: Before) -> SocketAddr {
    let listener = port::listener();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // A client may leave at any time.
            thread::spawn(move || answer(client, database, before));
        }
    });
    address
}

fn answer(mut client: TcpStream, database: SocketAddr, before: Before) -> io::Result<()> {
    let mut startup = first_message(&mut client)?;
    // Only a request for TLS has nothing but a code.
    if startup.len() == 4 {
        client.write_all(b"N")?;
        startup = first_message(&mut client)?;
    }
    match before {
        Before::Refusing(code, message) => {
            let fields = format!("SFATAL\0VFATAL\0C{code}\0M{message}\0\0");
            client.write_all(&[&b"E"[..], &with_length(fields.as_bytes())].concat())
        }
        Before::Dropping => {
            let mut server = TcpStream::connect(database)?;
            server.write_all(&with_length(&without_settings(&startup)))?;
            let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
            thread::spawn(move || {
                let _ = io::copy(&mut from, &mut to);
                to.shutdown(Shutdown::Both)
            });
            io::copy(&mut server, &mut client)?;
            client.shutdown(Shutdown::Both)
        }
    }
}

/// The content of a message that begins with its length.
fn first_message(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    client.read_exact(&mut length)?;
    let mut content = vec![0; u32::from_be_bytes(length) as usize - 4];
    client.read_exact(&mut content)?;
    Ok(content)
}

fn with_length(content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len() + 4).unwrap();
    [&length.to_be_bytes()[..], content].concat()
}

/// The version and the parameters of a client, without the settings of its session.
fn without_settings(startup: &[u8]) -> Vec<u8> {
    let (version, parameters) = startup.split_at(4);
    let mut kept = version.to_vec();
    let mut fields = parameters.split(|byte| *byte == 0);
    while let (Some(name @ [_, ..]), Some(value)) = (fields.next(), fields.next()) {
        if name != b"options" {
            kept.extend([name, &[0], value, &[0]].concat());
        }
    }
    kept.push(0);
    kept
}

#[test]
fn a_server_that_keeps_no_settings_of_sessions_is_refused() {
    let Some(fleet) = prepared() else { return };
    let database = fleet.postgres.address();
    for (before, word) in [
        (Before::Dropping, "as behind a pooler"),
        (
            Before::Refusing("08P01", "unsupported startup parameter: options"),
            "not to a pooler",
        ),
        // The answer of PostgreSQL 13.
        (
            Before::Refusing(
                "42704",
                "unrecognized configuration parameter \"idle_session_timeout\"",
            ),
            "PostgreSQL 14 or later",
        ),
    ] {
        let address = stand_before(database, before).to_string();
        let config = fleet.config().replace(&database.to_string(), &address);
        assert_refused(&check(&config), &[word]);
    }
}

#[test]
fn a_bucket_that_cannot_be_used_is_refused_with_the_reason() {
    let Some(fleet) = prepared() else { return };
    let config = fleet.config();
    let refused = |word: &str, variables: &[(&str, &str)]| {
        let refused = check_with(&config, variables);
        assert_refused(&refused, &[word]);
        assert!(!refused.stderr.contains("secret"), "{refused:?}");
    };
    refused("AWS_ACCESS_KEY_ID", &[]);
    let wrong = [
        ("AWS_ACCESS_KEY_ID", "AKIAOTHER"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    refused("InvalidAccessKeyId: on request; check the key", &wrong);
    let objects = &fleet.objects;
    let lying = |word: &str, change: fn(&mut Lies)| {
        objects.lie(change);
        refused(word, &credentials());
        objects.behave();
    };
    lying("; allow the key to get, put, delete and list", |lies| {
        lies.status = Some((403, "AccessDenied"));
    });
    lying("cannot write s3://catalogs/almanac/", |lies| {
        lies.unwritable = Some("almanac/");
    });
    lying("allow the key to list the prefix", |lies| {
        lies.empty_lists = true;
    });
    lying("cannot remove s3://catalogs/almanac/", |lies| {
        lies.no_deletes = true;
    });

    // A key in a file counts before that of the environment.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    let text = format!("[default]\naws_access_key_id = {KEY}\naws_secret_access_key = secret\n");
    std::fs::write(&file, text).unwrap();
    let with_file = format!("{config}\n[fleet]\ncredentials_file = {file:?}\n");
    assert_good(&check_with(&with_file, &wrong));

    // Nobody listens there: the message names the server.
    let nowhere = port::free_port().to_string();
    let url = objects.url("");
    let (_, server) = url.rsplit_once("//").unwrap();
    let unreached = check(&config.replace(server, &nowhere));
    let advice = "; check endpoint and region in objects";
    assert_refused(&unreached, &[&format!("{nowhere}: "), advice]);
}

#[test]
fn a_prefix_of_a_bucket_belongs_to_the_first_fleet_that_uses_it() {
    let (Some(first), Some(second)) = (prepared(), prepared()) else {
        return;
    };
    first.claim("almanac");
    let config = first.config();
    let mixed = config.replace(&first.postgres.url(), &second.postgres.url());
    let words = ["belongs to another fleet", "another prefix in objects"];
    assert_refused(&check(&mixed), &words);
    // A start does not go on either, and the fleet keeps its bucket.
    let mut replica = Almanac::start_with(&mixed, &credentials());
    assert_eq!(replica.program.wait(PATIENCE).code(), Some(1));
    assert_eq!(first.objects.keys(), ["almanac/fleet"]);
    assert_good(&check(&config));
}

#[test]
fn the_platform_gives_the_key_of_the_bucket() {
    let Some(fleet) = prepared() else { return };
    let config = fleet.config();
    fleet.objects.lie(|lies| lies.session = Some(SESSION));
    let folder = tempfile::tempdir().unwrap();
    let (right, wrong) = (folder.path().join("right"), folder.path().join("wrong"));
    std::fs::write(&right, PLATFORM_TOKEN).unwrap();
    std::fs::write(&wrong, "another").unwrap();
    let (sts, pod) = (fleet.objects.platform("sts"), fleet.objects.platform("pod"));
    for (file, is_good) in [(right, true), (wrong, false)] {
        let file = file.to_str().unwrap();
        let identity = [
            ("AWS_WEB_IDENTITY_TOKEN_FILE", file),
            ("AWS_ROLE_ARN", "arn:ours"),
            ("AWS_ENDPOINT_URL_STS", &*sts),
        ];
        let address = [
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file),
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*pod),
        ];
        for variables in [&identity[..], &address[..]] {
            let checked = check_with(&config, variables);
            assert_eq!(checked.status.success(), is_good, "{checked:?}");
            assert!(!checked.stderr.contains(PLATFORM_TOKEN), "{checked:?}");
        }
    }
    // A key of the environment comes first.
    fleet.objects.behave();
    let [id, secret] = credentials();
    let both = [id, secret, ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*pod)];
    assert_good(&check_with(&config, &both));
}

#[test]
fn a_data_folder_of_a_node_alone_or_of_another_fleet_is_refused() {
    let (Some(fleet), Some(other)) = (prepared(), prepared()) else {
        return;
    };
    fleet.push("first");
    let refuses = |mut stopped: Almanac, config: &str, word: &str| {
        let data = stopped.program.data().to_owned();
        assert_refused(&check_in(&data, config, &credentials()), &[word]);
        stopped.restart_with(config);
        assert_eq!(stopped.program.wait(PATIENCE).code(), Some(1));
        let log = stopped.program.log();
        assert!(log.contains(word), "{log}");
        stopped
    };
    let serving = |mut started: Almanac| {
        until_serving(&mut started, "a");
        started.stop();
        started
    };
    let alone = &fleet.catalogs;
    let node = serving(Almanac::start_with(alone, &credentials()));
    refuses(node, &fleet.config(), "of a node alone");
    let replica = refuses(serving(fleet.another()), alone, "of a replica of a fleet");
    refuses(replica, &other.config_with(alone), "is of another fleet");
}

#[test]
fn a_bucket_that_hangs_at_a_start_is_named() {
    let Some(mut fleet) = start(1) else { return };
    let replica = &mut fleet.replicas[0];
    replica.stop();
    let slow = Duration::from_mins(10);
    fleet.objects.lie(|lies| lies.slow = slow);
    replica.program.restart();
    let words = "s3://catalogs/almanac/fleet: no answer within 10s; check endpoint";
    until_reported(replica, "bucket_error", words);
    // What is stored is served meanwhile, and the readiness tells.
    until_at(replica, "a", &image_of("first"));
    let ready = replica.ready();
    let text = ready.text();
    assert_eq!(ready.status, 200, "{text}");
    assert!(
        text.contains("; the bucket of the fleet: cannot read"),
        "{text}"
    );
}
