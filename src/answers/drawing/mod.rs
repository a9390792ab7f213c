//! Drawings of a package's upgrade graph: which version leads to which.
//!
//! `model` decides the content, once for all notations. `mermaid` and `svg` write
//! it; `layout` places the boxes of the latter, `stored` takes
//! the content from stored answers.

mod layout;
mod mermaid;
mod model;
#[cfg(test)]
mod samples;
mod stored;
mod svg;

pub use model::Drawing;
pub use stored::blobs;
