//! Image references, pull specs, and the JSON documents of registries.

use super::memory::{assert_in_proportion, most_memory};
use fbc::pullspec;
use images::digest::Digest;
use images::{ImageConfig, Manifest, Platform, Reference};

/// Checks one input.
pub fn run(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        reference(text);
        let _ = text.parse::<Digest>();
        let _ = text.parse::<Platform>();
    }
    let (manifest, most) = most_memory(|| Manifest::parse(bytes, None));
    assert_in_proportion(bytes.len(), most, 64, 1 << 16);
    if let Ok(Manifest::Index(index)) = manifest {
        let _ = index.select(&Platform::default());
    }
    let (config, most) = most_memory(|| ImageConfig::parse(bytes));
    assert_in_proportion(bytes.len(), most, 64, 1 << 16);
    if let Ok(config) = config {
        let _ = config.label("a");
    }
}

fn reference(text: &str) {
    let spec = pullspec::check(text);
    if let Err(error) = &spec {
        assert!(error.to_string().len() < 1 << 14);
    }
    match text.parse::<Reference>() {
        Ok(reference) => {
            let written = reference.to_string();
            assert_eq!(
                written.parse::<Reference>().as_ref(),
                Ok(&reference),
                "{written}"
            );
            assert!(reference.tag().is_some() != reference.digest().is_some());
            assert!(!reference.registry().is_empty() && !reference.repository().is_empty());
        }
        Err(error) => assert!(error.to_string().len() < 1 << 14),
    }
}
