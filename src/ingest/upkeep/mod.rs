//! Work on published revisions beside passes: `encode` makes their compressed forms, `scrub`
//! compares stored files with their sums, and `repair` rebuilds damaged ones.

pub(crate) mod encode;
pub(crate) mod repair;
pub(crate) mod scrub;
