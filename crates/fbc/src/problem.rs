//! Problems of a catalog as data: a stable code, a subject, a position, and a
//! sentence for the author that says what to do.
//!
//! Reading and building never stop at the first problem.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A problem of a catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = CatalogProblem))]
pub struct Problem {
    /// The kind of problem. A code does not change.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub code: Code,
    /// Its effect on the catalog.
    #[cfg_attr(feature = "schema", schema(extensions(("x-flattened" = json!(true)))))]
    pub severity: Severity,
    /// The object it is about.
    #[serde(flatten)]
    pub subject: Subject,
    /// Its position, if it is about one document.
    #[serde(flatten)]
    pub position: Option<DocumentPosition>,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Problem {
    /// A problem without a known object or position.
    pub fn new(code: Code, severity: Severity, message: impl Into<String>) -> Self {
        Self {
            code,
            severity,
            subject: Subject::default(),
            position: None,
            message: message.into(),
        }
    }
}

/// The effect of a problem on the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Severity {
    /// The catalog works, but a user may run into the problem later.
    Warning,
    /// `opm` rejects the catalog. A package with an error is left out of the graph. An
    /// error that belongs to no package affects none.
    Error,
    /// The catalog cannot be served at all.
    Fatal,
}

/// The object of a problem, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Subject {
    /// The package; absent when it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub package: String,
    /// The channel; absent when it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub channel: String,
    /// The bundle; absent when it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bundle: String,
    /// The schema of the blob; only for other blobs than packages, channels and bundles.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub schema: String,
}

/// A document in a file of the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DocumentPosition {
    /// The path of the file below the catalog's folder; for a catalog that was read from a
    /// URL, that URL.
    pub file: String,
    /// Number of the document in the file, from 1.
    #[cfg_attr(feature = "schema", schema(minimum = 1))]
    pub document: u32,
    /// Line of the file on which the document (or the error in it) starts, from 1.
    #[cfg_attr(feature = "schema", schema(minimum = 1))]
    pub line: u32,
    /// The column of the error in characters, from 1, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1))]
    pub column: Option<u32>,
}

