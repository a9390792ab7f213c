//! The versions of a package in its channels, with the upgrade graph between them.
//!
//! The labels are a table, the lines one picture behind it; both have the same
//! measures. Each dot is a link, so that the graph can be used without a script.

use std::collections::HashSet;
use std::fmt::Write as _;

use axum::response::Response;
use maud::{Markup, PreEscaped, html};

use crate::answers::rest::matrix::{Cell, Column, Line, LineKind, Matrix, MatrixView, Row};
use crate::answers::rest::plan::{Plan, Rules, plan};
use crate::answers::rest::records::{ChannelRecord, percent_encoded};
use crate::answers::rest::updates::Installed;
use crate::serve::http::pages::package::subject::Subject;
use crate::serve::http::pages::parts::{badge, count, counted, empty, notice};
use crate::serve::http::pages::{links, request};
use crate::serve::http::queries::plan::rules;
use crate::serve::http::queries::problem::{Problem, cut};
use crate::serve::http::queries::request::{LOOKUPS, QueryRequest, read};
use fbc::text::semver::Version;

/// How many channels are shown at first.
const CHANNELS: usize = 8;
/// The measures of the picture, in sixteenths of a rem: the style sheet has the same.
const ROW: usize = 32;
const COLUMN: usize = 48;

/// What the address says about the page.
struct View<'a> {
    channels: Vec<&'a str>,
    all: bool,
    rules: Rules,
    from: Option<&'a str>,
    to: Option<&'a str>,
}

pub(in crate::serve::http::pages) async fn show(request: QueryRequest) -> Response {
    const KNOWN: &[&str] = &["channel", "rows", "rules", "from", "to"];
    request::run(request, &LOOKUPS, KNOWN, |query| {
        let subject = Subject::of(query)?;
        let parameters = &query.parameters;
        let stored = subject.channels();
        let all = read(&stored)?;
        let order = ordered(&all);
        let wanted: Vec<&str> = parameters.all("channel").collect();
        let names = || all.iter().map(|one| &*one.name);
        for name in &wanted {
            if !names().any(|known| known == *name) {
                return Err(Problem::unknown("channel", name, names()));
            }
        }
        let shown: Vec<&ChannelRecord<'_>> = if wanted.is_empty() {
            order.iter().copied().take(CHANNELS).collect()
        } else {
            let chosen = order.iter().copied();
            chosen.filter(|one| wanted.contains(&&*one.name)).collect()
        };
        let view = View {
            channels: wanted,
            all: match parameters.get("rows") {
                None => false,
                Some("all") => true,
                Some(other) => {
                    let detail = format!("rows is all, and not {:?}", cut(other));
                    return Err(Problem::invalid_parameter("rows", detail));
                }
            },
            rules: rules(parameters.get("rules"))?,
            from: parameters.get("from"),
            to: parameters.get("to"),
        };
        let way = way(&all, &view);
        let on_way: HashSet<&str> = way
            .iter()
            .flat_map(|way| &way.steps)
            .flat_map(|step| [step.from, step.to])
            .collect();
        let mut kept: Vec<&str> = [view.from, view.to].into_iter().flatten().collect();
        kept.extend(&on_way);
        let matrix = Matrix::of(
            &shown,
            MatrixView {
                all: view.all,
                rules: view.rules,
                kept: &kept,
                selected: view.from,
            },
        );
        let body = html! {
            h2 { "Versions" }
            @if all.is_empty() {
                (empty(html! { p { "This package has no channel, so nobody can install it." } }))
            } @else {
                (controls(&subject, &view, &order, &shown))
                (told(&subject, &view, way.as_ref()))
                (table(&subject, &view, &matrix, &on_way))
                @if matrix.hidden > 0 {
                    p { a href=(link(&subject, &view, true, view.from, view.to)) {
                        "Show all rows (" (count(matrix.hidden as u64)) " more)"
                    } }
                }
                (key())
                p {
                    "As a file: "
                    a href=(drawing(&subject, &view, "graph.svg")) { "SVG" } " · "
                    a href=(drawing(&subject, &view, "graph.mmd")) { "Mermaid" }
                }
            }
        };
        let channel = shown.first().map_or("", |one| &*one.name);
        let twin = subject.api(&format!(
            "packages/{}/channels/{}",
            subject.record.name,
            percent_encoded(channel)
        ));
        Ok(subject.page("versions", &body).twin(twin))
    })
    .await
}

