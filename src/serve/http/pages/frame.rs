//! The frame of all pages: head, navigation, path and footer.

use std::fmt::Write as _;

use maud::{DOCTYPE, Markup, html};

use crate::serve::http::pages::parts::{code, count, fold, notice};
use crate::serve::http::pages::text::{date, short};
use crate::serve::http::pages::{assets, links};
use crate::snapshot::Snapshot;
use fbc::text::display::turns_direction;

/// A page before it is rendered.
pub(crate) struct Page {
    /// The title, without the program's name.
    pub(super) title: String,
    /// The path to it: texts with their addresses. The last is the page itself.
    pub(super) trail: Vec<(String, String)>,
    /// The words in the field for searching.
    pub(super) words: String,
    /// The content of `main`.
    pub(super) body: Markup,
    /// The path of the same as JSON.
    pub(super) twin: Option<String>,
    /// The content that it shows.
    pub(super) content: Option<ShownContent>,
}

/// The content of a catalog, as the footer names it.
pub(super) struct ShownContent {
    catalog: String,
    hex: String,
    date: String,
}

/// Facts about the request for a page. Pages of errors have no address of their own.
#[derive(Default)]
pub(super) struct Around<'a> {
    /// Scheme and host.
    pub(super) origin: &'a str,
    /// Whether the client sent a token.
    pub(super) is_known: bool,
    /// The path with its parameters.
    pub(super) address: &'a str,
    /// The content that the link was made for.
    pub(super) at: Option<&'a str>,
    /// How many problems the catalogs of the reader have.
    pub(super) problems: usize,
}

impl ShownContent {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let revision = snapshot.revision();
        Self {
            catalog: revision.catalog.to_string(),
            hex: revision.content.hex(),
            date: humantime::format_rfc3339_seconds(revision.modified).to_string(),
        }
    }
}

impl Page {
    /// A page without a path, words or JSON.
    pub(super) fn new(title: impl Into<String>, body: Markup) -> Self {
        Self {
            title: title.into(),
            trail: Vec::new(),
            words: String::new(),
            body,
            twin: None,
            content: None,
        }
    }

    /// The same with its path. The last part is the page.
    pub(super) fn at(mut self, trail: impl IntoIterator<Item = (String, String)>) -> Self {
        self.trail = trail.into_iter().collect();
        self
    }

    /// The same with the path of its JSON.
    pub(super) fn twin(mut self, path: impl Into<String>) -> Self {
        self.twin = Some(path.into());
        self
    }

    /// The same with the content that it shows.
    pub(super) fn content(mut self, snapshot: &Snapshot) -> Self {
        self.content = Some(ShownContent::of(snapshot));
        self
    }
}

/// The whole document.
pub(super) fn render(page: &Page, around: &Around<'_>) -> String {
    let title = match page.title.as_str() {
        "" => "almanac".to_owned(),
        title => format!("{title} · almanac"),
    };
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="stylesheet" href=(assets::STYLE.path());
                link rel="icon" href=(assets::MARK.path()) type="image/svg+xml";
                link rel="search" href="/opensearch.xml" title="almanac" type="application/opensearchdescription+xml";
                script src=(assets::SCRIPT.path()) {}
            }
            body {
                a.skip href="#content" { "Skip to content" }
                header.top {
                    a.brand href="/" { "almanac" }
                    form.find role="search" action="/search" {
                        label.hidden for="words" { "Search all catalogs" }
                        input #words type="search" name="q" value=(page.words) maxlength="200"
                            placeholder="Search all catalogs" autocomplete="off" spellcheck="false" list="near";
                        datalist #near {}
                        button { "Search" }
                    }
                    nav aria-label="Site" {
                        ul {
                            li { a href="/apis" { "APIs" } }
                            li { a href="/compare" { "Compare" } }
                            li { a href="/changes" { "Changes" } }
                            li { a #plan-link href="/mirror" { "Mirror plan" } }
                            li { a href="/problems" {
                                "Problems"
                                @if around.problems > 0 { " (" (count(around.problems as u64)) ")" }
                            } }
                            li { button #theme type="button" hidden { "Theme" } }
                        }
                    }
                }
                @if page.trail.len() > 1 {
                    nav.trail aria-label="Path" {
                        ol {
                            @for (at, (text, link)) in page.trail.iter().enumerate() {
                                li {
                                    @if at + 1 == page.trail.len() {
                                        span aria-current="page" { (text) }
                                    } @else {
                                        a href=(link) { (text) }
                                    }
                                }
                            }
                        }
                    }
                }
                main #content tabindex="-1" {
                    @if let (Some(content), Some(at)) = (&page.content, around.at) {
                        (moved(content, at))
                    }
                    (page.body)
                }
                footer.bottom {
                    @if let Some(content) = &page.content {
                        span { "content " code { (short(&content.hex)) } " · " (date(&content.date)) }
                        a #permanent href=(permanent(around.address, &content.hex)) { "permanent link" }
                    }
                    @if let Some(twin) = &page.twin {
                        a href=(twin) { "as JSON" }
                        (fold(html! { "curl" }, code("curl", &curl(around, twin))))
                    }
                    a href="/api" { "API" }
                }
            }
        }
    };
    visible(document.into_string())
}

