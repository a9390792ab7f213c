//! Components that several pages show.

use maud::{Markup, PreEscaped, html};

use crate::answers::rest::records::PackageSummary;
use crate::serve::http::pages::links;
use crate::snapshot::Snapshot;
use fbc::document::Gvk;
use fbc::problem::{Problem, Severity};
use fbc::text::display::clip;

/// The longest name in lists, in bytes.
const LONGEST_NAME: usize = 120;

/// A word in a coloured box. The word tells what the colour does.
pub(super) fn badge(class: &str, text: &str) -> Markup {
    html! { span.badge.(class) { (text) } }
}

/// A remark that stands out.
pub(super) fn notice(class: &str, content: Markup) -> Markup {
    html! { div.notice.(class) role="note" { (PreEscaped(content.into_string())) } }
}

/// A table that scrolls in its own region.
pub(super) fn table(label: &str, head: &[&str], rows: Markup) -> Markup {
    html! {
        div.scroll role="region" aria-label=(label) tabindex="0" {
            table {
                thead { tr { @for title in head { th scope="col" { (title) } } } }
                tbody { (PreEscaped(rows.into_string())) }
            }
        }
    }
}

/// Code with a button that copies it. Without a script, there is no button.
pub(super) fn code(label: &str, text: &str) -> Markup {
    html! {
        div.code {
            pre tabindex="0" aria-label=(label) { code { (text) } }
            button.copy type="button" hidden { "Copy" }
        }
    }
}

/// A fold that a click opens.
pub(super) fn fold(summary: Markup, content: Markup) -> Markup {
    html! { details { summary { (PreEscaped(summary.into_string())) } (PreEscaped(content.into_string())) } }
}

/// An empty state: why, and what next.
pub(super) fn empty(content: Markup) -> Markup {
    html! { div.empty { (PreEscaped(content.into_string())) } }
}

/// The icon of a package, or its first letter.
pub(super) fn icon(catalog: &str, snapshot: &Snapshot, package: &PackageSummary<'_>) -> Markup {
    let letter = package.title().chars().find(|sign| sign.is_alphanumeric());
    let letter = letter.unwrap_or('?').to_uppercase().to_string();
    let digest = package
        .icon
        .as_ref()
        .and_then(|_| snapshot.icon(&package.name));
    html! {
        span.icon aria-hidden="true" {
            @if let Some(digest) = &digest {
                img src=(links::icon(catalog, digest)) alt="" width="32" height="32" loading="lazy" decoding="async" data-letter=(letter);
            } @else {
                (letter)
            }
        }
    }
}

/// A link that puts a package into the mirror plan. The script keeps those that are in
/// it; without it, the plan has this one. Nothing can be selected from a package with errors.
pub(super) fn add_to_plan(catalog: &str, package: &PackageSummary<'_>) -> Markup {
    let name = &*package.name;
    html! {
        @if !package.quarantined {
            a.plan href=(links::plan(catalog, name)) data-pick=(links::pick(catalog, name)) { "+ plan" }
        }
    }
}

/// The word for a package whose default channel is deprecated.
pub(super) const OLD_DEFAULT: &str = "default channel deprecated";

/// Whether the default channel of a package is deprecated.
pub(super) fn has_old_default(package: &PackageSummary<'_>) -> bool {
    let mut channels = package.channels.iter();
    channels.any(|one| one.name == package.default_channel && one.deprecation.is_some())
}

/// The states of a package worth a word.
pub(super) fn states(package: &PackageSummary<'_>) -> Markup {
    html! {
        @if package.quarantined { (badge("error", "left out")) " " }
        @if package.deprecation.is_some() { (badge("deprecated", "deprecated")) " " }
        @else if has_old_default(package) { (badge("deprecated", OLD_DEFAULT)) " " }
    }
}

/// An address of a catalog as a link, or as text if browsers must not follow it.
pub(super) fn outward(name: &str, address: &str) -> Markup {
    let text = if name.trim().is_empty() {
        address
    } else {
        name
    };
    html! {
        @match links::outward(address) {
            Some(address) => a href=(address) rel="noopener noreferrer nofollow" { (text) },
            None => { (text) @if !address.is_empty() && text != address { " " code { (address) } } },
        }
    }
}

/// A name as lists show it: authors decide how long it is.
pub(super) fn short_name(name: &str) -> String {
    clip(name, LONGEST_NAME)
}

/// The group and version of an API, as manifests write them.
pub(super) fn api_version(api: &Gvk) -> String {
    if api.group.is_empty() {
        return api.version.clone();
    }
    format!("{}/{}", api.group, api.version)
}

/// A number with commas between its thousands.
pub(super) fn count(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or(u64::MAX).to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun: `1 package`, `2 packages`.
pub(super) fn counted(number: impl TryInto<u64>, noun: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    let end = if number == 1 { "" } else { "s" };
    format!("{} {noun}{end}", count(number))
}

/// The problems of a catalog, each with its position and advice.
pub(super) fn problems(catalog: &str, problems: &[&Problem]) -> Markup {
    html! {
        ul.problems {
            @for problem in problems {
                li {
                    p {
                        @match problem.severity {
                            Severity::Warning => (badge("warning", "warning")),
                            Severity::Error => (badge("error", "error")),
                            Severity::Fatal => (badge("error", "fatal")),
                        }
                        " " code { (problem.code.as_str()) } " "
                        @let subject = &problem.subject;
                        @if !subject.package.is_empty() {
                            a href=(links::tab(catalog, &subject.package, "problems")) { (subject.package) }
                        }
                        @if !subject.channel.is_empty() { " › " (short_name(&subject.channel)) }
                        @if !subject.bundle.is_empty() { " › " (short_name(&subject.bundle)) }
                    }
                    p { (problem.message) }
                    @if let Some(position) = &problem.position {
                        p.soft {
                            code { (position.file) ":" (position.line) }
                            " (document " (position.document) ")"
                        }
                    }
                }
            }
        }
    }
}

/// The number of errors and of warnings, in words. Empty without any.
pub(super) fn problem_counts<'a>(problems: impl IntoIterator<Item = &'a Problem>) -> String {
    let (mut errors, mut warnings) = (0, 0);
    for problem in problems {
        match problem.severity {
            Severity::Warning => warnings += 1,
            Severity::Error | Severity::Fatal => errors += 1,
        }
    }
    let parts = [(errors, "error"), (warnings, "warning")];
    let parts = parts.into_iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts.map(|(number, noun)| counted(number, noun)).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, wanted) in [
            (0_u64, "0"),
            (999, "999"),
            (6_871, "6,871"),
            (1_000_000, "1,000,000"),
        ] {
            assert_eq!(count(number), wanted);
        }
        assert_eq!(counted(1_u64, "package"), "1 package");
        assert_eq!(counted(1_200_u64, "package"), "1,200 packages");
    }

    #[test]
    fn an_address_that_is_no_web_address_is_text() {
        let markup = outward("x", "javascript:alert(1)").into_string();
        assert_eq!(markup, "x <code>javascript:alert(1)</code>");
        let markup = outward("", "https://a.example/?b&c").into_string();
        assert!(
            markup.starts_with("<a href=\"https://a.example/?b&amp;c\" rel="),
            "{markup}"
        );
    }
}
