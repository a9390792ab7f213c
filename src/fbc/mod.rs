//! fbc
