//! Finding a layer that hides the folder from all layers below, so that those
//! need not be pulled.

use std::io::Read;

use crate::layers::compression::{Layer, decompress};
use crate::layers::limits::{Budget, Limits};
use crate::layers::path::{SEPARATOR, is_within, split_last, write_key};
use crate::layers::tar_entries::{EntryKind, TarEntries};
use crate::layers::whiteout::{Whiteout, whiteout};

/// The bytes and entries of an image that were searched so far. The limits are
/// those of unpacking.
#[derive(Debug, Default)]
pub struct SearchBudget(Budget);

/// Whether `layer` hides `folder`, or a parent of it, from the layers below.
/// Reading stops when it does.
///
/// A whiteout applies only if the layer itself contains its folder, before
/// anything else in it. Otherwise a symlink of a lower layer could move the
/// whiteout.
///
/// Errors are not reported here: an unreadable layer hides nothing, and
/// [`crate::layers::unpack()`] returns the error.
pub fn covers<R: Read>(
    layer: Layer<R>,
    folder: &str,
    limits: &Limits,
    SearchBudget(budget): &mut SearchBudget,
) -> bool {
    let mut way = Vec::new();
    if folder.len() > limits.path || write_key(folder.as_bytes(), &mut way).is_err() {
        return false;
    }
    let Ok(source) = decompress(&layer.name, layer.reader) else {
        return false;
    };
    let mut archive = TarEntries::new(source, limits, budget);
    let mut way = Way::to(&way);
    let mut key = Vec::new();
    while let Ok(Some(entry)) = archive.next_entry() {
        if archive.path().len() > limits.path || write_key(archive.path(), &mut key).is_err() {
            return false;
        }
        if way.is_hidden_by(&key) {
            return true;
        }
        way.pass(&key, entry.kind == EntryKind::Folder);
    }
    false
}

/// The parents of the folder, from the root, and the folder itself.
struct Way<'k> {
    steps: Vec<Step<'k>>,
}

struct Step<'k> {
    key: &'k [u8],
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The layer has no entry for it so far.
    Unknown,
    /// It is a folder in this layer.
    Made,
    /// The layer has entries below it, or it is no folder.
    Assumed,
}

impl<'k> Way<'k> {
    fn to(folder: &'k [u8]) -> Self {
        let ends = memchr::memchr_iter(SEPARATOR as u8, folder).chain([folder.len()]);
        let below = ends.map(|end| Step {
            key: &folder[..end],
            state: State::Unknown,
        });
        // The root is a folder in every image.
        let root = Step {
            key: b"",
            state: State::Made,
        };
        let below = below.filter(|step| !step.key.is_empty());
        Self {
            steps: [root].into_iter().chain(below).collect(),
        }
    }

    /// Whether the entry at `key` is a whiteout that hides the folder.
    fn is_hidden_by(&self, key: &[u8]) -> bool {
        let Some((folder, name)) = split_last(key) else {
            return false;
        };
        let made = |step: &Step<'_>| step.state == State::Made;
        let Some(at) = self.steps.iter().position(|step| step.key == folder) else {
            return false;
        };
        if !self.steps[..=at].iter().all(made) {
            return false;
        }
        match whiteout(name) {
            Some(Whiteout::Below) => true,
            Some(Whiteout::Itself(hidden)) => self
                .steps
                .get(at + 1)
                .and_then(|step| split_last(step.key))
                .is_some_and(|(_, name)| name == hidden),
            Some(Whiteout::Bookkeeping) | None => false,
        }
    }

