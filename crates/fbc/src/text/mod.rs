//! The text formats that catalogs are written in, with the rules of the tools
//! that read them.

pub mod display;
pub mod go_quote;
pub mod json;
pub mod repeated;
pub mod semver;
pub mod suggest;
pub mod yaml;
