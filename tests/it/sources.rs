//! Catalogs that are in no registry: archives, layouts of several images,
//! folders that are watched, databases; and images with the version of
//! Kubernetes in their names.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use crate::support::almanac::{Almanac, catalog, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::image::{Built, Compression, Image, Layer};
use crate::support::program::{Finished, Start};
use crate::support::upstream::Upstream;

fn image_of(package: &str) -> Built {
    Image::of_catalog(&Catalog::one(package)).build()
}

fn text(package: &str) -> String {
    Catalog::one(package).text(Format::JsonLines)
}

fn rendered(source: &str) -> Finished {
    Start::new(["render", source]).run()
}

/// Says that a source is a catalog of one package, to each command.
#[track_caller]
fn holds(source: &str, package: &str) {
    let render = rendered(source);
    assert!(render.status.success(), "{source}: {}", render.stderr);
    assert_eq!(render.stdout, text(package), "{source}");
    for command in [&["check"][..], &["list", "packages"]] {
        let run = Start::new(command.iter().copied().chain([source])).run();
        let good = run.status.success() || run.status.code() == Some(1);
        assert!(good, "{command:?} {source}: {}", run.stderr);
    }
}

#[track_caller]
fn refused(source: &str, said: &str) {
    let render = rendered(source);
    assert_eq!(render.status.code(), Some(3), "{source}: {}", render.stderr);
    assert!(render.stderr.contains(said), "{source}: {}", render.stderr);
}

/// A layout of these packages, each as an image with its name as a tag.
fn layout(root: &Path, packages: &[&str]) -> PathBuf {
    let folder = root.join("layout");
    fs::create_dir_all(&folder).unwrap();
    for package in packages {
        image_of(package).add_to_layout(&folder, package);
    }
    folder
}

fn archive_of(folder: &Path) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_dir_all(".", folder).unwrap();
    builder.into_inner().unwrap()
}

/// What `docker save` writes of images, by reference.
fn saved(images: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut add = |name: &str, bytes: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, bytes).unwrap();
    };
    let mut manifest = Vec::new();
    for (reference, package) in images {
        let layer = Layer::of_catalog(&Catalog::one(package), Format::JsonLines, "configs");
        let image = Image::new()
            .label(crate::support::image::CONFIGS_LABEL, "/configs")
            .layer(layer.compressed(Compression::Plain))
            .docker()
            .build();
        let mut names = Vec::new();
        image.for_each_blob(|blob| {
            let name = match names.len() {
                0 => format!("{}.json", blob.digest.hex()),
                _ => format!("{package}/layer.tar"),
            };
            add(&name, &blob.bytes);
            names.push(name);
        });
        manifest.push(json!({
            "Config": names[0],
            "RepoTags": [reference],
            "Layers": names[1..],
        }));
    }
    add(
        "manifest.json",
        serde_json::Value::from(manifest).to_string().as_bytes(),
    );
    builder.into_inner().unwrap()
}

#[test]
fn an_image_of_a_layout_is_chosen_by_tag_or_digest() {
    let root = tempfile::tempdir().unwrap();
    let folder = layout(root.path(), &["one", "two"]);
    let source = format!("oci:{}", folder.display());
    holds(&format!("{source}:two"), "two");
    holds(&format!("{source}@{}", image_of("one").digest()), "one");
    let digest = image_of("two").digest().to_string();
    for wrong in [source.clone(), format!("{source}:three")] {
        refused(&wrong, &digest);
        refused(&wrong, "one (sha256:");
    }
}