    /// Notes the entry at `key`.
    fn pass(&mut self, key: &[u8], is_folder: bool) {
        let unknown = |step: &&mut Step<'_>| step.state == State::Unknown;
        for step in self.steps.iter_mut().filter(unknown) {
            if step.key == key && is_folder {
                step.state = State::Made;
            } else if is_within(key, step.key) {
                step.state = State::Assumed;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;
    use crate::layers::UnpackError;
    use crate::layers::testing::{Tar, files_of, gzip, tar};

    fn covered(tar: Tar, folder: &str) -> bool {
        let layer = Layer {
            name: "layer".into(),
            reader: Cursor::new(gzip(&tar.end())),
        };
        covers(
            layer,
            folder,
            &Limits::for_testing(),
            &mut SearchBudget::default(),
        )
    }

    #[test]
    fn an_image_is_looked_at_no_further_than_it_may_be_unpacked() {
        let limits = Limits {
            bytes: 10_000,
            ..Limits::for_testing()
        };
        let mut looks = SearchBudget::default();
        let mut look = |tar: Tar| {
            let layer = Layer {
                name: "layer".into(),
                reader: Cursor::new(gzip(&tar.end())),
            };
            covers(layer, "configs", &limits, &mut looks)
        };
        let hiding = || tar().file(".wh.configs", "");
        assert!(look(hiding()));
        assert!(!look(tar().file("large", &"x".repeat(9_000))));
        assert!(!look(hiding()), "nothing is left to look at it with");
    }

    #[test]
    fn a_layer_covers_the_folder_that_it_hides() {
        for (said, tar) in [
            ("itself", tar().file(".wh.configs", "")),
            (
                "in any place",
                tar().file("a", "").file("./.wh.configs", ""),
            ),
            (
                "all of the root",
                tar().folder("configs").file(".wh..wh..opq", ""),
            ),
            (
                "all in it",
                tar().folder("configs/").file("configs/.wh..wh..opq", ""),
            ),
        ] {
            assert!(covered(tar, "/configs"), "{said}");
        }
    }

    #[test]
    fn a_layer_covers_a_folder_below_one_that_it_hides() {
        let opaque = "a/b/.wh..wh..opq";
        for (said, tar) in [
            ("the first", tar().file(".wh.a", "")),
            ("the second", tar().folder("a").file("a/.wh.b", "")),
            (
                "all in the second",
                tar().folder("a").folder("a/b").file(opaque, ""),
            ),
            (
                "itself",
                tar().folder("a").folder("a/b").file("a/b/.wh.c", ""),
            ),
        ] {
            assert!(covered(tar, "a/b/c"), "{said}");
        }
        assert!(covered(tar().file(".wh..wh..opq", ""), "/"));
    }

    #[test]
    fn what_hides_something_else_covers_nothing() {
        for (said, tar) in [
            ("nothing", tar().file("configs/a", "a")),
            ("another", tar().file(".wh.configs-extra", "")),
            ("a part of the name", tar().file(".wh.config", "")),
            (
                "something in it",
                tar().folder("configs").file("configs/.wh.a", ""),
            ),
            (
                "all in another",
                tar().folder("b").file("b/.wh..wh..opq", ""),
            ),
            ("its own files", tar().file(".wh..wh.configs", "")),
            ("what is no name", tar().file(".wh.", "")),
        ] {
            assert!(!covered(tar, "configs"), "{said}");
        }
    }

    #[test]
    fn a_whiteout_behind_what_may_be_a_symlink_covers_nothing() {
        for (said, tar) in [
            ("nothing said of it", tar().file("a/.wh.b", "")),
            (
                "used before",
                tar().file("a/x", "").folder("a").file("a/.wh.b", ""),
            ),
            ("a symlink", tar().symlink("a", "c").file("a/.wh.b", "")),
            (
                "only the last",
                tar().folder("a/b").file("a/b/.wh..wh..opq", ""),
            ),
        ] {
            assert!(!covered(tar, "a/b"), "{said}");
        }
    }

    #[test]
    fn a_layer_that_cannot_be_read_covers_nothing() {
        let cut = tar().file("a", "contents").cut()[..700].to_vec();
        for bytes in [cut, b"BZh9 and so on".to_vec(), Vec::new()] {
            let layer = Layer {
                name: "layer".into(),
                reader: Cursor::new(bytes),
            };
            let looks = &mut SearchBudget::default();
            assert!(!covers(layer, "configs", &Limits::for_testing(), looks));
        }
        let climbing = tar().file("../x", "").file(".wh.configs", "");
        assert!(!covered(climbing, "configs"));
        assert!(!covered(tar().file(".wh.configs", ""), "../configs"));
    }

    #[test]
    fn an_endless_layer_is_not_read_to_its_end() {
        let bomb = tar().file("a", &"0".repeat(5 << 20));
        assert!(!covered(bomb.file(".wh.configs", ""), "configs"));
    }

    type Entries = Vec<(&'static str, u8, String)>;

    /// Layers of entries that have much to do with each other.
    fn layers() -> impl Strategy<Value = Vec<Entries>> {
        const PLACES: [&str; 12] = [
            "a",
            "a/b",
            "a/b/f",
            "a/b/g",
            "a/c/f",
            "c/b/f",
            ".wh.a",
            "a/.wh.b",
            "a/b/.wh.f",
            ".wh..wh..opq",
            "a/.wh..wh..opq",
            "a/b/.wh..wh..opq",
        ];
        let entry = (prop::sample::select(PLACES.as_slice()), 0..8_u8, "[xyz]");
        prop::collection::vec(prop::collection::vec(entry, 0..6), 2..5)
    }

    fn archive(entries: &Entries) -> Tar {
        let add = |tar: Tar, (path, kind, text): &(&str, u8, String)| match kind {
            _ if path.contains(".wh.") => tar.file(path, ""),
            0 => tar.symlink(path, "/c"),
            1 => tar.symlink(path, "f"),
            2 => tar.hardlink(path, "a/b/f"),
            3 | 4 => tar.folder(path),
            _ => tar.file(path, text),
        };
        entries.iter().fold(tar(), add)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn what_is_covered_makes_no_difference(layers in layers()) {
            let layers: Vec<Tar> = layers.iter().map(archive).collect();
            for (number, layer) in layers.iter().enumerate() {
                if !covered(layer.clone(), "a/b") {
                    continue;
                }
                // When these layers alone are rejected, all of them are read.
                let Ok(files) = files_of(&layers, number, "a/b") else {
                    continue;
                };
                match files_of(&layers, 0, "a/b") {
                    Ok(all) => prop_assert_eq!(files, all),
                    // A layer that is covered may be wrong.
                    Err(UnpackError::Refused { layer, .. }) => {
                        let wrong: usize = layer["layer-".len()..].parse().unwrap();
                        prop_assert!(wrong < number, "layer {wrong}");
                    }
                    Err(error) => prop_assert!(false, "{error}"),
                }
            }
        }
    }
}
