//! The settings for signing the images that almanac makes.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;

use crate::config::declaration::{plain_setting, settings};
use crate::config::value::{ValueError, deserialized_from_text, remedy};
use ::images::Reference;

/// The longest name, in bytes.
const MAX_NAME: usize = 200;

settings! {
    /// The key that signs images, and their names.
    #[derive(Clone, Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct SigningSettings {
        /// Private key for ECDSA with P-256: cosign's, or PKCS#8 in PEM.
        pub key_file: Option<PathBuf>, example "/etc/almanac/signing/cosign.key";
        /// Password; else `ALMANAC_SIGNING_PASSWORD`, else the empty one.
        pub password_file: Option<PathBuf>, example "/etc/almanac/signing/cosign.password";
        /// `HOST[/PATH]`: names are `PREFIX/CATALOG:TAG`. Without it and `signed_name`, a
        /// catalog is not signed.
        pub name_prefix: Option<NamePrefix>, example "registry.example.com/catalogs";
    }
}

/// A prefix of the names of images outside of almanac: `HOST[/PATH]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePrefix(String);

/// The name of an image outside of almanac: `HOST/REPOSITORY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedName(String);

impl NamePrefix {
    /// The name of a catalog's image.
    pub(crate) fn join(&self, catalog: &str) -> String {
        format!("{}/{catalog}", self.0)
    }
}

impl FromStr for NamePrefix {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let is_prefix = |text: &str| is_name(&format!("{text}/a"));
        if !is_prefix(text) {
            let form = "write HOST or HOST/PATH, such as registry.example.com/catalogs";
            let problem = remedy(text, is_prefix, form);
            return Err(ValueError::new(text, "prefix of names", problem));
        }
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for SignedName {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if !is_name(text) {
            let form = "write HOST/REPOSITORY, such as registry.example.com/team/catalog";
            let problem = remedy(text, is_name, form);
            return Err(ValueError::new(text, "name of an image", problem));
        }
        Ok(Self(text.to_owned()))
    }
}

/// Whether a text is a whole name, without a tag or digest.
fn is_name(text: &str) -> bool {
    let reference: Result<Reference, _> = text.parse();
    text.len() <= MAX_NAME && reference.is_ok_and(|reference| reference.name() == text)
}

impl fmt::Display for SignedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

deserialized_from_text! {
    NamePrefix, "a name such as \"registry.example.com/catalogs\"";
    SignedName, "a name such as \"registry.example.com/team/catalog\"";
}

plain_setting! {
    NamePrefix: { "type": "string" };
    SignedName: { "type": "string" };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_begins_with_a_scheme_is_refused_with_a_name_that_is_taken() {
        let name = "docker://h.example/a".parse::<SignedName>().unwrap_err();
        let prefix = "https://h.example/a/".parse::<NamePrefix>().unwrap_err();
        for (error, scheme) in [(name, "docker"), (prefix, "https")] {
            let said = format!("drop {scheme}:// and write h.example/a");
            assert!(error.to_string().ends_with(&said), "{error}");
        }
        let tagged = "docker://h.example/a:v1".parse::<SignedName>().unwrap_err();
        assert!(
            tagged.to_string().contains("write HOST/REPOSITORY"),
            "{tagged}"
        );
    }
}