#[test]
fn what_came_from_one_repository_of_a_layout_is_not_served_for_another() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("layout");
    fs::create_dir(&folder).unwrap();
    image_of("one").add_to_layout(&folder, "quay.io/one/catalog:v1");
    let of = |choice: &str| following(&format!("oci:{}:{choice}", folder.display()));
    let mut almanac = Almanac::start(&of("quay.io/one/catalog:v1"));
    almanac.until_at("a", &image_of("one").digest());
    // A version that is not there yet, and another catalog.
    almanac.reconfigure(&of("quay.io/one/catalog:v9"));
    almanac.until_failed("a");
    assert_eq!(almanac.all("a").text(), text("one"));
    almanac.reconfigure(&of("quay.io/two/catalog:v9"));
    almanac.until("a", "the other", |status| {
        let error = status["last_error"].as_str().unwrap_or_default();
        error.contains("quay.io/two/catalog:v9")
    });
    assert_eq!(almanac.all("a").status, 503);
    image_of("two").add_to_layout(&folder, "quay.io/two/catalog:v9");
    almanac.until_at("a", &image_of("two").digest());
    almanac.stop();
    almanac.restart_with(&of("quay.io/one/catalog:v9"));
    almanac.until_failed("a");
    assert_eq!(almanac.all("a").status, 503);
}

#[test]
fn an_oci_archive_is_read_like_its_folder() {
    let root = tempfile::tempdir().unwrap();
    let folder = layout(root.path(), &["one", "two"]);
    let archive = root.path().join("images.tar");
    fs::write(&archive, archive_of(&folder)).unwrap();
    let source = format!("oci-archive:{}", archive.display());
    holds(&format!("{source}:two"), "two");
    refused(&source, "one (sha256:");
    let bytes = fs::read(&archive).unwrap();
    fs::write(&archive, &bytes[..bytes.len() / 2]).unwrap();
    refused(&format!("{source}:two"), "damaged");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, &bytes).unwrap();
    fs::write(&archive, gzip.finish().unwrap()).unwrap();
    refused(&format!("{source}:two"), "compressed with gzip");
}

#[test]
fn a_docker_archive_is_read_by_reference_or_tag() {
    let root = tempfile::tempdir().unwrap();
    let archive = root.path().join("saved.tar");
    let images = [("quay.io/a/b:v1", "one"), ("quay.io/a/c:v2", "two")];
    fs::write(&archive, saved(&images)).unwrap();
    let source = format!("docker-archive:{}", archive.display());
    holds(&format!("{source}:quay.io/a/b:v1"), "one");
    holds(&format!("{source}:v2"), "two");
    refused(&source, "quay.io/a/c:v2 (sha256:");
    fs::write(&archive, saved(&images[..1])).unwrap();
    holds(&source, "one");
    fs::write(&archive, archive_of(root.path())).unwrap();
    refused(&source, "manifest.json");
}

#[test]
fn a_replaced_archive_is_served_and_a_broken_one_is_not() {
    let root = tempfile::tempdir().unwrap();
    let archive = root.path().join("catalog.tar");
    let replace = |bytes: &[u8]| {
        let next = root.path().join("next");
        fs::write(&next, bytes).unwrap();
        fs::rename(next, &archive).unwrap();
    };
    let first = saved(&[("quay.io/a/b:v1", "first")]);
    replace(&first);
    // Long enough that only watching can tell.
    let source = format!("docker-archive:{}", archive.display());
    let mut almanac = Almanac::start(&format!("poll = \"1h\"\n{}", catalog("a", &source)));
    almanac.until("a", "the first", |status| status["state"] == "serving");
    assert_eq!(almanac.all("a").text(), text("first"));
    replace(&first[..1000]);
    almanac.until_failed("a");
    assert_eq!(almanac.all("a").text(), text("first"));
    replace(&saved(&[("quay.io/a/b:v1", "second")]));
    almanac.until("a", "the second", |status| status["revision"]["id"] == 2);
    assert_eq!(almanac.all("a").text(), text("second"));
}

/// An almanac that follows a folder, with an hour between polls.
fn watching(path: &Path) -> Almanac {
    let source = format!("file:{}", path.display());
    let mut almanac = Almanac::start(&format!("poll = \"1h\"\n{}", catalog("a", &source)));
    almanac.until("a", "the first", |status| {
        status["state"] == "serving" && !status["next_pass"].is_null()
    });
    almanac
}

