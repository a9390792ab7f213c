//! The operators of an `ImageSetConfiguration`, as oc-mirror v2 reads it.
//!
//! Settings of the target (`targetCatalog` and the like) have no effect here, and
//! neither has anything outside `mirror.operators`. As for Go, `null` is absent, and
//! the case of keys does not matter. Other than Go, a key that stands twice is an error.

use std::collections::BTreeSet;
use std::fmt;
use std::fmt::Write as _;

use serde_json::Value;

use crate::select::request::{
    ChannelSelection, PackageSelection, RequestError, Selection, VersionRange,
};
use crate::text::display::{quoted, shown};
use crate::text::suggest;
use crate::text::yaml;
use crate::text::yaml::{Document, Step, YamlError};

/// The kind that is read, and its only version.
const KIND: &str = "ImageSetConfiguration";
const VERSION: &str = "mirror.openshift.io/v2alpha1";

/// The keys of each object, those without effect here among them.
const OPERATORS: [&str; 9] = [
    "catalog",
    "full",
    "packages",
    "targetCatalog",
    "targetTag",
    "targetCatalogSourceTemplate",
    "skipDependencies",
    "platforms",
    "originalRef",
];
const PACKAGE: [&str; 8] = [
    "name",
    "defaultChannel",
    "channels",
    "minVersion",
    "maxVersion",
    "bundles",
    "selectedBundles",
    "minBundle",
];
/// The value of a key that is not there.
static ABSENT: Value = Value::Null;
const CHANNEL: [&str; 4] = ["name", "minVersion", "maxVersion", "minBundle"];

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSet {
    /// The catalogs that it selects from.
    pub operators: Vec<Operators>,
    /// The line, from 1, of a second document, which is not read.
    pub ignored: Option<usize>,
    text: Text,
}

/// The document that was read, for places in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Text {
    bytes: Vec<u8>,
    /// Its first line in the file, from 1.
    line: usize,
}

/// One of `mirror.operators`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operators {
    /// The catalog, as it was written.
    pub catalog: String,
    /// Its selected part; from no catalog yet.
    pub selection: Selection,
    /// The ways to `catalog`, and to the name of each package.
    catalog_path: Vec<Step>,
    package_paths: Vec<Vec<Step>>,
}

/// Why a file is no `ImageSetConfiguration` that can be used, with the place.
#[derive(Debug, thiserror::Error)]
#[error("{place}{problem}")]
pub struct ImageSetError {
    /// The place in the file.
    pub place: Place,
    /// The mistake.
    pub problem: ImageSetProblem,
}

/// A place in a file: line and column from 1, and the keys that lead there. Any of them
/// may be unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: Option<usize>,
    /// The column in characters.
    pub column: Option<usize>,
    /// Such as `mirror.operators[0].catalog`.
    pub key: String,
}

/// The mistake in a file.
#[derive(Debug, thiserror::Error)]
pub enum ImageSetProblem {
    /// It is not YAML.
    #[error("not YAML: {0}")]
    Yaml(String),
    /// There is no document in it.
    #[error("the file is empty; write kind: {KIND} and apiVersion: {VERSION}")]
    Empty,
    /// A value of another type; the second text is the remedy.
    #[error("not an {KIND}: the value must be {0}{1}")]
    Type(&'static str, &'static str),
    /// A key that nobody knows; the second text proposes a known one.
    #[error("an {KIND} has no key {key}{1}", key = quoted(.0))]
    UnknownKey(String, String),
    /// A key that stands twice; the number is the line of the first.
    #[error("the key {key} stands in line {1} already; keep one of them", key = quoted(.0))]
    RepeatedKey(String, usize),
    /// It is something else, or another version.
    #[error("it is {found}; write kind: {KIND} and apiVersion: {VERSION}", found = quoted(.0))]
    Version(String),
    /// There is nothing to select.
    #[error("no catalog to select from; add one to mirror.operators")]
    NoOperators,
    /// A catalog without a name.
    #[error("one of its mirror.operators names no catalog; write catalog: IMAGE")]
    NoCatalog,
    /// Fields that version 2 no longer has.
    #[error(
        "the package {0:?} selects single bundles, which version 2 does not have; \
         write minVersion and maxVersion instead"
    )]
    Bundles(String),
    /// An invalid selection.
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl ImageSet {
    /// The place of `catalog` in the operators with this number, from 0.
    pub fn catalog_place(&self, number: usize) -> Place {
        let operators = self.operators.get(number);
        let place = operators.map(|operators| self.text.place(&operators.catalog_path));
        place.unwrap_or_default()
    }

    /// Refuses a package that several of these operators select, which one catalog cannot
    /// have.
    pub fn check_as_one(
        &self,
        operators: impl IntoIterator<Item = usize>,
    ) -> Result<(), ImageSetError> {
        let mut names = BTreeSet::new();
        let operators = operators.into_iter();
        for operators in operators.filter_map(|number| self.operators.get(number)) {
            let packages = &operators.selection.packages;
            for (package, path) in packages.iter().zip(&operators.package_paths) {
                if !names.insert(&package.name) {
                    let twice = RequestError::PackageInTwo(package.name.clone());
                    return Err(ImageSetError {
                        place: self.text.place(path),
                        problem: twice.into(),
                    });
                }
            }
        }
        Ok(())
    }
}

