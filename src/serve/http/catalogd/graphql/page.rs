//! A page to write queries in, for browsers.

use std::sync::LazyLock;

use axum::response::Response;
use http::Extensions;

use crate::serve::access::Reader;
use crate::serve::http::html::HtmlPage;
use crate::serve::http::options::PageOptions;
use crate::serve::http::problem_count::problem_count;
use crate::snapshot::Catalogs;

const SCRIPT: &str = concat!(
    include_str!("editor.js"),
    include_str!("frame.js"),
    include_str!("page.js")
);
const STYLE: &str = include_str!("page.css");
const PAGE: &str = include_str!("page.html");
/// The link to the problems, which tells how many there are.
const LINK: &str = ">Problems<";
/// The frame of the pages for people.
const FRAME: &str = include_str!("frame.html");

static FRAMED: LazyLock<HtmlPage> = LazyLock::new(|| {
    HtmlPage::new(
        &PAGE.replace("<!-- frame -->\n", FRAME),
        STYLE,
        Some(SCRIPT),
    )
});
static ALONE: LazyLock<HtmlPage> =
    LazyLock::new(|| HtmlPage::new(&PAGE.replace("<!-- frame -->\n", ""), STYLE, Some(SCRIPT)));

/// The page. Its frame leads to the pages for people, which may be turned off.
pub(crate) fn respond(extensions: &Extensions, catalogs: &Catalogs) -> Response {
    let options = extensions.get::<PageOptions>();
    let has_pages = options.is_some_and(|options| options.enabled);
    if !has_pages {
        return ALONE.respond(ALONE.text.as_str(), "Accept");
    }
    // Only the catalogs that the client may read count.
    let reader = extensions.get::<Reader>();
    let problems = reader.map_or(0, |reader| problem_count(reader.catalogs(catalogs)));
    let text = match problems {
        0 => FRAMED.text.clone(),
        some => FRAMED
            .text
            .replacen(LINK, &format!(">Problems ({some})<"), 1),
    };
    FRAMED.respond(text, "Accept, Authorization")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_needs_nothing_from_elsewhere() {
        for page in [&*FRAMED, &*ALONE] {
            page.assert_whole(STYLE, Some(SCRIPT));
            let links = page.text.matches("href=").count();
            assert_eq!(page.text.matches("href=\"/").count(), links);
            assert!(!page.text.contains("href=\"//"));
            assert!(!page.text.contains("<!--"));
        }
        assert_eq!(FRAMED.text.matches(LINK).count(), 1);
        assert_eq!(ALONE.text.matches("href=").count(), 0);
    }
}
