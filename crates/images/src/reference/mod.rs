//! Image references and their grammar.

mod grammar;
mod image_reference;
#[cfg(test)]
mod tests;

pub use grammar::{is_repository, is_tag, split_scheme, without_user};
pub use image_reference::{Reference, ReferenceError, scheme_remedy};

pub(crate) use grammar::is_registry;
