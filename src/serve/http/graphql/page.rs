//! A page to write queries in, for browsers.

use std::sync::LazyLock;

use axum::response::Response;

use crate::serve::http::html::HtmlPage;

const SCRIPT: &str = concat!(include_str!("editor.js"), include_str!("page.js"));
const STYLE: &str = include_str!("page.css");

static PAGE: LazyLock<HtmlPage> =
    LazyLock::new(|| HtmlPage::new(include_str!("page.html"), STYLE, Some(SCRIPT)));

/// The page.
pub(in crate::serve::http) fn respond() -> Response {
    PAGE.respond(PAGE.text.as_str(), "Accept")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_needs_nothing_from_elsewhere() {
        PAGE.assert_whole(STYLE, Some(SCRIPT));
        let links = PAGE.text.matches("href=").count();
        assert_eq!(PAGE.text.matches("href=\"/").count(), links);
        assert!(!PAGE.text.contains("href=\"//"));
    }
}
