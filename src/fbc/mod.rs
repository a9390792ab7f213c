//! fbc

pub(crate) mod text;
pub mod yaml;