impl Text {
    fn place(&self, path: &[Step]) -> Place {
        place(&self.bytes, self.line, path)
    }
}

/// A mistake without a place.
impl From<ImageSetProblem> for ImageSetError {
    fn from(problem: ImageSetProblem) -> Self {
        Self {
            place: Place::default(),
            problem,
        }
    }
}

/// The beginning of a message: `line 3, column 5, mirror.operators: `.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.line.map(|line| format!("line {line}")),
            self.column.map(|column| format!("column {column}")),
            Some(self.key.clone()).filter(|key| !key.is_empty()),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() {
            return Ok(());
        }
        write!(f, "{}: ", parts.join(", "))
    }
}

/// Reads the operators of a file: of its first document with any content. oc-mirror
/// reads the first one, too.
pub fn read(file: &[u8]) -> Result<ImageSet, ImageSetError> {
    let mut json = Vec::new();
    let mut documents = documents(file);
    while let Some(document) = documents.next() {
        let limits = yaml::Limits::default();
        let converted = yaml::convert(document.bytes, &limits, &mut json);
        let converted = converted.map_err(|error| unreadable(&error, &document))?;
        if !converted.found {
            continue;
        }
        if converted.repeats
            && let Some(repeated) = yaml::repeated_keys(document.bytes, 1).pop()
        {
            let line = |line| document.line - 1 + line;
            return Err(ImageSetError {
                place: Place {
                    line: Some(line(repeated.line)),
                    column: Some(repeated.column),
                    key: shown(&repeated.key),
                },
                problem: ImageSetProblem::RepeatedKey(repeated.key, line(repeated.first_line)),
            });
        }
        let value: Value = serde_json::from_slice(&json)
            .map_err(|error| ImageSetError::from(ImageSetProblem::Yaml(error.to_string())))?;
        let operators = Node::root(&value).operators();
        let operators = operators.map_err(|mistake| mistake.within(&document))?;
        let rest = converted.rest.map(|line| document.line - 1 + line);
        let ignored = rest.or_else(|| documents.find_map(|next| text_line(&next)));
        let text = Text {
            bytes: document.bytes.to_vec(),
            line: document.line,
        };
        return Ok(ImageSet {
            operators,
            ignored,
            text,
        });
    }
    Err(ImageSetError {
        place: Place {
            line: Some(1),
            column: Some(1),
            key: String::new(),
        },
        problem: ImageSetProblem::Empty,
    })
}

/// The documents of a file. Behind a directive, the rest of the file is one.
fn documents(file: &[u8]) -> impl Iterator<Item = Document<'_>> {
    let mut ended = false;
    yaml::documents(file).map_while(move |document| {
        if ended {
            return None;
        }
        let line = document.text_line() - document.line;
        let mut lines = document.bytes.split(|byte| *byte == b'\n');
        ended = lines.nth(line).is_some_and(|line| line.starts_with(b"%"));
        Some(Document {
            bytes: if ended {
                file.get(document.offset..).unwrap_or_default()
            } else {
                document.bytes
            },
            ..document
        })
    })
}

/// The first line of a document with anything in it.
fn text_line(document: &Document<'_>) -> Option<usize> {
    let read = yaml::to_json(document.bytes, &yaml::Limits::default(), &mut Vec::new());
    // Text that is no YAML is no comment.
    read.unwrap_or(true).then(|| document.text_line())
}

