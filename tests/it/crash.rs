//! The program is killed at any moment of a pass, and comes back with the one
//! revision or the other, whole, and with nothing else.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::almanac::{Almanac, following};
use crate::support::catalog::{Catalog, Format, entry};
use crate::support::image::{Built, Image};
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "catalogs/a";
const HEAD: &str = "HEAD /v2/catalogs/a/manifests/latest";
/// More with the variable `ALMANAC_TEST_KILLS`.
const KILLS: u32 = 20;

/// The images between which the tag moves.
struct Side {
    image: Built,
    text: String,
    packages: Vec<String>,
}

impl Side {
    /// A catalog that takes a while to pull, read and write.
    fn new(letter: char) -> Self {
        let mut packages = Vec::new();
        let mut catalog = Catalog::new();
        for number in 0..60 {
            let name = format!("{letter}-{number:02}");
            catalog = catalog.package(&name, |package| {
                let versions = (0..10).map(|minor| format!("{name}.v1.{minor}.0"));
                let versions: Vec<String> = versions.collect();
                let first = entry(&versions[0]);
                let pairs = versions.windows(2);
                let later = pairs.map(|pair| entry(&pair[1]).replaces(&pair[0]));
                package
                    .description(&letter.to_string().repeat(4000))
                    .channel("stable", std::iter::once(first).chain(later))
            });
            packages.push(name);
        }
        Self {
            image: Image::of_catalog(&catalog).build(),
            text: catalog.text(Format::JsonLines),
            packages,
        }
    }

    /// The names of its image's blobs in the store, sorted.
    fn blobs(&self) -> Vec<String> {
        let mut blobs = Vec::new();
        self.image
            .for_each_blob(|blob| blobs.push(blob.digest.hex()));
        blobs.push(self.image.digest().hex());
        blobs.sort();
        blobs
    }
}

#[test]
fn a_kill_at_any_moment_leaves_one_revision_or_the_other() {
    let sides = [Side::new('a'), Side::new('b')];
    let upstream = Upstream::start();
    let behave_slowly = || {
        upstream.behave();
        upstream.misbehave(|behaviour| {
            behaviour.slow = Some((16 << 10, Duration::from_millis(5)));
        });
    };
    behave_slowly();
    upstream.push(REPOSITORY, "latest", &sides[0].image);
    let source = upstream.reference(REPOSITORY, "latest");
    // What a killed pass brought would be kept for a while, and the history keeps what
    // changed.
    let kept = "[cache]\nmax_age = \"0s\"\n[history]\nrevisions = 1\ndays = 0\n";
    let config = following(&source) + kept;
    let mut almanac = Almanac::start(&config);
    wait_for_pass(&upstream);
    let begin = Instant::now();
    almanac.until_at("a", &sides[0].image.digest());
    let pass = begin.elapsed();

    let mut random = fastrand::Rng::with_seed(7);
    let mut served = 0;
    let mut moved = 0;
    let kills = std::env::var("ALMANAC_TEST_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    for kill in 0..kills {
        upstream.push(REPOSITORY, "latest", &sides[1 - served].image);
        behave_slowly();
        upstream.forget_requests();
        wait_for_pass(&upstream);
        sleep(pass.mul_f64(random.f64() * 1.25));
        almanac.program.kill9();

        // No pass changes anything while the start is looked at.
        upstream.misbehave(|behaviour| behaviour.status = Some(503));
        almanac.program.restart();
        almanac.program.wait_until_ready();
        let status = almanac.status("a");
        let digest = status["revision"]["digest"].as_str().unwrap_or_default();
        let found = sides
            .iter()
            .position(|side| side.image.digest().to_string() == digest)
            .unwrap_or_else(|| panic!("kill {kill}: {status:#}"));
        let side = &sides[found];
        assert!(almanac.all("a").text() == side.text, "kill {kill}");
        assert!(almanac.all_of_gzip("a") == side.text, "kill {kill}");
        assert_eq!(almanac.packages("a").unwrap(), side.packages);
        let id = status["revision"]["id"].to_string();
        // What is still made of it goes by the same name.
        almanac.until_whole("a");
        assert_eq!(almanac.revisions(), [id], "kill {kill}");
        // An image may be made of it meanwhile.
        let blobs = almanac.blobs();
        assert!(
            side.blobs().iter().all(|blob| blobs.contains(blob)),
            "kill {kill}"
        );
        let other = sides[1 - found].blobs();
        assert!(
            !other.iter().any(|blob| blobs.contains(blob)),
            "kill {kill}"
        );
        moved += usize::from(found != served);
        served = found;
    }
    eprintln!("a pass takes {pass:?}; {moved} of {kills} kills came after its commit");

    // And it goes on from there as if nothing had been.
    upstream.behave();
    upstream.push(REPOSITORY, "latest", &sides[1 - served].image);
    almanac.until_at("a", &sides[1 - served].image.digest());

    // Nothing of the killed passes stays on the disk.
    let mut fresh = Almanac::start(&config);
    fresh.until_at("a", &sides[1 - served].image.digest());
    let [used, needed] = [&mut almanac, &mut fresh].map(|almanac| {
        almanac.until_whole("a");
        almanac.until_pullable("a");
        // The catalog's image has a manifest, a configuration and a layer.
        almanac.until_blobs(sides[1 - served].blobs().len() + 3);
        almanac.stop();
        let files = almanac.files("").into_iter();
        let kept = files.filter(|(path, _)| !path.starts_with("outlines/"));
        kept.map(|(_, (length, _))| length).sum::<u64>()
    });
    eprintln!("{used} bytes on the disk, afresh {needed}");
    assert!(used * 10 <= needed * 11, "{used} bytes, afresh {needed}");
}

/// Waits until the tag was asked for.
fn wait_for_pass(upstream: &Upstream) {
    let begin = Instant::now();
    while upstream.asked(HEAD) == 0 {
        assert!(begin.elapsed() < Duration::from_secs(30), "no pass");
        sleep(Duration::from_millis(1));
    }
}
