//! Markdown of catalogs as HTML.
//!
//! The parser's events become elements that are written here, one by one: there is no
//! other way for markup of a catalog into a page, so no cleaner has to run behind it.
//! Raw HTML becomes text, since descriptions have placeholders such as `<namespace>`,
//! except for line breaks and comments. Pictures become links, headings go two levels
//! down, links lead to web and mail addresses only.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped};
use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::serve::http::pages::links;

/// The number of bytes of a text that are shown.
const SHOWN: usize = 64 << 10;
/// How deep elements may nest. Deeper ones are left out, their text stays.
const DEPTH: usize = 32;

/// The text as elements, without a heading above the third level.
pub(super) fn render(text: &str) -> Markup {
    let cut = text.floor_char_boundary(SHOWN);
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let mut writer = Writer::default();
    for event in Parser::new_ext(&text[..cut], options) {
        writer.take(event);
    }
    while let Some(end) = writer.open.pop() {
        writer.out.push_str(end);
    }
    if cut < text.len() {
        writer.out.push_str("<p>… (cut)</p>");
    }
    PreEscaped(writer.out)
}

#[derive(Default)]
struct Writer {
    out: String,
    /// The end tags of open elements; empty for an element that is left out.
    open: Vec<&'static str>,
    /// Whether the cells are those of a table's head.
    in_head: bool,
    alignments: Vec<Alignment>,
}

impl Writer {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(end) => self.end(end),
            Event::Text(text) => self.text(&text),
            Event::Code(text) => {
                self.out.push_str("<code>");
                self.text(&text);
                self.out.push_str("</code>");
            }
            Event::Html(html) | Event::InlineHtml(html) => self.raw(&html),
            Event::SoftBreak => self.out.push('\n'),
            Event::HardBreak => self.out.push_str("<br>"),
            Event::Rule => self.out.push_str("<hr>"),
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.text(&text);
            }
            Event::TaskListMarker(done) => self.out.push_str(if done { "[x] " } else { "[ ] " }),
        }
    }

    fn text(&mut self, text: &str) {
        for sign in text.chars() {
            match sign {
                '&' => self.out.push_str("&amp;"),
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                '"' => self.out.push_str("&quot;"),
                sign => self.out.push(sign),
            }
        }
    }

    /// Raw HTML: a line break, a comment, or text.
    fn raw(&mut self, html: &str) {
        let trimmed = html.trim();
        let lower = trimmed.to_ascii_lowercase();
        if matches!(lower.as_str(), "<br>" | "<br/>" | "<br />") {
            self.out.push_str("<br>");
        } else if !(lower.starts_with("<!--") && lower.ends_with("-->")) {
            self.text(html);
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        if self.open.len() >= DEPTH {
            self.open.push("");
            return;
        }
        let (start, end) = match tag {
            Tag::Paragraph => ("<p>", "</p>"),
            Tag::Heading { level, .. } => match level {
                HeadingLevel::H1 => ("<h3>", "</h3>"),
                HeadingLevel::H2 => ("<h4>", "</h4>"),
                HeadingLevel::H3 => ("<h5>", "</h5>"),
                _ => ("<h6>", "</h6>"),
            },
            Tag::BlockQuote(_) => ("<blockquote>", "</blockquote>"),
            Tag::CodeBlock(CodeBlockKind::Indented | CodeBlockKind::Fenced(_)) => {
                ("<pre tabindex=\"0\"><code>", "</code></pre>")
            }
            Tag::List(None) => ("<ul>", "</ul>"),
            Tag::List(Some(first)) => {
                let _ = write!(self.out, "<ol start=\"{first}\">");
                self.open.push("</ol>");
                return;
            }
            Tag::Item => ("<li>", "</li>"),
            Tag::Emphasis => ("<em>", "</em>"),
            Tag::Strong => ("<strong>", "</strong>"),
            Tag::Strikethrough => ("<del>", "</del>"),
            Tag::Table(alignments) => {
                self.alignments = alignments;
                (
                    "<div class=\"scroll\" tabindex=\"0\"><table>",
                    "</tbody></table></div>",
                )
            }
            Tag::TableHead => {
                self.in_head = true;
                ("<thead><tr>", "</tr></thead><tbody>")
            }
            Tag::TableRow => ("<tr>", "</tr>"),
            Tag::TableCell if self.in_head => ("<th>", "</th>"),
            Tag::TableCell => ("<td>", "</td>"),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.link(&dest_url);
                return;
            }
            // Raw HTML comes as events of its own; the others are not enabled.
            _ => ("", ""),
        };
        self.out.push_str(start);
        self.open.push(end);
    }

    /// Links inside of links, as pictures in links would be, are left out.
    fn link(&mut self, address: &str) {
        let within = self.open.contains(&"</a>");
        match links::outward(address).filter(|_| !within) {
            Some(address) => {
                self.out.push_str("<a href=\"");
                self.text(address);
                self.out
                    .push_str("\" rel=\"noopener noreferrer nofollow\">");
                self.open.push("</a>");
            }
            None => self.open.push(""),
        }
    }

    fn end(&mut self, end: TagEnd) {
        if end == TagEnd::TableHead {
            self.in_head = false;
        }
        if let Some(end) = self.open.pop() {
            self.out.push_str(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(text: &str) -> String {
        render(text).into_string()
    }

    #[test]
    fn headings_lists_code_and_tables_become_elements() {
        assert_eq!(
            html("# A\n\nb *c* `d`"),
            "<h3>A</h3><p>b <em>c</em> <code>d</code></p>"
        );
        assert_eq!(
            html("3. a\n4. b"),
            "<ol start=\"3\"><li>a</li><li>b</li></ol>"
        );
        assert_eq!(
            html("|a|\n|-|\n|b|"),
            "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th>a</th></tr></thead><tbody>\
             <tr><td>b</td></tr></tbody></table></div>"
        );
    }

    #[test]
    fn raw_html_is_text_and_keeps_placeholders() {
        assert_eq!(
            html("in <namespace> now"),
            "<p>in &lt;namespace&gt; now</p>"
        );
        assert_eq!(html("a<br/>b<!-- c -->"), "<p>a<br>b</p>");
        let text = html("<script>alert(1)</script>\n\n<img src=x onerror=alert(1)>");
        assert!(
            !text.contains("<script") && !text.contains("<img"),
            "{text}"
        );
        assert!(
            text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"),
            "{text}"
        );
    }

    #[test]
    fn links_lead_to_web_addresses_only_and_pictures_are_links() {
        let good = html("[a](https://b.example/\"x)");
        assert!(!good.contains("\"x"), "{good}");
        assert!(
            html("![a](https://b.example/c.png)").contains("<a href=\"https://b.example/c.png\"")
        );
        for bad in [
            "[a](javascript:alert(1))",
            "[a](/b)",
            "![a](data:x)",
            "<javascript:a>",
        ] {
            let text = html(bad);
            assert!(!text.contains("href"), "{text}");
            assert!(text.contains('a'), "{text}");
        }
        let nested = html("[![a](https://b.example/c.png)](https://d.example)");
        assert_eq!(nested.matches("<a ").count(), 1, "{nested}");
    }

    #[test]
    fn deep_and_long_text_ends() {
        let deep = html(&"> ".repeat(500));
        assert!(deep.matches("<blockquote>").count() <= DEPTH);
        assert_eq!(
            deep.matches("<blockquote>").count(),
            deep.matches("</blockquote>").count()
        );
        assert!(html(&"a ".repeat(50_000)).ends_with("<p>… (cut)</p>"));
    }
}
