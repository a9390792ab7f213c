//! Real catalogs: every answer on one that the peers serve, and the problems
//! of packages that they refuse.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use fbc::problem::Severity;

use super::check;
use crate::support::almanac::{Almanac, catalog as written};
use crate::support::catalog::{Catalog, Format};
use crate::support::needs::{shared, skip_without};
use crate::support::program::Start;

/// The name of the real catalog, of its archive and of its golden answers.
pub(super) const COMMUNITY: &str = "community-v4.20";

/// The folder of real catalogs; `None` without it or the clients of gRPC, and then the test
/// is skipped.
#[track_caller]
pub(super) fn shared_with_clients() -> Option<PathBuf> {
    let needs = ["shared", "python:grpc", "python:grpc_reflection"];
    if needs.into_iter().any(skip_without) {
        return None;
    }
    shared()
}

/// By each way in which a call finds its catalog, with others beside it that
/// could leak in: one has packages of the same names.
#[test]
fn every_answer_on_a_real_catalog_is_that_of_the_peers() {
    let Some(shared) = shared_with_clients() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let catalog = unpack(&shared, COMMUNITY, folder.path());
    let layout = folder.path().join("layout");
    let make = [path(&catalog), path(&layout), "v4.20".into()];
    python(&shared, "mkimage.py", &make);
    let twin = folder.path().join("twin");
    write_twin(&catalog, &twin);
    let refused = unpack(&shared, "refused-packages", folder.path());
    let small = folder.path().join("small");
    Catalog::small().write_to(&small, Format::JsonLines);

    let own = "grpc = \"127.0.0.1:0\"\nauthorities = [\"catalogs.example.com\"]";
    let source = format!("oci:{}:v4.20", layout.display());
    let mut config = format!(
        "default_catalog = \"golden\"\n{}{own}\n",
        written("golden", &source)
    );
    for (name, folder) in [("twin", &twin), ("refused", &refused), ("small", &small)] {
        let source = format!("file:{}", folder.display());
        config += &written(name, &source);
    }
    let mut almanac = Almanac::start(&config);
    almanac.program.wait_until_ready();
    for name in ["golden", "twin", "refused", "small"] {
        assert_eq!(almanac.status(name)["state"], "serving", "{name}");
    }
    // Peers compress each answer when it is asked for, almanac after the publication.
    almanac.until_whole("golden");
    let grpc = almanac.program.address("grpc").to_string();
    let own = almanac.program.own_address("golden").to_string();
    let http = format!("http://{}", almanac.program.address("http"));

    // What each call is sent to, and the name that it is called by: by the
    // port, whatever the host; by the host; by the host's first label; by none.
    let ways = [
        (&own, Some("twin.olm.svc:50051")),
        (&grpc, Some("catalogs.example.com:50051")),
        (&grpc, Some("golden.olm.svc:50051")),
        (&grpc, None),
    ];
    std::thread::scope(|scope| {
        for (number, (server, authority)) in ways.into_iter().enumerate() {
            let (shared, folder) = (&shared, folder.path().join(number.to_string()));
            scope.spawn(move || {
                let authority = authority.map(|name| ["--authority".into(), name.into()]);
                let options: Vec<String> = authority.into_iter().flatten().collect();
                let report = compare(
                    shared,
                    &folder,
                    "grpc",
                    std::slice::from_ref(server),
                    &options,
                );
                assert!(
                    report.ends_with("0 differ of 2852\n"),
                    "{options:?}: {report}"
                );
            });
        }
        let report = compare(
            &shared,
            &folder.path().join("http"),
            "http",
            &[http, "golden".into()],
            &[],
        );
        assert_eq!(report, "0 differ of 333\n");
    });
}

/// Some packages of a catalog with other images, as files of the same names.
fn write_twin(catalog: &Path, twin: &Path) {
    let mut packages: Vec<_> = std::fs::read_dir(catalog)
        .unwrap()
        .map(|package| package.unwrap().path())
        .filter(|package| package.is_dir())
        .collect();
    packages.sort();
    assert!(packages.len() > 5);
    for package in packages.iter().take(20) {
        let to = twin.join(package.file_name().unwrap());
        std::fs::create_dir_all(&to).unwrap();
        for file in std::fs::read_dir(package).unwrap() {
            let file = file.unwrap().path();
            let text = std::fs::read_to_string(&file).unwrap();
            let text = text.replace("quay.io/", "elsewhere.example.com/");
            std::fs::write(to.join(file.file_name().unwrap()), text).unwrap();
        }
    }
}