/// A remark on a page whose link was made for another content.
fn moved(content: &ShownContent, at: &str) -> Markup {
    let wanted = at.trim_start_matches("sha256:");
    let from = format!("{}@{wanted}", content.catalog);
    let diff = links::with(
        "/compare/diff",
        &[("from", &from), ("to", &content.catalog)],
    );
    html! {
        @if wanted.is_empty() || !content.hex.starts_with(wanted) {
            (notice("warning", html! {
                p { "This link was made for the content " code { (short(wanted)) } ". The catalog has gone on to "
                    code { (short(&content.hex)) } ". " a href=(diff) { "See the changes" } }
            }))
        }
    }
}

/// The address with the content that it shows.
fn permanent(address: &str, hex: &str) -> String {
    let sign = if address.contains('?') { '&' } else { '?' };
    format!("{address}{sign}at={}", short(hex))
}

/// The command that gets the same as JSON. Its address has escapes for all signs that a
/// shell would take for others.
fn curl(around: &Around<'_>, twin: &str) -> String {
    let token = if around.is_known {
        "--oauth2-bearer \"$TOKEN\" "
    } else {
        ""
    };
    format!(
        "curl -fsS {token}'{}{}'",
        around.origin,
        twin.replace('\'', "%27")
    )
}

/// Makes the characters visible that change the order of others or that nothing
/// shows. Templates have none; those of a catalog could mislead.
fn visible(text: String) -> String {
    let hidden = |sign: char| {
        (sign.is_control() && sign != '\n' && sign != '\t')
            || turns_direction(sign)
            || sign == '\u{feff}'
    };
    if !text.contains(hidden) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 64);
    for sign in text.chars() {
        match sign {
            '\r' => {}
            sign if hidden(sign) => {
                let _ = write!(out, "[U+{:04X}]", u32::from(sign));
            }
            sign => out.push(sign),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_turns_around_is_made_visible() {
        let text = visible("a\u{202e}b\u{0}c\r\nd\u{2066}".to_owned());
        assert_eq!(text, "a[U+202E]b[U+0000]c\nd[U+2066]");
        assert_eq!(visible("ä\n\t".to_owned()), "ä\n\t");
    }

    #[test]
    fn a_page_stands_between_head_and_footer() {
        let page = Page::new("<b>", html! { h1 { "<script>" } })
            .at([("a".into(), "/a".into()), ("b".into(), "/b".into())])
            .twin("/j?a=b&c=d");
        let around = Around {
            origin: "https://a.example",
            is_known: true,
            address: "/p?q=1",
            at: None,
            problems: 1_200,
        };
        let text = render(&page, &around);
        for part in [
            "<title>&lt;b&gt; · almanac</title>",
            "<h1>&lt;script&gt;</h1>",
            "<a href=\"/a\">a</a>",
            "<span aria-current=\"page\">b</span>",
            "<a href=\"/j?a=b&amp;c=d\">as JSON</a>",
            "<a href=\"/problems\">Problems (1,200)</a>",
            "curl -fsS --oauth2-bearer &quot;$TOKEN&quot; 'https://a.example/j?a=b&amp;c=d'",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("style="), "{text}");
    }

    #[test]
    fn a_link_for_another_content_says_so_and_leads_to_the_difference() {
        let content = ShownContent {
            catalog: "a".to_owned(),
            hex: "0123456789abcdef".to_owned(),
            date: String::new(),
        };
        for same in ["0123456789ab", "sha256:0123"] {
            assert_eq!(moved(&content, same).into_string(), "", "{same}");
        }
        let text = moved(&content, "ffffffffffff").into_string();
        assert!(
            text.contains("/compare/diff?from=a%40ffffffffffff&amp;to=a"),
            "{text}"
        );
        assert_eq!(permanent("/a?b=c", &content.hex), "/a?b=c&at=0123456789ab");
    }
}
