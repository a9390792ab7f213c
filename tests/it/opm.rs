//! The program in the place of opm: the arguments, the cache, and what comes
//! of whatever is wrong.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use almanac::proto;
use tempfile::TempDir;

use crate::support::catalog::{Catalog, Format, entry};
use crate::support::grpc::Client;
use crate::support::image::Image;
use crate::support::program::{Finished, PATIENCE, Program, Start};
use crate::support::store::make_older;
use crate::support::tls::Pair;
use crate::support::upstream::Upstream;

/// Somebody who owns nothing.
const NOBODY: u32 = 65_534;

/// A catalog folder, and beside it a place for everything else.
struct Place {
    folder: TempDir,
}

impl Place {
    fn of(catalog: &Catalog) -> Self {
        let place = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(place.temporary()).unwrap();
        place.write(catalog);
        place
    }

    fn write(&self, catalog: &Catalog) {
        let configs = self.configs();
        if configs.exists() {
            fs::remove_dir_all(&configs).unwrap();
        }
        fs::create_dir(&configs).unwrap();
        catalog.write_to(&configs, Format::JsonLines);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn configs(&self) -> PathBuf {
        self.path("configs")
    }

    fn cache(&self) -> PathBuf {
        self.path("cache")
    }

    /// Where temporary files go.
    fn temporary(&self) -> PathBuf {
        self.path("tmp")
    }

    fn termination_log(&self) -> PathBuf {
        self.path("termination-log")
    }

    /// `opm serve` of the folder on any free port.
    fn serve(&self) -> Start {
        opm(["serve"])
            .argument(self.configs().to_str().unwrap())
            .argument("--port=0")
            .argument(format!("-t={}", self.termination_log().display()))
            .variable("TMPDIR", self.temporary().to_str().unwrap())
    }

    /// The same, with the cache beside the folder.
    fn cached(&self) -> Start {
        let cache = format!("--cache-dir={}", self.cache().display());
        self.serve().argument(cache)
    }

    fn build_cache(&self) {
        let built = self.cached().argument("--cache-only").run();
        assert!(built.status.success(), "{built:?}");
        assert!(!self.termination_log().exists(), "{built:?}");
    }

    /// The start fails with the code 1, and says so in both places.
    fn refused(&self, start: Start, message: &str) -> Finished {
        let run = start.run();
        assert_eq!(run.status.code(), Some(1), "{run:?}");
        assert!(run.stderr.contains(message), "{message}: {run:?}");
        let log = fs::read_to_string(self.termination_log()).unwrap();
        assert!(log.contains(message), "{message}: {log}");
        run
    }
}

fn opm<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Start {
    Start::new(arguments).called("/bin/opm")
}

/// Puts the program there: the very file where that can be done, as nobody has
/// to write it then.
fn put_program(path: &Path) {
    let program = env!("CARGO_BIN_EXE_almanac");
    if fs::hard_link(program, path).is_err() {
        fs::copy(program, path).unwrap();
    }
}

/// Where a program is reached that listens on all addresses.
fn reached(program: &mut Program) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, program.address("grpc").port()).into()
}

/// The names of the packages that are served.
fn packages(program: &mut Program) -> Vec<String> {
    let server = reached(program);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let listed = runtime.block_on(async {
        Client::new(server)
            .stream::<_, proto::PackageName>(
                "/api.Registry/ListPackages",
                proto::ListPackageRequest {},
            )
            .await
    });
    listed
        .unwrap()
        .into_iter()
        .map(|package| package.name)
        .collect()
}

fn end(mut program: Program) -> String {
    program.terminate();
    let status = program.wait(PATIENCE);
    assert!(status.success(), "{status}");
    program.log()
}

/// The files below a folder, each with its length and the time of its change.
fn files(folder: &Path) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                folders.push(entry.path());
            }
            let said = (metadata.len(), metadata.modified().unwrap());
            files.insert(entry.path(), said);
        }
    }
    files
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (entry, to) = (
            entry.as_ref().unwrap(),
            to.join(entry.as_ref().unwrap().file_name()),
        );
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// A catalog of which one package has two heads.
fn half_good() -> Catalog {
    Catalog::one("good").package("bad", |package| {
        package.channel("stable", [entry("bad.v1.0.0"), entry("bad.v2.0.0")])
    })
}

