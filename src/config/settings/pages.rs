//! The pages for browsers: `pages = false`, or a table.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::config::declaration::settings;
use crate::config::value::Origin;
use crate::serve::http::PageOptions;

settings! {
    /// The pages of the HTTP port.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
    #[serde(default, deny_unknown_fields, remote = "Self")]
    pub struct PagesSettings {
        /// Pages for browsers on the HTTP port.
        pub enabled: Option<bool> = PageOptions::default().enabled;
        /// Scheme and host for feeds, `curl` lines and search. With `https`, pages ask for tokens
        /// behind a TLS proxy.
        pub url: Option<Origin>, otherwise "those of each request", example "https://almanac.example.com";
        /// Pages and mirror plans name repositories and tags, never paths.
        pub sources: Option<bool> = PageOptions::default().sources;
    }
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
        let settings = PagesSettings::deserialize(MapAccessDeserializer::new(map))?;
        if settings.url.as_ref().is_some_and(|Origin(url)| url == "*") {
            let problem = "url is one scheme and host, such as \"https://almanac.example.com\"";
            return Err(Error::custom(problem));
        }
        Ok(settings)
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
        PageOptions {
            enabled: self.enabled(),
            sources: self.sources(),
            url: self.url.map(|Origin(url)| url),
        }
    }
}

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
