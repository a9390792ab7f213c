//! almanac in a cluster: what it reads from the API server, and what comes of it.

mod api_server;
mod follow;
mod own;
mod registry_files;
mod tls_profile;
mod webhook;
