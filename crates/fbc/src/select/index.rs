//! The packages of a catalog, each read from its lines at the first use.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use crate::document::Gvk;
use crate::properties::{PackageProperty, each_property};
use crate::select::channel::Channel;
use crate::select::model::{Catalog, Line};
use crate::select::requirement::Requirement;
use crate::text::json::typed::{fields, from_json, or_default};
use crate::text::semver::Version;

/// A catalog with its lines grouped by package.
pub(crate) struct CatalogIndex<'a> {
    pub(crate) catalog: &'a Catalog,
    /// The lines of each package that has an `olm.package` blob.
    lines: BTreeMap<&'a str, Vec<&'a Line>>,
    /// The lines that are about no package.
    pub(crate) others: Vec<&'a Line>,
    /// The packages read so far.
    read: RefCell<HashMap<&'a str, Option<Rc<Package<'a>>>>>,
}

/// A package, read.
pub(crate) struct Package<'a> {
    pub(crate) name: &'a str,
    pub(crate) catalog: &'a str,
    pub(crate) default_channel: String,
    /// Sorted by name.
    pub(crate) channels: Vec<Channel<'a>>,
    pub(crate) bundles: BTreeMap<&'a str, Bundle<'a>>,
    /// All its lines in catalog order.
    pub(crate) lines: Vec<&'a Line>,
}

/// A bundle. Its line is read at the first use.
pub(crate) struct Bundle<'a> {
    pub(crate) line: &'a Line,
    facts: OnceCell<Facts>,
}

/// The properties of a bundle that matter to a selection.
#[derive(Default)]
pub(crate) struct Facts {
    /// Its version, as it was written.
    pub(crate) text: String,
    pub(crate) version: Option<Version>,
    pub(crate) provides: Vec<Gvk>,
    pub(crate) requires: Vec<Requirement>,
}

impl<'a> CatalogIndex<'a> {
    pub(crate) fn new(catalog: &'a Catalog) -> Self {
        let mut lines: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
        let packages = catalog.lines.iter().filter(|line| is_package(line));
        for package in packages {
            lines.insert(&package.name, Vec::new());
        }
        let mut others = Vec::new();
        for line in &catalog.lines {
            let package = if is_package(line) {
                &line.name
            } else {
                &line.package
            };
            if package.is_empty() {
                others.push(line);
            } else if let Some(lines) = lines.get_mut(&**package) {
                lines.push(line);
            }
        }
        Self {
            catalog,
            lines,
            others,
            read: RefCell::default(),
        }
    }

    /// The names of all packages, sorted.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.lines.keys().copied()
    }

    pub(crate) fn is_quarantined(&self, name: &str) -> bool {
        self.catalog.quarantined.contains(name)
    }

    /// The package of that name, unless it has errors.
    pub(crate) fn package(&self, name: &str) -> Option<Rc<Package<'a>>> {
        let (name, lines) = self.lines.get_key_value(name)?;
        if self.is_quarantined(name) {
            return None;
        }
        let mut read = self.read.borrow_mut();
        let package = read
            .entry(name)
            .or_insert_with(|| Package::read(name, &self.catalog.name, lines).map(Rc::new));
        package.clone()
    }
}

fn is_package(line: &Line) -> bool {
    &*line.schema == "olm.package"
}

impl<'a> Package<'a> {
    /// Nothing when a line cannot be read, which a package without errors does
    /// not have.
    fn read(name: &'a str, catalog: &'a str, lines: &[&'a Line]) -> Option<Self> {
        let mut package = Self {
            name,
            catalog,
            default_channel: String::new(),
            channels: Vec::new(),
            bundles: BTreeMap::new(),
            lines: lines.to_vec(),
        };
        for line in lines {
            match &*line.schema {
                "olm.package" => {
                    let head: PackageLine = from_json(&line.json).ok()?;
                    package.default_channel = head.default_channel;
                }
                "olm.channel" => package.channels.push(Channel::read(line)?),
                "olm.bundle" => {
                    let facts = OnceCell::new();
                    package.bundles.insert(&line.name, Bundle { line, facts });
                }
                _ => {}
            }
        }
        package.channels.sort_by(|a, b| a.name.cmp(b.name));
        Some(package)
    }

    pub(crate) fn channel(&self, name: &str) -> Option<usize> {
        (self.channels.iter()).position(|channel| channel.name == name)
    }

    pub(crate) fn version(&self, bundle: &str) -> Option<&Version> {
        self.bundles.get(bundle)?.facts().version.as_ref()
    }
}

impl Bundle<'_> {
    pub(crate) fn facts(&self) -> &Facts {
        self.facts.get_or_init(|| Facts::read(&self.line.json))
    }
}

#[derive(Default)]
struct PackageLine {
    default_channel: String,
}

fields!(PackageLine {
    default_channel = "defaultChannel"
});

impl Facts {
    fn read(line: &[u8]) -> Self {
        let mut facts = Self::default();
        each_property(line, |kind, cursor| match kind {
            "olm.package" if facts.text.is_empty() => {
                let package: PackageProperty<'_> = or_default(cursor);
                facts.version = Version::parse(&package.version.0).ok();
                facts.text = package.version.0.into_owned();
            }
            "olm.gvk" => facts.provides.push(or_default(cursor)),
            kind => facts
                .requires
                .extend(Requirement::read(kind, cursor.skip())),
        });
        facts
    }
}