#[test]
fn a_folder_is_served_until_it_is_told_to_end() {
    let place = Place::of(&Catalog::small());
    let mut program = place.serve().start();
    assert_eq!(packages(&mut program), ["etcd"]);
    assert_eq!(files(&place.temporary()).len(), 0, "nothing is left behind");
    let log = end(program);
    assert_eq!(log.matches("listening").count(), 1, "{log}");
    assert!(
        log.contains("serving registry") && log.contains("stopped"),
        "{log}"
    );
    assert!(!place.termination_log().exists());
}

#[test]
fn the_subcommand_does_the_same_as_the_name() {
    let place = Place::of(&Catalog::small());
    let configs = place.configs();
    let mut program = Start::new(["opm", "serve", configs.to_str().unwrap(), "-p", "0"]).start();
    assert_eq!(packages(&mut program), ["etcd"]);
    end(program);
}

#[test]
fn a_cache_is_built_once_and_then_only_read() {
    let place = Place::of(&Catalog::small());
    place.build_cache();
    let built = files(&place.cache());
    for mut start in [
        place.cached(),
        place.cached().argument("--cache-enforce-integrity"),
    ] {
        start = start.argument("--debug");
        let mut program = start.start();
        assert_eq!(packages(&mut program), ["etcd"]);
        let log = end(program);
        assert!(log.contains("the cache fits"), "{log}");
        // Nothing of the catalog was read, but for its digest.
        assert!(
            !log.contains("stage done") && !log.contains("building"),
            "{log}"
        );
    }
    place.build_cache();
    assert_eq!(files(&place.cache()), built);
    assert_eq!(files(&place.temporary()).len(), 0);
}

#[test]
fn the_cache_of_another_user_is_read_where_nobody_can_write() {
    let place = Place::of(&Catalog::small());
    place.build_cache();
    for path in files(&place.cache()).keys().chain([&place.cache()]) {
        let mode = fs::metadata(path).unwrap().mode();
        let folders = ["revisions", "outlines"];
        let mut folders = folders.iter().map(|name| place.cache().join(name));
        let is_stored = folders.any(|folder| path.starts_with(folder));
        let wanted = if path.is_dir() {
            0o755
        } else if is_stored {
            0o444
        } else {
            0o644
        };
        assert_eq!(mode & 0o777, wanted, "{}", path.display());
        let without_writing = fs::Permissions::from_mode(wanted & 0o555);
        fs::set_permissions(path, without_writing).unwrap();
    }
    let mut start = place.cached();
    if fs::metadata(place.cache()).unwrap().uid() == 0 {
        // The superuser may write everywhere, and lend its place.
        fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let program = place.path("opm");
        put_program(&program);
        start = start.program(&program).user(NOBODY);
    }
    let built = files(&place.cache());
    let mut program = start.start();
    assert_eq!(packages(&mut program), ["etcd"]);
    let log = end(program);
    assert!(
        log.contains("the cache fits") && !log.contains("WARN"),
        "{log}"
    );
    assert_eq!(files(&place.cache()), built);
}

#[test]
fn what_else_lies_in_the_folder_of_the_cache_is_let_be() {
    let place = Place::of(&Catalog::small());
    fs::create_dir_all(place.cache().join("private")).unwrap();
    let secret = place.cache().join("private/secret");
    fs::write(&secret, "secret").unwrap();
    let private = [(place.cache(), 0o700), (secret, 0o600)];
    for (path, mode) in &private {
        fs::set_permissions(path, fs::Permissions::from_mode(*mode)).unwrap();
    }
    place.build_cache();
    for (path, mode) in &private {
        let now = fs::metadata(path).unwrap().mode();
        assert_eq!(now & 0o777, *mode, "{}", path.display());
    }
    let mut program = place.cached().start();
    assert_eq!(packages(&mut program), ["etcd"]);
    end(program);
}

