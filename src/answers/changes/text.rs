//! Changes as sentences, for people: plain text, Markdown, and one line.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::answers::changes::{Change, Kind};
use fbc::text::display::{shown, turns_direction};

const NOTHING: &str = "no package changed";

/// A change as a sentence without its package.
pub fn sentence(change: &Change) -> String {
    let of = |text: &Option<String>| text.as_deref().map_or_else(String::new, plain);
    let (channel, bundle) = (of(&change.channel), of(&change.bundle));
    let (from, to) = (of(&change.from), of(&change.to));
    let subject = match (&change.channel, &change.bundle) {
        (_, Some(_)) => format!("bundle {bundle}"),
        (Some(_), None) => format!("channel {channel}"),
        (None, None) => "package".to_owned(),
    };
    let code = of(&change.code);
    match change.kind {
        Kind::PackageAdded => "package added".to_owned(),
        Kind::PackageRemoved => "package removed".to_owned(),
        Kind::PackageQuarantined => "package has errors and is not served over gRPC".to_owned(),
        Kind::PackageRestored => "package has no errors any more".to_owned(),
        Kind::DefaultChannelChanged => format!("default channel changed from {from} to {to}"),
        Kind::ChannelAdded => format!("channel {channel} added, with head {to}"),
        Kind::ChannelRemoved => format!("channel {channel} removed, with head {from}"),
        Kind::HeadMoved => format!("head of channel {channel} moved from {from} to {to}"),
        Kind::EntryAdded => format!("bundle {bundle} added to channel {channel}"),
        Kind::EntryRemoved => format!("bundle {bundle} removed from channel {channel}"),
        Kind::UpgradeEdgesChanged => format!("upgrade edges of channel {channel} changed"),
        Kind::BundleAdded => format!("bundle {bundle} added, version {}", of(&change.version)),
        Kind::BundleRemoved => format!("bundle {bundle} removed, version {}", of(&change.version)),
        Kind::BundleReplaced => {
            format!("bundle {bundle} replaced by other content under the same name")
        }
        Kind::Deprecated if change.from.is_some() => {
            format!("deprecation of {subject} changed: {to}")
        }
        Kind::Deprecated => format!("{subject} deprecated: {to}"),
        Kind::DeprecationLifted => format!("deprecation of {subject} lifted"),
        Kind::ProblemFound => format!("problem found: {code}"),
        Kind::ProblemSolved => format!("problem solved: {code}"),
    }
}

/// The changes as plain text: each package with its changes below it.
pub fn text(changes: &[Change]) -> String {
    let mut out = String::new();
    for group in changes.chunk_by(|a, b| a.package == b.package) {
        let _ = writeln!(out, "{}", title(group));
        for change in group {
            let _ = writeln!(out, "  {} {}", sign(change.kind), sentence(change));
        }
    }
    out
}

/// The changes as Markdown: a heading for each package, with a list below it.
pub fn markdown(changes: &[Change]) -> String {
    let mut out = String::new();
    for group in changes.chunk_by(|a, b| a.package == b.package) {
        let _ = writeln!(out, "### {}\n", escaped(&title(group)));
        for change in group {
            let _ = writeln!(out, "- {}", escaped(&sentence(change)));
        }
        out.push('\n');
    }
    out
}

/// Numbers of changes by kind, in the names of the kinds: `2 package-added, 1 head-moved`.
pub fn summary(counts: &BTreeMap<Kind, usize>) -> String {
    if counts.is_empty() {
        return NOTHING.to_owned();
    }
    let counted = counts.iter().map(|(kind, count)| format!("{count} {kind}"));
    counted.collect::<Vec<_>>().join(", ")
}

/// The same as people say it: `2 packages added, 1 head moved`.
pub fn in_words(counts: &BTreeMap<Kind, usize>) -> String {
    if counts.is_empty() {
        return NOTHING.to_owned();
    }
    let counted = counts.iter().map(|(kind, count)| {
        let (one, many, verb) = words(*kind);
        format!("{count} {} {verb}", if *count == 1 { one } else { many })
    });
    counted.collect::<Vec<_>>().join(", ")
}

