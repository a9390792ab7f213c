//! The table of versions and channels, and the lines behind it.
//!
//! Labels are a table, lines one picture; both have the same measures. Each dot is a
//! link, so the graph can be used without a script.

use maud::{Markup, PreEscaped, html};

use crate::answers::drawing::matrix::{BundleRow, Cell, Column, Matrix, Row};
use crate::answers::drawing::{COLUMN, ROW, strokes};
use crate::serve::http::pages::links;
use crate::serve::http::pages::package::subject::Subject;
use crate::serve::http::pages::package::versions::view::View;
use crate::serve::http::pages::parts::badge;
use fbc::text::display::clip;

/// The longest name that is shown, and the longest reason of a deprecation, in bytes.
const LONGEST: usize = 120;
const REMARK: usize = 1_000;

pub(super) fn table(subject: &Subject<'_>, view: &View<'_>, matrix: &Matrix<'_>) -> Markup {
    html! {
        div.scroll.matrix role="region" aria-label="Versions by channel" tabindex="0" {
            div.canvas.(head_class(matrix)).words[view.words] {
                @if !view.words { (PreEscaped(picture(matrix))) }
                table {
                    thead {
                        tr {
                            th scope="col" { "Version" }
                            @for column in &matrix.columns { (heading(column)) }
                            th.remarks scope="col" { "Remarks" }
                        }
                    }
                    tbody {
                        @for row in &matrix.rows {
                            @match row {
                                Row::Fold { names, ends, cells, .. } => tr.fold {
                                    th scope="row" {
                                        a href=(view.with_all(subject, true, false)) { "⋮ " (names.len()) " versions" }
                                    }
                                    @for has in cells { td { @if *has { span.more aria-hidden="true" { "⋮" } } } }
                                    td.remarks { (ends.0) " … " (ends.1) }
                                },
                                Row::Version(bundle) => (version(subject, view, matrix, bundle)),
                            }
                        }
                    }
                }
            }
        }
    }
}

fn heading(column: &Column<'_>) -> Markup {
    let title = match column.deprecation {
        Some(reason) => format!("{}: {reason}", column.title()),
        None => column.title(),
    };
    html! {
        th.channel.old[column.deprecation.is_some()] scope="col" title=(clip(&title, 4 * LONGEST)) { span { (clip(column.name, LONGEST)) } }
    }
}

fn version(
    subject: &Subject<'_>,
    view: &View<'_>,
    matrix: &Matrix<'_>,
    bundle: &BundleRow<'_>,
) -> Markup {
    let name = bundle.name;
    let selected = view.from == Some(name) || view.to == Some(name);
    let href = match view.from {
        Some(from) if from != name => view.selecting(subject, Some(from), Some(name)),
        _ => view.selecting(subject, Some(name), None),
    };
    let page = links::bundle(subject.catalog.as_str(), &subject.record.summary.name, name);
    let remarks = bundle.remarks(&matrix.columns).join("; ");
    html! {
        tr.selected[selected].way[bundle.way] {
            th scope="row" title=(clip(name, LONGEST)) {
                @if bundle.version.is_empty() {
                    span.absent { (clip(bundle.label(), LONGEST)) }
                } @else {
                    a href=(page) { (clip(bundle.label(), LONGEST)) }
                }
            }
            @for (cell, column) in bundle.cells.iter().zip(&matrix.columns) {
                td {
                    @if let Some(cell) = cell {
                        @if view.words {
                            a href=(href) rel="nofollow" { (words(cell, bundle)) }
                        } @else {
                            @let spoken = cell.spoken(bundle, column);
                            a.dot.head[cell.heads > 0].absent[cell.is_absent()].never[cell.never.is_some()]
                                .old[bundle.deprecation.is_some()].wrong[cell.is_wrong()]
                                href=(href) rel="nofollow" title=(spoken) aria-label=(spoken) {}
                        }
                    }
                }
            }
            @let whole = match bundle.deprecation {
                Some(reason) => format!("{} {remarks}", clip(reason.trim(), REMARK)),
                None => remarks,
            };
            td.remarks title=(whole) {
                @if bundle.deprecation.is_some() { (badge("deprecated", "deprecated")) " " }
                (whole)
            }
        }
    }
}

/// A dot in words, for the table without a picture.
fn words(cell: &Cell<'_>, bundle: &BundleRow<'_>) -> String {
    match cell.words(bundle) {
        words if words.is_empty() => "in the channel".to_owned(),
        words => words.join(", "),
    }
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
fn picture(matrix: &Matrix<'_>) -> String {
    let width = matrix.columns.len() * COLUMN;
    let height = matrix.rows.len() * ROW;
    format!(
        "<svg class=\"edges\" aria-hidden=\"true\" width=\"{}rem\" height=\"{}rem\" \
         viewBox=\"0 0 {width} {height}\">{}</svg>",
        rem(width),
        rem(height),
        strokes(matrix)
    )
}

/// A length of the picture in rem.
fn rem(length: usize) -> String {
    format!("{}.{:04}", length / 16, length % 16 * 625)
}

/// The meanings of the signs, each with a sample.
pub(super) fn key() -> Markup {
    let sample = |class: &str, path: &str| {
        html! {
            svg.sample aria-hidden="true" viewBox="0 0 24 24" { path class=(class) d=(path); }
        }
    };
    let (line, arc) = ("M12 2V22", "M18 2H6V22H18");
    html! {
        ul.key {
            li { span.dot {} "version" }
            li { span.dot.head {} "head of a channel" }
            li { span.dot.old {} "deprecated" }
            li { span.dot.absent {} "named only" }
            li { span.dot.never {} "never installed by OLM v0" }
            li { span.dot.wrong {} "error of the channel" }
            li { (sample("replaces", line)) "replaces" }
            li { (sample("skips", arc)) "skips" }
            li { (sample("range", "M15 2H9V22H15")) "skipRange of a head, or of a selected version" }
            li { (sample("way", line)) "step of the selected way" }
            li { (sample("jump way", line)) "step by a skipRange" }
            li { "⋮ folded rows; follow it to see them" }
        }
    }
}
