//! What of an image's layers is served, and which are refused with which
//! words: one table, each case an image of its own in a registry.

use std::fmt::Write as _;
use std::io::Write as _;

use flate2::write::GzEncoder;
use serde_json::Value;
use tar::{EntryType, Header};

use crate::support::almanac::{Almanac, catalog};
use crate::support::catalog::text_of;
use crate::support::image::{Built, CONFIGS_LABEL, Compression, Image, Layer};
use crate::support::layer::Entry;
use crate::support::upstream::Upstream;

/// An image, and what is to come of it.
struct Case {
    name: String,
    image: Built,
    outcome: Outcome,
}

enum Outcome {
    /// These packages are served.
    Served(Vec<&'static str>),
    /// Nothing is, and these words say why, beside the image's name.
    Refused(Vec<&'static str>),
}

/// A layer that is to be the upper or only one of an image.
fn new() -> Layer {
    Layer::new()
}

/// The lower layer of most cases: two packages, and files beside the catalog.
fn base() -> Layer {
    new()
        .folder("configs")
        .file("configs/one.json", text_of("one"))
        .file("configs/sub/two.json", text_of("two"))
        .file("configs-extra/three.json", text_of("three"))
        .file("etc/passwd", "root")
}

fn labelled(label: &str, layers: impl IntoIterator<Item = Layer>) -> Image {
    let image = Image::new().label(CONFIGS_LABEL, label);
    layers.into_iter().fold(image, Image::layer)
}

#[derive(Default)]
struct Table {
    cases: Vec<Case>,
}

impl Table {
    fn served(
        &mut self,
        layers: impl IntoIterator<Item = Layer>,
        packages: impl IntoIterator<Item = &'static str>,
    ) {
        self.served_of(&labelled("/configs", layers), packages);
    }

    fn served_of(&mut self, image: &Image, packages: impl IntoIterator<Item = &'static str>) {
        let outcome = Outcome::Served(packages.into_iter().collect());
        self.add(image, outcome);
    }

    fn refused(
        &mut self,
        layers: impl IntoIterator<Item = Layer>,
        words: impl IntoIterator<Item = &'static str>,
    ) {
        self.refused_of(&labelled("/configs", layers), words);
    }

    fn refused_of(&mut self, image: &Image, words: impl IntoIterator<Item = &'static str>) {
        let outcome = Outcome::Refused(words.into_iter().collect());
        self.add(image, outcome);
    }

    fn add(&mut self, image: &Image, outcome: Outcome) {
        let name = format!("case-{}", self.cases.len() + 1);
        let image = image.build();
        self.cases.push(Case {
            name,
            image,
            outcome,
        });
    }

    /// Pushes all images, follows them with one almanac, and looks.
    fn check(self) {
        let upstream = Upstream::start();
        let mut config = "poll = \"never\"\n[registries]\nauth_files = []\n".to_owned();
        for Case { name, image, .. } in &self.cases {
            upstream.push(name, "v1", image);
            config += &catalog(name, &upstream.reference(name, "v1"));
        }
        let mut almanac = Almanac::start(&config);
        for case in self.cases {
            let name = &case.name;
            let status = almanac.until(name, "the end of a pass", |status| {
                !status["last_pass"].is_null()
            });
            let error = status["last_error"].as_str().unwrap_or_default();
            match case.outcome {
                Outcome::Served(packages) => {
                    assert_eq!(error, "", "{name}");
                    let all = almanac.all(name).text();
                    let mut served: Vec<String> = all
                        .lines()
                        .map(|line| serde_json::from_str::<Value>(line).unwrap())
                        .filter(|blob| blob["schema"] == "olm.package")
                        .map(|blob| blob["name"].as_str().unwrap().to_owned())
                        .collect();
                    served.sort();
                    assert_eq!(served, packages, "{name}");
                }
                Outcome::Refused(words) => {
                    let image = upstream.reference(name, "v1");
                    let mut layer = String::new();
                    case.image
                        .for_each_blob(|blob| layer = blob.digest.to_string());
                    assert_ne!(error, "", "{name} is to be refused: {words:?}");
                    for word in words.into_iter().chain([image.as_str()]) {
                        let word = if word == "LAYER" { &layer } else { word };
                        assert!(error.contains(word), "{name}: {word:?} is not in {error:?}");
                    }
                    assert_eq!(almanac.all(name).status, 503, "{name}");
                }
            }
        }
    }
}

#[test]
fn layers_are_read_in_each_compression_or_refused_by_its_name() {
    let mut table = Table::default();
    let both = ["one", "two"];
    for compression in [Compression::Plain, Compression::Gzip, Compression::Zstd] {
        table.served([base().compressed(compression)], both);
    }
    // Members and frames one after the other, cut where it comes.
    let archive = base().archive();
    let (head, tail) = archive.split_at(700);
    table.served([stored([gzip(head), gzip(tail)].concat())], both);
    let (head, tail) = (zstd_of(head), zstd_of(tail));
    table.served([stored([head, tail].concat())], both);
    for (magic, name) in [(&b"BZh91AY&SY"[..], "bzip2"), (b"\xfd7zXZ\0\0", "xz")] {
        let layer = stored([magic, &[0; 100]].concat());
        let words = ["LAYER", name, "only gzip, zstd and plain tar are supported"];
        table.refused([base(), layer], words);
    }
    // As much memory as that is not given to a layer.
    table.served([stored(zstd_with_window(&archive, 25))], both);
    let words = ["LAYER", "zstd window is larger than 33554432 bytes"];
    table.refused([stored(zstd_with_window(&archive, 26))], words);
    let mut cut = gzip(&archive);
    cut.truncate(cut.len() / 2);
    table.refused([stored(cut)], ["LAYER", "is damaged after"]);
    table.check();
}

#[test]
fn names_and_files_of_every_dialect_are_read() {
    let mut table = Table::default();
    let long = format!("configs/{}/catalog.json", "a-long-name".repeat(20));
    table.served([new().file(&long, text_of("long"))], ["long"]);
    let one = text_of("one");
    let pax = Archive::default()
        .pax(&[("path", &long)])
        .file("stand-in", one.as_bytes());
    table.served([pax.layer()], ["one"]);

    let (head, tail) = one.split_at(100);
    let (first, second) = (head.len(), tail.len());
    let size = one.len().to_string();
    let old = Archive::default().old_sparse("configs/a.json", &one, &[first, second]);
    table.served([old.layer()], ["one"]);
    // Blocks after the header, when there are more parts than fit into it.
    let old = Archive::default().old_sparse("configs/a.json", &one, &[10; 30]);
    table.served([old.layer()], ["one"]);
    let (first_text, second_text) = (first.to_string(), second.to_string());
    let version_0_0 = Archive::default()
        .pax(&[
            ("GNU.sparse.size", &size),
            ("GNU.sparse.numblocks", "2"),
            ("GNU.sparse.offset", "0"),
            ("GNU.sparse.numbytes", &first_text),
            ("GNU.sparse.offset", &first_text),
            ("GNU.sparse.numbytes", &second_text),
        ])
        .file("configs/a.json", one.as_bytes());
    table.served([version_0_0.layer()], ["one"]);
    let map = format!("0,{first},{first},{second}");
    let version_0_1 = Archive::default()
        .pax(&[
            ("GNU.sparse.size", &size),
            ("GNU.sparse.name", "configs/a.json"),
            ("GNU.sparse.map", &map),
        ])
        .file("GNUSparseFile.1/a.json", one.as_bytes());
    table.served([version_0_1.layer()], ["one"]);
    let records = [
        ("GNU.sparse.major", "1"),
        ("GNU.sparse.minor", "0"),
        ("GNU.sparse.name", "configs/a.json"),
        ("GNU.sparse.realsize", &size),
    ];
    let mut contents = format!("2\n0\n{first}\n{first}\n{second}\n").into_bytes();
    contents.resize(512, 0);
    contents.extend_from_slice(one.as_bytes());
    let version_1_0 = Archive::default()
        .pax(&records)
        .file("GNUSparseFile.1/a.json", &contents);
    table.served([version_1_0.layer()], ["one"]);
    contents[0] = b'9';
    let wrong = Archive::default()
        .pax(&records)
        .file("GNUSparseFile.1/a.json", &contents);
    let words = [
        "LAYER",
        "configs/a.json",
        "the map of a sparse file is not valid",
    ];
    table.refused([wrong.layer()], words);
    let huge = Archive::default()
        .pax(&[
            ("GNU.sparse.major", "1"),
            ("GNU.sparse.minor", "0"),
            ("GNU.sparse.name", "configs/huge.json"),
            ("GNU.sparse.realsize", "9000000000000000000"),
        ])
        .file("x", &[&b"0\n"[..], &[0; 510]].concat());
    let words = ["LAYER", "configs/huge.json", "more than 2147483648 bytes"];
    table.refused([huge.layer()], words);
    table.check();
}

#[test]
fn links_are_followed_inside_the_folder_and_refused_out_of_it() {
    let mut table = Table::default();
    // What is served by its other name only.
    let hidden = || base().file("configs/.indexignore", "/one.json\n");
    table.served([hidden()], ["two"]);
    table.served(
        [hidden().hard_link("configs/link.json", "configs/one.json")],
        ["one", "two"],
    );
    table.served(
        [
            hidden(),
            new().hard_link("configs/link.json", "/configs/one.json"),
        ],
        ["one", "two"],
    );
    table.served(
        [hidden().symlink("configs/link.json", "one.json")],
        ["one", "two"],
    );
    table.served(
        [hidden().symlink("configs/sub/link.json", "/configs/one.json")],
        ["one", "two"],
    );
    table.served([base().symlink("etc/link", "nowhere")], ["one", "two"]);
    for target in ["etc/passwd", "configs-extra/three.json"] {
        let layer = base().hard_link("configs/link.json", target);
        let words = ["LAYER", "configs/link.json", "hardlink", target];
        table.refused([layer], words.into_iter().chain(["outside the folder"]));
    }
    for target in ["../etc/passwd", "/etc/passwd", "../../../etc/hostname"] {
        let layer = base().symlink("configs/link.json", target);
        let words = ["LAYER", "configs/link.json", "symlink", target];
        table.refused([layer], words.into_iter().chain(["outside the folder"]));
    }
    for (target, rule) in [
        ("missing.json", "is missing"),
        ("sub", "is a folder"),
        ("link.json", "too many symlinks"),
    ] {
        let layer = base().symlink("configs/link.json", target);
        table.refused([layer], ["LAYER", "configs/link.json", rule]);
    }
    let through = base().symlink("configs/link", "/etc");
    table.refused(
        [through, new().file("configs/link/x.json", text_of("x"))],
        ["LAYER", "configs/link/x.json", "through the symlink"],
    );
    table.check();
}

#[test]
fn upper_layers_hide_what_lower_ones_have() {
    let mut table = Table::default();
    let four = || new().file("configs/four.json", text_of("four"));
    table.served([base(), four()], ["four", "one", "two"]);
    table.served([base(), new().whiteout("configs/one.json")], ["two"]);
    table.served([base(), new().whiteout("configs/sub")], ["one"]);
    // As oc-mirror makes a filtered catalog: hidden in one layer, made anew in
    // the next, or both in one, in either order.
    table.served([base(), new().whiteout("configs"), four()], ["four"]);
    table.served([base(), four().whiteout("configs")], ["four"]);
    let first = new().whiteout("configs");
    table.served(
        [base(), first.file("configs/four.json", text_of("four"))],
        ["four"],
    );
    table.served([base(), four().opaque("configs")], ["four"]);
    table.served([base(), new().opaque("configs/sub")], ["one"]);
    let opaque_root = four().file(".wh..wh..opq", "");
    table.served([base(), opaque_root], ["four"]);
    // A folder above the catalog's.
    let deep = new().file("var/lib/catalog/one.json", text_of("one"));
    let upper = new().file("var/lib/catalog/two.json", text_of("two"));
    for hidden in ["var", "var/lib", "var/lib/catalog"] {
        let layers = [deep.clone(), upper.clone().whiteout(hidden)];
        table.served_of(&labelled("/var/lib/catalog", layers), ["two"]);
    }
    // What is hidden can come back, and what was never there be hidden.
    table.served(
        [
            base(),
            new().whiteout("configs"),
            base(),
            new().whiteout("configs/none"),
        ],
        ["one", "two"],
    );
    // Later entries of one layer win, and so do other kinds of things.
    let twice = base().file("configs/one.json", text_of("other"));
    table.served([twice], ["other", "two"]);
    table.served(
        [base(), new().file("configs/sub", text_of("file"))],
        ["file", "one"],
    );
    let folder = new().file("configs/one.json/in.json", text_of("in"));
    table.served([base(), folder], ["in", "two"]);
    table.refused(
        [base(), new().whiteout("configs")],
        ["the image has no folder \"/configs\""],
    );
    table.refused(
        [base(), new().file("configs/.wh.", "")],
        ["LAYER", "the whiteout has no valid name"],
    );
    table.check();
}

#[test]
fn the_catalog_folder_may_be_a_file_the_root_or_behind_a_symlink() {
    let mut table = Table::default();
    for label in ["/configs", "configs", "configs/", "./configs"] {
        table.served_of(&labelled(label, [base()]), ["one", "two"]);
    }
    let file = labelled("/configs/sub/two.json", [base()]);
    table.served_of(&file, ["two"]);
    let root = new()
        .file("one.json", text_of("one"))
        .file("opt/two.json", text_of("two"));
    table.served_of(&labelled("/", [root]), ["one", "two"]);
    for target in ["configs", "/configs", "./configs/"] {
        let layers = [base(), new().symlink("catalog", target)];
        table.served_of(&labelled("/catalog", layers), ["one", "two"]);
    }
    let behind = [base(), new().symlink("srv", "/").folder("srv-2")];
    table.served_of(&labelled("/srv/configs", behind), ["one", "two"]);
    let circle = new().symlink("a", "b").symlink("b", "a");
    table.refused_of(&labelled("/a", [circle]), ["/a", "too many symlinks"]);
    table.refused_of(
        &labelled("/../configs", [base()]),
        ["/../configs", "\"..\""],
    );
    table.refused_of(&labelled("/none", [base()]), ["no folder \"/none\""]);
    table.refused_of(&Image::new().layer(base()), [CONFIGS_LABEL]);
    table.check();
}

#[test]
fn what_is_no_file_of_a_catalog_is_refused_by_name() {
    let mut table = Table::default();
    let pipe = base().entry("configs/pipe", Entry::Pipe);
    table.refused([pipe], ["LAYER", "configs/pipe", "a fifo"]);
    table.served([base().entry("dev/pipe", Entry::Pipe)], ["one", "two"]);
    for kind in [EntryType::Char, EntryType::Block] {
        let device = Archive::default().entry(kind, "configs/device", b"");
        table.refused(
            [base(), device.layer()],
            ["LAYER", "configs/device", "device"],
        );
    }
    for path in ["../out.json", "configs/../../out.json"] {
        let layer = base().file(path, text_of("out"));
        table.refused([layer], ["LAYER", path, "\"..\""]);
    }
    let foreign: [fn(&mut Value); 2] = [
        |manifest| {
            manifest["layers"][1]["mediaType"] =
                "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip".into();
        },
        |manifest| {
            manifest["layers"][1]["mediaType"] =
                "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip".into();
        },
    ];
    for edit in foreign {
        let image = labelled("/configs", [base(), new().file("x", "")]);
        let words = [
            "LAYER",
            "foreign and nondistributable layers are not supported",
        ];
        table.refused_of(&image.edit_manifest(edit), words);
    }
    table.check();
}

/// A layer whose bytes are stored as they are.
fn stored(bytes: Vec<u8>) -> Layer {
    Layer::raw(bytes).compressed(Compression::Plain)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 0).unwrap()
}

/// As it is written by who does not know the size beforehand.
fn zstd_with_window(bytes: &[u8], power: u32) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(power).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// An archive as the builder of [`Layer`]s writes none.
#[derive(Default)]
struct Archive(Vec<u8>);

impl Archive {
    fn layer(mut self) -> Layer {
        self.0.extend([0; 1024]);
        Layer::raw(self.0)
    }

