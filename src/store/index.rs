//! The file with the serving index of a revision.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::answers::index::Index;
use crate::store::StoreError;

/// Reads the index of a revision.
pub(super) fn read_index(path: &Path) -> Result<Index, StoreError> {
    let bytes = fs::read(path).map_err(StoreError::io("read", path))?;
    Index::decode(&bytes).map_err(|reason| StoreError::Damaged {
        path: path.to_owned(),
        reason,
    })
}

/// Numbers texts, each once.
#[derive(Default)]
pub(super) struct Texts {
    texts: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
}

impl Texts {
    pub(super) fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a catalog has fewer metas than that, and each two texts at most"
        )]
        let number = self.texts.len() as u32;
        self.texts.push(text.into());
        self.numbers.insert(text.into(), number);
        number
    }

    pub(super) fn get(&self, text: &str) -> Option<u32> {
        self.numbers.get(text).copied()
    }

    pub(super) fn finish(self) -> Vec<Box<str>> {
        self.texts
    }
}
