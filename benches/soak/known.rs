//! Catalogs whose content is known.
//!
//! Each has some variants, which are published in turns. The number of a
//! publication tells which variant an answer may show: none from before an answer
//! that was seen earlier.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::catalog::{Catalog, Format, entry};
use crate::support::image::{Built, Image};

/// The number of variants. Fewer publications are under way at any time.
const VARIANTS: u64 = 8;
const PACKAGES: usize = 12;
const VERSIONS: usize = 6;

/// A catalog with its variants.
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) variants: Vec<Variant>,
    /// The number of the last publication, noted before it begins.
    published: AtomicU64,
    /// The number of the latest publication that an answer has shown.
    seen: AtomicU64,
    /// The same for images, which follow later.
    seen_image: AtomicU64,
}

/// One content of a catalog.
pub(crate) struct Variant {
    pub(crate) image: Built,
    /// The answer to `all`.
    pub(crate) text: String,
    /// The blobs of the package that every variant has, as lines.
    pub(crate) shared: String,
    pub(crate) packages: BTreeSet<String>,
    pub(crate) bundles: BTreeSet<String>,
}

/// The API that has given an answer.
#[derive(Clone, Copy)]
pub(crate) enum Api {
    Catalog,
    Image,
}

impl Known {
    pub(crate) fn new(name: &'static str) -> Arc<Self> {
        Arc::new(Self {
            name,
            variants: (0..VARIANTS)
                .map(|number| Variant::new(name, number))
                .collect(),
            published: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            seen_image: AtomicU64::new(0),
        })
    }

    /// Begins the next publication. Returns its variant.
    pub(crate) fn next(&self) -> &Variant {
        let number = self.published.fetch_add(1, Ordering::SeqCst) + 1;
        self.variant(number)
    }

    /// The variant that was published last.
    pub(crate) fn last(&self) -> &Variant {
        self.variant(self.published.load(Ordering::SeqCst))
    }

    fn variant(&self, number: u64) -> &Variant {
        &self.variants[(number % VARIANTS) as usize]
    }

    /// The number that an answer must have at least, when it is asked for now.
    pub(crate) fn floor(&self, api: Api) -> u64 {
        self.latest(api).load(Ordering::SeqCst)
    }

    fn latest(&self, api: Api) -> &AtomicU64 {
        match api {
            Api::Catalog => &self.seen,
            Api::Image => &self.seen_image,
        }
    }

    /// Takes an answer that was asked for at this floor. `of` tells whether it is
    /// of a variant.
    ///
    /// # Errors
    /// If it is of no variant, or only of one from before the floor.
    pub(crate) fn take(
        &self,
        api: Api,
        floor: u64,
        of: impl Fn(&Variant) -> bool,
    ) -> Result<(), String> {
        let published = self.published.load(Ordering::SeqCst);
        let found = (floor..=published).find(|number| of(self.variant(*number)));
        if let Some(number) = found {
            self.latest(api).fetch_max(number, Ordering::SeqCst);
            return Ok(());
        }
        Err(match self.variants.iter().position(of) {
            Some(variant) => format!(
                "{}: variant {variant} came back; {floor} was seen, {published} published",
                self.name
            ),
            None => format!("{}: an answer is of no variant", self.name),
        })
    }
}

impl Variant {
    fn new(name: &str, number: u64) -> Self {
        let shared = |catalog: Catalog| {
            catalog.package("shared", |package| {
                package
                    .description(&format!("{name} {number}"))
                    .channel(&format!("channel-{number}"), [entry("shared.v1.0.0")])
            })
        };
        let mut catalog = Catalog::new();
        let mut packages = BTreeSet::from(["shared".to_owned()]);
        let mut bundles = BTreeSet::from(["shared.v1.0.0".to_owned()]);
        for package in 0..PACKAGES {
            let package = format!("{name}-{number}-{package:02}");
            let versions: Vec<String> = (0..VERSIONS)
                .map(|minor| format!("{package}.v1.{minor}.0"))
                .collect();
            bundles.extend(versions.iter().cloned());
            catalog = catalog.package(&package, |filled| {
                let first = entry(&versions[0]);
                let later = versions.windows(2);
                let later = later.map(|pair| entry(&pair[1]).replaces(&pair[0]));
                filled
                    .description(&format!("{name} {number} ").repeat(200))
                    .channel("stable", std::iter::once(first).chain(later))
            });
            packages.insert(package);
        }
        let catalog = shared(catalog);
        Self {
            text: catalog.text(Format::JsonLines),
            // Its own blob names itself, not its package.
            shared: shared(Catalog::new())
                .text(Format::JsonLines)
                .split_inclusive('\n')
                .skip(1)
                .collect(),
            image: Image::of_catalog(&catalog).build(),
            packages,
            bundles,
        }
    }
}
