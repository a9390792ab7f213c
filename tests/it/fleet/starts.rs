//! What a start of a replica, and `serve --check`, refuse.

use std::path::Path;

use super::{Shared, claim, credentials};
use crate::support::almanac::{Almanac, catalog};
use crate::support::catalog::{Catalog, Format};
use crate::support::objects::{KEY, ObjectStore, PLATFORM_TOKEN, SESSION};
use crate::support::postgres::{self, Postgres};
use crate::support::program::{Finished, Start};
use crate::support::tls::Authority;

/// Runs `serve --check` with this configuration.
fn check(config: &str, variables: &[(&str, &str)]) -> Finished {
    check_in(None, config, variables)
}

/// The same with a data folder that is there.
fn check_in(data: Option<&Path>, config: &str, variables: &[(&str, &str)]) -> Finished {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("almanac.toml");
    std::fs::write(&path, config).unwrap();
    let start = Start::new(["serve", "--check", "--config", path.to_str().unwrap()])
        .argument("--data-dir={data}")
        .argument("--grpc=127.0.0.1:0")
        .argument("--http=127.0.0.1:0")
        .argument("--admin=127.0.0.1:0");
    let start = variables
        .iter()
        .fold(start, |start, (name, value)| start.variable(name, value));
    match data {
        Some(data) => start.data(data).run(),
        None => start.run(),
    }
}

/// A folder with a catalog, and the lines of a configuration that name it.
fn some_catalog() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    Catalog::small().write_to(folder.path(), Format::Yaml);
    let source = format!("file:{}", folder.path().display());
    let config = catalog("a", &source);
    (folder, config)
}

#[test]
fn a_database_without_tables_is_refused_with_the_command_that_makes_them() {
    if postgres::is_missing() {
        return;
    }
    let (_folder, catalog) = some_catalog();
    let shared = Shared {
        postgres: Postgres::start(),
        objects: ObjectStore::start(),
    };
    let config = shared.settings() + &catalog;
    // The bucket has a problem of its own.
    shared.objects.lie(|lies| lies.empty_lists = true);
    let refused = check(&config, &credentials());
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    for told in ["almanac migrate", "s3:ListBucket"] {
        assert!(refused.stderr.contains(told), "{told}: {refused:?}");
    }
    shared.objects.behave();
    assert!(shared.objects.keys().is_empty());
    let refused = check(&config, &credentials());
    assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");

    let made = shared.try_migrate();
    assert!(made.stdout.contains("has the tables"), "{made:?}");
    let good = check(&config, &credentials());
    assert!(good.status.success(), "{good:?}");
    // A second time changes nothing.
    let same = shared.try_migrate();
    assert!(same.stdout.contains("nothing was changed"), "{same:?}");

    // A newer version has added tables; those of this one fit.
    shared.postgres.ask(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (99, 'later', true, '\\x00', 0)",
    );
    shared.migrate();
    let good = check(&config, &credentials());
    assert!(good.status.success(), "{good:?}");

    // Until they do not fit any more.
    shared.postgres.ask("UPDATE fleet SET needs = 99");
    let refused = check(&config, &credentials());
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("newer version"), "{refused:?}");
    shared.postgres.ask("UPDATE fleet SET needs = 1");

    // Another program has tables of the same kind.
    let other = "UPDATE _sqlx_migrations SET checksum = '\\x00' WHERE version = 1";
    shared.postgres.ask(other);
    let refused = check(&config, &credentials());
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("another program"), "{refused:?}");
}

