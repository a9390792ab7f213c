//! What the tests share: builders of catalogs and images, and the running
//! program.
#![allow(dead_code, reason = "a toolbox; not every tool is in use at all times")]

pub(crate) mod source;
