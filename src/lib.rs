//! almanac.
pub mod digest;
pub mod fbc;
pub mod name;
pub mod oci;
pub mod proto;
pub mod unpack;
