//! The encodings of a snapshot's lines: its own, or lent by a snapshot before that had
//! the same content.

use std::sync::Arc;

use bytes::Bytes;

use crate::store::{EncodedFile, Encoding, FileSum, Segments};

/// An encoding, the sums of its file, and whether it was made of this snapshot.
#[derive(Clone)]
struct Held<T> {
    value: T,
    sum: FileSum,
    is_own: bool,
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
        let held = |held: &Held<Bytes>| (held.value.clone(), held.is_own);
        match encoding {
            Encoding::Gzip => self.gzip.as_ref().map(held),
            Encoding::Zstd => self.zstd.as_ref().map(held),
            Encoding::Segments => {
                let segments = self.segments.as_ref();
                segments.map(|held| (held.value.file().clone(), held.is_own))
            }
        }
    }

    pub(super) fn segments(&self) -> Option<Arc<Segments>> {
        self.segments.as_ref().map(|held| Arc::clone(&held.value))
    }

    /// Sets an own encoding of the whole, or removes what there is.
    pub(super) fn set_whole(&mut self, encoding: Encoding, file: Option<EncodedFile>) {
        let held = file.map(|file| Held {
            value: file.bytes,
            sum: file.sum,
            is_own: true,
        });
        match encoding {
            Encoding::Gzip => self.gzip = held,
            Encoding::Zstd => self.zstd = held,
            Encoding::Segments => {}
        }
    }

    /// Sets own segments, or removes those that there are.
    pub(super) fn set_segments(&mut self, segments: Option<(Segments, FileSum)>) {
        self.segments = segments.map(|(segments, sum)| Held {
            value: Arc::new(segments),
            sum,
            is_own: true,
        });
    }

    /// The files of the encodings that are lent.
    pub(super) fn lent(&self) -> Vec<(Encoding, EncodedFile)> {
        fn lent<T>(held: Option<&Held<T>>, bytes: impl Fn(&T) -> &Bytes) -> Option<EncodedFile> {
            let held = held.filter(|held| !held.is_own)?;
            Some(EncodedFile {
                bytes: bytes(&held.value).clone(),
                sum: held.sum.clone(),
            })
        }
        let files = [
            (
                Encoding::Segments,
                lent(self.segments.as_ref(), |it| it.file()),
            ),
            (Encoding::Gzip, lent(self.gzip.as_ref(), |it| it)),
            (Encoding::Zstd, lent(self.zstd.as_ref(), |it| it)),
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
