//! What cannot be used is refused with a message that says what to change, and
//! the program ends with the code that is documented: 1 when something failed,
//! 2 when what was written cannot be used.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::almanac::{Almanac, catalog, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::image::Image;
use crate::support::port::NOBODY;
use crate::support::program::{Finished, Start};
use crate::support::registry::Access;
use crate::support::upstream::Upstream;

/// A start that would go well, but for what a test adds to it.
fn serve() -> Start {
    Start::new([
        "serve",
        "--data-dir={data}",
        "--grpc=127.0.0.1:0",
        "--http=127.0.0.1:0",
        "--admin=127.0.0.1:0",
    ])
}

/// Holds a run to its exit code and to a message of one line with these parts.
fn refused(finished: &Finished, code: i32, parts: &[&str]) {
    assert_eq!(finished.status.code(), Some(code), "{finished:?}");
    let message = finished.stderr.lines().last().unwrap_or_default();
    assert!(message.starts_with("almanac: "), "{finished:?}");
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
    assert!(!finished.stderr.contains("panicked"), "{finished:?}");
}

/// Runs it with a configuration, which is named in the message.
fn refused_file(config: &str, parts: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("almanac.toml");
    fs::write(&path, config).unwrap();
    let path = path.to_str().unwrap();
    let finished = serve().argument("--config").argument(path).run();
    refused(&finished, 2, &[&[path], parts].concat());
}

#[test]
fn a_configuration_that_cannot_be_used_is_refused() {
    let source = "\n[[catalog]]\nsource = \"file:a\"\n";
    refused_file(
        &format!("pol = \"1m\"{source}"),
        &[":1:1:", "unknown key", "pol", "poll"],
    );
    refused_file(
        &format!("{source}pol = \"1m\"\n"),
        &[":4:1:", "unknown key", "pol", "poll"],
    );
    refused_file(
        &format!("{source}poll = \"1 fortnight\"\n"),
        &[":4:", "1 fortnight", "10m"],
    );
    refused_file(
        "[[catalog]]\nsource = \"docker://quay.io/a/b\"\n",
        &[
            ":2:",
            "docker://quay.io/a/b",
            "is not supported",
            "oci:FOLDER",
        ],
    );
    refused_file("[[catalog]\n", &[":1:"]);
    refused_file(
        "[[catalog]]\nname = \"a\"\n",
        &["the catalog a", "has no source"],
    );
}

#[test]
fn a_configuration_that_is_not_there_is_refused() {
    let finished = serve().argument("--config=/nowhere/almanac.toml").run();
    refused(&finished, 2, &["/nowhere/almanac.toml", "No such file"]);
}

#[test]
fn a_source_that_cannot_be_used_is_refused_as_an_argument() {
    for (source, parts) in [
        ("ftp://example.com/a", ["ftp://example.com/a", "file:PATH"]),
        ("docker://quay.io/a/b", ["is not supported", "oci:FOLDER"]),
        ("a=file:", ["names no path", "file:PATH"]),
        ("catalog", ["catalog", "image reference"]),
    ] {
        let finished = serve().argument(source).run();
        assert_eq!(finished.status.code(), Some(2), "{finished:?}");
        for part in parts {
            assert!(finished.stderr.contains(part), "{part:?}: {finished:?}");
        }
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for service in ["grpc", "http", "admin"] {
        let arguments = ["serve", "--data-dir={data}", "file:a"];
        let others = ["grpc", "http", "admin"]
            .into_iter()
            .filter(|other| *other != service)
            .map(|other| format!("--{other}=127.0.0.1:0"));
        let start = others.fold(Start::new(arguments), Start::argument);
        let finished = start.argument(format!("--{service}={address}")).run();
        refused(&finished, 1, &[service, &address, "in use"]);
    }
}

#[test]
fn a_data_folder_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "not a folder").unwrap();
    let below = file.join("data");
    // The second is refused to everybody, also to root.
    for path in [below.as_path(), Path::new("/proc/almanac")] {
        let path = path.to_str().unwrap();
        let finished = Start::new(["serve", "--data-dir", path, "file:a"])
            .argument("--grpc=127.0.0.1:0")
            .argument("--http=127.0.0.1:0")
            .argument("--admin=127.0.0.1:0")
            .run();
        refused(&finished, 1, &["data folder", path, "cannot create"]);
    }
}

