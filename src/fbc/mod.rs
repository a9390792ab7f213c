//! fbc

pub(crate) mod text;
