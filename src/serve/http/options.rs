//! How the HTTP port presents itself to people.

/// The options of pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageOptions {
    /// Whether browsers get pages.
    pub enabled: bool,
    /// Scheme and host under which people reach this port; by default those of each
    /// request.
    pub url: Option<String>,
    /// Whether pages name the sources of catalogs.
    pub sources: bool,
}

impl Default for PageOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            url: None,
            sources: true,
        }
    }
}

impl PageOptions {
    /// No pages.
    pub fn none() -> Self {
        Self {
            enabled: false,
            ..Self::default()
        }
    }
}
