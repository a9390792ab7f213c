//! All integration tests, in one binary so that they link once.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a failure in a test, or in a helper of one, is the message"
)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "tests cast numbers that they chose themselves"
)]

mod access;
mod across;
mod admin;
mod advice;
mod architecture;
mod archives;
mod bad_input;
mod behind_nginx;
mod beside_skopeo;
mod build_info;
mod carried_history;
mod check;
mod clock;
mod cluster;
mod command_line;
mod commands;
mod config;
mod conformance;
mod content_changes;
mod crash;
mod curated;
mod data_folder;
mod decoders;
mod distribution;
mod docs;
mod draining;
mod encodings;
mod export_import;
mod failures;
mod first_use;
mod fleet;
mod follow;
mod full_disk;
mod graphql;
mod grpc;
mod grpc_memory;
mod history;
mod http;
mod http_table;
mod image_sets;
mod latency;
mod layers;
mod legacy;
mod lent;
mod limits;
mod manifests;
mod manual;
mod memory;
mod oci;
mod odd_registries;
mod olm_v0;
mod olm_v1;
mod opm;
mod packaging;
mod pages;
mod plain_yaml;
mod policy;
mod probe;
mod problems_in_history;
mod properties;
mod proto;
mod pulls;
mod queries;
mod read_errors;
mod real_registry;
mod refused_by_opm;
mod registries;
mod registry_connections;
mod reload;
mod repository;
mod sigstore;
mod simple_signing;
mod sources;
mod stored_files;
mod support;
mod tls;
mod web_pages;
mod webhooks;
