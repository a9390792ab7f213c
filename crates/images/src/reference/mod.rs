//! Image references and their grammar.

mod grammar;
mod image_reference;
#[cfg(test)]
mod tests;

pub use grammar::{is_repository, is_tag, without_user};
pub use image_reference::{Reference, ReferenceError};

pub(crate) use grammar::is_registry;