/// The default channel, then the others by their heads, the highest first.
fn ordered<'a>(all: &'a [ChannelRecord<'a>]) -> Vec<&'a ChannelRecord<'a>> {
    let mut order: Vec<&ChannelRecord<'_>> = all.iter().collect();
    order.sort_by_cached_key(|one| {
        let version = Version::parse(&one.version).ok();
        (!one.default, std::cmp::Reverse(version), one.name.clone())
    });
    order
}

/// The selected way as a plan of updates; `None` without both ends.
fn way<'a>(all: &'a [ChannelRecord<'a>], view: &View<'a>) -> Option<Plan<'a>> {
    let (from, to) = (view.from?, view.to?);
    let mut entries = all.iter().flat_map(|channel| &channel.entries);
    let entry = entries.find(|entry| entry.name == from)?;
    let installed = Installed {
        name: from,
        version: Version::parse(&entry.version).ok(),
    };
    Some(plan(all, &installed, Some(to), view.rules))
}

/// What the selection means, in words.
fn told(subject: &Subject<'_>, view: &View<'_>, way: Option<&Plan<'_>>) -> Markup {
    let clear = link(subject, view, view.all, None, None);
    let planner = links::with(
        &subject.tab("updates"),
        &[
            ("from", view.from.unwrap_or_default()),
            ("to", view.to.unwrap_or_default()),
            ("rules", view.rules.as_str()),
        ],
    );
    html! {
        @match (view.from, view.to, way) {
            (None, ..) => {},
            (Some(from), None, _) => (notice("plain", html! {
                p { "From " code { (from) } ". Select the version to reach, or "
                    a href=(planner) { "plan the update" } ". " a href=(clear) { "Clear" } }
            })),
            (Some(from), Some(to), Some(way)) if way.reached => (notice("good", html! {
                p { "From " code { (from) } " to " code { (to) } ": " (counted(way.steps.len(), "step"))
                    " under OLM " (view.rules.as_str()) ". "
                    a href=(planner) { "All steps with their reasons" } " · " a href=(clear) { "Clear" } }
            })),
            (Some(from), Some(to), _) => (notice("warning", html! {
                p { "No way leads from " code { (from) } " to " code { (to) } " under OLM " (view.rules.as_str())
                    ". " a href=(planner) { "Plan the update" } " · " a href=(clear) { "Clear" } }
            })),
        }
    }
}

fn table(
    subject: &Subject<'_>,
    view: &View<'_>,
    matrix: &Matrix<'_>,
    on_way: &HashSet<&str>,
) -> Markup {
    html! {
        div.scroll.matrix role="region" aria-label="Versions by channel" tabindex="0" {
            div.canvas.(head_class(matrix)) {
                (PreEscaped(picture(matrix, on_way)))
                table {
                    thead {
                        tr {
                            th scope="col" { "Version" }
                            @for column in &matrix.columns { (heading(column)) }
                            th.remarks scope="col" { "Remarks" }
                        }
                    }
                    tbody { @for row in &matrix.rows { (version_row(subject, view, matrix, row, on_way)) } }
                }
            }
        }
    }
}

fn heading(column: &Column<'_>) -> Markup {
    let mut title = column.name.to_owned();
    if column.default {
        title.push_str(" (default)");
    }
    if let Some(reason) = column.deprecation {
        let _ = write!(title, " (deprecated: {reason})");
    }
    html! {
        th.channel.old[column.deprecation.is_some()] scope="col" title=(title) { span { (column.name) } }
    }
}