    fn file(self, path: &str, contents: &[u8]) -> Self {
        self.entry(EntryType::Regular, path, contents)
    }

    fn entry(self, kind: EntryType, path: &str, contents: &[u8]) -> Self {
        self.header(kind, path, contents.len(), |_| {})
            .raw(contents)
    }

    fn header(
        mut self,
        kind: EntryType,
        path: &str,
        size: usize,
        edit: impl FnOnce(&mut Header),
    ) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(size as u64);
        header.set_mode(0o644);
        edit(&mut header);
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn pax(self, records: &[(&str, &str)]) -> Self {
        let mut contents = String::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let length = (1..9).find(|n| (rest + n).to_string().len() == *n).unwrap() + rest;
            writeln!(contents, "{length} {key}={value}").unwrap();
        }
        self.entry(EntryType::XHeader, "PaxHeaders/x", contents.as_bytes())
    }

    /// A file in the old GNU format, in parts of these sizes, one after the
    /// other, and a last one with the rest.
    fn old_sparse(self, path: &str, text: &str, sizes: &[usize]) -> Self {
        let mut parts = Vec::new();
        let mut end = 0;
        for size in sizes {
            parts.push((end, *size));
            end += size;
        }
        parts.push((end, text.len() - end));
        let octal = |number: usize| -> [u8; 12] {
            format!("{number:011o}\0").into_bytes().try_into().unwrap()
        };
        let (first, rest) = parts.split_at(parts.len().min(4));
        let mut archive = self.header(EntryType::GNUSparse, path, text.len(), |header| {
            let header = header.as_gnu_mut().unwrap();
            header.realsize = octal(text.len());
            for (entry, (offset, size)) in header.sparse.iter_mut().zip(first) {
                entry.offset = octal(*offset);
                entry.numbytes = octal(*size);
            }
            header.isextended = [u8::from(!rest.is_empty())];
        });
        let mut blocks = rest.chunks(21).peekable();
        while let Some(chunk) = blocks.next() {
            let mut block = Vec::new();
            for (offset, size) in chunk {
                block.extend(octal(*offset));
                block.extend(octal(*size));
            }
            block.resize(504, 0);
            block.push(u8::from(blocks.peek().is_some()));
            archive = archive.raw(&block);
        }
        archive.raw(text.as_bytes())
    }
}
