//! Why nothing can be selected.

use crate::select::request::RequestError;

/// A selection that these catalogs cannot fulfil.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// It contradicts itself.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A package that no catalog has.
    #[error("there is no package {package:?} in {catalogs}{proposal}")]
    UnknownPackage {
        /// The package.
        package: String,
        /// The catalogs that were searched.
        catalogs: String,
        /// Names that may have been meant, as the end of the sentence.
        proposal: String,
    },
    /// A package that has errors where it comes from.
    #[error(
        "the package {package:?} has errors in {catalog}, so nothing can be selected from it; \
         correct the errors that a check of the catalog lists"
    )]
    InvalidPackage {
        /// The package.
        package: String,
        /// The catalog.
        catalog: String,
    },
    /// A channel that the package lacks.
    #[error("the package {package:?} has no channel {channel:?}{proposal}")]
    UnknownChannel {
        /// The package.
        package: String,
        /// The channel.
        channel: String,
        /// Names that may have been meant, as the end of the sentence.
        proposal: String,
    },
    /// No version is in the range.
    #[error(
        "the package {package:?} has no version in the range {range} ({where_}); \
         widen the range"
    )]
    NothingInRange {
        /// The package.
        package: String,
        /// The range, or the ranges.
        range: String,
        /// The channels that were searched, with their lowest and highest versions.
        where_: String,
    },
    /// The range leaves nothing of the default channel.
    #[error(
        "the default channel {channel:?} of the package {package:?} has no version in the range \
         {range} ({where_}); widen the range, or give the package another default channel: {kept}"
    )]
    DefaultEmpty {
        /// The package.
        package: String,
        /// Its default channel.
        channel: String,
        /// The range.
        range: String,
        /// The versions that the channel ends at.
        where_: String,
        /// The channels that are left.
        kept: String,
    },
    /// The default channel is not selected.
    #[error(
        "the default channel {channel:?} of the package {package:?} is not selected; \
         select it too, or give the package another default channel: {kept}"
    )]
    DefaultDropped {
        /// The package.
        package: String,
        /// Its default channel.
        channel: String,
        /// The channels that are left.
        kept: String,
    },
    /// A new default channel that is not in the selection.
    #[error(
        "{channel:?} cannot be the default channel of the package {package:?}: \
         it is not among what is selected: {kept}"
    )]
    DefaultUnknown {
        /// The package.
        package: String,
        /// The channel.
        channel: String,
        /// The channels that are left.
        kept: String,
    },
    /// The remaining entries of a channel do not form a channel.
    #[error(
        "the selection cannot be valid: the channel {channel:?} of the package {package:?} {why}"
    )]
    Channel {
        /// The package.
        package: String,
        /// The channel.
        channel: String,
        /// The problem, and the remedy.
        why: String,
    },
    /// A line of a catalog that cannot be read after all.
    #[error("a blob of the package {package:?} cannot be read: {problem}")]
    Line {
        /// The package.
        package: String,
        /// Why.
        problem: String,
    },
    /// Nothing at all.
    #[error(
        "the selection takes nothing: there is no package without errors; correct the errors that \
         a check of the catalog lists"
    )]
    Nothing,
}
