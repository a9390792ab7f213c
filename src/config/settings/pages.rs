//! The pages for browsers: `pages = false`, or a table.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::config::layer::layer;
use crate::config::value::Origin;
use crate::serve::http::PageOptions;

/// The pages of the HTTP port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PagesSettings {
    /// Whether browsers get pages.
    pub enabled: Option<bool>,
    /// Scheme and host under which people reach the port.
    pub url: Option<Origin>,
    /// Whether pages name the sources of catalogs.
    pub sources: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Table {
    enabled: Option<bool>,
    url: Option<Origin>,
    sources: Option<bool>,
}

struct Written;

impl<'de> Visitor<'de> for Written {
    type Value = PagesSettings;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false or a table, as in [pages]")
    }

    fn visit_bool<E: Error>(self, enabled: bool) -> Result<PagesSettings, E> {
        Ok(PagesSettings {
            enabled: Some(enabled),
            ..PagesSettings::default()
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PagesSettings, A::Error> {
        let Table {
            enabled,
            url,
            sources,
        } = Table::deserialize(MapAccessDeserializer::new(map))?;
        if url.as_ref().is_some_and(|Origin(url)| url == "*") {
            let problem = "url is one scheme and host, such as \"https://almanac.example.com\"";
            return Err(Error::custom(problem));
        }
        Ok(PagesSettings {
            enabled,
            url,
            sources,
        })
    }
}

impl<'de> Deserialize<'de> for PagesSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

impl PagesSettings {
    /// The options, with defaults for missing settings.
    pub(crate) fn resolve(self) -> PageOptions {
        let default = PageOptions::default();
        PageOptions {
            enabled: self.enabled.unwrap_or(default.enabled),
            url: self.url.map(|Origin(url)| url),
            sources: self.sources.unwrap_or(default.sources),
        }
    }
}

layer!(PagesSettings: enabled, url, sources);

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct File {
        pages: PagesSettings,
    }

    fn read(text: &str) -> Result<PageOptions, String> {
        let read = toml::from_str::<File>(text);
        let file = read.map_err(|error| error.message().to_owned())?;
        Ok(file.pages.resolve())
    }

    #[test]
    fn pages_are_a_switch_or_a_table() {
        let default = PageOptions::default();
        assert_eq!(read("pages = false"), Ok(PageOptions::none()));
        assert_eq!(read("pages = true"), Ok(default.clone()));
        assert_eq!(
            read("[pages]\nurl = 'https://almanac.example.com'\nsources = false"),
            Ok(PageOptions {
                url: Some("https://almanac.example.com".to_owned()),
                sources: false,
                ..default
            })
        );
        for bad in [
            "pages = 1",
            "[pages]\nurl = '*'",
            "[pages]\nurl = 'https://a.example/b'",
            "[pages]\nsource = true",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
