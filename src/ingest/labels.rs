//! The labels that name the catalog inside an image.

use ::images::ImageConfig;

/// The label with the folder (or file) of a file-based catalog.
pub(super) const CONFIGS_LABEL: &str = "operators.operatorframework.io.index.configs.v1";

/// The label with the `SQLite` database of a catalog, the format before
/// file-based catalogs.
const DATABASE_LABEL: &str = "operators.operatorframework.io.index.database.v1";

/// The path of the catalog inside the image: its folder, or else its database.
pub(super) fn catalog_path(config: &ImageConfig) -> Option<&str> {
    config
        .label(CONFIGS_LABEL)
        .or_else(|| config.label(DATABASE_LABEL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_comes_before_the_database() {
        let config = |labels: &str| {
            let text = format!(r#"{{"config":{{"Labels":{{{labels}}}}}}}"#);
            ImageConfig::parse(text.as_bytes()).unwrap()
        };
        let folder = format!(r#""{CONFIGS_LABEL}":"/configs""#);
        let database = format!(r#""{DATABASE_LABEL}":"/index.db""#);
        let both = config(&format!("{database},{folder}"));
        assert_eq!(catalog_path(&both), Some("/configs"));
        assert_eq!(catalog_path(&config(&database)), Some("/index.db"));
        assert_eq!(catalog_path(&config("")), None);
    }
}