#[test]
fn several_serve_from_one_cache() {
    let place = Place::of(&Catalog::small());
    place.build_cache();
    let mut first = place.cached().start();
    let mut second = place.cached().start();
    assert_eq!(packages(&mut first), packages(&mut second));
    // Whoever finds that it does not fit any more leaves it to the others.
    place.write(&Catalog::one("kafka"));
    let mut third = place
        .cached()
        .argument("--cache-enforce-integrity=false")
        .start();
    assert_eq!(packages(&mut third), ["kafka"]);
    assert_eq!(packages(&mut first), ["etcd"]);
    end(second);
    end(first);
    let log = end(third);
    assert!(log.contains("using a temporary one"), "{log}");
}

/// As it goes on the way through an image or an init container.
#[test]
fn a_cache_fits_wherever_it_and_the_catalog_are_moved() {
    let place = Place::of(&Catalog::small());
    place.build_cache();
    let elsewhere = Place::of(&Catalog::new());
    fs::remove_dir_all(elsewhere.configs()).unwrap();
    copy(&place.configs(), &elsewhere.configs());
    copy(&place.cache(), &elsewhere.cache());
    drop(place);
    let mut program = elsewhere.cached().start();
    assert_eq!(packages(&mut program), ["etcd"]);
    assert!(end(program).contains("the cache fits"));
}

#[test]
fn a_cache_that_does_not_fit_is_refused() {
    let place = Place::of(&Catalog::small());
    let missing = "it is missing, or this version cannot read it";
    place.refused(place.cached(), missing);
    assert!(!place.cache().exists());
    fs::create_dir(place.cache()).unwrap();
    place.refused(place.cached(), missing);
    let only = ["--cache-only", "--cache-enforce-integrity"];
    let check = || only.into_iter().fold(place.cached(), Start::argument);
    place.refused(check(), missing);
    fs::remove_file(place.termination_log()).unwrap();

    place.build_cache();
    let checked = check().run();
    assert!(checked.status.success(), "{checked:?}");
    place.write(&Catalog::one("kafka"));
    place.refused(place.cached(), "it was made of a catalog with the digest");
    place.refused(check(), "it was made of a catalog with the digest");
}

#[test]
fn a_cache_that_does_not_fit_is_built_again_when_that_is_wanted() {
    let place = Place::of(&Catalog::small());
    let rebuild = || place.cached().argument("--cache-enforce-integrity=false");
    let mut program = rebuild().start();
    assert_eq!(packages(&mut program), ["etcd"]);
    end(program);

    place.write(&Catalog::one("kafka"));
    let mut program = rebuild().start();
    assert_eq!(packages(&mut program), ["kafka"]);
    assert!(end(program).contains("building the cache"));

    let mut program = place.cached().start();
    assert_eq!(packages(&mut program), ["kafka"]);
    end(program);
    let revisions = fs::read_dir(place.cache().join("revisions")).unwrap();
    assert_eq!(revisions.count(), 1, "the old one is gone");
}

#[test]
fn a_damaged_cache_does_not_fit() {
    let place = Place::of(&Catalog::small());
    for damaged in ["index.bin", "messages.pb", "almanac.db"] {
        place.build_cache();
        let all = files(&place.cache());
        let path = all.keys().find(|path| path.ends_with(damaged)).unwrap();
        // Files of a cache are read-only.
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(path, "damaged").unwrap();
        place.refused(place.cached(), "is refused");
        let rebuild = place.cached().argument("--cache-enforce-integrity=false");
        let mut program = rebuild.start();
        assert_eq!(packages(&mut program), ["etcd"], "{damaged}");
        end(program);
        fs::remove_dir_all(place.cache()).unwrap();
        fs::remove_file(place.termination_log()).unwrap();
    }
}

#[test]
fn a_cache_of_an_older_version_does_not_fit() {
    let place = Place::of(&Catalog::small());
    place.build_cache();
    make_older(&place.cache());
    let unreadable = "it is missing, or this version cannot read it";
    place.refused(place.cached(), unreadable);
    let rebuild = place.cached().argument("--cache-enforce-integrity=false");
    let mut program = rebuild.start();
    assert_eq!(packages(&mut program), ["etcd"]);
    assert!(end(program).contains(unreadable));

    let mut program = place.cached().start();
    assert_eq!(packages(&mut program), ["etcd"]);
    assert!(end(program).contains("the cache fits"));
}

