//! The compressed forms of a snapshot's lines. They are made after it is published. Until
//! then, it sends those of the snapshot before if that had the same content: clients that
//! have such a form need no other one.

use std::sync::Arc;

use bytes::Bytes;

use crate::snapshot::encodings::Encodings;
use crate::snapshot::{Comparing, Snapshot, TooManyToCompare};
use crate::store::{EncodedFile, Encoding, KnownSegments, Revision, Segments, Store};

impl Snapshot {
    /// All lines in an encoding, if it was made of this snapshot.
    pub fn encoded(&self, encoding: Encoding) -> Option<Bytes> {
        let held = self.encodings.lock().whole(encoding);
        held.and_then(|(file, is_own)| is_own.then_some(file))
    }

    /// Replaces all lines in an encoding: another form of the same content. `false` for
    /// a file that does not belong to these lines.
    pub fn set_encoded(&self, encoding: Encoding, file: Option<EncodedFile>) -> bool {
        if encoding != Encoding::Segments {
            self.encodings.lock().set_whole(encoding, file);
            return true;
        }
        let is_given = file.is_some();
        let lines = &self.meta_lookup.lines;
        let segments = file.and_then(|file| Some((Segments::open(file.bytes, lines)?, file.sum)));
        let is_set = segments.is_some() == is_given;
        self.encodings.lock().set_segments(segments);
        *self.segments_before.lock() = None;
        is_set
    }

    /// The files of the encodings of an earlier snapshot that this one sends.
    pub fn lent(&self) -> Vec<(Encoding, EncodedFile)> {
        self.encodings.lock().lent()
    }

    /// The encodings that were found damaged when they were to be sent, and whether each
    /// was made of this snapshot.
    pub fn damaged_encodings(&self) -> Vec<(Encoding, bool)> {
        self.encodings.lock().damaged()
    }

    /// Sends an encoding of an earlier snapshot no more: it is damaged.
    pub fn give_back(&self, encoding: Encoding) {
        self.encodings.lock().give_back(encoding);
    }

    /// All lines in an encoding, to send.
    pub(super) fn sent(
        &self,
        encoding: Encoding,
        comparing: Comparing,
    ) -> Result<Option<Bytes>, TooManyToCompare> {
        let held = self.encodings.lock().of_whole(encoding);
        held.map_or(Ok(None), |held| held.undamaged(comparing))
    }

    /// The segments of its lines, to send.
    pub(super) fn segments(
        &self,
        comparing: Comparing,
    ) -> Result<Option<Arc<Segments>>, TooManyToCompare> {
        let held = self.encodings.lock().segments();
        held.map_or(Ok(None), |held| held.undamaged(comparing))
    }

    /// Sends the encodings of an earlier snapshot with the same content until it has its
    /// own, and copies later what is compressed of one with another content.
    pub fn copies_from(&self, before: &Self) {
        if before.is_damaged() {
            return;
        }
        if self.revision.content == before.revision.content {
            let lent = before.encodings.lock().clone();
            self.encodings.lock().borrow(lent);
        }
        let mut groups = self.compressed.lock();
        if groups.is_none() {
            *groups = before.known_groups();
        }
        drop(groups);
        if self.encoded(Encoding::Segments).is_none() {
            *self.segments_before.lock() = before.known_segments();
        }
    }

    /// Sends the undamaged encodings of a stored revision with the same content until it
    /// has its own. This blocks.
    pub fn copies_from_stored(&self, store: &Store, before: &Revision) {
        if self.revision.content != before.content {
            return;
        }
        let mut lent = Encodings::default();
        for encoding in Encoding::ALL {
            let file = before.files.get(encoding.file()).and_then(|sum| {
                // The file is read, not its map: the disk may fail.
                let verification = store.verify(before.id, encoding.file(), sum);
                verification.ok()?.finish().ok()?;
                store.encoded(before, encoding, self.decoded())
            });
            let Some(file) = file else {
                continue;
            };
            let (lines, bytes) = (self.metas.unchecked().clone(), file.bytes.clone());
            match encoding {
                Encoding::Gzip => self.set_groups(store.groups(before.id, lines, bytes)),
                Encoding::Zstd => {}
                Encoding::Segments => {
                    let segments = Segments::open(bytes.clone(), &self.meta_lookup.lines);
                    lent.set_segments(segments.map(|segments| (segments, file.sum.clone())));
                    let file = bytes;
                    *self.segments_before.lock() = Some(KnownSegments { lines, file });
                }
            }
            lent.set_whole(encoding, Some(file));
        }
        self.encodings.lock().borrow(lent);
    }

    /// Segments of this snapshot, or else of one before.
    pub(super) fn known_segments(&self) -> Option<KnownSegments> {
        let own = self.encoded(Encoding::Segments).map(|file| KnownSegments {
            lines: self.metas.unchecked().clone(),
            file,
        });
        own.or_else(|| self.segments_before.lock().clone())
    }

    /// Tells that an encoding was made, or will not be.
    pub fn end_encoding(&self, encoding: Encoding) {
        self.ended.send_modify(|ended| {
            if !ended.contains(&encoding) {
                ended.push(encoding);
            }
        });
    }

    /// Tells that nobody makes encodings any more.
    pub fn end_encodings(&self) {
        self.ended.send_replace(Encoding::ALL.to_vec());
    }

    /// Waits until an encoding was made, or will not be.
    pub async fn until_encoded(&self, encoding: Encoding) {
        // Never closed: the sender is in this snapshot.
        let mut ended = self.ended.subscribe();
        let _ = ended.wait_for(|ended| ended.contains(&encoding)).await;
    }
}
