//! Plain block YAML to JSON, line by line. Nearly all catalogs consist of it, and this
//! reader is several times faster than the parser.
//!
//! [`plain_to_json`] either writes exactly the JSON that the parser's events become, or
//! gives the document up. It gives up rare and invalid documents: anchors, tags, merge
//! keys, flow collections of more than a line, directives, tabs in indentation, more
//! than one document, every error. The reader in `builder` remains the only definition
//! of YAML; this one must agree with it on the documents that it does not give up. The
//! fuzz target `plain` compares the two.
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

pub use lines::plain_to_json;