#[test]
fn a_bucket_that_cannot_be_used_is_refused_with_the_reason() {
    if postgres::is_missing() {
        return;
    }
    let (_folder, catalog) = some_catalog();
    let shared = Shared::start();
    let config = shared.settings() + &catalog;
    let refused = |what: &str, wanted: &str, variables: &[(&str, &str)]| {
        let refused = check(&config, variables);
        assert_eq!(refused.status.code(), Some(1), "{what}: {refused:?}");
        assert!(refused.stderr.contains(wanted), "{what}: {refused:?}");
        assert!(!refused.stderr.contains("secret"), "{what}: {refused:?}");
    };
    refused("no key", "AWS_ACCESS_KEY_ID", &[]);
    let wrong = [
        ("AWS_ACCESS_KEY_ID", "AKIAOTHER"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    refused(
        "another key",
        "InvalidAccessKeyId: on request; check the key",
        &wrong,
    );
    let objects = &shared.objects;
    objects.lie(|lies| lies.status = Some((403, "AccessDenied")));
    refused(
        "no right",
        "; allow the key to get, put, delete and list",
        &credentials(),
    );
    objects.behave();
    objects.lie(|lies| lies.no_conditions = true);
    refused("no conditions", "If-None-Match", &credentials());
    objects.behave();
    objects.lie(|lies| lies.empty_lists = true);
    refused("no lists", "s3:ListBucket", &credentials());
    objects.behave();
    objects.lie(|lies| lies.no_deletes = true);
    refused("no deletes", "cannot remove", &credentials());
    objects.behave();

    objects.lie(|lies| lies.status = Some((403, "RequestTimeTooSkewed")));
    let advice = "; correct the clock of this machine";
    refused("another clock", advice, &credentials());
    objects.behave();

    // A key in a file counts before that of the environment.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    let text = format!("[default]\naws_access_key_id = {KEY}\naws_secret_access_key = secret\n");
    std::fs::write(&file, text).unwrap();
    let with_file = format!(
        "{config}\n[fleet]\ncredentials_file = {:?}\n",
        file.to_str().unwrap()
    );
    let good = check(&with_file, &wrong);
    assert!(good.status.success(), "{good:?}");

    // Nobody listens there: the message names the server.
    let nowhere = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let url = objects.url("");
    let (_, server) = url.rsplit_once("//").unwrap();
    let elsewhere = config.replace(server, &nowhere.to_string());
    assert_ne!(elsewhere, config);
    let unreached = check(&elsewhere, &credentials());
    assert_eq!(unreached.status.code(), Some(1), "{unreached:?}");
    let server = format!("{nowhere}: ");
    assert!(unreached.stderr.contains(&server), "{unreached:?}");
    let advice = "; check endpoint and region in objects";
    assert!(unreached.stderr.contains(advice), "{unreached:?}");

    // The prefix belongs to the first fleet that uses it.
    claim(&shared, "almanac");
    let other = Postgres::start();
    let second = Shared {
        postgres: other,
        objects: ObjectStore::start(),
    };
    second.migrate();
    let config = config.replace(&shared.postgres.url(), &second.postgres.url());
    let mixed = check(&config, &credentials());
    assert_eq!(mixed.status.code(), Some(1), "{mixed:?}");
    assert!(
        mixed.stderr.contains("belongs to another fleet"),
        "{mixed:?}"
    );
}

#[test]
fn a_data_folder_of_a_node_alone_is_refused_and_the_other_way_round() {
    if postgres::is_missing() {
        return;
    }
    let (_folder, catalog) = some_catalog();
    let shared = Shared::start();
    let mut node = Almanac::start_with(&catalog, &credentials());
    node.until("a", "a revision", |status| status["state"] == "serving");
    node.stop();
    node.restart_with(&(shared.settings() + &catalog));
    let status = node.program.wait(crate::support::program::PATIENCE);
    assert_eq!(status.code(), Some(1));
    let log = node.program.log();
    assert!(log.contains("of a node alone"), "{log}");
    let config = shared.settings() + &catalog;
    let refused = check_in(Some(node.program.data()), &config, &credentials());
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("of a node alone"), "{refused:?}");

    let mut replica = shared.replica(&catalog);
    replica.until("a", "a revision", |status| status["state"] == "serving");
    replica.stop();
    let refused = check_in(Some(replica.program.data()), &catalog, &[]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(
        refused.stderr.contains("of a replica of a fleet"),
        "{refused:?}"
    );
    replica.restart_with(&catalog);
    let status = replica.program.wait(crate::support::program::PATIENCE);
    assert_eq!(status.code(), Some(1));
    let log = replica.program.log();
    assert!(log.contains("of a replica of a fleet"), "{log}");
}

#[test]
fn a_database_of_another_program_is_not_prepared() {
    if postgres::is_missing() {
        return;
    }
    let (postgres, objects) = (Postgres::start(), ObjectStore::start());
    postgres.ask("CREATE TABLE replicas (name text)");
    let shared = Shared { postgres, objects };
    let refused = shared.try_migrate();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("another program"), "{refused:?}");
    // Nothing of it was changed.
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'
                  AND tablename IN ('fleet', 'generations', 'leases')";
    assert_eq!(shared.postgres.ask(tables), "0");
}

#[test]
fn nothing_is_written_beside_tables_of_another_program() {
    if postgres::is_missing() {
        return;
    }
    let migrations = "CREATE TABLE _sqlx_migrations (version bigint PRIMARY KEY, checksum bytea);";
    let filled = format!("{migrations} INSERT INTO _sqlx_migrations VALUES (20200101000000, '')");
    for (made, tables) in [
        ("CREATE TABLE users (a int)", "users"),
        (&*filled, "_sqlx_migrations"),
    ] {
        let shared = Shared {
            postgres: Postgres::start(),
            objects: ObjectStore::start(),
        };
        shared.postgres.ask(made);
        let refused = shared.try_migrate();
        assert!(!refused.status.success(), "{refused:?}");
        assert!(refused.stderr.contains("another program's"), "{refused:?}");
        let found = "SELECT string_agg(relname, ' ') FROM pg_class
            WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace";
        assert_eq!(shared.postgres.ask(found), tables);
    }
}

#[test]
fn a_preparation_does_not_wait_for_others_for_long() {
    if postgres::is_missing() {
        return;
    }
    let shared = Shared::start();
    std::thread::scope(|scope| {
        let locking = scope.spawn(|| {
            let lock = "BEGIN; LOCK TABLE _sqlx_migrations;
                DO $$ BEGIN
                  FOR looks IN 1..600 LOOP
                    IF EXISTS (SELECT 1 FROM pg_class WHERE relname = 'refused') THEN RETURN; END IF;
                    PERFORM pg_sleep(0.1);
                  END LOOP;
                END $$;
                COMMIT";
            shared.postgres.ask(lock)
        });
        let is_locked = "SELECT count(*) > 0 FROM pg_locks
            WHERE relation = '_sqlx_migrations'::regclass AND mode = 'AccessExclusiveLock'";
        shared.postgres.until(is_locked, "t");
        let refused = shared.try_migrate();
        assert!(!refused.status.success(), "{refused:?}");
        assert!(
            refused.stderr.contains("another session locks it"),
            "{refused:?}"
        );
        shared.postgres.ask("CREATE TABLE refused ()");
        locking.join().unwrap();
    });
    shared.migrate();
}

#[test]
fn a_user_whom_the_database_does_not_take_is_refused_with_what_to_do() {
    if postgres::is_missing() {
        return;
    }
    let (_folder, catalog) = some_catalog();
    let shared = Shared::start();
    shared.postgres.ask(
        "CREATE ROLE guarded LOGIN PASSWORD 'right';
         GRANT SELECT ON ALL TABLES IN SCHEMA public TO guarded;",
    );
    let grant = "GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO guarded;
                 GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA public TO guarded;";
    let config = |user: &str, password: &str| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, password).unwrap();
        let url = shared.postgres.url_of(user, "127.0.0.1");
        let own = shared.settings().replace(&shared.postgres.url(), &url);
        let fleet = format!("[fleet]\npassword_file = {:?}\n", file.to_str().unwrap());
        (format!("{own}{catalog}\n{fleet}"), folder)
    };
    let (right, _kept) = config("guarded", "right\n");
    let refused = check(&right, &credentials());
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    for wanted in [
        "DELETE on files",
        "UPDATE on incarnations, revisions_id_seq",
        "INSERT on files",
        "grant SELECT, INSERT",
    ] {
        assert!(refused.stderr.contains(wanted), "{refused:?}");
    }
    // In a database of its own it may make no tables.
    let empty = Postgres::start();
    let (moved, folder) = config("guarded", "right\n");
    let moved = moved.replace(
        &shared.postgres.url_of("guarded", "127.0.0.1"),
        &empty.url_of("guarded", "127.0.0.1"),
    );
    let file = folder.path().join("almanac.toml");
    std::fs::write(&file, moved).unwrap();
    let refused = Start::new(["migrate", "--config", file.to_str().unwrap()]).run();
    assert!(!refused.status.success(), "{refused:?}");
    assert!(
        refused.stderr.contains("owner of the database"),
        "{refused:?}"
    );
    shared.postgres.ask(grant);
    let good = check(&right, &credentials());
    assert!(good.status.success(), "{good:?}");
    for (user, password) in [("guarded", "wrong"), ("nobody", "right")] {
        let (wrong, _kept) = config(user, password);
        let refused = check(&wrong, &credentials());
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(
            refused.stderr.contains("check the user in database"),
            "{refused:?}"
        );
        assert!(!refused.stderr.contains(password), "{refused:?}");
    }
}

