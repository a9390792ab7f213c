//! Pulling goes on after cuts, takes what is there already, keeps what it may
//! need again and no more, and stays small whatever it is given.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flate2::write::GzEncoder;
use images::digest::Digest;
use serde_json::{Value, json};
use tar::{EntryType, Header};

use crate::support::almanac::{Almanac, catalog, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::image::{Built, CONFIGS_LABEL, Compression, Image, Layer};
use crate::support::program::Start;
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "catalogs/a";
const MIB: u64 = 1 << 20;

/// Bytes that nothing makes smaller.
fn noise(seed: u32, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

fn with_noise(package: &str, seed: u32, length: usize) -> Built {
    let layer = Layer::new().file("var/noise", noise(seed, length));
    Image::of_catalog(&Catalog::one(package))
        .layer(layer)
        .build()
}

fn size_of(image: &Built) -> u64 {
    let mut size = 0;
    image.for_each_blob(|blob| size += blob.bytes.len() as u64);
    size
}

#[test]
fn a_registry_that_cuts_every_body_is_pulled_from_all_the_same() {
    let upstream = Upstream::start();
    let image = with_noise("first", 1, 3_000_000);
    upstream.push(REPOSITORY, "latest", &image);
    upstream.misbehave(|registry| registry.cut = Some(60));
    let mut almanac = Almanac::start(&following(&upstream.reference(REPOSITORY, "latest")));
    let status = almanac.until_at("a", &image.digest());
    assert_eq!(status["failures"], 0);
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);
    let (sent, size) = (upstream.sent(), size_of(&image));
    assert!(sent <= 2 * size, "{sent} of {size}");
    image.for_each_blob(|blob| {
        let path = almanac.program.data().join("blobs/sha256");
        let bytes = fs::read(path.join(blob.digest.hex())).unwrap();
        assert_eq!(Digest::of(&bytes), blob.digest);
    });
}

#[test]
fn a_layer_that_two_catalogs_want_at_once_is_pulled_once() {
    let upstream = Upstream::start();
    let shared = Layer::new().file("var/noise", noise(2, 500_000));
    let image = |package: &str| {
        let content = Layer::of_catalog(&Catalog::one(package), Format::JsonLines, "configs");
        let image = Image::new().label(CONFIGS_LABEL, "/configs");
        image.layer(content).layer(shared.clone()).build()
    };
    let mut config = String::new();
    for name in ["one", "two", "three"] {
        upstream.push(name, "v1", &image(name));
        config += &catalog(name, &upstream.reference(name, "v1"));
    }
    upstream.misbehave(|registry| registry.slow = Some((100_000, Duration::from_millis(100))));
    let mut almanac = Almanac::start(&config);
    for name in ["one", "two", "three"] {
        almanac.until_at(name, &image(name).digest());
    }
    let digest = Digest::of(&shared.bytes());
    assert_eq!(upstream.asked(&format!("/blobs/{digest}")), 1);
}

#[test]
fn layers_of_one_image_are_pulled_side_by_side() {
    let upstream = Upstream::start();
    let layers = (0..4).map(|seed| Layer::new().file("x", noise(seed, 100_000)));
    let image = layers.fold(Image::of_catalog(&Catalog::one("first")), Image::layer);
    let image = image.build();
    upstream.push(REPOSITORY, "latest", &image);
    upstream.misbehave(|registry| registry.slow = Some((50_000, Duration::from_millis(100))));
    let mut almanac = Almanac::start(&following(&upstream.reference(REPOSITORY, "latest")));
    almanac.until_at("a", &image.digest());
    assert!(upstream.most_at_once() > 1);
    assert!(upstream.most_at_once() <= 4);
}

#[test]
fn layers_that_revisions_have_in_common_are_pulled_once() {
    let upstream = Upstream::start();
    let system = Layer::new().file("var/noise", noise(4, 50_000));
    let image = |package: &str| {
        let image = Image::new().label(CONFIGS_LABEL, "/configs");
        image.layer(system.clone()).layer(layer_of(package)).build()
    };
    upstream.push(REPOSITORY, "latest", &image("first"));
    let mut almanac = Almanac::start(&following(&upstream.reference(REPOSITORY, "latest")));
    for package in ["first", "second", "third"] {
        upstream.push(REPOSITORY, "latest", &image(package));
        almanac.until_at("a", &image(package).digest());
        assert_eq!(almanac.packages("a").unwrap(), [package]);
    }
    let digest = Digest::of(&system.bytes());
    assert_eq!(upstream.asked(&format!("/blobs/{digest}")), 1);
}

/// A layer that hides the whole catalog of the layers below.
fn hiding() -> Layer {
    Layer::new().whiteout("configs")
}

fn layer_of(package: &str) -> Layer {
    Layer::of_catalog(&Catalog::one(package), Format::JsonLines, "configs")
}

/// An image whose catalog is hidden and replaced, over many layers.
struct Filtered {
    image: Built,
    lower: Vec<Digest>,
}

impl Filtered {
    fn with(upper: impl IntoIterator<Item = Layer>) -> Self {
        let base = (0..7).map(|seed| Layer::new().file("var/noise", noise(seed, 50_000)));
        let lower: Vec<Layer> = base.chain([layer_of("whole")]).collect();
        let digests = lower.iter().map(|layer| Digest::of(&layer.bytes()));
        let image = Image::new().label(CONFIGS_LABEL, "/configs");
        let layers = lower.iter().cloned().chain(upper);
        Self {
            image: layers.fold(image, Image::layer).build(),
            lower: digests.collect(),
        }
    }

    /// How many of the lower layers were asked for.
    fn asked(&self, upstream: &Upstream) -> usize {
        let asked = |layer: &&Digest| upstream.asked(&format!("/blobs/{layer}")) > 0;
        self.lower.iter().filter(asked).count()
    }
}

#[test]
fn layers_below_one_that_hides_the_catalog_are_not_pulled() {
    for upper in [
        vec![hiding(), layer_of("filtered")],
        vec![layer_of("filtered").whiteout("configs")],
        vec![layer_of("filtered").opaque("configs")],
    ] {
        let upstream = Upstream::start();
        let filtered = Filtered::with(upper);
        upstream.push(REPOSITORY, "latest", &filtered.image);
        let config = following(&upstream.reference(REPOSITORY, "latest"));
        let mut almanac = Almanac::start(&config);
        almanac.until_at("a", &filtered.image.digest());
        assert_eq!(almanac.packages("a").unwrap(), ["filtered"]);
        // Those that were begun beside it may be there.
        assert!(filtered.asked(&upstream) <= 3);
        assert_eq!(almanac.status("a")["failures"], 0);

        // What is served needs none of them, after a restart either.
        almanac.stop();
        upstream.forget_requests();
        almanac.program.restart();
        almanac.program.wait_until_ready();
        assert_eq!(almanac.packages("a").unwrap(), ["filtered"]);
        assert_eq!(filtered.asked(&upstream), 0);
    }
}

#[test]
fn layers_that_are_not_needed_need_not_be_there() {
    let upstream = Upstream::start();
    let filtered = Filtered::with([hiding(), layer_of("filtered")]);
    upstream.push_without(REPOSITORY, "latest", &filtered.image, &filtered.lower);
    let mut almanac = Almanac::start(&following(&upstream.reference(REPOSITORY, "latest")));
    let status = almanac.until_at("a", &filtered.image.digest());
    assert_eq!(status["failures"], 0);
    assert_eq!(almanac.packages("a").unwrap(), ["filtered"]);
}

#[test]
fn a_command_takes_the_layers_that_it_needs() {
    let filtered = Filtered::with([hiding(), layer_of("filtered")]);
    let upper = Layer::new().whiteout("configs").symlink("configs", "/data");
    let data = Layer::of_catalog(&Catalog::one("data"), Format::JsonLines, "data");
    let noise = Layer::new().file("var/noise", noise(5, 50_000));
    let image = Image::new().label(CONFIGS_LABEL, "/configs");
    let linked = image.layer(data).layer(noise).layer(upper).build();
    for (image, package) in [(&filtered.image, "filtered"), (&linked, "data")] {
        let layout = tempfile::tempdir().unwrap();
        image.add_to_layout(layout.path(), "latest");
        let upstream = Upstream::start();
        upstream.push(REPOSITORY, "latest", image);
        for source in [
            format!("oci:{}", layout.path().display()),
            upstream.reference(REPOSITORY, "latest"),
        ] {
            let run = Start::new(["render", &source]).run();
            assert!(run.status.success(), "{source}: {}", run.stderr);
            let text = Catalog::one(package).text(Format::JsonLines);
            assert_eq!(run.stdout, text, "{source}");
        }
    }
}

#[test]
fn a_whole_mirror_has_also_the_layers_that_are_not_needed() {
    let upstream = Upstream::start();
    let filtered = Filtered::with([hiding(), layer_of("filtered")]);
    upstream.push(REPOSITORY, "latest", &filtered.image);
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut almanac = Almanac::start(&(config + "mirror = \"full\"\n"));
    almanac.until_at("a", &filtered.image.digest());
    let begin = Instant::now();
    let missing = |almanac: &Almanac| {
        let files = almanac.files("blobs/sha256");
        let missing = |layer: &&Digest| !files.contains_key(&layer.hex());
        filtered.lower.iter().filter(missing).count()
    };
    while missing(&almanac) > 0 {
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "some are missing"
        );
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(almanac.packages("a").unwrap(), ["filtered"]);
}

#[test]
fn a_catalog_behind_a_symlink_is_found_in_layers_below_one_that_hides_it() {
    let upstream = Upstream::start();
    let data = Layer::of_catalog(&Catalog::one("data"), Format::JsonLines, "data");
    let upper = Layer::new().whiteout("configs").symlink("configs", "/data");
    let base = (0..7).map(|seed| Layer::new().file("var/noise", noise(seed, 50_000)));
    let layers = [data].into_iter().chain(base).chain([upper]);
    let image = Image::new().label(CONFIGS_LABEL, "/configs");
    let image = layers.fold(image, Image::layer).build();
    upstream.push(REPOSITORY, "latest", &image);
    let mut almanac = Almanac::start(&following(&upstream.reference(REPOSITORY, "latest")));
    almanac.until_at("a", &image.digest());
    assert_eq!(almanac.packages("a").unwrap(), ["data"]);
}

#[test]
fn a_hidden_catalog_that_nothing_replaces_is_missed_in_the_whole_image() {
    let upstream = Upstream::start();
    let filtered = Filtered::with([hiding()]);
    upstream.push(REPOSITORY, "latest", &filtered.image);
    let mut almanac = Almanac::start(&following(&upstream.reference(REPOSITORY, "latest")));
    let status = almanac.until_failed("a");
    assert_eq!(status["last_result"]["reason"], "missing_folder");
    assert_eq!(filtered.asked(&upstream), filtered.lower.len());
}

#[test]
fn layers_of_an_image_that_is_no_catalog_are_not_pulled() {
    let upstream = Upstream::start();
    let layer = layer_of("first");
    let digest = Digest::of(&layer.bytes());
    upstream.push(REPOSITORY, "latest", &Image::new().layer(layer).build());
    let mut almanac = Almanac::start(&following(&upstream.reference(REPOSITORY, "latest")));
    let status = almanac.until_failed("a");
    assert_eq!(status["last_result"]["reason"], "no_label");
    assert_eq!(upstream.asked(&format!("/blobs/{digest}")), 0);
}

fn broken(seed: u32) -> Built {
    let layer = Layer::new()
        .file("configs/catalog.yaml", format!("no: schema-{seed}"))
        .file("var/noise", noise(seed, 200_000));
    Image::new()
        .label(CONFIGS_LABEL, "/configs")
        .layer(layer)
        .build()
}

#[test]
fn what_a_failed_pass_brought_is_there_after_a_restart() {
    let upstream = Upstream::start();
    let image = broken(7);
    upstream.push(REPOSITORY, "latest", &image);
    let mut almanac = Almanac::start(&following(&upstream.reference(REPOSITORY, "latest")));
    almanac.until_failed("a");
    almanac.stop();
    upstream.forget_requests();
    almanac.program.restart();
    almanac.until_failed("a");
    let lines = upstream.lines();
    assert!(
        lines.iter().all(|line| line.starts_with("HEAD ")),
        "{lines:?}"
    );
}

#[test]
fn ever_new_broken_images_do_not_gather() {
    let upstream = Upstream::start();
    let good = with_noise("good", 3, 900_000);
    upstream.push(REPOSITORY, "latest", &good);
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut almanac = Almanac::start(&(config + "[cache]\nmax_bytes = 500_000\n"));
    almanac.until_at("a", &good.digest());
    let mut served = Vec::new();
    good.for_each_blob(|blob| served.push(blob.digest.hex()));
    for seed in 0..8 {
        let image = broken(seed);
        upstream.push(REPOSITORY, "latest", &image);
        let digest = image.digest().to_string();
        almanac.until("a", "the refusal", |status| {
            status["last_result"]["digest"] == digest.as_str() && status["failures"] != 0
        });
    }
    let files = almanac.files("blobs/sha256");
    assert!(served.iter().all(|blob| files.contains_key(blob)));
    let spare: u64 = files
        .iter()
        .filter(|(name, _)| !served.contains(name))
        .map(|(_, file)| file.0)
        .sum();
    // The last one is there, and the one before it may be.
    assert!((200_000..500_000 + 250_000).contains(&spare), "{spare}");
    assert_eq!(almanac.packages("a").unwrap(), ["good"]);
}

#[test]
fn a_cache_of_no_age_keeps_what_is_served_and_nothing_else() {
    let upstream = Upstream::start();
    let good = with_noise("good", 3, 100_000);
    upstream.push(REPOSITORY, "latest", &good);
    let config = following(&upstream.reference(REPOSITORY, "latest"));
    let mut almanac = Almanac::start(&(config + "[cache]\nmax_age = \"0s\"\n"));
    almanac.until_at("a", &good.digest());
    let bad = broken(9);
    upstream.push(REPOSITORY, "latest", &bad);
    almanac.until_failed("a");
    let has = |almanac: &Almanac, image: &Built| {
        let files = almanac.files("blobs/sha256");
        let mut found = Vec::new();
        image.for_each_blob(|blob| found.push(files.contains_key(&blob.digest.hex())));
        found
    };
    assert!(has(&almanac, &good).iter().all(|there| *there));
    // Each pass brings it and takes it away again.
    let begin = Instant::now();
    while has(&almanac, &bad).iter().any(|there| *there) {
        assert!(begin.elapsed() < Duration::from_secs(30), "it is kept");
        thread::sleep(Duration::from_millis(5));
    }
    almanac.stop();
    drop(upstream);
    almanac.program.restart();
    almanac.program.wait_until_ready();
    assert_eq!(almanac.packages("a").unwrap(), ["good"]);
    assert!(has(&almanac, &good).iter().all(|there| *there));
}

/// The most anonymous memory of a process while it is looked at, in bytes.
struct Watch<'a> {
    most: &'a AtomicU64,
    over: &'a AtomicBool,
}

