//! Catalogs that are databases still: they are read as the blobs that `opm
//! migrate` makes of them.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::sources::{holds, refused, rendered};
use crate::support::almanac::{Almanac, following};
use crate::support::catalog::Catalog;
use crate::support::image::{Built, Image, Layer};
use crate::support::runtime::block_on;
use crate::support::upstream::Upstream;

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
    block_on(async {
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
pub(crate) fn image() -> Built {
    let folder = tempfile::tempdir().unwrap();
    let path = database(&folder, &format!("{TABLES}{ROWS}"));
    let layer = Layer::new().folder("database");
    let layer = layer.file("database/index.db", fs::read(path).unwrap());
    Image::new()
        .label(DATABASE_LABEL, "/database/index.db")
        .layer(layer)
        .build()
}

/// The output of `opm migrate` for it.
fn wanted() -> Vec<Value> {
    let csv = "{\"apiVersion\":\"operators.coreos.com/v1alpha1\",\
        \"kind\":\"ClusterServiceVersion\",\"metadata\":{\"name\":\"etcd.v1.1.0\"},\"spec\":\
        {\"icon\":[{\"base64data\":\"PHN2Zy8+\",\"mediatype\":\"image/svg+xml\"}],\
        \"install\":{\"strategy\":\"deployment\"},\"relatedImages\":[{\"name\":\"db\",\"image\":\"quay.io/a/db:1\"}]}}";
    let csv = BASE64_STANDARD.encode(csv);
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

fn blobs(lines: &str) -> Vec<Value> {
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
            "not a plain table",
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
        (TABLES.to_owned(), "there is no package in the database"),
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

/// Rows of a database, written as `opm` writes them.
#[derive(Default)]
struct Rows {
    statements: String,
    entries: u32,
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl Rows {
    fn insert(mut self, table: &str, values: &[&str]) -> Self {
        let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
        let values = values.join(", ");
        write!(self.statements, "INSERT INTO {table} VALUES ({values});").unwrap();
        self
    }

    /// A package whose default channel is `stable`.
    fn package(self, name: &str) -> Self {
        let table = "package (name, default_channel)";
        self.insert(table, &[name, "stable"])
    }

    fn channel(self, package: &str, name: &str, head: &str) -> Self {
        let table = "channel (package_name, name, head_operatorbundle_name)";
        self.insert(table, &[package, name, head])
    }

    /// A bundle with an image and without manifests, as most are.
    fn bundle(self, name: &str, version: &str) -> Self {
        let image = format!("quay.io/a/{name}");
        let table = "operatorbundle (name, version, bundlepath, skiprange, replaces, skips)";
        self.insert(table, &[name, version, &image, "", "", ""])
    }

    /// Sets what a bundle has in a column.
    fn with(mut self, bundle: &str, column: &str, value: Option<&str>) -> Self {
        let (name, value) = (quoted(bundle), value.map_or("NULL".into(), quoted));
        write!(
            self.statements,
            "UPDATE operatorbundle SET {column} = {value} WHERE name = {name};"
        )
        .unwrap();
        self
    }

    /// The next row of an entry: what it replaces or skips is the row with
    /// that number, which begins at 1.
    fn entry(
        mut self,
        (package, channel): (&str, &str),
        name: &str,
        replaces: Option<u32>,
        depth: u32,
    ) -> Self {
        self.entries += 1;
        let replaces = replaces.map_or("NULL".into(), |number| number.to_string());
        let names = [package, channel, name].map(quoted).join(", ");
        write!(
            self.statements,
            "INSERT INTO channel_entry (entry_id, package_name, channel_name,
                operatorbundle_name, replaces, depth)
             VALUES ({}, {names}, {replaces}, {depth});",
            self.entries
        )
        .unwrap();
        self
    }

    fn property(self, bundle: &str, kind: &str, value: &str) -> Self {
        let table = "properties (operatorbundle_name, type, value)";
        self.insert(table, &[bundle, kind, value])
    }

    fn dependency(self, bundle: &str, kind: &str, value: &str) -> Self {
        let table = "dependencies (operatorbundle_name, type, value)";
        self.insert(table, &[bundle, kind, value])
    }

    /// The blobs that they are read as.
    #[track_caller]
    fn read(&self) -> Vec<Value> {
        let folder = tempfile::tempdir().unwrap();
        let path = database(&folder, &format!("{TABLES}{}", self.statements));
        let run = rendered(&format!("file:{}", path.display()));
        assert!(run.status.success(), "{}", run.stderr);
        blobs(&run.stdout)
    }

    /// The entries of a channel.
    #[track_caller]
    fn entries_of(&self, channel: &str) -> Value {
        let blobs = self.read();
        let mut channels = blobs
            .iter()
            .filter(|blob| blob["schema"] == "olm.channel" && blob["name"] == channel);
        channels.next().unwrap()["entries"].clone()
    }

    /// The blob of a bundle.
    #[track_caller]
    fn bundle_of(&self, name: &str) -> Value {
        let blobs = self.read();
        let mut bundles = blobs
            .iter()
            .filter(|blob| blob["schema"] == "olm.bundle" && blob["name"] == name);
        bundles.next().unwrap().clone()
    }
}

/// A package `a` with one channel and one bundle.
fn one() -> Rows {
    let stable = ("a", "stable");
    Rows::default()
        .package("a")
        .channel("a", "stable", "a.v1")
        .bundle("a.v1", "1.0.0")
        .entry(stable, "a.v1", None, 0)
}

/// The property that every bundle has.
fn own(package: &str, version: &str) -> Value {
    json!({"type": "olm.package", "value": {"packageName": package, "version": version}})
}

const CSV: &str = r#"{"kind":"ClusterServiceVersion","metadata":{"name":"a.v1"},"spec":{
    "icon":[{"base64data":"PHN2Zy9=","mediatype":"image/svg+xml"}]}}"#;

#[test]
fn packages_that_share_a_bundle_have_a_blob_of_it_each() {
    let rows = one()
        .package("b")
        .channel("b", "stable", "a.v1")
        .channel("b", "fast", "a.v1")
        .entry(("b", "stable"), "a.v1", None, 0)
        .entry(("b", "fast"), "a.v1", None, 0);
    let bundle = |package: &str, own: Value| {
        json!({"schema": "olm.bundle", "package": package, "name": "a.v1",
            "image": "quay.io/a/a.v1", "properties": [own]})
    };
    let channel = |package: &str, name: &str| {
        json!({"schema": "olm.channel", "package": package, "name": name,
            "entries": [{"name": "a.v1"}]})
    };
    let package =
        |name: &str| json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"});
    assert_eq!(
        rows.read(),
        [
            package("a"),
            channel("a", "stable"),
            bundle("a", own("a", "1.0.0")),
            package("b"),
            channel("b", "fast"),
            channel("b", "stable"),
            bundle("b", own("b", "1.0.0")),
        ]
    );
    // A row that names the package is of the bundle, wherever that is.
    let value = r#"{"packageName":"a","version":"1.0.0"}"#;
    let blobs = rows.property("a.v1", "olm.package", value).read();
    assert_eq!(blobs[2], bundle("a", own("a", "1.0.0")));
    assert_eq!(blobs[6], bundle("b", own("a", "1.0.0")));
}

#[test]
fn a_bundle_with_the_property_olm_deprecated_is_left_out_with_its_entries() {
    // Neither the bundle that it replaces nor the table of names decides.
    let stable = ("a", "stable");
    let rows = Rows::default()
        .package("a")
        .channel("a", "stable", "a.v3")
        .bundle("a.v2", "2.0.0")
        .bundle("a.v3", "3.0.0")
        .entry(stable, "a.v3", Some(2), 0)
        .entry(stable, "a.v2", Some(3), 1)
        .entry(stable, "a.v1", None, 2)
        .property("a.v2", "olm.deprecated", "{}")
        .insert("deprecated", &["a.v2"])
        .insert("deprecated", &["a.v1"])
        .insert("deprecated", &["a.v3"]);
    assert_eq!(
        rows.entries_of("stable"),
        json!([{"name": "a.v3", "replaces": "a.v2"}])
    );
    let properties = json!([own("a", "3.0.0")]);
    assert_eq!(rows.bundle_of("a.v3")["properties"], properties);
    // The package, the channel and one bundle.
    assert_eq!(rows.read().len(), 3);
}

#[test]
fn a_bundle_that_substitutes_another_skips_it_by_its_entries() {
    let stable = ("a", "stable");
    let rows = Rows::default()
        .package("a")
        .channel("a", "stable", "a.v2-1")
        .bundle("a.v1", "1.0.0")
        .bundle("a.v2", "2.0.0")
        .bundle("a.v2-1", "2.0.0+1")
        .with("a.v2-1", "substitutesfor", Some("a.v2"))
        .property("a.v2-1", "olm.substitutesFor", "\"a.v2\"")
        .entry(stable, "a.v2-1", Some(4), 0)
        .entry(stable, "a.v2-1", Some(3), 1)
        .entry(stable, "a.v2", Some(4), 1)
        .entry(stable, "a.v1", None, 2);
    assert_eq!(
        rows.entries_of("stable"),
        json!([
            {"name": "a.v1"},
            {"name": "a.v2", "skips": ["a.v1"]},
            {"name": "a.v2-1", "replaces": "a.v1", "skips": ["a.v2"]}
        ])
    );
    assert_eq!(
        rows.bundle_of("a.v2-1")["properties"],
        json!([own("a", "2.0.0+1"), {"type": "olm.substitutesFor", "value": "a.v2"}])
    );
}

#[test]
fn an_index_that_orders_by_version_has_its_edges_in_its_entries_only() {
    // What the bundles say themselves is not what the index was built by.
    let ordered = |entries: &[(&str, Option<u32>, u32)]| {
        let versions = [
            ("a.v1", "1.0.0"),
            ("a.v1-1", "1.0.1"),
            ("a.v1-2", "1.0.2"),
            ("a.v2", "2.0.0"),
        ];
        let rows = Rows::default().package("a").channel("a", "stable", "a.v2");
        let rows = versions
            .iter()
            .fold(rows, |rows, (name, version)| rows.bundle(name, version))
            .with("a.v1-2", "replaces", Some("somewhere.else"))
            .with("a.v2", "replaces", None)
            .with("a.v2", "skips", None)
            .with("a.v2", "skiprange", Some("<2.0.0"));
        entries.iter().fold(rows, |rows, (name, replaces, depth)| {
            rows.entry(("a", "stable"), name, *replaces, *depth)
        })
    };
    let semver = ordered(&[
        ("a.v2", Some(2), 0),
        ("a.v1-2", Some(3), 1),
        ("a.v1-1", Some(4), 2),
        ("a.v1", None, 3),
    ]);
    assert_eq!(
        semver.entries_of("stable"),
        json!([
            {"name": "a.v1"},
            {"name": "a.v1-1", "replaces": "a.v1"},
            {"name": "a.v1-2", "replaces": "a.v1-1"},
            {"name": "a.v2", "replaces": "a.v1-2", "skipRange": "<2.0.0"}
        ])
    );
    // The last patch skips those before it.
    let skipping = ordered(&[
        ("a.v2", Some(2), 0),
        ("a.v1-2", None, 1),
        ("a.v1-1", None, 2),
        ("a.v1-2", Some(3), 2),
        ("a.v1", None, 3),
        ("a.v1-2", Some(5), 3),
    ]);
    assert_eq!(
        skipping.entries_of("stable"),
        json!([
            {"name": "a.v1"},
            {"name": "a.v1-1"},
            {"name": "a.v1-2", "skips": ["a.v1-1", "a.v1"]},
            {"name": "a.v2", "replaces": "a.v1-2", "skipRange": "<2.0.0"}
        ])
    );
}

#[test]
fn a_channel_of_several_heads_has_the_way_from_each() {
    let stable = ("a", "stable");
    let rows = Rows::default()
        .package("a")
        .channel("a", "stable", "a.v3")
        .channel("a", "deep", "a.v3")
        .bundle("a.v1", "1.0.0")
        .bundle("a.v2", "2.0.0")
        .bundle("a.v3", "3.0.0")
        .entry(stable, "a.v3", Some(3), 0)
        .entry(stable, "a.v2", Some(3), 0)
        .entry(stable, "a.v1", None, 1)
        .entry(("a", "deep"), "a.v3", Some(5), 1)
        .entry(("a", "deep"), "a.v1", None, 2);
    assert_eq!(
        rows.entries_of("stable"),
        json!([
            {"name": "a.v1"},
            {"name": "a.v2", "replaces": "a.v1"},
            {"name": "a.v3", "replaces": "a.v1"}
        ])
    );
    // One that has no head as high as the other's has no way.
    assert_eq!(
        rows.entries_of("deep"),
        json!([{"name": "a.v1"}, {"name": "a.v3", "skips": ["a.v1"]}])
    );
}

#[test]
fn dependencies_of_packages_and_apis_become_properties_and_no_others_do() {
    let constraint = r#"{"failureMessage":"no","package":{"packageName":"b","versionRange":">1"}}"#;
    let rows = one()
        .dependency("a.v1", "olm.label", r#"{"label":"x"}"#)
        .dependency("a.v1", "olm.constraint", constraint)
        .dependency(
            "a.v1",
            "olm.gvk",
            r#"{"group":"g","kind":"K","version":"v1"}"#,
        )
        .dependency(
            "a.v1",
            "olm.package",
            r#"{"packageName":"b","version":">1"}"#,
        );
    let required = [
        own("a", "1.0.0"),
        json!({"type": "olm.gvk.required",
            "value": {"group": "g", "kind": "K", "version": "v1"}}),
        json!({"type": "olm.package.required",
            "value": {"packageName": "b", "versionRange": ">1"}}),
    ];
    let [package, gvk, other] = &required;
    assert_eq!(
        rows.bundle_of("a.v1")["properties"],
        json!([gvk, package, other])
    );
    // As properties they stay.
    let rows = rows
        .property("a.v1", "olm.label", r#"{"label":"x"}"#)
        .property("a.v1", "olm.constraint", constraint);
    let constraint: Value = serde_json::from_str(constraint).unwrap();
    assert_eq!(
        rows.bundle_of("a.v1")["properties"],
        json!([{"type": "olm.constraint", "value": constraint}, gvk,
            {"type": "olm.label", "value": {"label": "x"}}, package, other])
    );
}

#[test]
fn a_bundle_of_manifests_alone_has_an_empty_image() {
    let rows = one()
        .with("a.v1", "bundlepath", Some(""))
        .with("a.v1", "bundle", Some(CSV));
    let bundle = rows.bundle_of("a.v1");
    assert_eq!(bundle["image"], "");
    assert_eq!(
        bundle["properties"],
        json!([own("a", "1.0.0"),
            {"type": "olm.bundle.object", "value": {"data": BASE64_STANDARD.encode(CSV)}}])
    );
}

#[test]
fn a_bundle_that_has_lost_its_image_or_version_is_not_there() {
    for column in ["bundlepath", "version"] {
        let rows = one()
            .bundle("a.v0", "0.1.0")
            .with("a.v0", column, None)
            .with("a.v0", "bundle", Some(CSV))
            .entry(("a", "stable"), "a.v0", None, 1);
        assert_eq!(rows.entries_of("stable"), json!([{"name": "a.v1"}]));
        assert_eq!(rows.read().len(), 3);
    }
}

#[test]
fn manifests_are_those_of_the_bundle_whatever_the_column_of_its_csv_has() {
    for csv in [None, Some(""), Some("no manifest")] {
        let rows = one()
            .with("a.v1", "csv", csv)
            .with("a.v1", "bundle", Some(CSV));
        let blobs = rows.read();
        let icon = json!({"base64data": "PHN2Zy8=", "mediatype": "image/svg+xml"});
        assert_eq!(blobs[0]["icon"], icon);
        let properties = blobs[2]["properties"].as_array().unwrap();
        assert_eq!(properties[1]["type"], "olm.bundle.object");
    }
    // One without any is taken as it is.
    for bundle in [None, Some("")] {
        let blobs = one()
            .with("a.v1", "csv", Some(CSV))
            .with("a.v1", "bundle", bundle)
            .read();
        assert_eq!(blobs[0].get("icon"), None);
        assert_eq!(blobs[2]["properties"], json!([own("a", "1.0.0")]));
    }
}

#[test]
fn related_images_are_in_order_and_those_of_the_manifests_have_names() {
    let csv = r#"{"kind":"ClusterServiceVersion","spec":{"relatedImages":[
        {"name":"z","image":"r/b"},{"name":"a","image":"r/b"},{"name":"x","image":"r/a"}]}}"#;
    let table = "related_image (image, operatorbundle_name)";
    let images = ["r/c", "r/a", "r/0", "r/c"];
    let rows = one().with("a.v1", "bundle", Some(csv));
    let rows = images
        .iter()
        .fold(rows, |rows, image| rows.insert(table, &[image, "a.v1"]));
    assert_eq!(
        rows.bundle_of("a.v1")["relatedImages"],
        json!([{"name": "", "image": "r/0"}, {"name": "x", "image": "r/a"},
            {"name": "z", "image": "r/b"}, {"name": "a", "image": "r/b"},
            {"name": "", "image": "r/c"}])
    );
}
