//! A feed of changes (Atom, RFC 4287).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::SystemTime;

use crate::answers::changes::{Change, Kind, summary, text};
use crate::answers::rest::records::percent_encoded;
use crate::answers::xml::escaped;

/// An update of a catalog in a feed.
pub struct FeedEntry<'a> {
    /// The number of the revision.
    pub revision: String,
    /// The number of the one before.
    pub before: String,
    /// The digest of its content, in hexadecimal digits.
    pub content: String,
    /// The one before.
    pub content_before: String,
    /// When it was published.
    pub published: SystemTime,
    /// Its changes, or the first of them.
    pub changes: &'a [Change],
    /// How many there are of each kind.
    pub counts: &'a BTreeMap<Kind, usize>,
    /// How many there are.
    pub total: usize,
}

/// The feed of a catalog, or of one of its packages. `origin` is the scheme and the
/// host of its links: readers resolve relative ones in different ways. With `pages`, the
/// links for people lead to pages. The newest entry comes first. The
/// identifier of an entry depends on catalog, package and content alone, so an entry is
/// never repeated under another one.
pub fn feed(
    origin: &str,
    pages: bool,
    catalog: &str,
    package: Option<&str>,
    updated: SystemTime,
    entries: &[FeedEntry<'_>],
) -> String {
    let api = format!("{origin}/catalogs/{catalog}/api/v1");
    let query = package.map_or_else(String::new, |one| {
        format!("package={}", percent_encoded(one))
    });
    let subject = package.map_or_else(|| catalog.to_owned(), |one| format!("{catalog}: {one}"));
    let id = match package {
        Some(one) => format!("urn:almanac:{catalog}:{}", percent_encoded(one)),
        None => format!("urn:almanac:{catalog}"),
    };
    let (subject, id) = (escaped(&subject), escaped(&id));
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n");
    let own = match &*query {
        "" => format!("{api}/changes.atom"),
        query => format!("{api}/changes.atom?{query}"),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "<feed xmlns=\"http://www.w3.org/2005/Atom\">\n  <id>{id}</id>\n  \
         <title>Changes of {subject}</title>\n  <updated>{}</updated>\n  \
         <author><name>almanac</name></author>\n  <generator>almanac</generator>\n  \
         <link rel=\"self\" type=\"application/atom+xml\" href=\"{}\"/>",
        date(updated),
        escaped(&own),
    );
    let site = format!("{origin}/catalogs/{catalog}");
    let page = match package {
        Some(one) => format!("{site}/packages/{}/history", percent_encoded(one)),
        None => format!("{site}/changes"),
    };
    let for_people = |indent: &str, page: &str| {
        let link = escaped(page);
        let link =
            format!("{indent}<link rel=\"alternate\" type=\"text/html\" href=\"{link}\"/>\n");
        if pages { link } else { String::new() }
    };
    out.push_str(&for_people("  ", &page));
    for entry in entries {
        let mut changes = format!("{api}/changes?from={}&to={}", entry.before, entry.revision);
        if !query.is_empty() {
            let _ = write!(changes, "&{query}");
        }
        let mut content = text(entry.changes);
        if let Some(more) = entry
            .total
            .checked_sub(entry.changes.len())
            .filter(|n| *n > 0)
        {
            let _ = writeln!(content, "and {more} more changes");
        }
        let published = date(entry.published);
        // The page of a package has all its changes; else there is one for two contents.
        let of_entry = match package {
            Some(_) => page.clone(),
            None => format!(
                "{origin}/compare/diff?from={catalog}%40{}&to={catalog}%40{}",
                entry.content_before, entry.content
            ),
        };
        let of_entry = for_people("    ", &of_entry);
        let _ = writeln!(
            out,
            "  <entry>\n    <id>{id}:{}</id>\n    <title>{subject}: {}</title>\n    \
             <updated>{published}</updated>\n    <published>{published}</published>\n{of_entry}    \
             <link rel=\"alternate\" type=\"application/json\" href=\"{}\"/>\n    \
             <content type=\"text\">{}</content>\n  </entry>",
            entry.content,
            escaped(&summary(entry.counts)),
            escaped(&changes),
            escaped(&content),
        );
    }
    out.push_str("</feed>\n");
    out
}

fn date(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}
