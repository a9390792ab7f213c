//! The commands that look at a catalog, through the program as users run it:
//! every kind of source, every form of output, every exit code.

mod mistakes;
mod outputs;

use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::catalog::{Catalog, Format, bundle, entry};
use crate::support::program::{Finished, Start};

/// A catalog with all that the commands show.
fn catalog() -> Catalog {
    let newest = |name: &str, shown: &str| bundle(name).csv_metadata(json!({"displayName": shown}));
    Catalog::new()
        .package("etcd", |package| {
            package
                .channel(
                    "stable",
                    [
                        entry("etcd.v1.0.0"),
                        entry("etcd.v1.1.0").replaces("etcd.v1.0.0"),
                    ],
                )
                .bundle(newest("etcd.v1.1.0", "etcd"))
        })
        .package("kafka", |package| {
            package
                .description("Two\nlines: \"quoted\" # and more\n")
                .channel(
                    "stable",
                    [
                        entry("kafka.v1.10.0")
                            .replaces("kafka.v1.9.0")
                            .skips(["kafka.v1.9.1", "kafka.v0.1.0"])
                            .skip_range(">=1.0.0 <1.10.0"),
                        entry("kafka.v1.9.0").replaces("kafka.v1.8.0"),
                        entry("kafka.v1.9.1").replaces("kafka.v1.9.0"),
                    ],
                )
                .channel("edge", [entry("kafka.v1.10.0")])
                .bundle(
                    newest("kafka.v1.10.0", "Kafka: the log").image("quay.io/kafka/bundle:1.10.0"),
                )
                .deprecate_bundle("kafka.v1.9.1", "Broken.")
        })
        .blob(json!({"schema": "example.com.loose", "yes": ["no", "1.10", "0x1f", 1.5, null]}))
}

/// A catalog in a folder of its own.
struct Written {
    folder: TempDir,
}

impl Written {
    fn new(catalog: &Catalog, format: Format) -> Self {
        let folder = tempfile::tempdir().unwrap();
        catalog.write_to(&folder.path().join("catalog"), format);
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("catalog")
    }

    fn source(&self) -> String {
        format!("file:{}", self.path().display())
    }
}

fn run<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Finished {
    Start::new(arguments).run()
}

/// The output, after a check of the exit code.
fn printed(finished: Finished, code: i32) -> String {
    assert_eq!(finished.status.code(), Some(code), "{finished:#?}");
    finished.stdout
}

fn parsed(finished: Finished, code: i32) -> Value {
    serde_json::from_str(&printed(finished, code)).unwrap()
}
