//! The recorded answers after many updates: a revision takes parts of the one
//! before, and none of them may end up in the wrong place.

use std::fs;

use crate::conformance::{grpc_answers, http_answers};
use crate::support::catalog::{Catalog, Format, entry};
use crate::support::image::{Built, Image};
use crate::support::layer::Layer;
use crate::support::served::Served;
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "catalogs/sample";
/// Back and forth, so that the last one brings the sample again.
const UPDATES: usize = 50;

#[test]
fn fifty_updates_and_a_restart_change_no_recorded_answer() {
    let sides = [sample(), other()];
    let upstream = Upstream::start();
    upstream.push(REPOSITORY, "latest", &sides[0]);
    let source = format!("sample={}", upstream.reference(REPOSITORY, "latest"));
    let mut served = Served::start([source.as_str(), "--poll", "100ms"]);
    for update in 1..=UPDATES {
        let side = &sides[update % 2];
        upstream.push(REPOSITORY, "latest", side);
        let digest = side.digest().to_string();
        served.wait_for_status("sample", |status| status["revision"]["digest"] == *digest);
        // A start reads what the next update takes parts of.
        if update == UPDATES / 2 {
            served = served.restart();
        }
    }
    for starts in 0..2 {
        // Made when a processor is idle; until then answers are plain.
        served.wait_for_status("sample", |status| {
            let bytes = &status["revision"]["bytes"];
            bytes["gzip"].is_u64() && bytes["segments"].is_u64()
        });
        let asking = grpc_answers::differing(served.grpc);
        let mut differing = tokio::runtime::Runtime::new().unwrap().block_on(asking);
        differing.extend(http_answers::differing(&served));
        assert!(differing.is_empty(), "{starts}: {}", differing.join("\n"));
        served = served.restart();
        served.program.wait_until_ready();
    }
}

/// The image of the sample catalog.
fn sample() -> Built {
    let mut layer = Layer::new();
    for (path, text) in files() {
        layer = layer.file(&path, text);
    }
    image(layer)
}

/// The sample in another order, with other names, and with a package more.
fn other() -> Built {
    let files = files();
    let more = Catalog::new()
        .package("quarry", |package| {
            package.channel("stable", [entry("quarry.v1.0.0")])
        })
        .text(Format::JsonLines);
    let mut layer = Layer::new().file("configs/a.json", more);
    for (at, (path, text)) in files.iter().enumerate() {
        let (_, base) = path.split_once('/').unwrap();
        let text = text.replace("-operator", "-controller");
        layer = layer.file(&format!("configs/{}-{base}", files.len() - at), text);
    }
    image(layer)
}

/// The files of the sample, with their paths in an image, sorted.
fn files() -> Vec<(String, String)> {
    let folders = fs::read_dir(super::sample()).unwrap();
    let mut files: Vec<(String, String)> = folders
        .map(|folder| {
            let folder = folder.unwrap();
            let name = folder.file_name().into_string().unwrap();
            let text = fs::read_to_string(folder.path().join("catalog.yaml")).unwrap();
            (format!("configs/{name}/catalog.yaml"), text)
        })
        .collect();
    files.sort_unstable();
    files
}

fn image(layer: Layer) -> Built {
    let label = "operators.operatorframework.io.index.configs.v1";
    Image::new().label(label, "/configs").layer(layer).build()
}