fn second(almanac: &mut Almanac) {
    almanac.until("a", "the second", |status| status["revision"]["id"] == 2);
    assert_eq!(almanac.all("a").text(), text("second"));
}

#[test]
fn a_changed_folder_is_served_before_the_next_poll() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("catalog.json");
    fs::write(&file, text("first")).unwrap();
    let mut almanac = watching(root.path());
    fs::write(&file, text("second")).unwrap();
    second(&mut almanac);
}

#[test]
fn what_lies_beside_a_catalog_brings_about_no_pass() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("catalog.json");
    fs::write(&file, text("first")).unwrap();
    let mut almanac = watching(&file);
    let passes = |almanac: &mut Almanac| {
        let metrics = almanac.metrics();
        let lines = metrics.lines();
        let lines = lines.filter(|line| line.starts_with("almanac_passes_total{"));
        let counts = lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
        counts.sum::<u64>()
    };
    assert_eq!(passes(&mut almanac), 1);
    for number in 0..20 {
        fs::write(root.path().join("almanac.log"), number.to_string()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(passes(&mut almanac), 1);
    fs::write(&file, text("second")).unwrap();
    second(&mut almanac);
}

#[test]
fn a_changed_layout_is_served_before_the_next_poll() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("layout");
    fs::create_dir(&folder).unwrap();
    image_of("first").add_to_layout(&folder, "latest");
    let source = format!("oci:{}:latest", folder.display());
    let mut almanac = Almanac::start(&format!("poll = \"1h\"\n{}", catalog("a", &source)));
    almanac.until_at("a", &image_of("first").digest());
    image_of("second").add_to_layout(&folder, "latest");
    almanac.until_at("a", &image_of("second").digest());
    assert_eq!(almanac.all("a").text(), text("second"));
}

#[test]
fn a_config_map_that_is_swapped_is_served_as_a_whole() {
    let root = tempfile::tempdir().unwrap();
    let mount = |version: &str, package: &str| {
        fs::create_dir(root.path().join(version)).unwrap();
        let file = root.path().join(version).join("catalog.json");
        fs::write(file, text(package)).unwrap();
        symlink(version, root.path().join("..data_tmp")).unwrap();
        fs::rename(root.path().join("..data_tmp"), root.path().join("..data")).unwrap();
    };
    mount("..2026_01", "first");
    symlink("..data/catalog.json", root.path().join("catalog.json")).unwrap();
    let mut almanac = watching(root.path());
    mount("..2026_02", "second");
    fs::remove_dir_all(root.path().join("..2026_01")).unwrap();
    second(&mut almanac);
}

#[test]
fn a_checkout_that_is_swapped_is_served() {
    let root = tempfile::tempdir().unwrap();
    let check_out = |commit: &str, package: &str| {
        let folder = root.path().join("worktrees").join(commit).join("catalog");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("catalog.json"), text(package)).unwrap();
        symlink(format!("worktrees/{commit}"), root.path().join("next")).unwrap();
        fs::rename(root.path().join("next"), root.path().join("current")).unwrap();
    };
    check_out("aaaa", "first");
    let mut almanac = watching(&root.path().join("current/catalog"));
    check_out("bbbb", "second");
    second(&mut almanac);
}

