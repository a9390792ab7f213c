//! The pages of one package in one catalog. Each tab is a page of its own; `subject`
//! has what they have in common.

pub(crate) mod apis;
pub(crate) mod dependencies;
pub(crate) mod drawing;
pub(crate) mod history;
pub(crate) mod images;
pub(crate) mod install;
pub(crate) mod overview;
pub(crate) mod problems;
pub(crate) mod steps;
pub(crate) mod subject;
pub(crate) mod updates;
pub(crate) mod versions;
