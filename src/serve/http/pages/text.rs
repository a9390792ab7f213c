//! How digests and dates are shown.

use std::time::{Duration, SystemTime};

use maud::{Markup, html};

/// The first digits of a digest, as pages show them.
pub(super) fn short(hex: &str) -> &str {
    hex.get(..12).unwrap_or(hex)
}

/// A date that the script completes with an age.
pub(crate) fn date(rfc3339: &str) -> Markup {
    // 2026-11-22T04:35:00Z
    let shown = match (rfc3339.get(..10), rfc3339.get(11..16)) {
        (Some(day), Some(time)) => format!("{day} {time} UTC"),
        _ => rfc3339.to_owned(),
    };
    html! { time datetime=(rfc3339) { (shown) } }
}

/// A moment as a date.
pub(super) fn moment(time: SystemTime) -> Markup {
    date(&humantime::format_rfc3339_seconds(time).to_string())
}

/// The day (UTC) so many days ago.
pub(super) fn day_before(days: u64) -> String {
    let then = SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
    let then = humantime::format_rfc3339_seconds(then).to_string();
    then.get(..10).unwrap_or_default().to_owned()
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
