//! Credentials for registries, from the files of Docker, podman and Kubernetes
//! (containers-auth.json(5), `config.json`, `.dockercfg`).
//!
//! The files are read again for each lookup, so a rotated secret takes effect
//! at once. Credential helpers (`credHelpers`, `credsStore`) are run.

mod auth_file;
mod credential_helper;
mod lookup;
mod secret;
#[cfg(test)]
mod tests;

pub use lookup::AuthFiles;
pub use secret::{Credentials, Secret};

pub(crate) use secret::{basic_header, bearer_header};
