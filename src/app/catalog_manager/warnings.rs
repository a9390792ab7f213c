//! Warnings about configurations that are valid but surprising.

use crate::app::catalog_manager::member::mirrored;
use crate::config::Config;

/// Logs all warnings about a configuration.
pub(super) fn log(config: &Config) {
    for catalog in &config.catalogs {
        if let Some(reason) = &catalog.fallback {
            tracing::warn!(
                catalog = %catalog.name, source = %catalog.source, reason,
                "the image template gives no image, so the plain source is used"
            );
        }
    }
    shared_paths(config);
    shadowed_names(config);
}

/// Mirrors that only their registry tells apart below `/v2/`.
fn shared_paths(config: &Config) {
    for (number, catalog) in config.catalogs.iter().enumerate() {
        let Some(own) = mirrored(catalog) else {
            continue;
        };
        let path = own.repository.as_str();
        for (other_number, other) in config.catalogs.iter().enumerate() {
            let same_path = mirrored(other).filter(|other| other.repository == path);
            if other_number < number && same_path.is_some_and(|o| o.registry != own.registry) {
                tracing::warn!(
                    catalog = %catalog.name, other = %other.name, path,
                    "two mirrored registries have this path: pull with ns=REGISTRY, as \
                     containerd does, or by the names of the catalogs"
                );
            }
            if number != other_number && other.name.as_str() == path {
                tracing::warn!(
                    catalog = %catalog.name, other = %other.name, path,
                    "this path is also the name of another catalog, which takes precedence"
                );
            }
        }
    }
}

/// Authorities that equal the name of another catalog. An authority takes
/// precedence over a name, so clients that call a catalog by its bare name get
/// the other one.
fn shadowed_names(config: &Config) {
    for catalog in &config.catalogs {
        let others = config.catalogs.iter().map(|other| &other.name);
        for other in others.filter(|other| **other != catalog.name) {
            if catalog
                .authorities
                .iter()
                .any(|host| host == other.as_str())
            {
                tracing::warn!(
                    catalog = %catalog.name, %other,
                    "an authority of this catalog is the name of another: clients that ask \
                     for that host get this catalog"
                );
            }
        }
    }
}
