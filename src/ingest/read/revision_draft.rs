//! A revision that is being written while its files are read: the stage `read`, also
//! beside the stage `unpack`.

use std::collections::HashMap;
use std::time::Instant;

use crate::answers::catalog::EncodedCatalog;
use crate::ingest::error::{PassError, Stage};
use crate::ingest::files_error::FilesError;
use crate::ingest::read::file_cutter::FileCutter;
use crate::ingest::read::file_part::FilePart;
use crate::ingest::read::files::CatalogFiles;
use crate::ingest::read::ordered::Push;
use crate::ingest::read::piece_content;
use crate::ingest::read::read_piece::ReadPiece;
use crate::ingest::read::{push_files, read_parts};
use crate::ingest::stages::observe;
use crate::snapshot::KnownPieces;
use crate::store::{Counts, PieceKey, RevisionWriter, Store};
use ::images::digest::Digest;

/// What files become: their lines and messages are written, the rest is in memory. It
/// leaves nothing behind when it is dropped.
pub(crate) struct RevisionDraft {
    pub(crate) writer: RevisionWriter,
    pub(crate) catalog: EncodedCatalog,
    pub(crate) counts: Counts,
    /// The digests of the lines of bundles, by the number of the meta.
    pub(crate) digests: HashMap<u32, Digest>,
    /// Of each file, the keys of its pieces, if the next revision may copy all of them.
    pub(crate) pieces: Vec<Option<Vec<PieceKey>>>,
}

impl RevisionDraft {
    /// Reads files.
    pub(crate) fn from_files(store: &Store, files: &CatalogFiles) -> Result<Self, PassError> {
        let started = Instant::now();
        let known = files.known.as_deref();
        let (draft, ()) = Self::from_parts(store, known, |push| push_files(files, push))?;
        draft.writer.end_pieces();
        observe(Stage::Read, started);
        Ok(draft)
    }

