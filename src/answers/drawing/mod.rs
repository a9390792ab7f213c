//! The upgrade graph of a package as a picture: a row for each version, a column for
//! each channel, and lines in the columns.
//!
//! `matrix` decides the content, once for all notations. `strokes` gives the lines
//! their shapes, on the page and in files. `svg` and `mermaid` write files.

pub mod matrix;
mod mermaid;
mod strokes;
mod svg;

pub use mermaid::mermaid;
pub use strokes::{COLUMN, ROW, strokes};
pub use svg::svg;

/// The package of a drawing.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its name.
    pub package: &'a str,
    /// Whether it is deprecated.
    pub deprecated: bool,
}
