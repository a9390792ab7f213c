//! fbc
pub mod indexignore;
