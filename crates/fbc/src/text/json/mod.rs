//! JSON text to canonical JSON text, in one pass and without a tree; and the ways
//! to read canonical JSON.
//!
//! Canonical text is the text that the ecosystem's Go programs write after
//! reading: one line, keys sorted bytewise at every level, the last of equal keys,
//! numbers as after a float64 round trip (an integer that no float64 holds keeps
//! its digits), and only the necessary escapes.
//!
//! Most input is canonical except for white space and the order of keys. The
//! [`Canonicaliser`] copies a value only when it changes.
//!
//! Canonical text is read with a [`Cursor`](cursor::Cursor). Two views are built
//! on it: `typed` reads values into structs as Go does, and `shape` tells what Go
//! writes after reading a value into a type.

mod buffers;
pub mod cursor;
pub(crate) mod folded;
mod reader;
mod scalars;
pub(crate) mod schema;
pub(crate) mod shape;
mod strings;
#[cfg(test)]
mod tests;
pub(crate) mod typed;
pub mod write;

pub use buffers::TopMember;
pub(crate) use reader::MAX_LENGTH;
pub use reader::{Canonicaliser, JsonError, MAX_DEPTH};
pub(crate) use strings::compare_keys;
pub use strings::unescape;