fn version_row(
    subject: &Subject<'_>,
    view: &View<'_>,
    matrix: &Matrix<'_>,
    row: &Row<'_>,
    on_way: &HashSet<&str>,
) -> Markup {
    let catalog = subject.catalog.as_str();
    match row {
        Row::Fold { count, ends, cells } => html! {
            tr.fold {
                th scope="row" { a href=(link(subject, view, true, view.from, view.to)) { "⋮ " (count) " versions" } }
                @for has in cells { td { @if *has { span.more aria-label="more versions" { "⋮" } } } }
                td.remarks { (ends.0) " … " (ends.1) }
            }
        },
        Row::Version {
            name,
            version,
            deprecation,
            cells,
            remarks,
        } => {
            let selected = view.from == Some(name) || view.to == Some(name);
            let target = match view.from {
                Some(from) if from != *name => (Some(from), Some(*name)),
                _ => (Some(*name), None),
            };
            let href = link(subject, view, view.all, target.0, target.1);
            let shown = if version.is_empty() { name } else { version };
            html! {
                tr.selected[selected].way[on_way.contains(name)] {
                    th scope="row" title=(name) {
                        @if version.is_empty() {
                            span.absent { (shown) }
                        } @else {
                            a href=(links::bundle(catalog, &subject.record.name, name)) { (shown) }
                        }
                    }
                    @for (cell, column) in cells.iter().zip(&matrix.columns) {
                        td {
                            @if let Some(cell) = cell {
                                a.dot.head[cell.head].absent[cell.absent].never[cell.never].old[deprecation.is_some()]
                                    href=(href) rel="nofollow"
                                    aria-label=(spoken(shown, column, *cell, deprecation.is_some())) {}
                            }
                        }
                    }
                    td.remarks {
                        @if let Some(reason) = deprecation { (badge("deprecated", "deprecated")) " " (reason) " " }
                        (remarks.join("; "))
                    }
                }
            }
        }
    }
}

/// A dot in words.
fn spoken(version: &str, column: &Column<'_>, cell: Cell, deprecated: bool) -> String {
    let mut text = format!("{version} in {}", column.name);
    for (is_so, word) in [
        (cell.head, ", head"),
        (deprecated, ", deprecated"),
        (cell.absent, ", named only"),
        (cell.never, ", never installed"),
    ] {
        if is_so {
            text.push_str(word);
        }
    }
    text
}

