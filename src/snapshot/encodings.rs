//! The encodings of a snapshot's lines: its own, or lent by a snapshot before that had
//! the same content.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::snapshot::comparing::{Comparing, TooManyToCompare};
use crate::store::{EncodedFile, Encoding, FileSum, Segments};

/// An encoding, its file, and whether it was made of this snapshot.
#[derive(Clone)]
pub(super) struct Held<T> {
    value: T,
    /// All that hold the file share this.
    file: Arc<HeldFile>,
    is_own: bool,
}

struct HeldFile {
    file: EncodedFile,
    /// Whether it is what was written, once that was compared: before it is first sent.
    is_whole: OnceLock<bool>,
}

impl<T> Held<T> {
    fn own(value: T, file: EncodedFile) -> Self {
        Self {
            value,
            file: Arc::new(HeldFile {
                file,
                is_whole: OnceLock::new(),
            }),
            is_own: true,
        }
    }

    /// The encoding, unless its file is damaged. The first call compares that.
    pub(super) fn undamaged(self, comparing: Comparing) -> Result<Option<T>, TooManyToCompare> {
        let HeldFile { file, is_whole } = &*self.file;
        if is_whole.get().is_none() && !comparing.allows(file.bytes.len()) {
            return Err(TooManyToCompare);
        }
        let is_whole = is_whole.get_or_init(|| file.is_sendable());
        Ok(is_whole.then_some(self.value))
    }

    fn has_damage(&self) -> bool {
        self.file.is_whole.get() == Some(&false)
    }
}

/// Encodings of the same lines. Those of the snapshot take the place of lent ones.
#[derive(Clone, Default)]
pub(super) struct Encodings {
    segments: Option<Held<Arc<Segments>>>,
    gzip: Option<Held<Bytes>>,
    zstd: Option<Held<Bytes>>,
}

impl Encodings {
    /// The lines as a whole in an encoding, and whether it was made of this snapshot.
    pub(super) fn whole(&self, encoding: Encoding) -> Option<(Bytes, bool)> {
        let (file, is_own) = match encoding {
            Encoding::Gzip => self.gzip.as_ref().map(|held| (&held.file, held.is_own)),
            Encoding::Zstd => self.zstd.as_ref().map(|held| (&held.file, held.is_own)),
            Encoding::Segments => self.segments.as_ref().map(|held| (&held.file, held.is_own)),
        }?;
        Some((file.file.bytes.clone(), is_own))
    }

    /// The lines as a whole, to send.
    pub(super) fn of_whole(&self, encoding: Encoding) -> Option<Held<Bytes>> {
        match encoding {
            Encoding::Gzip => self.gzip.clone(),
            Encoding::Zstd => self.zstd.clone(),
            Encoding::Segments => None,
        }
    }

    /// The segments, to send.
    pub(super) fn segments(&self) -> Option<Held<Arc<Segments>>> {
        self.segments.clone()
    }

    /// The encodings whose files were found damaged when they were to be sent, and whether
    /// each was made of this snapshot.
    pub(super) fn damaged(&self) -> Vec<(Encoding, bool)> {
        fn damaged<T>(held: Option<&Held<T>>) -> Option<bool> {
            held.filter(|held| held.has_damage())
                .map(|held| held.is_own)
        }
        let all = [
            (Encoding::Segments, damaged(self.segments.as_ref())),
            (Encoding::Gzip, damaged(self.gzip.as_ref())),
            (Encoding::Zstd, damaged(self.zstd.as_ref())),
        ];
        let all = all.into_iter();
        all.filter_map(|(encoding, is_own)| Some((encoding, is_own?)))
            .collect()
    }

    /// Sets an own encoding of the whole, or removes what there is.
    pub(super) fn set_whole(&mut self, encoding: Encoding, file: Option<EncodedFile>) {
        let held = file.map(|file| Held::own(file.bytes.clone(), file));
        match encoding {
            Encoding::Gzip => self.gzip = held,
            Encoding::Zstd => self.zstd = held,
            Encoding::Segments => {}
        }
    }

    /// Sets own segments, or removes those that there are.
    pub(super) fn set_segments(&mut self, segments: Option<(Segments, FileSum)>) {
        self.segments = segments.map(|(segments, sum)| {
            let bytes = segments.file().clone();
            Held::own(Arc::new(segments), EncodedFile { bytes, sum })
        });
    }

    /// The files of the encodings that are lent.
    pub(super) fn lent(&self) -> Vec<(Encoding, EncodedFile)> {
        fn lent<T>(held: Option<&Held<T>>) -> Option<EncodedFile> {
            held.filter(|held| !held.is_own)
                .map(|held| held.file.file.clone())
        }
        let files = [
            (Encoding::Segments, lent(self.segments.as_ref())),
            (Encoding::Gzip, lent(self.gzip.as_ref())),
            (Encoding::Zstd, lent(self.zstd.as_ref())),
        ];
        let files = files.into_iter();
        files
            .filter_map(|(encoding, file)| Some((encoding, file?)))
            .collect()
    }

    /// Removes an encoding that is lent.
    pub(super) fn give_back(&mut self, encoding: Encoding) {
        match encoding {
            Encoding::Gzip => self.gzip.take_if(|held| !held.is_own).map(drop),
            Encoding::Zstd => self.zstd.take_if(|held| !held.is_own).map(drop),
            Encoding::Segments => self.segments.take_if(|held| !held.is_own).map(drop),
        };
    }

    /// Borrows what it lacks.
    pub(super) fn borrow(&mut self, from: Self) {
        fn lent<T>(own: &mut Option<Held<T>>, from: Option<Held<T>>) {
            if own.is_none() {
                *own = from.map(|held| Held {
                    is_own: false,
                    ..held
                });
            }
        }
        lent(&mut self.segments, from.segments);
        lent(&mut self.gzip, from.gzip);
        lent(&mut self.zstd, from.zstd);
    }
}