#[test]
fn the_database_must_show_a_certificate_with_its_name() {
    if postgres::is_missing() {
        return;
    }
    let authority = Authority::new();
    // Addresses of this machine that count as those of another.
    let postgres = Postgres::with_tls(&authority.sign_for(&["127.0.0.2"]));
    let (_catalog, catalog) = some_catalog();
    let shared = Shared::of(postgres);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, authority.pem()).unwrap();
    let trusted = format!("\n[fleet]\nca_files = [{:?}]\n", file.to_str().unwrap());
    let at = |host: &str, fleet: &str| {
        let url = shared.postgres.url_of("almanac", host);
        let own = shared.settings().replace(&shared.postgres.url(), &url);
        check(&format!("{own}{catalog}{fleet}"), &credentials())
    };
    let good = at("127.0.0.2", &trusted);
    assert!(good.status.success(), "{good:?}");
    for (host, fleet) in [("127.0.0.3", &*trusted), ("127.0.0.2", "")] {
        let refused = at(host, fleet);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(refused.stderr.contains("check ca_files"), "{refused:?}");
    }
}

#[test]
fn the_platform_gives_the_key_of_the_bucket() {
    if postgres::is_missing() {
        return;
    }
    let (_folder, catalog) = some_catalog();
    let shared = Shared::start();
    let config = shared.settings() + &catalog;
    shared.objects.lie(|lies| lies.session = Some(SESSION));
    let folder = tempfile::tempdir().unwrap();
    let (right, wrong) = (folder.path().join("right"), folder.path().join("wrong"));
    std::fs::write(&right, PLATFORM_TOKEN).unwrap();
    std::fs::write(&wrong, "another").unwrap();
    let (sts, pod) = (
        shared.objects.platform("sts"),
        shared.objects.platform("pod"),
    );
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
            let checked = check(&config, variables);
            assert_eq!(checked.status.success(), is_good, "{checked:?}");
            assert!(!checked.stderr.contains(PLATFORM_TOKEN), "{checked:?}");
        }
    }
    // A key of the environment comes first.
    shared.objects.behave();
    let [id, secret] = credentials();
    let both = [id, secret, ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*pod)];
    let good = check(&config, &both);
    assert!(good.status.success(), "{good:?}");
}