/// Where the image of a catalog comes from elsewhere, and only this program
/// takes opm's place.
#[test]
fn a_cache_of_opm_is_no_reason_not_to_serve() {
    let place = Place::of(&Catalog::small());
    let theirs = place.cache().join("pogreb.v1");
    fs::create_dir_all(&theirs).unwrap();
    fs::write(theirs.join("digest"), "0123456789abcdef").unwrap();
    let enforced = place.cached().argument("--cache-enforce-integrity=true");
    place.refused(enforced, "opm made it");

    let mut program = place.cached().start();
    assert_eq!(packages(&mut program), ["etcd"]);
    let log = end(program);
    assert!(
        log.contains("WARN") && log.contains("opm made the cache"),
        "{log}"
    );
    // It is kept beside theirs.
    assert!(theirs.join("digest").exists());
    let mut program = place.cached().start();
    assert_eq!(packages(&mut program), ["etcd"]);
    assert!(end(program).contains("the cache fits"));
}

#[test]
fn a_cache_that_cannot_be_kept_is_a_temporary_one() {
    let place = Place::of(&Catalog::small());
    // A file is where the folder would be, which not even the superuser changes.
    fs::write(place.cache(), "").unwrap();
    let rebuild = || place.cached().argument("--cache-enforce-integrity=false");
    let mut program = rebuild().start();
    assert_eq!(packages(&mut program), ["etcd"]);
    let log = end(program);
    assert!(log.contains("using a temporary one"), "{log}");
    assert_eq!(files(&place.temporary()).len(), 0);
    place.refused(rebuild().argument("--cache-only"), "cannot");
}

#[test]
fn packages_with_errors_are_left_out_unless_an_image_is_built() {
    let place = Place::of(&half_good());
    let mut program = place.serve().start();
    assert_eq!(packages(&mut program), ["good"]);
    let log = end(program);
    let error = log
        .lines()
        .find(|line| line.contains("channel-multiple-heads"));
    assert!(error.is_some_and(|line| line.contains("ERROR")), "{log}");

    let refused = place.refused(place.cached().argument("--cache-only"), "refused");
    assert!(
        refused.stderr.contains("channel-multiple-heads"),
        "{refused:?}"
    );

    // One that was built at a start says so again at the next.
    let rebuild = place.cached().argument("--cache-enforce-integrity=false");
    end_when_serving(rebuild);
    let mut program = place.cached().start();
    assert_eq!(packages(&mut program), ["good"]);
    let log = end(program);
    assert!(log.contains("channel-multiple-heads"), "{log}");
}

fn end_when_serving(start: Start) {
    let mut program = start.start();
    program.address("grpc");
    end(program);
}

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