/// In opm's own place: from a cache that was built before.
#[test]
fn opm_serve_answers_as_the_peer_does() {
    let Some(shared) = shared_with_clients() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let catalog = path(&unpack(&shared, COMMUNITY, folder.path()));
    let cache = format!("--cache-dir={}", folder.path().join("cache").display());
    let start = Start::new(["serve", &catalog, &cache, "--port=0"]).called("opm");
    let built = start.clone().argument("--cache-only").run();
    assert!(built.status.success(), "{built:?}");

    let mut program = start.start();
    let server = [format!("127.0.0.1:{}", program.address("grpc").port())];
    let report = compare(&shared, folder.path(), "grpc", &server, &["--full".into()]);
    assert!(report.ends_with("0 differ of 2852\n"), "{report}");
}

#[tokio::test]
async fn packages_that_opm_refuses_are_left_out_and_named() {
    if skip_without("shared") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let catalog = unpack(&shared().unwrap(), "refused-packages", folder.path());
    let mut packages: Vec<_> = std::fs::read_dir(&catalog)
        .unwrap()
        .map(|package| package.unwrap().file_name().into_string().unwrap())
        .collect();
    packages.sort();
    assert_eq!(packages.len(), 6, "{packages:?}");

    let whole = check(&catalog).await;
    assert!(whole.is_stored(), "{}", whole.shown());
    for package in packages {
        let alone = check(&catalog.join(&package)).await;
        eprintln!("{package}\n{}", alone.shown());
        for checked in [&alone, &whole] {
            let problems = checked.result.as_ref().unwrap();
            let refused = problems.iter().find(|problem| {
                problem.severity == Severity::Error && problem.subject.package == package
            });
            let refused = refused.unwrap_or_else(|| panic!("{package}\n{}", checked.shown()));
            assert!(refused.message.contains(&package), "{refused}");
            assert!(refused.position.is_some(), "{refused}");
        }
    }
}

/// Asks the program everything with a tool, and holds its answers against the
/// golden ones, which have to be the same; gives the tool's report.
pub(super) fn compare(
    shared: &Path,
    folder: &Path,
    kind: &str,
    server: &[String],
    options: &[String],
) -> String {
    std::fs::create_dir_all(folder).unwrap();
    let golden = folder.join(format!("golden-{kind}.jsonl"));
    decompress(
        &shared.join(format!("golden/{COMMUNITY}.{kind}.jsonl.zst")),
        &golden,
    );
    let ours = path(&folder.join(format!("ours-{kind}.jsonl")));
    let tool = format!("{kind}dump.py");
    let mut dump = vec!["dump".to_owned()];
    dump.extend_from_slice(server);
    dump.push(ours.clone());
    dump.extend_from_slice(options);
    python(shared, &tool, &dump);
    python(shared, &tool, &["diff".into(), path(&golden), ours])
}

/// Runs a tool to its end, which has to be a good one; gives what it prints.
pub(super) fn python(shared: &Path, tool: &str, arguments: &[String]) -> String {
    let output = Command::new("python3")
        .arg("-B")
        .arg(shared.join("tools").join(tool))
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{tool} {arguments:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// Unpacks a corpus; gives the one folder in it.
pub(super) fn unpack(shared: &Path, name: &str, into: &Path) -> PathBuf {
    let file = File::open(shared.join(format!("corpus/{name}.tar.zst"))).unwrap();
    let into = into.join(name);
    tar::Archive::new(zstd::Decoder::new(file).unwrap())
        .unpack(&into)
        .unwrap();
    let mut folders = std::fs::read_dir(&into).unwrap();
    let folder = folders.next().unwrap().unwrap().path();
    assert!(folders.next().is_none(), "{name} is one folder");
    folder
}

fn decompress(from: &Path, to: &Path) {
    let (from, to) = (File::open(from).unwrap(), File::create(to).unwrap());
    zstd::stream::copy_decode(from, to).unwrap();
}

pub(super) fn path(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