fn unreadable(error: &YamlError, document: &Document<'_>) -> ImageSetError {
    ImageSetError {
        place: Place {
            line: Some(document.line - 1 + error.line.unwrap_or(1)),
            column: Some(error.column.unwrap_or(1)),
            key: String::new(),
        },
        problem: ImageSetProblem::Yaml(error.message.clone()),
    }
}

/// A mistake, and the way to it in the document.
struct Mistake {
    path: Vec<Step>,
    problem: ImageSetProblem,
}

impl Mistake {
    fn within(self, document: &Document<'_>) -> ImageSetError {
        ImageSetError {
            place: place(document.bytes, document.line, &self.path),
            problem: self.problem,
        }
    }
}

/// The place of a value in a document that begins in this line of the file.
fn place(document: &[u8], first_line: usize, path: &[Step]) -> Place {
    let (line, column) = yaml::place_of(document, path).unwrap_or((1, 1));
    Place {
        line: Some(first_line - 1 + line),
        column: Some(column),
        key: key_of(path),
    }
}

/// The keys of a path, such as `mirror.operators[0].catalog`.
fn key_of(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Item(number) => {
                // Writing to a text cannot fail.
                let _ = write!(text, "[{number}]");
            }
            Step::Key(key) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(&shown(key));
            }
        }
    }
    text
}

/// A value of the document with the way to it. `null` is absent.
struct Node<'a> {
    value: &'a Value,
    path: Vec<Step>,
}

impl<'a> Node<'a> {
    fn root(value: &'a Value) -> Self {
        Self {
            value,
            path: Vec::new(),
        }
    }

    fn below(&self, step: Step, value: &'a Value) -> Self {
        let mut path = self.path.clone();
        path.push(step);
        Self { value, path }
    }

    fn fail<T>(&self, problem: impl Into<ImageSetProblem>) -> Result<T, Mistake> {
        Err(Mistake {
            path: self.path.clone(),
            problem: problem.into(),
        })
    }

    fn is_absent(&self) -> bool {
        self.value.is_null()
    }

    /// The value of a key, in any case; `null` where there is none.
    fn field(&self, name: &str) -> Self {
        let found = self.value.as_object().and_then(|members| {
            let mut members = members.iter();
            members.find(|(key, value)| key.eq_ignore_ascii_case(name) && !value.is_null())
        });
        match found {
            Some((key, value)) => self.below(Step::Key(key.clone()), value),
            None => self.below(Step::Key(name.to_owned()), &ABSENT),
        }
    }

    /// Refuses anything but an object or nothing.
    fn check_object(&self) -> Result<(), Mistake> {
        match self.value {
            Value::Object(_) | Value::Null => Ok(()),
            _ => self.fail(ImageSetProblem::Type(
                "an object",
                "; write keys and values",
            )),
        }
    }

    /// Refuses keys other than these, too.
    fn check_keys(&self, known: &[&str]) -> Result<(), Mistake> {
        self.check_object()?;
        for (key, value) in self.value.as_object().into_iter().flatten() {
            if !known.iter().any(|name| name.eq_ignore_ascii_case(key)) {
                let proposal = suggest::proposal(key, known.iter().copied());
                let unknown = ImageSetProblem::UnknownKey(key.clone(), proposal);
                return self.below(Step::Key(key.clone()), value).fail(unknown);
            }
        }
        Ok(())
    }