impl Watch<'_> {
    fn look(&self, process: u32) {
        while !self.over.load(Ordering::Relaxed) {
            let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("RssAnon:"));
            let size = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
            self.most
                .fetch_max(size.unwrap_or(0) << 10, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Runs `work` and says how much anonymous memory the process took meanwhile.
fn memory(process: u32, work: impl FnOnce()) -> u64 {
    let (most, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let watch = Watch {
        most: &most,
        over: &over,
    };
    thread::scope(|scope| {
        scope.spawn(|| watch.look(process));
        work();
        over.store(true, Ordering::Relaxed);
    });
    most.load(Ordering::Relaxed)
}

fn header(path: &str, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_size(size);
    header.set_mode(0o644);
    header.set_cksum();
    header
}

/// A layer with one file of zeros, in a file that takes no room.
fn write_zeros(path: &Path, size: u64) {
    let mut file = File::create(path).unwrap();
    file.write_all(header("var/zeros", size).as_bytes())
        .unwrap();
    file.set_len(512 + size + 1024).unwrap();
}

/// Pulls a catalog in an image with this layer, and says how much memory that
/// took.
fn memory_for(path: &Path, kind: &str) -> u64 {
    let digest = Digest::of(&crate::support::file::map(path));
    let upstream = Upstream::start();
    let image = Image::of_catalog(&Catalog::one("first")).build();
    upstream.push(REPOSITORY, "small", &image);
    upstream.put_blob_of_file(digest, path);
    let mut manifest: Value = serde_json::from_slice(&image.top.bytes).unwrap();
    let layer = json!({
        "mediaType": format!("application/vnd.oci.image.layer.v1.tar{kind}"),
        "digest": digest,
        "size": fs::metadata(path).unwrap().len(),
    });
    manifest["layers"].as_array_mut().unwrap().insert(0, layer);
    let bytes = manifest.to_string();
    let moved = upstream.put_manifest(REPOSITORY, "latest", bytes, image.top.media_type);

    let mut almanac = Almanac::start(&following(&upstream.reference(REPOSITORY, "latest")));
    let begin = Instant::now();
    let process = almanac.program.pid();
    let most = memory(process, || {
        while almanac.status("a")["revision"]["digest"] != moved.to_string() {
            assert!(
                begin.elapsed() < Duration::from_mins(5),
                "{:#}",
                almanac.status("a")
            );
            thread::sleep(Duration::from_millis(50));
        }
    });
    eprintln!(
        "{} MiB of anonymous memory, {:?}",
        most / MIB,
        begin.elapsed()
    );
    most
}

#[test]
fn a_gibibyte_of_a_layer_takes_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("layer");
    write_zeros(&path, 1024 * MIB);
    let most = memory_for(&path, "");
    assert!(most > MIB && most < 64 * MIB, "{most}");
}

/// A layer of a gibibyte in pieces, each compressed by itself.
fn write_compressed(path: &Path, compress: impl Fn(&[u8]) -> Vec<u8>) {
    const PIECE: u64 = 64 * MIB;
    let mut file = File::create(path).unwrap();
    let header = header("var/zeros", 1024 * MIB);
    file.write_all(&compress(header.as_bytes())).unwrap();
    let piece = compress(&vec![0; PIECE as usize]);
    for _ in 0..1024 * MIB / PIECE {
        file.write_all(&piece).unwrap();
    }
    file.write_all(&compress(&[0; 1024])).unwrap();
}

#[test]
fn a_gibibyte_that_is_compressed_takes_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("layer");
    write_compressed(&path, |bytes| {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    });
    let most = memory_for(&path, "+gzip");
    assert!(most > MIB && most < 64 * MIB, "{most}");
    // With the largest window that is taken.
    write_compressed(&path, |bytes| {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(25).unwrap();
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    });
    let most = memory_for(&path, "+zstd");
    assert!(most > 32 * MIB && most < 64 * MIB, "{most}");
}

#[test]
fn a_small_layer_that_unpacks_to_much_is_refused_at_the_limit() {
    let bomb = |path: &str, size: u64, compression| {
        let mut archive = header(path, size).as_bytes().to_vec();
        archive.resize(512 + size as usize + 1024, 0);
        let layer = Layer::raw(archive).compressed(compression);
        assert!(layer.bytes().len() < 43_000, "{}", layer.bytes().len());
        layer
    };
    let upstream = Upstream::start();
    let mut config = "[limits]\nbytes = 8_000_000\ncatalog_bytes = 2_000_000\n".to_owned();
    let cases = [
        ("beside", "var/bomb", Compression::Gzip, "8000000"),
        ("inside", "configs/bomb.json", Compression::Gzip, "2000000"),
        ("beside-zstd", "var/bomb", Compression::Zstd, "8000000"),
        (
            "inside-zstd",
            "configs/bomb.json",
            Compression::Zstd,
            "2000000",
        ),
    ];
    let mut layers = Vec::new();
    for (name, path, compression, _) in cases {
        let layer = bomb(path, 40_000_000, compression);
        layers.push(Digest::of(&layer.bytes()).to_string());
        let image = Image::of_catalog(&Catalog::one("first")).layer(layer);
        upstream.push(name, "v1", &image.build());
        config += &catalog(name, &upstream.reference(name, "v1"));
    }
    let mut almanac = Almanac::start(&config);
    let process = almanac.program.pid();
    let most = memory(process, || {
        for ((name, path, _, limit), layer) in cases.iter().zip(&layers) {
            let status = almanac.until_failed(name);
            let error = status["last_error"].as_str().unwrap();
            let image = upstream.reference(name, "v1");
            for part in [image.as_str(), layer, path, limit] {
                assert!(error.contains(part), "{name}: {part:?} is not in {error:?}");
            }
        }
    });
    assert!(most < 64 * MIB, "{most}");
    let kept: u64 = almanac.files("").values().map(|(size, _)| size).sum();
    assert!(kept < 4_000_000, "{kept}");
}
