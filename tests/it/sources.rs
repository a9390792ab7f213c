//! Catalogs that are in no registry: archives, layouts of several images,
//! folders that are watched; and images with the version of Kubernetes in their
//! names.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::almanac::{Almanac, catalog, following};
use crate::support::catalog::{Catalog, Format, text_of};
use crate::support::image::{Compression, Image, Layer, image_of};
use crate::support::program::{Finished, Start};
use crate::support::upstream::Upstream;

pub(crate) fn rendered(source: &str) -> Finished {
    Start::new(["render", source]).run()
}

/// Says that a source is a catalog of one package, to each command.
#[track_caller]
pub(crate) fn holds(source: &str, package: &str) {
    let render = rendered(source);
    assert!(render.status.success(), "{source}: {}", render.stderr);
    assert_eq!(render.stdout, text_of(package), "{source}");
    for command in [&["check"][..], &["list", "packages"]] {
        let run = Start::new(command.iter().copied().chain([source])).run();
        let good = run.status.success() || run.status.code() == Some(1);
        assert!(good, "{command:?} {source}: {}", run.stderr);
    }
}

#[track_caller]
pub(crate) fn refused(source: &str, said: &str) {
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

/// Output of `docker save` for images, by reference.
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
    assert_eq!(almanac.all("a").text(), text_of("one"));
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
    assert_eq!(almanac.all("a").text(), text_of("first"));
    replace(&first[..1000]);
    almanac.until_failed("a");
    assert_eq!(almanac.all("a").text(), text_of("first"));
    replace(&saved(&[("quay.io/a/b:v1", "second")]));
    almanac.until("a", "the second", |status| status["revision"]["id"] == 2);
    assert_eq!(almanac.all("a").text(), text_of("second"));
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
    assert_eq!(almanac.all("a").text(), text_of("second"));
}

#[test]
fn a_changed_folder_is_served_before_the_next_poll() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("catalog.json");
    fs::write(&file, text_of("first")).unwrap();
    let mut almanac = watching(root.path());
    fs::write(&file, text_of("second")).unwrap();
    second(&mut almanac);
}

#[test]
fn what_lies_beside_a_catalog_brings_about_no_pass() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("catalog.json");
    fs::write(&file, text_of("first")).unwrap();
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
    fs::write(&file, text_of("second")).unwrap();
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
    assert_eq!(almanac.all("a").text(), text_of("second"));
}

#[test]
fn a_config_map_that_is_swapped_is_served_as_a_whole() {
    let root = tempfile::tempdir().unwrap();
    let mount = |version: &str, package: &str| {
        fs::create_dir(root.path().join(version)).unwrap();
        let file = root.path().join(version).join("catalog.json");
        fs::write(file, text_of(package)).unwrap();
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
        fs::write(folder.join("catalog.json"), text_of(package)).unwrap();
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
    // A folder that is left alone for half a second counts as written; a busy
    // machine may hold the writer up for longer.
    let held_up = Duration::from_millis(400);
    for _ in 0..3 {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("catalog.json");
        fs::write(&file, text_of("first")).unwrap();
        let source = format!("file:{}", root.path().display());
        let mut almanac = Almanac::start(&following(&source));
        almanac.until("a", "the first", |status| status["state"] == "serving");
        // Piece by piece, in none of which there is a catalog.
        let whole = text_of("second");
        let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
        for part in 1..=60 {
            let begin = Instant::now();
            fs::write(&file, &whole[..whole.len() * part / 60]).unwrap();
            longest = longest.max(last.elapsed());
            last = begin;
            std::thread::sleep(Duration::from_millis(20));
        }
        second(&mut almanac);
        let metrics = almanac.metrics();
        let good = ["refused", "failed"].map(|outcome| {
            let none = format!("almanac_passes_total{{catalog=\"a\",outcome=\"{outcome}\"}} 0\n");
            metrics.contains(&none)
        });
        if good == [true; 2] {
            return;
        }
        assert!(longest >= held_up, "writes {longest:?} apart: {metrics}");
    }
    panic!("the writer was held up each time");
}

#[test]
fn a_link_out_of_a_folder_is_followed_only_into_folders_that_a_setting_names() {
    let place = tempfile::tempdir().unwrap();
    let (folder, shared) = (place.path().join("catalog"), place.path().join("shared"));
    for path in [&folder, &shared] {
        fs::create_dir(path).unwrap();
    }
    Catalog::one("first").write_to(&folder, Format::JsonLines);
    let config = following(&format!("file:{}", folder.display()));
    let mut almanac = Almanac::start(&config);
    almanac.until("a", "a revision", |status| status["state"] == "serving");
    fs::write(shared.join("second.json"), text_of("second")).unwrap();
    symlink("../shared/second.json", folder.join("second.json")).unwrap();
    let status = almanac.until_failed("a");
    assert_eq!(status["last_result"]["reason"], "link", "{status}");
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);
    almanac.reconfigure(&format!(
        "{config}link_folders = [{:?}]\n",
        shared.display().to_string()
    ));
    second_too(&mut almanac);
    almanac.stop();
}

fn second_too(almanac: &mut Almanac) {
    almanac.until("a", "both packages", |status| {
        status["revision"]["counts"]["packages"] == 2
    });
    assert_eq!(almanac.packages("a").unwrap(), ["first", "second"]);
}

#[test]
fn a_folder_that_never_stops_changing_keeps_the_last_revision() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("catalog.json");
    fs::write(&file, text_of("first")).unwrap();
    let source = format!("file:{}", root.path().display());
    let mut almanac = Almanac::start(&following(&source));
    almanac.until("a", "the first", |status| status["state"] == "serving");
    let whole = text_of("second");
    let refused = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Cut in the last object, so that no version of it is a catalog.
            for number in 0..2000 {
                if refused.load(Ordering::Relaxed) {
                    break;
                }
                let cut = &whole[..whole.len() - 3 - number % 2];
                // Never empty in between: that is a catalog.
                let mut file = fs::File::options().write(true).open(&file).unwrap();
                file.write_all(cut.as_bytes()).unwrap();
                file.set_len(cut.len() as u64).unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        almanac.until("a", "a refusal", |status| {
            status["last_result"]["reason"] == "changing"
        });
        refused.store(true, Ordering::Relaxed);
    });
    let log = almanac.program.log();
    assert!(log.contains("catalog.json, of user "), "{log}");
    assert_eq!(almanac.all("a").text(), text_of("first"));
    fs::write(&file, whole).unwrap();
    second(&mut almanac);
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
    assert_eq!(run.stdout, text_of("new"), "{}", run.stderr);
    upstream.push(repository, "v1.33.2", &image_of("patched"));
    let patched = format!("{template}.{{kube_patch_version}}");
    let run = Start::new(["render", "--kube-version=v1.33.2+k3s1", &patched]).run();
    assert_eq!(run.stdout, text_of("patched"), "{}", run.stderr);
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
