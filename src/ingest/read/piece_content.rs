//! What is kept of a piece for the next revision, besides its bytes in the files of
//! the revision. All places in it are relative to the piece.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::answers::grpc::bundle_message::{BundleMessage, CsvEnds};
use crate::answers::grpc::encoder::Encoder;
use crate::build_info;
use crate::store::{Program, Stored};
use ::images::digest::Digest;
use fbc::document::{Blobs, Gvk};
use fbc::fields::Fields;
use fbc::read::{Meta, Output};

/// What was kept of a piece.
pub(crate) struct Content {
    /// Without lines and problems.
    pub(crate) output: Output,
    pub(crate) bundles: Vec<BundleMessage>,
    pub(crate) ends: Vec<CsvEnds>,
    pub(crate) stored: Vec<Stored>,
}

/// CRC-32 and digest of a line.
type Line = (u32, [u8; 32]);

/// The APIs of a bundle, by its number, where they are not those of the bundle before.
type Apis = Vec<(usize, Arc<[Gvk]>)>;

#[derive(Serialize)]
struct Encoded<'a> {
    metas: &'a [Meta],
    blobs: &'a Blobs,
    apis: &'a Apis,
    fields: &'a Fields,
    documents: u32,
    line_ends: u32,
    bundles: &'a [BundleMessage],
    ends: &'a [CsvEnds],
    stored: Vec<Line>,
}

#[derive(Deserialize)]
struct Decoded {
    metas: Vec<Meta>,
    blobs: Blobs,
    apis: Apis,
    fields: Fields,
    documents: u32,
    line_ends: u32,
    bundles: Vec<BundleMessage>,
    ends: Vec<CsvEnds>,
    stored: Vec<Line>,
}

/// This program. Builds of one version may not know their commit: length and date of
/// the file tell them apart.
pub(crate) fn program() -> Program {
    let metadata = fs::metadata("/proc/self/exe");
    let file = metadata.map(|file| (file.len(), file.mtime(), file.mtime_nsec()));
    let file = format!("{:?}", file.unwrap_or_default());
    Program::new(build_info::VERSION, build_info::COMMIT, &file)
}

/// Appends what is kept of a piece. `output` is the same afterwards.
pub(crate) fn encode(
    output: &mut Output,
    encoder: &Encoder,
    stored: &[Stored],
    content: &mut Vec<u8>,
) {
    let apis = take_apis(&mut output.blobs);
    let stored = stored
        .iter()
        .map(|line| (line.crc, *line.digest.as_bytes()));
    let kept = Encoded {
        metas: &output.metas,
        blobs: &output.blobs,
        apis: &apis,
        fields: &output.fields,
        documents: output.documents,
        line_ends: output.line_ends,
        bundles: &encoder.bundles,
        ends: &encoder.ends,
        stored: stored.collect(),
    };
    // All types can be encoded; without content, nothing is kept.
    *content = postcard::to_extend(&kept, std::mem::take(content)).unwrap_or_default();
    put_apis(&mut output.blobs, apis);
}

/// What was kept of a piece.
pub(crate) fn decode(content: &[u8]) -> Option<Content> {
    let Decoded {
        metas,
        mut blobs,
        apis,
        fields,
        documents,
        line_ends,
        bundles,
        ends,
        stored,
    } = postcard::from_bytes(content).ok()?;
    put_apis(&mut blobs, apis);
    let stored = stored.into_iter().map(|(crc, digest)| Stored {
        crc,
        digest: Digest::from_bytes(digest),
    });
    Some(Content {
        output: Output {
            metas,
            blobs,
            fields,
            documents,
            line_ends,
            ..Output::default()
        },
        bundles,
        ends,
        stored: stored.collect(),
    })
}

/// Takes the APIs out of the bundles: most bundles have those of the one before.
fn take_apis(blobs: &mut Blobs) -> Apis {
    let mut apis: Apis = Vec::new();
    for (number, bundle) in blobs.bundles.iter_mut().enumerate() {
        let own = std::mem::take(&mut bundle.blob.provides);
        if apis.last().is_none_or(|(_, last)| *last != own) {
            apis.push((number, own));
        }
    }
    apis
}

