//! Real catalogs: every answer on one that the peers serve, and the problems
//! of packages that they refuse.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use almanac::fbc::problem::Severity;

use super::check;
use crate::support::program::{Start, shared, skip_without};
use crate::support::served::Served;

/// The name of the real catalog, of its archive and of its golden answers.
const COMMUNITY: &str = "community-v4.20";

#[test]
fn every_answer_on_a_real_catalog_is_that_of_the_peers() {
    if skip_without("shared")
        || skip_without("python:grpc")
        || skip_without("python:grpc_reflection")
    {
        return;
    }
    let shared = shared().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let catalog = unpack(&shared, COMMUNITY, folder.path());
    let layout = folder.path().join("layout");
    let make = [path(&catalog), path(&layout), "v4.20".into()];
    python(&shared, "mkimage.py", &make);

    let source = format!("golden=oci:{}:v4.20", layout.display());
    let served = Served::start([source]);
    let grpc = [served.grpc.to_string()];
    let http = [format!("http://{}", served.http), "golden".into()];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let report = compare(&shared, folder.path(), "grpc", &grpc, &["--full".into()]);
            assert!(report.ends_with("0 differ of 2852\n"), "{report}");
        });
        let report = compare(&shared, folder.path(), "http", &http, &[]);
        assert_eq!(report, "0 differ of 333\n");
    });
}

/// In opm's own place: from a cache that was built before.
#[test]
fn opm_serve_answers_as_the_peer_does() {
    if skip_without("shared")
        || skip_without("python:grpc")
        || skip_without("python:grpc_reflection")
    {
        return;
    }
    let shared = shared().unwrap();
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
            assert!(refused.place.is_some(), "{refused}");
        }
    }
}

/// Asks the program everything with a tool, and holds its answers against the
/// golden ones, which have to be the same; gives the tool's report.
fn compare(
    shared: &Path,
    folder: &Path,
    kind: &str,
    server: &[String],
    options: &[String],
) -> String {
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
fn python(shared: &Path, tool: &str, arguments: &[String]) -> String {
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
fn unpack(shared: &Path, name: &str, into: &Path) -> PathBuf {
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

fn path(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
