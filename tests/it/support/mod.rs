//! What the tests share: builders of catalogs and images, and the running
//! program.
#![allow(dead_code, reason = "a toolbox; not every tool is in use at all times")]

pub(crate) mod almanac;
pub(crate) mod api_server;
mod bundle;
pub(crate) mod cases;
pub(crate) mod catalog;
pub(crate) mod clock;
pub(crate) mod cosign;
pub(crate) mod faults;
pub(crate) mod file;
pub(crate) mod fixtures;
pub(crate) mod gpg;
pub(crate) mod grpc;
pub(crate) mod h2;
pub(crate) mod http;
pub(crate) mod image;
pub(crate) mod in_process;
pub(crate) mod in_store;
pub(crate) mod kustomize;
pub(crate) mod layer;
pub(crate) mod needs;
pub(crate) mod objects;
pub(crate) mod port;
pub(crate) mod postgres;
pub(crate) mod program;
pub(crate) mod proxy;
pub(crate) mod receiver;
pub(crate) mod registry;
pub(crate) mod relay;
pub(crate) mod runtime;
pub(crate) mod schema;
pub(crate) mod served;
pub(crate) mod skip_records;
pub(crate) mod small_disk;
pub(crate) mod source;
pub(crate) mod store;
pub(crate) mod tls;
pub(crate) mod upstream;
pub(crate) mod yaml;