fn put_apis(blobs: &mut Blobs, apis: Apis) {
    let mut apis = apis.into_iter().peekable();
    let mut last = Arc::default();
    for (number, bundle) in blobs.bundles.iter_mut().enumerate() {
        if let Some((_, next)) = apis.next_if(|(from, _)| *from == number) {
            last = next;
        }
        bundle.blob.provides = Arc::clone(&last);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::ingest::folder::listing::FolderRules;
    use crate::ingest::read;
    use crate::ingest::read::files::{CatalogFiles, FolderCopy, ImageLayers};
    use crate::ingest::{OnInvalid, store_folder};
    use crate::snapshot::{KnownPieces, Snapshot};
    use crate::store::{Base, Store};
    use ::images::Descriptor;
    use ::images::layers::Limits;

    /// A package as files of both notations, with all kinds of blobs.
    fn write(folder: &Path, package: &str, changed: &str) {
        let bundle = |version: &str| {
            format!(
                "{{\"schema\":\"olm.bundle\",\"package\":\"{package}\",\"name\":\"{package}.{version}\",\
                 \"image\":\"a.test/{package}:{version}\",\"properties\":[\
                 {{\"type\":\"olm.package\",\"value\":{{\"packageName\":\"{package}\",\"version\":\"{version}\"}}}},\
                 {{\"type\":\"olm.gvk\",\"value\":{{\"group\":\"{package}.test\",\"version\":\"v1\",\"kind\":\"A\"}}}},\
                 {{\"type\":\"olm.csv.metadata\",\"value\":{{\"displayName\":\"{changed}\",\
                 \"description\":\"text\",\"annotations\":{{\"a\":\"b\"}}}}}}]}}\n"
            )
        };
        let json = format!(
            "{{\"schema\":\"olm.package\",\"name\":\"{package}\",\"defaultChannel\":\"c\"}}\n{}{}",
            bundle("1.0.0"),
            bundle("1.1.0"),
        );
        let yaml = format!(
            "schema: olm.channel\npackage: {package}\nname: c\nentries:\n- name: {package}.1.0.0\n\
             - name: {package}.1.1.0\n  replaces: {package}.1.0.0\n---\nschema: olm.deprecations\n\
             package: {package}\nentries:\n- reference:\n    schema: olm.bundle\n    name: \
             {package}.1.0.0\n  message: old\n---\nschema: test.other\npackage: {package}\nn: [1, 2]\n"
        );
        fs::create_dir_all(folder.join(package)).unwrap();
        fs::write(folder.join(package).join("catalog.json"), json).unwrap();
        fs::write(folder.join(package).join("channels.yaml"), yaml).unwrap();
    }

    struct Place {
        folder: tempfile::TempDir,
        store: Store,
    }

    impl Place {
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("catalog")).unwrap();
            let store = Store::open(&folder.path().join("data")).await.unwrap();
            Self { folder, store }
        }

        fn catalog(&self) -> std::path::PathBuf {
            self.folder.path().join("catalog")
        }

        /// What is known of the catalog as it is now.
        async fn known(&self) -> Arc<KnownPieces> {
            let (name, limits) = ("a".parse().unwrap(), Limits::default());
            let path = self.catalog();
            let stored = store_folder(&self.store, &name, &path, &limits, OnInvalid::Quarantine);
            let snapshot = Snapshot::open(&self.store, stored.await.unwrap().0).unwrap();
            Arc::new(KnownPieces::of(&self.store, Arc::new(snapshot), &program()).unwrap())
        }

        fn files(&self, known: Option<&Arc<KnownPieces>>) -> CatalogFiles {
            let (root, temporary) = (self.catalog(), self.folder.path());
            let rules = FolderRules::default();
            let copy = FolderCopy::new(&root, &rules, temporary).unwrap();
            let (_, mut files) = copy.files(&root, temporary).unwrap();
            files.known = known.cloned();
            files
        }
    }

    /// All that is made of the files, and how many pieces are copied, of how many.
    fn made(files: &CatalogFiles) -> (String, Vec<u8>, usize, usize) {
        let (mut bytes, mut copied, mut all) = (Vec::new(), 0, 0);
        let mut base = Base::default();
        let read = read::read(files, true, |done| {
            let made = done.made();
            for part in [made.lines, made.messages] {
                bytes.extend_from_slice(&part.len().to_le_bytes());
                bytes.extend_from_slice(part);
            }
            if let Some(kept) = &made.kept {
                bytes.extend_from_slice(kept.content);
                bytes.extend(kept.crcs.iter().flat_map(|crc| crc.to_le_bytes()));
            }
            let own = base;
            base.lines += made.lines.len() as u64;
            base.messages += made.messages.len() as u64;
            copied += usize::from(done.is_copied());
            all += 1;
            Ok::<_, std::convert::Infallible>(own)
        });
        let Ok((catalog, counts)) = read;
        let fields = (&catalog.blobs, &catalog.messages, &catalog.ends);
        let rest = (&catalog.fields, &catalog.problems, counts);
        (format!("{fields:?} {rest:?}"), bytes, copied, all)
    }

    #[tokio::test]
    async fn what_is_copied_is_what_is_made_otherwise() {
        let place = Place::new().await;
        for number in 0..30 {
            write(&place.catalog(), &format!("p{number:02}"), "first");
        }
        // Files with problems, of which each says where it is.
        fs::write(
            place.catalog().join("p04/odd.json"),
            "{\"schema\":\"olm.odd\"}\n",
        )
        .unwrap();
        let known = place.known().await;
        fs::write(
            place.catalog().join("p03/broken.json"),
            "{\"name\":\"b\"}\n",
        )
        .unwrap();
        let compare = |copied: usize, all: usize| {
            let fresh = made(&place.files(None));
            let with_known = made(&place.files(Some(&known)));
            assert_eq!((fresh.2, fresh.3), (0, all));
            assert_eq!((with_known.2, with_known.3), (copied, all));
            assert_eq!(with_known.0, fresh.0);
            assert!(with_known.1 == fresh.1);
        };
        compare(60, 62);
        write(&place.catalog(), "p07", "second");
        compare(59, 62);
        // The same bytes under other names, in another order, and several times.
        fs::rename(place.catalog().join("p00"), place.catalog().join("p99")).unwrap();
        for name in ["a.json", "b.json", "z.json"] {
            let from = place.catalog().join("p12/catalog.json");
            fs::copy(from, place.catalog().join(name)).unwrap();
        }
        compare(62, 65);
        place.store.close().await;
    }

    /// A layer with all files of a folder, and one of them once more as a hard link.
    fn layer(folder: &Path, linked: &str) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        archive.append_dir_all("configs", folder).unwrap();
        let mut link = tar::Header::new_gnu();
        link.set_entry_type(tar::EntryType::Link);
        link.set_size(0);
        let original = format!("configs/{linked}");
        archive
            .append_link(&mut link, "configs/z.json", original)
            .unwrap();
        archive.into_inner().unwrap()
    }

    #[tokio::test]
    async fn a_link_to_a_file_that_is_copied_is_that_file() {
        let place = Place::new().await;
        for package in ["p", "q"] {
            write(&place.catalog(), package, "first");
        }
        let known = place.known().await;
        let layer = layer(&place.catalog(), "q/catalog.json");
        let media_type = "application/vnd.oci.image.layer.v1.tar";
        let path = place.folder.path().join("layer");
        fs::write(&path, &layer).unwrap();
        let layers = [(Descriptor::new(media_type, &layer), path)];
        let files = |known| {
            let layers = ImageLayers {
                layers: &layers,
                covered: 0,
            };
            let files = layers.files("configs", &Limits::default(), place.folder.path());
            CatalogFiles {
                known,
                ..files.unwrap()
            }
        };
        let (fresh, with_known) = (made(&files(None)), made(&files(Some(known))));
        assert_eq!((fresh.2, fresh.3), (0, 5));
        assert_eq!((with_known.2, with_known.3), (5, 5));
        assert!((with_known.0, with_known.1) == (fresh.0, fresh.1));
        place.store.close().await;
    }

    #[tokio::test]
    async fn nothing_damaged_is_copied() {
        let place = Place::new().await;
        write(&place.catalog(), "p", "first");
        let fresh = made(&place.files(None));
        for (name, at) in [
            ("metas.jsonl", 5),
            ("messages.pb", 5),
            ("pieces.bin", 5),
            ("pieces.bin", 200),
        ] {
            drop(place.known().await);
            let current = place.store.current(&"a".parse().unwrap()).await.unwrap();
            let current = current.unwrap();
            let revisions = place.folder.path().join("data/revisions");
            let revision = revisions.join(current.id.to_string());
            let mut bytes = fs::read(revision.join(name)).unwrap();
            bytes[at] ^= 1;
            fs::remove_file(revision.join(name)).unwrap();
            fs::write(revision.join(name), bytes).unwrap();
            let snapshot = Arc::new(Snapshot::open(&place.store, current).unwrap());
            let known = KnownPieces::of(&place.store, snapshot, &program()).map(Arc::new);
            let files = made(&place.files(known.as_ref()));
            assert!(files.2 < 2, "{name}");
            assert!((&files.0, &files.1) == (&fresh.0, &fresh.1), "{name}");
        }
        place.store.close().await;
    }
}
