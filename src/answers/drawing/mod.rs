//! Drawings of a package's upgrade graph: which version leads to which.
//!
//! `model` decides the content, once for all notations. `mermaid` and `svg` write
//! it; `layout` places the boxes of the latter.

mod layout;
mod mermaid;
mod model;
#[cfg(test)]
mod samples;
mod svg;

pub use crate::answers::drawing::model::Drawing;

impl Drawing<'_> {
    /// The drawing as a flow chart of Mermaid. Arrows lead from a
    /// version to its upgrades.
    pub fn mermaid(&self) -> String {
        mermaid::write(self)
    }

    /// The drawing as a self-contained SVG document. Arrows lead from
    /// a version to its upgrades; heads are on top.
    pub fn svg(&self) -> String {
        svg::write(self)
    }
}