#[test]
fn a_source_in_the_data_folder_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let inside = data.join("revisions/1");
    Catalog::one("etcd").write_to(&inside, Format::Yaml);
    let link = root.path().join("link");
    symlink(&inside, &link).unwrap();
    for (kind, source) in [("file", &inside), ("oci", &inside), ("file", &link)] {
        let source = format!("{kind}:{}", source.display());
        let run = serve().data(&data).argument(format!("x={source}")).run();
        let folder = data.to_str().unwrap();
        refused(
            &run,
            2,
            &[folder, "the catalog x", &source, "lies in the data folder"],
        );
    }
    // What only begins with the same name is beside it.
    let beside = root.path().join("data-of-others");
    Catalog::one("etcd").write_to(&beside, Format::Yaml);
    let config = following(&format!("file:{}", beside.display()));
    let mut almanac = Almanac::start_in(&data, &config);
    almanac.until("a", "the catalog", |status| status["state"] == "serving");
}

#[test]
fn a_data_folder_in_a_source_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("catalog");
    Catalog::one("etcd").write_to(&folder, Format::Yaml);
    let link = root.path().join("link");
    symlink(&folder, &link).unwrap();
    let inside = folder.join("deep/data");
    for (kind, source, data) in [
        ("file", &folder, &inside),
        ("file", &folder, &link.join("deep/data")),
        ("oci", &link, &inside),
        ("file", &folder, &folder),
    ] {
        let source = format!("{kind}:{}", source.display());
        let run = serve().data(data).argument(format!("x={source}")).run();
        let data = data.to_str().unwrap();
        refused(&run, 2, &[data, "the catalog x", &source, "--data-dir"]);
    }
    assert_eq!(fs::read_dir(&inside).unwrap().count(), 0);

    // Also while it runs.
    let good = following(&format!("file:{}", folder.display()));
    let data = root.path().join("catalog-data");
    let mut almanac = Almanac::start_in(&data, &good);
    almanac.until("a", "the catalog", |status| status["state"] == "serving");
    let around = format!("file:{}", root.path().display());
    almanac.reconfigure(&following(&around));
    let said = [data.to_str().unwrap(), &around];
    almanac.until_configuration("a refusal", |status| {
        let error = status["error"].as_str().unwrap_or_default();
        said.iter().all(|said| error.contains(said))
    });
    assert_eq!(almanac.packages("a").unwrap(), ["etcd"]);
}

#[test]
fn a_data_folder_that_is_in_use_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    Catalog::one("etcd").write_to(&folder.path().join("catalog"), Format::Yaml);
    let source = format!("file:{}", folder.path().join("catalog").display());
    let mut first = Almanac::start(&following(&source));
    first.until_whole("a");
    let revisions = first.revisions();

    let data = first.program.data().to_owned();
    let second = serve().data(&data).argument("file:a").run();
    let parts = ["another almanac", data.to_str().unwrap(), "--data-dir"];
    refused(&second, 1, &parts);
    assert_eq!(first.revisions(), revisions);
    assert_eq!(first.packages("a").unwrap(), ["etcd"]);

    // One that was killed holds it no more.
    first.program.kill9();
    first.program.restart();
    first.until("a", "a revision", |status| status["state"] == "serving");
}

