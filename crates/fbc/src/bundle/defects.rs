//! The defects of one bundle.

use crate::document::Defect;

/// The number of defects of a bundle that are kept.
const MAX_DEFECTS: usize = 1_000;

/// Notes a defect, unless it repeats the last one or is one too many.
pub(super) fn note(defects: &mut Vec<Defect>, defect: Defect) {
    if defects.len() < MAX_DEFECTS && defects.last() != Some(&defect) {
        defects.push(defect);
    }
}
