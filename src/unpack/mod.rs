//! unpack
