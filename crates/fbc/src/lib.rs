//! File-based catalogs of Kubernetes operators: the catalogs that Operator Lifecycle
//! Manager (OLM) installs operators from.
//!
//! A file-based catalog is a folder of JSON and YAML files. Each document in them is
//! a blob with a `schema`: `olm.package`, `olm.channel`, `olm.bundle`,
//! `olm.deprecations`, or a schema of its own. This crate reads such files, checks
//! them, and selects parts of them. It performs no I/O: the caller reads the files.
//!
//! # Read files and check a catalog
//!
//! [`read::pieces`] cuts a file into pieces, which may be read by several threads.
//! A [`read::Reader`] reads a piece into an [`Output`](read::Output): one canonical
//! line for each document, the blobs, and problems of single documents.
//! [`graph::build`] joins the blobs, and finds problems between them.
//!
//! ```
//! use fbc::graph;
//! use fbc::read::{Output, Reader, pieces};
//!
//! let package = br#"
//! schema: olm.package
//! name: lantern
//! defaultChannel: stable
//! ---
//! schema: olm.channel
//! package: lantern
//! name: stable
//! entries:
//! - name: lantern.v1.1.0
//! "#;
//! let bundle = br#"{
//!     "schema": "olm.bundle", "package": "lantern", "name": "lantern.v1.1.0",
//!     "image": "example.com/lantern:1.1.0",
//!     "properties": [
//!         {"type": "olm.package", "value": {"packageName": "lantern", "version": "1.1.0"}},
//!         {"type": "olm.csv.metadata", "value": {}}
//!     ]
//! }"#;
//! // The files of a catalog, in the order of their paths.
//! let paths = ["lantern/bundle.json".to_owned(), "lantern/catalog.yaml".to_owned()];
//! let files: [&[u8]; 2] = [bundle, package];
//!
//! let (mut reader, mut out) = (Reader::default(), Output::default());
//! for (number, file) in (0..).zip(files) {
//!     // Documents and lines count from the start of each file.
//!     (out.documents, out.line_ends) = (0, 0);
//!     // A piece has about a megabyte. No visitor looks on.
//!     for piece in pieces(file, 1 << 20) {
//!         reader.read(&piece, &file[piece.range.clone()], number, &mut out, &mut ());
//!     }
//! }
//! assert_eq!(out.metas.len(), 3);
//! assert!(out.lines.starts_with(br#"{"image":"example.com/lantern:1.1.0","name":"lantern.v1.1.0""#));
//! assert!(out.problems.is_empty());
//!
//! let (catalog, problems) = graph::build(&out.blobs, &paths);
//! assert!(problems.is_empty(), "{problems:?}");
//! let stable = &catalog.packages[0].channels[0];
//! assert_eq!(stable.entries[stable.head].name, "lantern.v1.1.0");
//!
//! // A channel names a bundle that is missing.
//! out.blobs.bundles.clear();
//! let (catalog, problems) = graph::build(&out.blobs, &paths);
//! let problem = &problems[0];
//! assert_eq!(problem.code.as_str(), "channel-entry-without-bundle");
//! assert!(problem.message.contains("lantern.v1.1.0"));
//! let position = problem.position.as_ref().unwrap();
//! let found = (position.file.as_str(), position.document, position.line);
//! assert_eq!(found, ("lantern/catalog.yaml", 2, 6));
//! // A package with an error is left out of the graph.
//! assert_eq!(catalog.quarantined, ["lantern"]);
//! ```
//!
//! One [`Output`](read::Output) takes all pieces in order, as above. Several threads
//! need one each; then the caller adds the counts of the pieces before: metas, and
//! within a file documents and lines. [`indexignore`] tells which files of a folder
//! belong to the catalog.
//! A [`visit::Visitor`] sees the parts of packages and bundles while they are read,
//! for callers that translate a catalog into another format.
//!
//! # Heads and chains of a channel
//!
//! ```
//! use fbc::document::EntryBlob;
//! use fbc::graph::Chains;
//!
//! let entry = |name: &str, replaces: &str| EntryBlob {
//!     name: name.to_owned(),
//!     replaces: replaces.to_owned(),
//!     ..EntryBlob::default()
//! };
//! let entries = [entry("a.v1", ""), entry("a.v2", "a.v1"), entry("a.v3", "a.v2")];
//! assert_eq!(Chains::new(&entries).head(), Some(2));
//!
//! // Two entries that nothing replaces or skips: the channel has no single head.
//! let entries = [entry("a.v1", ""), entry("a.v2", "a.v1"), entry("a.v3", "a.v1")];
//! let chains = Chains::new(&entries);
//! assert_eq!(chains.head(), None);
//! assert_eq!(chains.survey().heads, [1, 2]);
//! ```
//!
//! # Select packages
//!
//! [`select::select`] makes a smaller catalog, with the meaning of an
//! `ImageSetConfiguration`: packages, channels, ranges of versions, and the bundles
//! that others require. [`image_list`] lists the images that the result needs.
//!
//! ```
//! use fbc::select::{Catalog, Line, PackageSelection, Request, Selection, select};
//!
//! let line = |schema: &str, package: &str, name: &str, json: &'static str| Line {
//!     schema: schema.into(),
//!     package: package.into(),
//!     name: name.into(),
//!     json: json.into(),
//! };
//! let catalog = Catalog {
//!     name: "community".to_owned(),
//!     lines: vec![
//!         line("olm.package", "", "a", r#"{"defaultChannel":"c","name":"a","schema":"olm.package"}"#),
//!         line("olm.channel", "a", "c", r#"{"entries":[{"name":"a.v1"}],"name":"c","package":"a","schema":"olm.channel"}"#),
//!         line("olm.bundle", "a", "a.v1", r#"{"name":"a.v1","package":"a","schema":"olm.bundle"}"#),
//!         line("olm.package", "", "b", r#"{"defaultChannel":"c","name":"b","schema":"olm.package"}"#),
//!     ],
//!     ..Catalog::default()
//! };
//! let request = Request {
//!     selections: vec![Selection {
//!         from: vec![0],
//!         packages: vec![PackageSelection::named("a")],
//!         ..Selection::default()
//!     }],
//!     ..Request::default()
//! };
//! let selected = select(&[catalog], &request)?;
//! assert_eq!(selected.packages.len(), 1);
//! assert_eq!(selected.packages[0].bundles[0].name, "a.v1");
//! # Ok::<(), fbc::select::SelectError>(())
//! ```
//!
//! # Compare versions and ranges
//!
//! ```
//! use fbc::text::semver::{Constraint, Range, Version};
//!
//! let version = Version::parse("1.2.3-rc.1")?;
//! assert!(version < Version::parse("1.2.3")?);
//! // The ranges of `skipRange` and of dependencies.
//! assert!(Range::parse(">=1.0.0 <2.0.0")?.contains(&version));
//! // The constraints that users of OLM v1 write.
//! assert!(Constraint::parse("~1.2")?.contains(&Version::parse("1.2.9")?));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Canonical JSON of YAML and JSON
//!
//! ```
//! use fbc::text::json::Canonicaliser;
//! use fbc::text::yaml;
//!
//! let mut json = Vec::new();
//! yaml::to_json(b"name: a\nmajor: 1.0\nenabled: yes\n", &yaml::Limits::default(), &mut json)?;
//! assert_eq!(json, br#"{"enabled":true,"major":1,"name":"a"}"#);
//!
//! json.clear();
//! Canonicaliser::default().read(br#"{"b": "\u0061", "a": 1e2}"#, 0, &mut json)?;
//! assert_eq!(json, br#"{"a":100,"b":"a"}"#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Rules and their sources
//!
//! | Subject | Source |
//! |---|---|
//! | schemas, packages, channels, bundles | OLM's documentation of file-based catalogs, and the checks of `opm validate` (operator-registry) |
//! | files: JSON or YAML, documents | Kubernetes' stream reader and goyaml v2, as operator-registry uses them |
//! | `.indexignore` | operator-registry |
//! | keys in any case, `null`, equal keys, canonical text | Go's `encoding/json` |
//! | versions, `skipRange`, dependencies | blang/semver v4 |
//! | constraints of OLM v1, ranges of oc-mirror | Masterminds/semver v3.4.0 |
//! | rows of SQLite indexes | `opm migrate` of v1.73, the last with SQLite |
//!
//! Where these sources reject an input with the first error, this crate reports all
//! problems: each has a stable [`Code`](problem::Code), a position in a file, and a
//! sentence for the author of the catalog.
//!
//! # Limits
//!
//! Input is hostile: sizes, counts and depths are bounded, and a malformed document
//! never stops the others. The crate does not resolve dependencies for a cluster,
//! does not pull or read images, and does not validate the manifests inside of
//! bundles.

mod bundle;
pub mod csv;
pub mod document;
pub mod fields;
pub mod graph;
pub mod image_list;
pub mod indexignore;
pub mod lifecycle;
mod manifest_objects;
mod object;
pub mod presentation;
pub mod problem;
mod properties;
pub mod pullspec;
pub mod read;
pub mod select;
pub mod sqlite;
pub mod text;
pub mod visit;

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
