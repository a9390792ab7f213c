//! The records of answers that are made for a request. Empty texts and lists are omitted.

pub(crate) mod bundles;
pub(crate) mod catalogs;
pub(crate) mod compare;
pub(crate) mod dependencies;
pub(crate) mod examples;
pub(crate) mod facets;
pub(crate) mod history;
pub(crate) mod install;
pub(crate) mod lifecycle;
pub(crate) mod mirror;
pub(crate) mod packages;
pub(crate) mod problems;
pub(crate) mod providers;
pub(crate) mod updates;