#[test]
fn a_folder_that_is_being_written_is_not_served_in_part() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("catalog.json");
    fs::write(&file, text("first")).unwrap();
    let source = format!("file:{}", root.path().display());
    let mut almanac = Almanac::start(&following(&source));
    almanac.until("a", "the first", |status| status["state"] == "serving");
    // Piece by piece, in none of which there is a catalog.
    let whole = text("second");
    for part in 1..=60 {
        fs::write(&file, &whole[..whole.len() * part / 60]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    second(&mut almanac);
    let metrics = almanac.metrics();
    assert!(!metrics.contains("outcome=\"refused\""), "{metrics}");
    assert!(!metrics.contains("outcome=\"failed\""), "{metrics}");
}

#[test]
fn the_version_of_kubernetes_chooses_the_image() {
    let upstream = Upstream::start();
    let repository = "catalogs/a";
    upstream.push(repository, "v1.33", &image_of("new"));
    upstream.push(repository, "plain", &image_of("plain"));
    let plain = upstream.reference(repository, "plain");
    let name = plain.strip_suffix(":plain").unwrap();
    let template = format!("{name}:v{{kube_major_version}}.{{kube_minor_version}}");
    let with = |top: &str, source: &str, keys: &str| format!("{top}{}{keys}", following(source));
    let line = format!("image_template = {template:?}\n");
    let version = "kube_version = \"1.33.2\"\n";
    let mut almanac = Almanac::start(&with(version, &plain, &line));
    almanac.until_at("a", &image_of("new").digest());
    assert_eq!(almanac.status("a")["source"], format!("{name}:v1.33"));

    // Without a version it is the plain image, as with OLM, and that is said.
    almanac.reconfigure(&with("", &plain, &line));
    almanac.until_at("a", &image_of("plain").digest());
    almanac
        .program
        .wait_for_log("a warning", |log| log.contains("kube_version is not set"));
    almanac.reconfigure(&with(version, &template, ""));
    almanac.until_at("a", &image_of("new").digest());
    almanac.reconfigure(&with("", &template, ""));
    almanac.until_configuration("a refusal", |status| {
        status["error"]
            .as_str()
            .is_some_and(|error| error.contains("kube_version is not set"))
    });

    let run = Start::new(["render", "--kube-version=1.33", &template]).run();
    assert_eq!(run.stdout, text("new"), "{}", run.stderr);
    upstream.push(repository, "v1.33.2", &image_of("patched"));
    let patched = format!("{template}.{{kube_patch_version}}");
    let run = Start::new(["render", "--kube-version=v1.33.2+k3s1", &patched]).run();
    assert_eq!(run.stdout, text("patched"), "{}", run.stderr);
    let run = Start::new(["render", "--kube-version=1.33", &patched]).run();
    assert_eq!(run.status.code(), Some(2), "{}", run.stderr);
    assert!(
        run.stderr.contains("{kube_patch_version}"),
        "{}",
        run.stderr
    );
    let run = Start::new(["render", &template]).run();
    assert_eq!(run.status.code(), Some(2), "{}", run.stderr);
}

pub(crate) mod legacy {
    //! Catalogs that are databases still.

    use super::*;

    const DATABASE_LABEL: &str = "operators.operatorframework.io.index.database.v1";

    /// The tables as the last migration of `opm` leaves them.
    const TABLES: &str = r"
        CREATE TABLE schema_migrations (version uint64, dirty bool);
        CREATE TABLE operatorbundle (name TEXT PRIMARY KEY, csv TEXT, bundle TEXT,
            bundlepath TEXT, skiprange TEXT, version TEXT, replaces TEXT, skips TEXT,
            substitutesfor TEXT);
        CREATE TABLE package (name TEXT PRIMARY KEY, default_channel TEXT, add_mode INTEGER,
            FOREIGN KEY(name, default_channel) REFERENCES channel(package_name, name));
        CREATE TABLE channel (name TEXT, package_name TEXT, head_operatorbundle_name TEXT,
            PRIMARY KEY(name, package_name));
        CREATE TABLE channel_entry (entry_id INTEGER PRIMARY KEY, channel_name TEXT,
            package_name TEXT, operatorbundle_name TEXT, replaces INTEGER, depth INTEGER);
        CREATE TABLE api (group_name TEXT, version TEXT, kind TEXT, plural TEXT NOT NULL,
            PRIMARY KEY(group_name, version, kind));
        CREATE TABLE related_image (image TEXT, operatorbundle_name TEXT);
        CREATE TABLE dependencies (type TEXT, value TEXT, operatorbundle_name TEXT,
            operatorbundle_version TEXT, operatorbundle_path TEXT);
        CREATE TABLE properties (type TEXT, value TEXT, operatorbundle_name TEXT,
            operatorbundle_version TEXT, operatorbundle_path TEXT);
        CREATE TABLE deprecated (operatorbundle_name TEXT PRIMARY KEY);
    ";

    /// A package of two versions in two channels; only the head has manifests.
    const ROWS: &str = r#"
        INSERT INTO package (name, default_channel) VALUES ('etcd', 'stable');
        INSERT INTO channel VALUES ('stable', 'etcd', 'etcd.v1.1.0');
        INSERT INTO channel VALUES ('alpha', 'etcd', 'etcd.v1.0.0');
        INSERT INTO operatorbundle VALUES ('etcd.v1.0.0', NULL, NULL, 'quay.io/a/etcd:1.0.0', '',
            '1.0.0', '', '', NULL);
        INSERT INTO operatorbundle VALUES ('etcd.v1.1.0', '{}',
            '{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"etcd.v1.1.0"},"spec":{"icon":[{"base64data":"PHN2Zy8+","mediatype":"image/svg+xml"}],"install":{"strategy":"deployment"},"relatedImages":[{"name":"db","image":"quay.io/a/db:1"}]}}',
            'quay.io/a/etcd:1.1.0', '>=1.0.0 <1.1.0', '1.1.0', 'etcd.v1.0.0', 'etcd.v1.0.1,etcd.v1.0.2',
            NULL);
        INSERT INTO operatorbundle (name) VALUES ('etcd.v0.9.0');
        INSERT INTO channel_entry VALUES (1, 'stable', 'etcd', 'etcd.v1.1.0', 6, 0);
        INSERT INTO channel_entry VALUES (2, 'stable', 'etcd', 'etcd.v1.0.1', NULL, 1);
        INSERT INTO channel_entry VALUES (3, 'stable', 'etcd', 'etcd.v1.1.0', 2, 1);
        INSERT INTO channel_entry VALUES (4, 'stable', 'etcd', 'etcd.v1.0.2', NULL, 2);
        INSERT INTO channel_entry VALUES (5, 'stable', 'etcd', 'etcd.v1.1.0', 4, 2);
        INSERT INTO channel_entry VALUES (6, 'stable', 'etcd', 'etcd.v1.0.0', 8, 3);
        INSERT INTO channel_entry VALUES (7, 'alpha', 'etcd', 'etcd.v1.0.0', NULL, 0);
        INSERT INTO channel_entry VALUES (8, 'stable', 'etcd', 'etcd.v0.9.0', NULL, 4);
        INSERT INTO properties VALUES ('olm.package', '{"packageName":"etcd","version":"1.1.0"}',
            'etcd.v1.1.0', '1.1.0', 'quay.io/a/etcd:1.1.0');
        INSERT INTO properties VALUES ('olm.gvk',
            '{"group":"etcd.io","kind":"Cluster","version":"v1"}', 'etcd.v1.1.0', '1.1.0',
            'quay.io/a/etcd:1.1.0');
        INSERT INTO dependencies VALUES ('olm.package', '{"packageName":"vault","version":">=1"}',
            'etcd.v1.1.0', '1.1.0', 'quay.io/a/etcd:1.1.0');
        INSERT INTO related_image VALUES ('quay.io/a/etcd:1.1.0', 'etcd.v1.1.0');
        INSERT INTO related_image VALUES ('quay.io/a/db:1', 'etcd.v1.1.0');
    "#;

    fn database(folder: &TempDir, statements: &str) -> PathBuf {
        use sqlx::{ConnectOptions as _, Connection as _};

        let path = folder.path().join("index.db");
        let _ = fs::remove_file(&path);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let options = sqlx::sqlite::SqliteConnectOptions::new();
            let options = options
                .filename(&path)
                .create_if_missing(true)
                .foreign_keys(false);
            let mut connection = options.connect().await.unwrap();
            let statements = sqlx::AssertSqlSafe(statements.to_owned());
            sqlx::raw_sql(statements)
                .execute(&mut connection)
                .await
                .unwrap();
            connection.close().await.unwrap();
        });
        path
    }

    /// An image of such a catalog.
    pub(crate) fn image() -> crate::support::image::Built {
        let folder = tempfile::tempdir().unwrap();
        let path = database(&folder, &format!("{TABLES}{ROWS}"));
        let layer = Layer::new().folder("database");
        let layer = layer.file("database/index.db", fs::read(path).unwrap());
        Image::new()
            .label(DATABASE_LABEL, "/database/index.db")
            .layer(layer)
            .build()
    }

    /// What `opm migrate` makes of it.
    fn wanted() -> Vec<serde_json::Value> {
        use base64::Engine as _;
        let csv = "{\"apiVersion\":\"operators.coreos.com/v1alpha1\",\
            \"kind\":\"ClusterServiceVersion\",\"metadata\":{\"name\":\"etcd.v1.1.0\"},\"spec\":\
            {\"icon\":[{\"base64data\":\"PHN2Zy8+\",\"mediatype\":\"image/svg+xml\"}],\
            \"install\":{\"strategy\":\"deployment\"},\"relatedImages\":[{\"name\":\"db\",\"image\":\"quay.io/a/db:1\"}]}}";
        let csv = base64::engine::general_purpose::STANDARD.encode(csv);
        vec![
            json!({"schema": "olm.package", "name": "etcd", "defaultChannel": "stable",
                "icon": {"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"}}),
            json!({"schema": "olm.channel", "package": "etcd", "name": "alpha",
                "entries": [{"name": "etcd.v1.0.0"}]}),
            json!({"schema": "olm.channel", "package": "etcd", "name": "stable", "entries": [
                {"name": "etcd.v1.0.0", "replaces": "etcd.v0.9.0"},
                {"name": "etcd.v1.1.0", "replaces": "etcd.v1.0.0",
                    "skips": ["etcd.v1.0.1", "etcd.v1.0.2"], "skipRange": ">=1.0.0 <1.1.0"}]}),
            json!({"schema": "olm.bundle", "package": "etcd", "name": "etcd.v1.0.0",
                "image": "quay.io/a/etcd:1.0.0", "properties": [
                    {"type": "olm.package", "value": {"packageName": "etcd", "version": "1.0.0"}}]}),
            json!({"schema": "olm.bundle", "package": "etcd", "name": "etcd.v1.1.0",
                "image": "quay.io/a/etcd:1.1.0", "properties": [
                    {"type": "olm.gvk",
                        "value": {"group": "etcd.io", "kind": "Cluster", "version": "v1"}},
                    {"type": "olm.package", "value": {"packageName": "etcd", "version": "1.1.0"}},
                    {"type": "olm.package.required",
                        "value": {"packageName": "vault", "versionRange": ">=1"}},
                    {"type": "olm.bundle.object", "value": {"data": csv}}],
                "relatedImages": [{"name": "db", "image": "quay.io/a/db:1"},
                    {"name": "", "image": "quay.io/a/etcd:1.1.0"}]}),
        ]
    }

    fn blobs(lines: &str) -> Vec<serde_json::Value> {
        let lines = lines.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn a_database_is_read_as_the_blobs_it_would_be_migrated_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = database(&folder, &format!("{TABLES}{ROWS}"));
        let run = rendered(&format!("file:{}", path.display()));
        assert!(run.status.success(), "{}", run.stderr);
        assert_eq!(blobs(&run.stdout), wanted());
    }

    #[test]
    fn an_image_with_a_database_is_followed_and_served() {
        let image = image();
        let upstream = Upstream::start();
        upstream.push("catalogs/a", "latest", &image);
        let source = upstream.reference("catalogs/a", "latest");
        let mut almanac = Almanac::start(&following(&source));
        almanac.until_at("a", &image.digest());
        assert_eq!(blobs(&almanac.all("a").text()), wanted());
        assert_eq!(almanac.packages("a").unwrap(), ["etcd"]);
        // What is encoded after publication is under way for a moment.
        let begin = std::time::Instant::now();
        while almanac.revisions() != ["1"] {
            let late = begin.elapsed() > Duration::from_secs(30);
            assert!(!late, "left behind: {:?}", almanac.revisions());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn an_image_with_both_is_read_as_its_files() {
        let root = tempfile::tempdir().unwrap();
        let layer = Layer::new().folder("database");
        let layer = layer.file("database/index.db", "not even looked at");
        let image = Image::of_catalog(&Catalog::one("files"))
            .label(DATABASE_LABEL, "/database/index.db")
            .layer(layer)
            .build();
        image.add_to_layout(root.path(), "latest");
        holds(&format!("oci:{}", root.path().display()), "files");
    }

    #[test]
    fn a_refused_database_is_named_with_its_image() {
        let root = tempfile::tempdir().unwrap();
        let path = database(&root, "CREATE TABLE other (a);");
        let layer = Layer::new().folder("database");
        let layer = layer.file("database/index.db", fs::read(path).unwrap());
        let image = Image::new()
            .label(DATABASE_LABEL, "/database/index.db")
            .layer(layer)
            .build();
        let upstream = Upstream::start();
        upstream.push("catalogs/a", "latest", &image);
        let source = upstream.reference("catalogs/a", "latest");
        let mut almanac = Almanac::start(&following(&source));
        let status = almanac.until_failed("a");
        let error = status["last_error"].as_str().unwrap();
        for said in [source.as_str(), "index.db", "there is no table \"package\""] {
            assert!(error.contains(said), "{error}");
        }
        assert_eq!(status["last_result"]["reason"], "database");
    }

    #[test]
    fn a_database_that_is_none_of_a_catalog_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let endless = "CREATE VIEW package AS WITH RECURSIVE n(name, default_channel) AS
            (SELECT 'a', 'b' UNION ALL SELECT name || 'a', 'b' FROM n) SELECT * FROM n;";
        let computed = "DROP TABLE package; CREATE TABLE package (name TEXT,
            default_channel TEXT AS (hex(zeroblob(100000000))) VIRTUAL);";
        for (statements, said) in [
            ("CREATE TABLE other (a);".to_owned(), "no table"),
            (
                format!("{TABLES} DROP TABLE package; {endless}"),
                "no plain table",
            ),
            (format!("{TABLES} {computed}"), "computed"),
            (
                format!("{TABLES} ALTER TABLE operatorbundle DROP COLUMN skiprange;"),
                "no column",
            ),
            (
                format!("{TABLES} INSERT INTO package VALUES (hex(zeroblob(3000000)), '', 0);"),
                "too much",
            ),
            (TABLES.to_owned(), "there is no file"),
        ] {
            let path = database(&folder, &statements);
            refused(&format!("file:{}", path.display()), said);
        }
        let path = database(&folder, &format!("{TABLES}{ROWS}"));
        let mut bytes = fs::read(&path).unwrap();
        bytes[4096..].fill(0xa5);
        fs::write(&path, &bytes).unwrap();
        refused(&format!("file:{}", path.display()), "database");
    }

    #[test]
    fn a_trigger_in_a_database_does_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let trigger = "CREATE TRIGGER t AFTER INSERT ON package BEGIN
            SELECT load_extension('/tmp/x'); END;";
        let path = database(&folder, &format!("{TABLES}{ROWS}{trigger}"));
        let before = fs::read(&path).unwrap();
        let run = rendered(&format!("file:{}", path.display()));
        assert_eq!(blobs(&run.stdout), wanted(), "{}", run.stderr);
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}