macro_rules! codes {
    ($($(#[doc = $title:literal])+ $name:ident = $text:literal,)*) => {
        /// The kinds of problems. Their text is stable: scripts may rely on it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Code {
            $($(#[doc = $title])+ #[serde(rename = $text)] $name,)*
        }

        impl Code {
            /// All codes.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The code as text, such as `channel-multiple-heads`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Whether such a problem belongs to a file and not to the content: files with equal
            /// content may have other ones.
            pub fn is_of_file(self) -> bool {
                matches!(
                    self,
                    Self::FileUnreadable
                        | Self::DocumentNotObject
                        | Self::DocumentDuplicateKey
                        | Self::DocumentRepeatedKey
                        | Self::DocumentKeyNotString
                        | Self::DocumentIgnored
                        | Self::DocumentEmpty
                        | Self::SchemaMissing
                )
            }

            /// The documentation of the code: a short sentence.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => concat!($($title),+),)* }.trim_start()
            }
        }
    };
}

codes! {
    /// A file that cannot be read as JSON or YAML documents.
    FileUnreadable = "file-unreadable",
    /// A document that is no JSON object.
    DocumentNotObject = "document-not-object",
    /// Two top-level keys that differ only in case.
    DocumentDuplicateKey = "document-duplicate-key",
    /// A key that stands twice in one object: the first value is lost.
    DocumentRepeatedKey = "document-repeated-key",
    /// A `schema`, `package` or `name` that is not a string.
    DocumentKeyNotString = "document-key-not-string",
    /// Something behind the end of a YAML document that no `---` parts from it.
    DocumentIgnored = "document-ignored",
    /// A YAML document that holds only comments or blank lines.
    DocumentEmpty = "document-empty",
    /// A catalog without any package.
    CatalogEmpty = "catalog-empty",
    /// A document without a schema.
    SchemaMissing = "schema-missing",
    /// An `olm.` schema that nobody defines.
    SchemaUnknown = "schema-unknown",
    /// A blob whose fields do not have the types of its schema.
    BlobMalformed = "blob-malformed",
    /// A package without a name.
    PackageNameMissing = "package-name-missing",
    /// A package whose name is no DNS label.
    PackageNameInvalid = "package-name-invalid",
    /// Two `olm.package` blobs with one name.
    PackageDuplicate = "package-duplicate",
    /// An icon without data or media type, or whose data is not base64.
    PackageIconInvalid = "package-icon-invalid",
    /// A blob of a package that has no `olm.package` blob.
    PackageUnknown = "package-unknown",
    /// A package without channels.
    PackageWithoutChannels = "package-without-channels",
    /// A package without a default channel.
    DefaultChannelMissing = "default-channel-missing",
    /// A default channel that the package does not have.
    DefaultChannelUnknown = "default-channel-unknown",
    /// A channel without a name.
    ChannelNameMissing = "channel-name-missing",
    /// Two channels of a package with one name.
    ChannelDuplicate = "channel-duplicate",
    /// A channel without entries.
    ChannelEmpty = "channel-empty",
    /// Two entries of a channel with one name.
    ChannelEntryDuplicate = "channel-entry-duplicate",
    /// Entries that no bundle stands for.
    ChannelEntryWithoutBundle = "channel-entry-without-bundle",
    /// No entry that is not replaced or skipped.
    ChannelNoHead = "channel-no-head",
    /// Several entries that nothing replaces or skips.
    ChannelMultipleHeads = "channel-multiple-heads",
    /// A replaces chain that leads back to itself.
    ChannelCycle = "channel-cycle",
    /// Entries that cannot be reached from the head.
    ChannelStranded = "channel-stranded",
    /// A replaces that is neither in the channel nor at its tail.
    ReplacesAbsent = "replaces-absent",
    /// A skip range that is no semver range.
    SkipRangeInvalid = "skip-range-invalid",
    /// A bundle without a name.
    BundleNameMissing = "bundle-name-missing",
    /// A bundle without a package.
    BundlePackageMissing = "bundle-package-missing",
    /// Two bundles of a package with one name.
    BundleDuplicate = "bundle-duplicate",
    /// A bundle that is in no channel.
    BundleNotInChannel = "bundle-not-in-channel",
    /// A bundle with neither image nor objects.
    BundleImageMissing = "bundle-image-missing",
    /// An image that is no pull spec.
    ImageInvalid = "image-invalid",
    /// A property whose value does not fit its type.
    PropertyInvalid = "property-invalid",
    /// Not exactly one `olm.package` property.
    PackagePropertyCount = "package-property-count",
    /// An `olm.package` property that names another package.
    PackagePropertyMismatch = "package-property-mismatch",
    /// A version that is not semver.
    VersionInvalid = "version-invalid",
    /// Two bundles of a package with one version.
    VersionDuplicate = "version-duplicate",
    /// A bundle name that does not fit its release.
    ReleaseNameMismatch = "release-name-mismatch",
    /// An `olm.bundle.object` that cannot be decoded.
    BundleObjectInvalid = "bundle-object-invalid",
    /// A message that gRPC clients would refuse for its size.
    BundleTooLarge = "bundle-too-large",
    /// A message that gRPC clients would refuse if it grew a little.
    BundleNearLimit = "bundle-near-limit",
    /// No `olm.csv.metadata` where a console or packageserver looks for it.
    BundleWithoutCsvMetadata = "bundle-without-csv-metadata",
    /// A `ClusterServiceVersion` that crashes OLM's packageserver.
    CsvCrashesPackageserver = "csv-crashes-packageserver",
    /// A deprecation that does not say what it deprecates, or why.
    DeprecationInvalid = "deprecation-invalid",
    /// A deprecation of something that is not there.
    DeprecationUnknown = "deprecation-unknown",
    /// Two deprecations of one thing.
    DeprecationDuplicate = "deprecation-duplicate",
    /// Deprecations that deprecate nothing.
    DeprecationWithoutEffect = "deprecation-without-effect",
    /// A lifecycle that does not fit its schema.
    LifecycleInvalid = "lifecycle-invalid",
    /// Two lifecycles of one package or version.
    LifecycleDuplicate = "lifecycle-duplicate",
    /// A schema whose name in the GraphQL API another one has.
    GraphqlNameTaken = "graphql-name-taken",
    /// More fields or schemas than the GraphQL API takes.
    GraphqlOmitted = "graphql-omitted",
    /// Further findings that are not listed.
    ProblemsOmitted = "problems-omitted",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Fatal => "fatal",
        })
    }
}

impl fmt::Display for DocumentPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        write!(f, " (document {})", self.document)
    }
}

/// `file:line:column (document n): error[code]: message`, in one line.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = &self.position {
            write!(f, "{position}: ")?;
        }
        write!(f, "{}[{}]: {}", self.severity, self.code, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_written_as_they_are_shown() {
        let mut seen = std::collections::BTreeSet::new();
        for code in Code::ALL {
            assert!(seen.insert(code.as_str()), "{code} stands twice");
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
            let title = code.title();
            assert!(title.ends_with('.') && !title.starts_with(' '), "{title:?}");
        }
    }
}
