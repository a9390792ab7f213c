//! Semantic versions and ranges as the operator tools read them.
//!
//! Versions follow Go's blang/semver v4, which is stricter than semver.org:
//! nothing is trimmed or completed. Its ranges differ from those of every other
//! ecosystem. Users of OLM v1 write constraints, which OLM reads with another
//! library, Masterminds/semver v3.4.0.

mod constraint;
mod index;
mod range;
mod version;

pub use constraint::{Constraint, ConstraintError, MAX_CONSTRAINT};
pub use index::RangeIndex;
pub use range::{MAX_RANGE, Range, RangeError};
pub use version::{Identifier, MAX_RELEASE, MAX_VERSION, Version, VersionError, check_release};
