//! How digests and dates are shown.

use maud::{Markup, html};

/// The first digits of a digest, as pages show them.
pub(super) fn short(hex: &str) -> &str {
    hex.get(..12).unwrap_or(hex)
}

/// A date that the script completes with an age.
pub(in crate::serve) fn date(rfc3339: &str) -> Markup {
    // 2026-11-22T04:35:00Z
    let shown = match (rfc3339.get(..10), rfc3339.get(11..16)) {
        (Some(day), Some(time)) => format!("{day} {time} UTC"),
        _ => rfc3339.to_owned(),
    };
    html! { time datetime=(rfc3339) { (shown) } }
}

/// A detail with a capital at its beginning and a point at its end.
pub(super) fn sentence(detail: &str) -> String {
    let mut signs = detail.chars();
    let mut text: String = signs
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .collect();
    text.extend(signs);
    if !text.ends_with(['.', '?', '!']) {
        text.push('.');
    }
    text
}
