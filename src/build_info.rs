//! Facts about this build. The build script `build/main.rs` sets all but the
//! version.

/// The version of almanac.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The hash of the source's commit, or `unknown`. Development builds have it only
/// if it was given to them.
pub const COMMIT: &str = env!("BUILD_COMMIT");

/// The target of the compiler, such as `x86_64-unknown-linux-gnu`.
pub const TARGET: &str = env!("BUILD_TARGET");

/// `release` for optimised builds, `debug` for others.
pub const PROFILE: &str = env!("BUILD_PROFILE");

/// The features of the package that were switched on, sorted and separated by
/// commas; empty without any.
pub const FEATURES: &str = env!("BUILD_FEATURES");

/// The features, one by one.
pub fn features() -> impl Iterator<Item = &'static str> {
    FEATURES.split(',').filter(|feature| !feature.is_empty())
}