#[test]
fn credentials_that_cannot_be_read_are_named() {
    let upstream = Upstream::start();
    upstream.misbehave(|behaviour| behaviour.access = Access::AnonymousToken);
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.json");
    let broken = folder.path().join("broken.json");
    fs::write(&broken, "{\"auths\": {\"a\": {\"auth\": \"secret").unwrap();
    for file in [missing, broken] {
        let config = following(&upstream.reference("a", "latest"));
        let config = format!("{config}[registries]\nauth_files = [{file:?}]\n");
        let mut almanac = Almanac::start(&config);
        let status = almanac.until_failed("a");
        assert_eq!(status["last_result"]["reason"], "credentials");
        let error = status["last_error"].as_str().unwrap();
        assert!(error.contains(file.to_str().unwrap()), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn authorities_that_cannot_be_read_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let argument = format!("--ca-file={}", file.display());
    let finished = serve().argument(&argument).argument("file:a").run();
    // What a flag names has to be there; what the file names may come later.
    refused(&finished, 2, &[file.to_str().unwrap(), "No such file"]);
    fs::write(&file, "not a certificate").unwrap();
    let finished = serve().argument(&argument).argument("file:a").run();
    refused(&finished, 1, &[file.to_str().unwrap()]);
}

#[test]
fn a_first_start_without_its_registry_waits_for_it() {
    let upstream = Upstream::start();
    let image = Image::of_catalog(&Catalog::one("etcd")).build();
    upstream.push("a", "latest", &image);
    upstream.misbehave(|behaviour| behaviour.silent = true);
    let source = upstream.reference("a", "latest");
    let config = following(&source) + "[registries]\nidle_timeout = \"500ms\"\n";
    let mut almanac = Almanac::start(&config);

    // Until the first pass has failed it is not known what there is to serve.
    let waiting = almanac.ready();
    assert_eq!(waiting.status, 503);
    assert!(waiting.text().contains('a'), "{waiting:?}");
    assert_eq!(almanac.status("a")["state"], "loading");

    let status = almanac.until_failed("a");
    assert_eq!(status["state"], "failing");
    assert!(status["revision"].is_null());
    assert!(!status["next_pass"].is_null());
    let error = status["last_error"].as_str().unwrap();
    assert!(error.contains(&source), "{error}");
    // One catalog that fails must not hold back others.
    assert_eq!(almanac.ready().status, 200);
    nothing_is_served(&mut almanac);

    upstream.behave();
    almanac.until_at("a", &image.digest());
    assert_eq!(almanac.packages("a").unwrap(), ["etcd"]);
}

#[test]
fn a_registry_that_is_not_there_is_named() {
    let source = format!("{NOBODY}/a:latest");
    let mut almanac = Almanac::start(&following(&source));
    let status = almanac.until_failed("a");
    assert_eq!(status["last_result"]["reason"], "unreachable");
    let error = status["last_error"].as_str().unwrap();
    for part in [source.as_str(), "cannot be reached", "refused"] {
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    }
    nothing_is_served(&mut almanac);
}

#[test]
fn a_folder_that_is_not_there_fails_until_it_comes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog");
    let good = folder.path().join("good");
    Catalog::one("good").write_to(&good, Format::Yaml);
    let config = following(&format!("file:{}", path.display()))
        + &catalog("good", &format!("file:{}", good.display()));
    let mut almanac = Almanac::start(&config);
    let status = almanac.until_failed("a");
    assert_eq!(status["last_result"]["stage"], "resolve");
    assert_eq!(status["last_result"]["reason"], "io");
    let error = status["last_error"].as_str().unwrap();
    for part in [path.to_str().unwrap(), "No such file"] {
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    }
    nothing_is_served(&mut almanac);
    almanac.until("good", "the other", |status| status["state"] == "serving");
    assert_eq!(almanac.packages("good").unwrap(), ["good"]);

    fs::rename(&good, &path).unwrap();
    almanac.until("a", "the folder", |status| status["state"] == "serving");
    assert_eq!(almanac.packages("a").unwrap(), ["good"]);
}

#[test]
fn a_program_that_waits_for_its_registry_can_be_stopped() {
    let upstream = Upstream::start();
    upstream.misbehave(|behaviour| behaviour.silent = true);
    let mut almanac = Almanac::start(&following(&upstream.reference("a", "latest")));
    almanac.until("a", "a question", |_| !upstream.lines().is_empty());
    let begin = Instant::now();
    almanac.stop();
    // Well before the registry would be given up.
    assert!(begin.elapsed() < Duration::from_secs(15));
}

fn nothing_is_served(almanac: &mut Almanac) {
    let reply = almanac.all("a");
    assert_eq!(reply.status, 503);
    assert!(reply.header("retry-after").is_some());
    let refusal = almanac.packages("a").unwrap_err();
    assert_eq!(refusal.code(), tonic::Code::Unavailable, "{refusal}");
    assert!(refusal.message().contains('a'), "{refusal}");
}
