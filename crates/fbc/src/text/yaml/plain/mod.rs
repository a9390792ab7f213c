//! Plain block YAML to JSON, line by line: what nearly all catalogs consist
//! of, several times faster than by way of the parser.
//!
//! [`convert`] either writes exactly what the parser's events would have become
//! or gives the document back. It gives back rare and invalid documents: anchors,
//! tags, merge keys, flow collections of more than a line, directives, tabs in
//! indentation, more than one document, every error. So there is one reader
//! that says what YAML is, the one in `builder`, and this one only has to be
//! right where it answers. The fuzz target `plain` compares the two.
//!
//! Columns count from 0. As in the parser, a collection's column is that of
//! its keys or dashes, and a list may stand at the column of the key it
//! belongs to.

mod block;
mod collections;
mod input;
mod lines;
mod quoted;
mod reader;
#[cfg(test)]
pub(crate) mod tests;
mod unquoted;

pub(crate) use lines::{Found, convert};