    /// Reads files while `produce` unpacks or copies them. `None` when the feed has given
    /// up: then the files have to be read once all are there.
    pub(crate) fn beside<T>(
        store: &Store,
        known: Option<&KnownPieces>,
        produce: impl FnOnce(&mut FileCutter<'_>) -> Result<T, FilesError>,
    ) -> Result<Option<(Self, T)>, PassError> {
        let mut ended = Instant::now();
        let mut gave_up = false;
        let made = Self::from_parts(store, known, |push| {
            let mut feed = FileCutter::new(push);
            let made = produce(&mut feed);
            (gave_up, ended) = (feed.gave_up(), Instant::now());
            made
        });
        if gave_up {
            return Ok(None);
        }
        // The feed fails too when nobody reads from it.
        let (draft, made) = made?;
        let made = made.map_err(PassError::at(Stage::Unpack))?;
        draft.writer.end_pieces();
        observe(Stage::Read, ended);
        Ok(Some((draft, made)))
    }

    fn from_parts<R>(
        store: &Store,
        known: Option<&KnownPieces>,
        bring: impl FnOnce(&mut Push<'_, FilePart>) -> R,
    ) -> Result<(Self, R), PassError> {
        let failed = PassError::at(Stage::Read);
        let mut writer = store.write_revision().map_err(&failed)?;
        writer
            .keep_pieces(&piece_content::program())
            .map_err(&failed)?;
        let mut digests = HashMap::new();
        let mut metas = 0;
        let mut pieces: Vec<Option<Vec<PieceKey>>> = Vec::new();
        let sink = |done: &ReadPiece| {
            if done.path.is_some() {
                pieces.push(Some(Vec::new()));
            }
            if let Some(of_file) = pieces.last_mut() {
                match (of_file.as_mut(), done.kept_key()) {
                    (Some(keys), Some(key)) => keys.push(key),
                    _ => *of_file = None,
                }
            }
            for (meta, stored) in done.output.metas.iter().zip(&done.stored) {
                if meta.schema() == "olm.bundle" {
                    digests.insert(metas, stored.digest);
                }
                metas += 1;
            }
            writer.append(&done.made())
        };
        let (read, brought) = read_parts(known, true, sink, bring).map_err(&failed)?;
        let (catalog, counts) = read;
        let draft = Self {
            writer,
            catalog,
            counts,
            digests,
            pieces,
        };
        Ok((draft, brought))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::ingest::folder::listing::FolderRules;
    use crate::ingest::pass::make_revision::{Content, write_revision};
    use crate::ingest::read::files::{FolderCopy, FolderFiles, ImageLayers};
    use crate::ingest::read::read_files::{ReadFile, ReadFiles};
    use crate::ingest::stages::StageTracker;
    use crate::ingest::{OnInvalid, store_folder};
    use crate::snapshot::Snapshot;
    use ::images::Descriptor;
    use ::images::layers::Limits;

    struct Place {
        folder: tempfile::TempDir,
        store: Store,
    }

    impl Place {
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::open(&folder.path().join("data")).await.unwrap();
            Self { folder, store }
        }

        /// The content of a catalog, and what it counts and tells.
        fn made(&self, content: impl Into<Content>) -> String {
            let stages = StageTracker::at(Stage::Read);
            let name = "a".parse().unwrap();
            let made = write_revision(&self.store, &stages, &name, content, OnInvalid::Quarantine);
            let made = made.unwrap();
            let content = made.finished.content;
            format!("{content} {:?} {:?}", made.counts, made.problems)
        }

        /// Stores layers, the lowest first.
        fn layers(&self, layers: &[Vec<u8>]) -> Vec<(Descriptor, PathBuf)> {
            let stored = layers.iter().enumerate().map(|(number, layer)| {
                let path = self.folder.path().join(format!("layer {number}"));
                fs::write(&path, layer).unwrap();
                let media_type = "application/vnd.oci.image.layer.v1.tar";
                (Descriptor::new(media_type, layer), path)
            });
            stored.collect()
        }

        /// What is made of an image, and whether it was read while it was unpacked.
        fn of_image(&self, layers: &[Vec<u8>]) -> (String, bool) {
            let limits = Limits::default();
            let layers = self.layers(layers);
            let layers = ImageLayers {
                layers: &layers,
                covered: 0,
            };
            let beside = RevisionDraft::beside(&self.store, None, |feed| {
                layers.feed("/configs", &limits, feed)
            });
            let files = layers.files("/configs", &limits, self.folder.path());
            let whole = self.made(files.unwrap());
            match beside.unwrap() {
                None => (whole, false),
                Some((draft, ())) => {
                    assert_eq!(self.made(draft), whole);
                    (whole, true)
                }
            }
        }
    }

    fn package(name: &str) -> String {
        format!("{{\"schema\":\"olm.package\",\"name\":\"{name}\"}}\n")
    }

    fn layer(files: &[(&str, &str)]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            let path = format!("configs/{path}");
            let appended = archive.append_data(&mut header, path, content.as_bytes());
            appended.unwrap();
        }
        archive.into_inner().unwrap()
    }

    #[tokio::test]
    async fn an_image_in_the_order_of_the_catalog_is_read_while_it_is_unpacked() {
        let place = Place::new().await;
        let [a, b, c] = ["a", "b", "c"].map(package);
        // Several pieces, of which one has a problem, and an empty file.
        let document = format!("{{\"schema\":\"x\",\"t\":\"{}\"}}\n", "t".repeat(300_000));
        let large = format!("{a}{}{{\"schema\":\"olm.odd\"}}\n{c}", document.repeat(9));
        let yaml = format!("---\nschema: x\nt: {}\n", "t".repeat(700_000)).repeat(4);
        let files = [
            ("a/catalog.json", &*large),
            ("a.yaml", &yaml),
            ("b/b/c.json", &b),
            ("c.json", ""),
        ];
        let (made, beside) = place.of_image(&[layer(&[]), layer(&files)]);
        assert!(beside);
        assert!(made.contains("a/catalog.json"), "{made}");
        // Layers with files of their own, in order.
        let (_, beside) = place.of_image(&[layer(&files[..2]), layer(&files[2..3])]);
        assert!(beside);
        place.store.close().await;
    }

    #[tokio::test]
    async fn other_images_are_read_once_they_are_unpacked() {
        let place = Place::new().await;
        let [a, b] = ["a", "b"].map(package);
        let long = format!("{{\"schema\":\"x\",\"t\":\"{}\"}}", "t".repeat(20 << 20));
        let (first, second) = (("a.json", &*a), ("b.json", &*b));
        let images = [
            // Not in order, twice, replaced, hidden.
            vec![layer(&[second, first])],
            vec![layer(&[first, first])],
            vec![layer(&[first, second]), layer(&[("a.json", &b)])],
            vec![layer(&[first, second]), layer(&[(".wh.b.json", "")])],
            // Ignored.
            vec![layer(&[(".indexignore", "b.json"), first, second])],
            // Too long to be kept in memory.
            vec![layer(&[first, ("b.json", &long)])],
        ];
        for (number, image) in images.iter().enumerate() {
            let (made, beside) = place.of_image(image);
            assert!(!beside, "{number}: {made}");
        }
        let none = place.layers(&[layer(&[])]);
        let none = ImageLayers {
            layers: &none,
            covered: 0,
        };
        let limits = Limits::default();
        let beside =
            RevisionDraft::beside(&place.store, None, |feed| none.feed("/", &limits, feed));
        assert!(beside.unwrap().is_none());
        place.store.close().await;
    }

    #[tokio::test]
    async fn a_damaged_image_leaves_nothing_behind() {
        let place = Place::new().await;
        let mut image = layer(&[("a.json", &package("a")), ("b.json", &package("b"))]);
        image[1024] ^= 1;
        let layers = place.layers(&[image]);
        let layers = ImageLayers {
            layers: &layers,
            covered: 0,
        };
        let limits = Limits::default();
        let beside = RevisionDraft::beside(&place.store, None, |feed| {
            layers.feed("/configs", &limits, feed)
        });
        let error = beside.err().expect("it is damaged");
        assert_eq!((error.stage, error.reason()), (Stage::Unpack, "damaged"));
        let left = fs::read_dir(place.folder.path().join("data/revisions")).unwrap();
        assert_eq!(left.count(), 0);
        place.store.close().await;
    }

    #[tokio::test]
    async fn a_folder_has_the_same_digest_and_content_however_it_is_read() {
        let place = Place::new().await;
        let root = place.folder.path().join("catalog");
        for name in ["a", "b", "b.d", "c"] {
            fs::create_dir_all(root.join(name)).unwrap();
            fs::write(root.join(name).join("catalog.json"), package(name)).unwrap();
        }
        let rules = FolderRules::default();
        let compare = |root: &Path| {
            let files = FolderFiles {
                root,
                rules: &rules,
                earlier: &ReadFiles::default(),
                known: None,
            };
            let beside =
                RevisionDraft::beside(&place.store, None, |feed| files.feed(feed)).unwrap();
            let copy = FolderCopy::new(root, &rules, place.folder.path()).unwrap();
            let (digest, files) = copy.files(root, place.folder.path()).unwrap();
            let beside = beside.map(|(draft, (digest, _))| (digest, place.made(draft)));
            beside.map(|beside| assert_eq!(beside, (digest, place.made(files))))
        };
        assert!(compare(&root).is_some());
        assert!(compare(&root.join("a/catalog.json")).is_some());
        fs::write(root.join("b/.indexignore"), "*.json").unwrap();
        assert!(compare(&root).is_none());
        place.store.close().await;
    }

    #[tokio::test]
    async fn a_file_that_did_not_change_is_copied_and_not_read() {
        let place = Place::new().await;
        let root = place.folder.path().join("catalog");
        fs::create_dir(&root).unwrap();
        for name in ["a", "b", "c"] {
            fs::write(root.join(name), package(name)).unwrap();
        }
        let (name, limits) = ("a".parse().unwrap(), Limits::default());
        let on_invalid = OnInvalid::Quarantine;
        let stored = store_folder(&place.store, &name, &root, &limits, on_invalid).await;
        let snapshot = Snapshot::open(&place.store, stored.unwrap().0).unwrap();
        let known = KnownPieces::of(&place.store, Arc::new(snapshot), &piece_content::program());
        let rules = FolderRules::default();
        let read = |earlier: &ReadFiles| {
            let files = FolderFiles {
                root: &root,
                rules: &rules,
                earlier,
                known: known.as_ref(),
            };
            let read = RevisionDraft::beside(&place.store, known.as_ref(), |feed| files.feed(feed));
            let (draft, (digest, files)) = read.unwrap().unwrap();
            let pieces = draft.pieces.clone();
            (digest, place.made(draft), files.into_iter().zip(pieces))
        };
        let (first, made, files) = read(&ReadFiles::default());
        // What was read of it then shows that it is not read now.
        let remembered = |files: Vec<(String, ReadFile)>, seconds: u64| {
            let other = files.into_iter().map(|(path, file)| {
                let digest = Digest::of(b"remembered");
                (path, ReadFile { digest, ..file })
            });
            let began = SystemTime::now() + Duration::from_secs(seconds);
            ReadFiles::new(other, began)
        };
        let files: Vec<_> = files
            .map(|((path, state, digest), pieces)| {
                let file = ReadFile {
                    state,
                    digest,
                    pieces,
                };
                (path, file)
            })
            .collect();
        let (digest, copied, _) = read(&remembered(files.clone(), 60));
        assert_ne!(digest, first);
        assert_eq!(copied, made);
        // It had just changed, and may have changed once more.
        assert_eq!(read(&remembered(files.clone(), 0)).0, first);
        for name in ["a", "b", "c"] {
            let content = fs::read(root.join(name)).unwrap();
            fs::write(root.join(name), content).unwrap();
        }
        assert_eq!(read(&remembered(files, 60)).0, first);
        place.store.close().await;
    }
}