    fn text(&self) -> Result<String, Mistake> {
        match self.value {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text.clone()),
            Value::Number(_) | Value::Bool(_) => self.fail(ImageSetProblem::Type(
                "text",
                "; write versions and names in quotes",
            )),
            Value::Array(_) | Value::Object(_) => self.fail(ImageSetProblem::Type("text", "")),
        }
    }

    fn flag(&self) -> Result<bool, Mistake> {
        match self.value {
            Value::Null => Ok(false),
            Value::Bool(flag) => Ok(*flag),
            _ => self.fail(ImageSetProblem::Type("true or false", "")),
        }
    }

    fn list(&self) -> Result<Vec<Self>, Mistake> {
        match self.value {
            Value::Null => Ok(Vec::new()),
            Value::Array(items) => {
                let items = items.iter().enumerate();
                let items = items.map(|(number, item)| self.below(Step::Item(number), item));
                Ok(items.collect())
            }
            _ => self.fail(ImageSetProblem::Type(
                "a list",
                "; begin each item with a dash",
            )),
        }
    }

    /// The operators of a whole document.
    fn operators(&self) -> Result<Vec<Operators>, Mistake> {
        self.check_object()?;
        let (kind, version) = (self.field("kind"), self.field("apiVersion"));
        let (kind_text, version_text) = (kind.text()?, version.text()?);
        if kind_text != KIND || version_text != VERSION {
            let wrong = if kind_text == KIND { version } else { kind };
            let found = format!("{kind_text} {version_text}");
            return wrong.fail(ImageSetProblem::Version(found.trim().to_owned()));
        }
        let mirror = self.field("mirror");
        mirror.check_object()?;
        let operators = mirror.field("operators");
        let list = operators.list()?;
        if list.is_empty() {
            return operators.fail(ImageSetProblem::NoOperators);
        }
        list.iter().map(Self::operators_of_catalog).collect()
    }

    fn operators_of_catalog(&self) -> Result<Operators, Mistake> {
        self.check_keys(&OPERATORS)?;
        let catalog = self.field("catalog");
        let catalog_text = catalog.text()?;
        if catalog_text.is_empty() {
            return catalog.fail(ImageSetProblem::NoCatalog);
        }
        let full = self.field("full").flag()?;
        let mut names = BTreeSet::new();
        let (mut packages, mut package_paths) = (Vec::new(), Vec::new());
        for node in self.field("packages").list()? {
            let package = node.package()?;
            let name = node.field("name");
            if !names.insert(package.name.clone()) {
                return name.fail(RequestError::PackageTwice(package.name));
            }
            if let Err(error) = package.check(full) {
                return node.fail(error);
            }
            packages.push(package);
            package_paths.push(name.path);
        }
        Ok(Operators {
            catalog: catalog_text,
            catalog_path: catalog.path,
            package_paths,
            selection: Selection {
                from: Vec::new(),
                full,
                packages,
            },
        })
    }

    fn package(&self) -> Result<PackageSelection, Mistake> {
        self.check_keys(&PACKAGE)?;
        let (name, channels) = (self.field("name"), self.field("channels").list()?);
        let name_text = name.text()?;
        if name_text.is_empty() {
            return name.fail(RequestError::NoPackageName);
        }
        for key in ["bundles", "selectedBundles", "minBundle"] {
            self.field(key).refuse_bundles(&name_text)?;
        }
        let mut names = BTreeSet::new();
        let mut selected = Vec::new();
        for node in channels {
            let channel = node.channel(&name_text)?;
            if !names.insert(channel.name.clone()) {
                let (package, channel) = (name_text, channel.name);
                let twice = RequestError::ChannelTwice { package, channel };
                return node.field("name").fail(twice);
            }
            selected.push(channel);
        }
        Ok(PackageSelection {
            default_channel: self.field("defaultChannel").text()?,
            channels: selected,
            range: self.range()?,
            name: name_text,
        })
    }

    fn channel(&self, package: &str) -> Result<ChannelSelection, Mistake> {
        self.check_keys(&CHANNEL)?;
        self.field("minBundle").refuse_bundles(package)?;
        let name = self.field("name");
        let name_text = name.text()?;
        if name_text.is_empty() {
            return name.fail(RequestError::NoChannelName(package.to_owned()));
        }
        Ok(ChannelSelection {
            name: name_text,
            range: self.range()?,
        })
    }

    /// Refuses anything but an empty list or text.
    fn refuse_bundles(&self, package: &str) -> Result<(), Mistake> {
        let is_empty = match self.value {
            Value::Array(items) => items.is_empty(),
            Value::String(text) => text.is_empty(),
            _ => self.is_absent(),
        };
        if is_empty {
            return Ok(());
        }
        self.fail(ImageSetProblem::Bundles(package.to_owned()))
    }

    fn range(&self) -> Result<VersionRange, Mistake> {
        let (min, max) = (self.field("minVersion"), self.field("maxVersion"));
        let (min_text, max_text) = (min.text()?, max.text()?);
        let alone = |min: &str, max: &str| VersionRange::new(min, max).map(drop);
        if let Err(error) = alone(&min_text, "") {
            return min.fail(error);
        }
        match VersionRange::new(&min_text, &max_text) {
            Ok(range) => Ok(range),
            Err(error) => max.fail(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\n";

    fn refused(text: &str) -> String {
        read(text.as_bytes()).unwrap_err().to_string()
    }

    const CATALOG: &str = "mirror:\n  operators:\n  - catalog: quay.io/a/b:v1\n";

    fn names(text: &str) -> Vec<String> {
        let set = read(text.as_bytes()).unwrap();
        let packages = set.operators.into_iter().map(|one| one.selection.packages);
        packages.flatten().map(|package| package.name).collect()
    }

    #[test]
    fn an_error_has_line_column_and_key_and_no_type_of_rust() {
        let catalog = |text: &str| format!("# c\n---\n{HEAD}{CATALOG}{text}");
        for (text, wanted) in [
            (
                format!("{HEAD}mirror:\n  operators: 7\n"),
                "line 4, column 14, mirror.operators: not an ImageSetConfiguration: the value must \
                 be a list; begin each item with a dash",
            ),
            (
                format!("{HEAD}mirror: [x]\n"),
                "line 3, column 9, mirror: not an ImageSetConfiguration: the value must be an \
                 object",
            ),
            (
                catalog("    package: []\n"),
                "line 8, column 14, mirror.operators[0].package: an ImageSetConfiguration has no \
                 key \"package\"; did you mean \"packages\"?",
            ),
            (
                catalog("    packages:\n    - name: a\n      minVersion: 4.10\n"),
                "line 10, column 19, mirror.operators[0].packages[0].minVersion: not an \
                 ImageSetConfiguration: the value must be text; write versions and names in quotes",
            ),
            (
                catalog("    packages:\n    - name: a\n      maxVersion: latest\n"),
                "line 10, column 19, mirror.operators[0].packages[0].maxVersion: \"latest\" is",
            ),
            (
                catalog("    packages:\n    - channels: []\n"),
                "line 9, column 7, mirror.operators[0].packages[0].name: a selected package has",
            ),
            (
                catalog("    packages: [{name: a, channels: [{name: c}, {name: c}]}]\n"),
                "line 8, column 55, mirror.operators[0].packages[0].channels[1].name: the channel",
            ),
            (
                catalog("    full: yes please\n"),
                "line 8, column 11, mirror.operators[0].full: not an ImageSetConfiguration: the value",
            ),
            (catalog("    x: [\n"), "line 8, column 9: not YAML: "),
            (
                format!("{HEAD}kind: x\n{CATALOG}"),
                "line 3, column 1, kind: the key \"kind\" stands in line 1 already",
            ),
            (
                String::new(),
                "line 1, column 1: the file is empty; write kind",
            ),
            ("\n# c\n---\n".into(), "line 1, column 1: the file is empty"),
        ] {
            let error = refused(&text);
            assert!(error.starts_with(wanted), "{text}: {error}");
            for word in ["struct", "Written", "sequence", "invalid type", "null"] {
                assert!(!error.contains(word), "{text}: {error}");
            }
        }
    }

    #[test]
    fn null_is_absent_everywhere() {
        let all = |text: &str| format!("{HEAD}{CATALOG}{text}");
        for (text, wanted) in [
            (all("    packages:\n"), &[][..]),
            (all("    packages: ~\n    full:\n    targetTag:\n"), &[]),
            (
                all(
                    "    packages:\n    - name: kc\n      channels:\n      minVersion:\n      \
                     maxVersion:\n      defaultChannel:\n      bundles:\n",
                ),
                &["kc"],
            ),
            (
                all(
                    "    packages:\n    - name: kc\n      channels:\n      - name: a\n        \
                     minVersion:\n",
                ),
                &["kc"],
            ),
        ] {
            assert_eq!(names(&text), wanted, "{text}");
        }
        for text in ["mirror:\n", "mirror:\n  operators:\n"] {
            let error = refused(&format!("{HEAD}{text}"));
            assert!(error.contains("mirror.operators: no catalog"), "{error}");
        }
    }

    #[test]
    fn keys_are_read_in_any_case() {
        let text = format!("{HEAD}{CATALOG}    Packages:\n    - Name: kc\n      minversion: '1'\n");
        assert_eq!(names(&text), ["kc"]);
    }

    #[test]
    fn the_first_document_with_content_is_read_and_the_line_of_a_second_one_is_told() {
        let set = format!("{HEAD}{CATALOG}");
        for before in [
            "",
            "---\n",
            "# c\n---\n",
            "\n\n---\n",
            "---\n---\n",
            "---\n# c\n--- # d\n",
            "# c\n%YAML 1.1\n---\n",
        ] {
            let read = read(format!("{before}{set}").as_bytes()).unwrap();
            assert_eq!(
                (read.operators.len(), read.ignored),
                (1, None),
                "{before:?}"
            );
        }
        for (after, ignored) in [
            ("---\n", None),
            ("---\n# c\n---\n\n", None),
            ("---\nkind: x\n", Some(7)),
            ("---\n# c\n---\n\na: [\n", Some(10)),
            ("...\nkind: x\n", Some(7)),
        ] {
            let read = read(format!("{set}{after}").as_bytes()).unwrap();
            assert_eq!(read.ignored, ignored, "{after:?}");
        }
    }

    #[test]
    fn the_operators_are_read_as_they_stand() {
        let text = format!(
            "{HEAD}archiveSize: 4\nmirror:\n  platform:\n    graph: true\n  operators:\n  - catalog: quay.io/a/b:v1\n    \
             targetCatalog: mine/b\n    packages:\n    - name: etcd\n      defaultChannel: stable\n      \
             channels:\n      - name: stable\n        minVersion: 1.2.3\n        maxVersion: '2.0.0'\n  \
             - catalog: oci:///a\n    full: true\n  additionalImages:\n  - name: quay.io/x/y:z\n"
        );
        let found = read(text.as_bytes()).unwrap().operators;
        let channel = ChannelSelection {
            name: "stable".into(),
            range: VersionRange::new("1.2.3", "2.0.0").unwrap(),
        };
        let package = PackageSelection {
            name: "etcd".into(),
            default_channel: "stable".into(),
            channels: vec![channel],
            range: VersionRange::default(),
        };
        let selection = |full, packages| Selection {
            from: Vec::new(),
            full,
            packages,
        };
        let found = found.into_iter().map(|one| (one.catalog, one.selection));
        let found: Vec<(String, Selection)> = found.collect();
        assert_eq!(
            found,
            [
                ("quay.io/a/b:v1".to_owned(), selection(false, vec![package])),
                ("oci:///a".to_owned(), selection(true, Vec::new())),
            ]
        );
    }

    #[test]
    fn catalogs_and_packages_of_a_file_keep_their_places() {
        let text = format!(
            "# c\n---\n{HEAD}mirror:\n  Operators:\n  - catalog: quay.io/a/b:v1\n    packages:\n    \
             - name: etcd\n  - packages: [{{name: kafka}}, {{name: etcd}}]\n    Catalog: x\n"
        );
        let set = read(text.as_bytes()).unwrap();
        for (number, wanted) in [
            (0, "line 7, column 14, mirror.Operators[0].catalog: "),
            (1, "line 11, column 14, mirror.Operators[1].Catalog: "),
            (2, ""),
        ] {
            assert_eq!(set.catalog_place(number).to_string(), wanted);
        }
        let error = set.check_as_one([0, 1]).unwrap_err().to_string();
        let wanted = "line 10, column 38, mirror.Operators[1].packages[1].name: the package";
        assert!(error.starts_with(wanted), "{error}");
        assert!(error.contains("selected from two catalogs"), "{error}");
        for alone in [0, 1] {
            set.check_as_one([alone]).unwrap();
        }
    }

    #[test]
    fn what_is_no_image_set_says_what_to_write() {
        let operators = |text: &str| {
            format!("{HEAD}mirror:\n  operators:\n  - catalog: quay.io/a/b:v1\n{text}")
        };
        for (text, wanted) in [
            (String::new(), "write kind"),
            ("a: 1".into(), "write kind"),
            ("- a".into(), "not an ImageSetConfiguration"),
            ("a: [".into(), "not YAML"),
            (HEAD.replace("v2alpha1", "v1alpha2"), "write kind"),
            (HEAD.to_owned(), "mirror.operators"),
            (
                format!("{HEAD}mirror:\n  operators:\n  - full: true\n"),
                "catalog: IMAGE",
            ),
            (operators("    package: []\n"), "did you mean \"packages\""),
            (
                operators("    packages:\n    - name: a\n      minVersion: 4.10\n"),
                "in quotes",
            ),
            (
                operators("    packages:\n    - name: a\n      minVersion: latest\n"),
                "\"latest\"",
            ),
            (
                operators("    packages:\n    - name: a\n      bundles:\n      - name: b\n"),
                "single bundles",
            ),
        ] {
            let error = refused(&text);
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
