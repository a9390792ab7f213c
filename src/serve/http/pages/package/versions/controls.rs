//! The form above the graph, and its tools.

use std::collections::HashSet;

use maud::{Markup, html};

use crate::answers::drawing::matrix::COLUMNS;
use crate::answers::rest::plan::Rules;
use crate::answers::rest::records::ChannelRecord;
use crate::serve::http::pages::package::subject::Subject;
use crate::serve::http::pages::package::versions::view::{CHANNELS, View};
use crate::serve::http::pages::parts::{badge, count, counted};
use fbc::text::display::clip;

/// The longest name of a channel beside its box, in bytes.
const LONGEST: usize = 120;

pub(super) fn form(
    subject: &Subject<'_>,
    view: &View<'_>,
    order: &[&ChannelRecord<'_>],
    shown: &[&ChannelRecord<'_>],
) -> Markup {
    let shown: HashSet<&str> = shown.iter().map(|one| &*one.name).collect();
    let is_shown = |name: &str| shown.contains(name);
    let (first, rest) = order.split_at(CHANNELS.min(order.len()));
    // Those that are shown have a box in any case.
    let (near, far) = rest.split_at((COLUMNS - CHANNELS).min(rest.len()));
    let far_shown = far.iter().filter(|one| is_shown(&one.name));
    let listed: Vec<_> = near.iter().chain(far_shown).copied().collect();
    let unlisted = rest.len() - listed.len();
    let boxes = |channels: &[&ChannelRecord<'_>]| {
        html! {
            @for one in channels {
                label.box {
                    input type="checkbox" name="channel" value=(one.name) checked[is_shown(&one.name)];
                    " " (clip(&one.name, LONGEST))
                    @if one.default { " (default)" }
                    @if one.deprecation.is_some() { " " (badge("deprecated", "deprecated")) }
                }
            }
        }
    };
    let choice = |name: &str, value: &str, text: &str, checked: bool| {
        html! { label.box { input type="radio" name=(name) value=(value) checked[checked]; " " (text) } }
    };
    html! {
        form.fields action=(subject.tab("versions")) {
            fieldset {
                legend { "Channels" }
                (boxes(first))
                @if !rest.is_empty() {
                    details open[!view.all_channels && listed.iter().any(|one| is_shown(&one.name))] {
                        summary { (count(rest.len() as u64)) " more" }
                        div.boxes { (boxes(&listed)) }
                        @if unlisted > 0 { p { "… and " (counted(unlisted, "further channel")) ", which the parameter " code { "channel" } " of the address shows." } }
                    }
                    @if !view.all_channels {
                        a href=(view.with_all(subject, false, true)) { "Show all " (count(order.len() as u64)) " channels" }
                    }
                }
            }
            fieldset {
                legend { "Rules" }
                (choice("rules", "v0", "OLM v0", view.rules == Rules::V0))
                (choice("rules", "v1", "OLM v1", view.rules == Rules::V1))
            }
            fieldset {
                legend { "Rows" }
                label.box { input type="checkbox" name="rows" value="all" checked[view.all_rows]; " all rows" }
                label.box { input type="checkbox" name="view" value="table" checked[view.words]; " words only" }
            }
            @if let Some(from) = view.from { input type="hidden" name="from" value=(from); }
            @if let Some(to) = view.to { input type="hidden" name="to" value=(to); }
            button { "Show" }
        }
    }
}

/// Files of the graph; with a script also its size, and a picture.
pub(super) fn tools(
    subject: &Subject<'_>,
    view: &View<'_>,
    shown: &[&ChannelRecord<'_>],
) -> Markup {
    let svg = view.file(subject, shown, "graph.svg");
    html! {
        div.tools {
            span { "As a file: "
                a href=(svg) { "SVG" } " · "
                a href=(view.file(subject, shown, "graph.mmd")) { "Mermaid" }
            }
            button #png type="button" hidden data-from=(svg) data-name=(subject.record.summary.name) { "PNG" }
            span #zoom role="group" aria-label="Size" hidden {
                button type="button" data-zoom="-1" aria-label="Smaller" { "−" }
                button type="button" data-zoom="0" aria-label="100 %, original size" { "100 %" }
                button type="button" data-zoom="1" aria-label="Larger" { "+" }
            }
        }
    }
}