/// The height of the head: as the longest name of a channel needs it.
fn head_class(matrix: &Matrix<'_>) -> &'static str {
    let lengths = matrix
        .columns
        .iter()
        .map(|column| column.name.chars().count());
    match lengths.max().unwrap_or_default() {
        0..=5 => "low",
        6..=9 => "middle",
        _ => "high",
    }
}

/// The lines behind the table. Classes of the style sheet give them their look.
fn picture(matrix: &Matrix<'_>, on_way: &HashSet<&str>) -> String {
    let width = matrix.columns.len() * COLUMN;
    let height = matrix.rows.len() * ROW;
    let mut out = format!(
        "<svg class=\"edges\" aria-hidden=\"true\" width=\"{}rem\" height=\"{}rem\" \
         viewBox=\"0 0 {width} {height}\">",
        rem(width),
        rem(height)
    );
    let name = |row: usize| match matrix.rows.get(row) {
        Some(Row::Version { name, .. }) => Some(*name),
        _ => None,
    };
    for line in &matrix.lines {
        let ends = [name(line.from), name(line.to)];
        let on_way = ends
            .iter()
            .all(|end| end.is_some_and(|name| on_way.contains(name)));
        let kind = match line.kind {
            LineKind::Replaces | LineKind::ReplacesArc => "replaces",
            LineKind::Skips => "skips",
            LineKind::Range => "range",
        };
        let _ = write!(
            out,
            "<path class=\"{kind}{}{}{}\" d=\"{}\"/>",
            if line.faint { " faint" } else { "" },
            if line.down { " down" } else { "" },
            if on_way { " way" } else { "" },
            shape(line, matrix.rows.len()),
        );
    }
    out.push_str("</svg>");
    out
}

/// The shape of a line. What leads below the last row ends there.
fn shape(line: &Line, rows: usize) -> String {
    let middle = line.column * COLUMN + COLUMN / 2;
    let height = |row: usize| {
        if row < rows {
            row * ROW + ROW / 2
        } else {
            rows * ROW
        }
    };
    let (from, to) = (height(line.from), height(line.to));
    match line.kind {
        LineKind::Replaces => format!("M{middle} {from}V{to}"),
        LineKind::ReplacesArc => {
            let side = middle + 9 + 5 * line.lane;
            format!("M{middle} {from}H{side}V{to}H{middle}")
        }
        LineKind::Skips => {
            let side = middle - 9 - 5 * line.lane;
            format!("M{middle} {from}H{side}V{to}H{middle}")
        }
        LineKind::Range => {
            let side = line.column * COLUMN + 3;
            let (top, bottom) = (line.from * ROW + 5, (line.to + 1).min(rows) * ROW - 5);
            format!("M{} {top}H{side}V{bottom}H{}", side + 4, side + 4)
        }
    }
}

/// A length of the picture in rem.
fn rem(length: usize) -> String {
    format!("{}.{:04}", length / 16, length % 16 * 625)
}

fn key() -> Markup {
    html! {
        ul.key {
            li { span.dot.head {} " head of a channel" }
            li { span.dot {} " version" }
            li { span.dot.old {} " deprecated" }
            li { span.dot.absent {} " named only" }
            li { "solid line: replaces" }
            li { "dotted line: skips" }
            li { "bracket: skipRange of a head, or of the selected version" }
        }
    }
}

fn controls(
    subject: &Subject<'_>,
    view: &View<'_>,
    order: &[&ChannelRecord<'_>],
    shown: &[&ChannelRecord<'_>],
) -> Markup {
    let is_shown = |name: &str| shown.iter().any(|one| one.name == name);
    let (first, rest) = order.split_at(CHANNELS.min(order.len()));
    let boxes = |channels: &[&ChannelRecord<'_>]| {
        html! {
            @for one in channels {
                label.box {
                    input type="checkbox" name="channel" value=(one.name) checked[is_shown(&one.name)];
                    " " (one.name)
                    @if one.default { " (default)" }
                    @if one.deprecation.is_some() { " " (badge("deprecated", "deprecated")) }
                }
            }
        }
    };
    html! {
        form.fields action=(subject.tab("versions")) {
            fieldset {
                legend { "Channels" }
                (boxes(first))
                @if !rest.is_empty() {
                    details open[rest.iter().any(|one| is_shown(&one.name))] {
                        summary { (rest.len()) " more" }
                        (boxes(rest))
                    }
                }
            }
            fieldset {
                legend { "Rules" }
                @for (value, name) in [(Rules::V0, "OLM v0"), (Rules::V1, "OLM v1")] {
                    label.box { input type="radio" name="rules" value=(value.as_str()) checked[view.rules == value]; " " (name) }
                }
            }
            fieldset {
                legend { "Rows" }
                label.box { input type="checkbox" name="rows" value="all" checked[view.all]; " all rows" }
            }
            @if let Some(from) = view.from { input type="hidden" name="from" value=(from); }
            @if let Some(to) = view.to { input type="hidden" name="to" value=(to); }
            button { "Show" }
        }
    }
}

/// The address of the page with another selection.
fn link(
    subject: &Subject<'_>,
    view: &View<'_>,
    all: bool,
    from: Option<&str>,
    to: Option<&str>,
) -> String {
    let mut parameters: Vec<(&str, &str)> = view
        .channels
        .iter()
        .map(|name| ("channel", *name))
        .collect();
    if view.rules != Rules::default() {
        parameters.push(("rules", view.rules.as_str()));
    }
    if all {
        parameters.push(("rows", "all"));
    }
    parameters.push(("from", from.unwrap_or_default()));
    parameters.push(("to", to.unwrap_or_default()));
    links::with(&subject.tab("versions"), &parameters)
}

fn drawing(subject: &Subject<'_>, view: &View<'_>, file: &str) -> String {
    let channels = view.channels.iter();
    let parameters: Vec<(&str, &str)> = channels.map(|name| ("channel", *name)).collect();
    links::with(&subject.tab(file), &parameters)
}