/// The noun of a kind, of one and of several, and the verb.
fn words(kind: Kind) -> (&'static str, &'static str, &'static str) {
    let package = |verb| ("package", "packages", verb);
    let channel = |verb| ("channel", "channels", verb);
    let entry = |verb| ("entry", "entries", verb);
    let bundle = |verb| ("bundle", "bundles", verb);
    let deprecation = |verb| ("deprecation", "deprecations", verb);
    let problem = |verb| ("problem", "problems", verb);
    match kind {
        Kind::PackageAdded => package("added"),
        Kind::PackageRemoved => package("removed"),
        Kind::PackageQuarantined => package("with errors"),
        Kind::PackageRestored => package("without errors again"),
        Kind::DefaultChannelChanged => ("default channel", "default channels", "changed"),
        Kind::ChannelAdded => channel("added"),
        Kind::ChannelRemoved => channel("removed"),
        Kind::HeadMoved => ("head", "heads", "moved"),
        Kind::EntryAdded => entry("added"),
        Kind::EntryRemoved => entry("removed"),
        Kind::UpgradeEdgesChanged => channel("with other edges"),
        Kind::BundleAdded => bundle("added"),
        Kind::BundleRemoved => bundle("removed"),
        Kind::BundleReplaced => bundle("replaced"),
        Kind::Deprecated => deprecation("added"),
        Kind::DeprecationLifted => deprecation("lifted"),
        Kind::ProblemFound => problem("found"),
        Kind::ProblemSolved => problem("solved"),
    }
}

fn title(group: &[Change]) -> String {
    match group.first().map(|change| change.package.as_str()) {
        None | Some("") => "(catalog)".to_owned(),
        Some(name) => plain(name),
    }
}

/// Text of a catalog on one line, of bounded length.
fn plain(text: &str) -> String {
    shown(text).replace(|sign: char| sign.is_control() || turns_direction(sign), " ")
}

fn sign(kind: Kind) -> char {
    match kind {
        Kind::PackageAdded | Kind::ChannelAdded | Kind::EntryAdded | Kind::BundleAdded => '+',
        Kind::PackageRemoved | Kind::ChannelRemoved | Kind::EntryRemoved | Kind::BundleRemoved => {
            '-'
        }
        Kind::PackageQuarantined | Kind::BundleReplaced | Kind::Deprecated | Kind::ProblemFound => {
            '!'
        }
        _ => '~',
    }
}

/// Text of a catalog that Markdown does not interpret.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '\r' | '\n' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            sign => {
                if "\\`*_[]()#!|>~".contains(sign) {
                    out.push('\\');
                }
                out.push(sign);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::changes::counts;

    #[test]
    fn text_of_a_catalog_has_no_meaning_in_markdown() {
        assert_eq!(
            escaped("<b>*x*</b>\n[a](b) & `c`"),
            "&lt;b\\>\\*x\\*&lt;/b\\> \\[a\\]\\(b\\) &amp; \\`c\\`"
        );
    }

    #[test]
    fn numbers_of_changes_are_told_with_their_nouns() {
        let change = |kind: Kind, package: &str| -> Change {
            serde_json::from_value(serde_json::json!({"kind": kind, "package": package})).unwrap()
        };
        let changes = [
            change(Kind::PackageAdded, "a"),
            change(Kind::PackageAdded, "b"),
            change(Kind::HeadMoved, "c"),
        ];
        let counts = counts(&changes);
        assert_eq!(in_words(&counts), "2 packages added, 1 head moved");
        assert_eq!(summary(&counts), "2 package-added, 1 head-moved");
        assert_eq!(in_words(&BTreeMap::new()), "no package changed");
    }

    #[test]
    fn a_name_cannot_turn_the_writing_direction() {
        assert_eq!(plain("a\u{202e}b\u{2066}c\nd"), "a b c d");
    }
}