#[test]
fn other_verbs_have_their_equivalents() {
    let place = Place::of(&Catalog::small());
    let configs = place.configs();
    let configs = configs.to_str().unwrap();
    let valid = opm(["validate", configs]).run();
    assert!(
        valid.status.success() && valid.stdout.is_empty(),
        "{valid:?}"
    );

    let rendered = opm(["render", configs, "-o", "yaml"]).run();
    assert!(rendered.status.success(), "{rendered:?}");
    assert!(
        rendered.stdout.contains("schema: olm.bundle"),
        "{rendered:?}"
    );
    let rendered = opm(["render", configs]).run();
    assert!(
        rendered.stdout.contains(r#""schema":"olm.bundle""#),
        "{rendered:?}"
    );

    let listed = opm(["alpha", "list", "bundles", configs, "etcd", "-o", "json"]).run();
    assert!(listed.stdout.contains("etcd.v1.1.0"), "{listed:?}");
    let version = opm(["version"]).run();
    let start = concat!(
        "Version: version.Version{OpmVersion:\"v",
        env!("CARGO_PKG_VERSION"),
        "\", GitCommit:\"\""
    );
    assert!(version.stdout.starts_with(start), "{version:?}");

    place.write(&half_good());
    let invalid = opm(["validate", configs]).run();
    assert_eq!(invalid.status.code(), Some(1), "{invalid:?}");
    assert!(
        invalid.stderr.contains("channel-multiple-heads"),
        "{invalid:?}"
    );

    for words in [
        &["index", "add", "--bundles", "a"][..],
        &["alpha", "bundle", "extract", "-m", "/bundle/"],
        &["render", "a", "b"],
        &["render", configs, "-o", "mermaid"],
        &["render", "/nowhere"],
        &["alpha", "list", "sundries", configs],
    ] {
        let run = opm(words.iter().copied()).run();
        assert_eq!(run.status.code(), Some(1), "{run:?}");
        assert!(run.stderr.len() > 20, "{run:?}");
    }
}

#[test]
fn a_verdict_has_the_form_of_opm() {
    let place = Place::of(&Catalog::small());
    let configs = place.configs();
    let configs = configs.to_str().unwrap();
    let passed = opm(["validate", configs, "-o", "json"]).run();
    assert!(
        passed.status.success() && passed.stderr.is_empty(),
        "{passed:?}"
    );
    assert_eq!(passed.stdout, "{\n  \"passed\": true\n}\n");
    let passed = opm(["validate", configs, "--output=yaml"]).run();
    assert_eq!(passed.stdout, "passed: true\n", "{passed:?}");

    place.write(&half_good());
    let failed = opm(["validate", configs, "-o", "json"]).run();
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert!(failed.stderr.is_empty(), "{failed:?}");
    let verdict: serde_json::Value = serde_json::from_str(&failed.stdout).unwrap();
    assert_eq!(verdict["passed"], false);
    let message = verdict["error"]["message"].as_str().unwrap();
    assert!(message.contains("channel-multiple-heads"), "{message}");
    let failed = opm(["validate", configs, "-oyaml"]).run();
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert!(failed.stdout.contains("passed: false\n"), "{failed:?}");
    // Files that are no catalog.
    fs::write(place.configs().join(".indexignore"), "**/*").unwrap();
    let failed = opm(["validate", configs, "-o", "json"]).run();
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert!(failed.stdout.contains("\"passed\": false"), "{failed:?}");
    // What could not be read has no verdict.
    for words in [["/nowhere", "-ojson"], [configs, "-oxml"]] {
        let run = opm(["validate"].into_iter().chain(words)).run();
        assert_eq!(run.status.code(), Some(1), "{run:?}");
        assert!(run.stdout.is_empty() && run.stderr.len() > 20, "{run:?}");
    }
}

#[test]
fn several_catalogs_are_rendered_one_after_the_other() {
    let place = Place::of(&Catalog::one("etcd"));
    let other = place.path("other");
    Catalog::one("fig").write_to(&other, Format::Yaml);
    let (configs, other) = (place.configs(), other.to_str().unwrap().to_owned());
    let configs = configs.to_str().unwrap();
    let alone = |source: &str| opm(["render", source]).run().stdout;
    let both = opm(["render", &other, configs]).run();
    assert!(both.status.success(), "{both:?}");
    assert_eq!(both.stdout, alone(&other) + &alone(configs));
    // Nothing is printed of those before one that fails.
    let failed = opm(["render", configs, "/nowhere"]).run();
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert!(failed.stdout.is_empty(), "{failed:?}");
    for flag in [
        "--migrate",
        "--migrate-level=bundle-object-to-csv-metadata",
        "--alpha-image-ref-template={{.Name}}",
    ] {
        let run = opm(["render", configs, flag]).run();
        assert_eq!(run.status.code(), Some(1), "{run:?}");
        assert!(run.stderr.contains("opm-upstream"), "{run:?}");
    }
    let same = opm(["render", configs, "--migrate=false", "--migrate-level=none"]).run();
    assert_eq!(same.stdout, alone(configs), "{same:?}");
}

#[test]
fn flags_for_pulling_count_where_something_is_pulled() {
    let upstream = Upstream::start_at("127.0.0.1:0", Some(Pair::of_itself().server(None)));
    let image = Image::of_catalog(&Catalog::one("etcd")).build();
    upstream.push("a/b", "v1", &image);
    let secured = upstream.reference("a/b", "v1");
    let plain = Upstream::start();
    plain.push("a/b", "v1", &image);
    let plain = plain.reference("a/b", "v1");
    let refused = opm(["render", &secured]).run();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    for source in [&secured, &plain] {
        for flag in ["--skip-tls-verify", "--use-http", "--skip-tls=true"] {
            let rendered = opm(["render", source, flag]).run();
            assert!(
                rendered.stdout.contains("\"name\":\"etcd\""),
                "{flag}: {rendered:?}"
            );
            assert!(!rendered.stderr.contains("ignored"), "{rendered:?}");
            let listed = opm(["alpha", "list", "packages", source, flag]).run();
            assert!(listed.stdout.contains("etcd"), "{flag}: {listed:?}");
        }
    }
    let both = opm(["render", &plain, "--use-http", "--skip-tls-verify"]).run();
    assert_eq!(both.status.code(), Some(1), "{both:?}");
    assert!(both.stderr.contains("cannot be combined"), "{both:?}");
}

#[test]
fn lists_and_images_are_those_of_opm() {
    let place = Place::of(&Catalog::new());
    fs::write(
        place.configs().join("catalog.yaml"),
        r"
schema: olm.package
name: lantern
defaultChannel: stable
---
schema: olm.channel
package: lantern
name: stable
entries:
- {name: lantern.v1.9.0, replaces: lantern.v1.10.0, skips: [a, b], skipRange: <1.9.0}
- {name: lantern.v1.10.0}
---
schema: olm.bundle
package: lantern
name: lantern.v1.9.0
image: example.com/lantern:1.9
relatedImages: [{name: z, image: example.com/z}, {name: a, image: example.com/a}]
properties:
- {type: olm.package, value: {packageName: lantern, version: 1.9.0}}
- {type: olm.csv.metadata, value: {displayName: Lantern}}
---
schema: olm.bundle
package: lantern
name: lantern.v1.10.0
properties:
- {type: olm.package, value: {packageName: lantern, version: 1.10.0}}
- {type: olm.bundle.object, value: {data: e30=}}
",
    )
    .unwrap();
    let configs = place.configs();
    let configs = configs.to_str().unwrap();
    let list = |what: &str| opm(["alpha", "list", what, configs]).run().stdout;
    assert_eq!(
        list("packages"),
        "NAME     DISPLAY NAME  DEFAULT CHANNEL\nlantern                stable\n"
    );
    assert_eq!(
        list("bundles"),
        "PACKAGE  CHANNEL  BUNDLE           REPLACES         SKIPS  SKIP RANGE  IMAGE\n\
         lantern  stable   lantern.v1.10.0                                      \n\
         lantern  stable   lantern.v1.9.0   lantern.v1.10.0  a,b    <1.9.0      example.com/lantern:1.9\n"
    );
    let own = Start::new(["list", "packages", &format!("file:{configs}")]).run();
    assert!(
        own.stdout.contains("lantern  Lantern       stable"),
        "{own:?}"
    );

    let sorted = r#""relatedImages":[{"image":"example.com/a","name":"a"},{"image":"example.com/z","name":"z"}]"#;
    let rendered = opm(["render", configs]).run();
    assert!(rendered.stdout.contains(sorted), "{rendered:?}");
    let own = Start::new(["render", &format!("file:{configs}")]).run();
    assert!(!own.stdout.contains(sorted), "{own:?}");
}

#[test]
fn what_is_not_ours_is_handed_on_to_the_real_opm() {
    let place = Place::of(&Catalog::small());
    let program = place.path("opm");
    put_program(&program);
    let upstream = place.path("opm-upstream");
    fs::write(&upstream, "#!/bin/sh\necho \"upstream: $*\"\nexit 7\n").unwrap();
    fs::set_permissions(&upstream, fs::Permissions::from_mode(0o755)).unwrap();

    for words in [
        "alpha bundle extract -m /bundle/ -n olm -c config -z",
        "registry serve --port 1",
        "validate a",
    ] {
        let run = opm(words.split(' ')).program(&program).run();
        assert_eq!(run.status.code(), Some(7), "{run:?}");
        assert_eq!(run.stdout, format!("upstream: {words}\n"));
    }
    let mut served = place.serve().program(&program).start();
    assert_eq!(packages(&mut served), ["etcd"]);
    end(served);
    // Under its own name it is almanac.
    let run = opm(["--version"]).program(&program).called("almanac").run();
    assert!(run.stdout.starts_with("almanac "), "{run:?}");
}
