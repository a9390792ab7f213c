//! Files ─► metas and blobs ─► graph: the stage `read`, shared by passes and by
//! the loader of commands.

pub(crate) mod file_cutter;
pub(crate) mod file_part;
pub(crate) mod files;
pub(crate) mod ordered;
pub(crate) mod piece_content;
pub(crate) mod read_files;
pub(crate) mod read_piece;
pub(crate) mod read_unchanged;
pub(crate) mod revision_draft;
pub(crate) mod sqlite;
pub(crate) mod write_answers;

use std::collections::HashMap;
use std::thread;

use parking_lot::Mutex;

use crate::answers::catalog::EncodedCatalog;
use crate::answers::grpc::bundle_message::{BundleMessage, CsvEnds};
use crate::answers::grpc::encoder::Encoder;
use crate::answers::{graphql, sizes};
use crate::ingest::read::file_part::{FilePart, FilePartContent, Text};
use crate::ingest::read::files::CatalogFiles;
use crate::ingest::read::ordered::{Ahead, Push, ordered};
use crate::ingest::read::read_piece::{PIECE, ReadPiece};
use crate::snapshot::KnownPieces;
use crate::store::{Base, Counts, Stored};
use ::images::digest::Digest;
use fbc::document::{Blobs, Defect, Located, is_template};
use fbc::fields::{Fields, MAX_SCHEMAS};
use fbc::graph;
use fbc::problem::{Code, DocumentPosition, Problem, Severity, Subject};
use fbc::read::{Reader, pieces};

/// The most threads that read.
const MAX_WORKERS: usize = 4;
/// The number of pieces by which workers may be ahead of the writer.
const WINDOW: usize = 12;
/// The number of problems of documents that are kept.
const MAX_PROBLEMS: usize = 10_000;
/// The number of defects of blobs that are kept in full, and of blobs without a
/// package: more than are ever listed.
const MAX_DEFECTS: usize = 2 * graph::MAX_PROBLEMS;

/// Reads the files and builds the graph, as [`read_parts`].
pub(super) fn read<E: Send>(
    files: &CatalogFiles,
    keep: bool,
    sink: impl FnMut(&ReadPiece) -> Result<Base, E> + Send,
) -> Result<(EncodedCatalog, Counts), E> {
    let known = files.known.as_deref();
    let (read, ()) = read_parts(known, keep, sink, |push| push_files(files, push))?;
    Ok(read)
}

/// Reads the pieces of all files, which `bring` pushes in catalog order, and builds the
/// graph. What is made of each piece goes to `sink`, in this order, which returns where it
/// lies. Pieces that are `known` are not read again. `keep` says whether the next revision
/// may copy what is made.
pub(super) fn read_parts<E: Send, R>(
    known: Option<&KnownPieces>,
    keep: bool,
    mut sink: impl FnMut(&ReadPiece) -> Result<Base, E> + Send,
    bring: impl FnOnce(&mut Push<'_, FilePart>) -> R,
) -> Result<((EncodedCatalog, Counts), R), E> {
    let mut collected = Collected::default();
    // Buffers that were written out. They are used again, since the first touch
    // of fresh memory is slow.
    let recycled: Mutex<Vec<ReadPiece>> = Mutex::default();
    let processors = thread::available_parallelism();
    let ahead = Ahead {
        workers: processors.map_or(2, usize::from).min(MAX_WORKERS),
        window: WINDOW,
    };
    let brought = ordered(
        ahead,
        Reader::default,
        |reader, FilePart { path, content }| {
            let mut done = match content {
                FilePartContent::Read(done) => *done,
                FilePartContent::Text(piece, text) => {
                    let mut done = recycled.lock().pop().unwrap_or_default();
                    done.take(reader, &piece, &text, known);
                    if !done.is_copied() {
                        store(&mut done);
                    }
                    if keep {
                        done.keep(&piece, &text);
                    }
                    done
                }
            };
            done.path = path;
            done
        },
        |mut done: ReadPiece| {
            let base = sink(&done)?;
            collected.take(&mut done, base);
            done.clear();
            let mut recycled = recycled.lock();
            if recycled.len() < WINDOW {
                recycled.push(done);
            }
            Ok(())
        },
        bring,
    )?;
    Ok((collected.finish(), brought))
}

/// Pushes the pieces of files, until nobody takes them.
pub(super) fn push_files(files: &CatalogFiles, push: &mut Push<'_, FilePart>) {
    for (path, content) in files.paths.iter().zip(&files.contents) {
        let mut path = Some(path.clone());
        for piece in pieces(content, PIECE) {
            let text = Text::Mapped(content.slice(piece.range.clone()));
            let part = FilePart {
                path: path.take(),
                content: FilePartContent::Text(piece, text),
            };
            if push(part).is_err() {
                return;
            }
        }
    }
}

/// Computes the values that are stored beside each line.
fn store(done: &mut ReadPiece) {
    let mut start = 0;
    for meta in &done.output.metas {
        let line = &done.output.lines[start..start + meta.length as usize];
        start += meta.length as usize;
        done.stored.push(Stored {
            crc: crc32fast::hash(line),
            digest: Digest::of(line),
        });
    }
}

/// Blobs and problems of the pieces so far, with places in the whole catalog.
#[derive(Default)]
struct Collected {
    /// The paths of the files so far.
    paths: Vec<String>,
    blobs: Blobs,
    messages: Vec<BundleMessage>,
    ends: Vec<CsvEnds>,
    fields: Fields,
    /// The first document of each schema.
    schemas: HashMap<String, DocumentPosition>,
    problems: Vec<Problem>,
    omitted: usize,
    /// The worst of those that were omitted.
    worst_omitted: Option<Severity>,
    /// The numbers of defects, and of blobs without a package, so far.
    defects: usize,
    nameless: usize,
    /// The counts before the next piece.
    next: Before,
}

impl Collected {
    fn take(&mut self, done: &mut ReadPiece, base: Base) {
        if let Some(path) = done.path.take() {
            self.paths.push(path);
            (self.next.documents, self.next.line_ends) = (0, 0);
        }
        let file = saturated(self.paths.len().saturating_sub(1));
        let before = self.next;
        let (output, encoder) = (&mut done.output, &mut done.encoder);
        let mut from = std::mem::take(&mut output.blobs);
        self.bound(&mut from, encoder);
        let into = &mut self.blobs;
        into.incomplete |= from.incomplete;
        append(&mut into.packages, from.packages, before, file);
        append(&mut into.channels, from.channels, before, file);
        append(&mut into.deprecations, from.deprecations, before, file);
        append(&mut into.lifecycles, from.lifecycles, before, file);
        append(&mut into.bundles, from.bundles, before, file);
        for mut message in encoder.bundles.drain(..) {
            message.shift(base.messages, base.lines);
            self.messages.push(message);
        }
        for mut ends in encoder.ends.drain(..) {
            ends.shift(base.messages);
            self.ends.push(ends);
        }
        for (schema, (document, line)) in output.fields.first() {
            let known = self.schemas.len() >= MAX_SCHEMAS || self.schemas.contains_key(schema);
            let path = self.paths.last().filter(|_| !known);
            self.schemas.extend(path.map(|path| {
                let position = DocumentPosition {
                    file: path.clone(),
                    document: before.documents + document,
                    line: before.line_ends + line,
                    column: None,
                };
                (schema.to_owned(), position)
            }));
        }
        self.fields.append(std::mem::take(&mut output.fields));
        for (spot, mut problem) in output.problems.drain(..) {
            if self.problems.len() >= MAX_PROBLEMS {
                self.omitted += 1;
                self.worst_omitted = self.worst_omitted.max(Some(problem.severity));
                continue;
            }
            problem.position = self.paths.last().map(|path| DocumentPosition {
                file: path.clone(),
                document: before.documents + spot.document + 1,
                line: before.line_ends + spot.line,
                column: spot.column,
            });
            self.problems.push(problem);
        }
        let next = &mut self.next;
        next.metas = next.metas.saturating_add(saturated(output.metas.len()));
        next.documents += output.documents;
        next.line_ends += output.line_ends;
    }

    /// Drops blobs and defects that can never be listed: a catalog may have a
    /// defect in every few bytes.
    fn bound(&mut self, blobs: &mut Blobs, encoder: &mut Encoder) {
        let mut takes = |package: &str| {
            self.nameless += usize::from(package.is_empty());
            !package.is_empty() || self.nameless <= MAX_DEFECTS
        };
        retain(&mut blobs.packages, &mut encoder.ends, |one| {
            takes(&one.blob.name)
        });
        blobs.channels.retain(|one| takes(&one.blob.package));
        retain(&mut blobs.bundles, &mut encoder.bundles, |one| {
            takes(&one.blob.package)
        });
        blobs.deprecations.retain(|one| takes(&one.blob.package));

        let packages = blobs.packages.iter_mut().map(|one| &mut one.blob.defects);
        let channels = blobs.channels.iter_mut().map(|one| &mut one.blob.defects);
        let bundles = blobs.bundles.iter_mut().map(|one| &mut one.blob.defects);
        let deprecations = blobs.deprecations.iter_mut();
        let deprecations = deprecations.map(|one| &mut one.blob.defects);
        let lifecycles = blobs.lifecycles.iter_mut().map(|one| &mut one.blob.defects);
        let all = packages.chain(channels).chain(bundles).chain(deprecations);
        for defects in all.chain(lifecycles).filter(|defects| !defects.is_empty()) {
            self.defects += defects.len();
            if self.defects > MAX_DEFECTS {
                // One remains, so that the package is quarantined.
                *defects = vec![Defect {
                    code: defects[0].code,
                    message: "has defects; correct those that are listed first".into(),
                }];
            }
            defects.shrink_to_fit();
        }
    }

    /// The problem of a catalog without any package.
    fn without_packages(&self) -> Option<Problem> {
        let blobs = &self.blobs;
        // A document that cannot be read may be a package.
        if blobs.incomplete
            || !blobs.packages.is_empty()
            || !blobs.channels.is_empty()
            || !blobs.bundles.is_empty()
            || !blobs.deprecations.is_empty()
        {
            return None;
        }
        let templates = self.schemas.iter();
        let templates = templates.filter(|(schema, _)| is_template(schema));
        let first = templates.min_by_key(|(_, place)| (place.file.as_str(), place.line));
        let message = match first {
            Some((schema, _)) => format!(
                "there is no package in the catalog, only the template {schema:?} of opm, which no \
                 client reads; put what `opm alpha render-template` makes of it in its place"
            ),
            None => "there is no package in the catalog, and an empty catalog would take every \
                     operator from its clients; check the path, or add the packages"
                .to_owned(),
        };
        let mut problem = Problem::new(Code::CatalogEmpty, Severity::Fatal, message);
        problem.position = first.map(|(_, place)| place.clone());
        Some(problem)
    }

    fn finish(self) -> (EncodedCatalog, Counts) {
        let (graph, found) = graph::build(&self.blobs, &self.paths);
        let empty = self.without_packages();
        let mut problems = self.problems;
        problems.extend(empty);
        if let Some(severity) = self.worst_omitted {
            problems.push(Problem {
                code: Code::ProblemsOmitted,
                severity,
                subject: Subject::default(),
                position: None,
                message: format!(
                    "{} more problems of documents are not listed; correct the listed ones first",
                    self.omitted
                ),
            });
        }
        problems.extend(found);
        problems.extend(
            graphql::problems(&self.fields)
                .into_iter()
                .map(|mut problem| {
                    problem.position = self.schemas.get(&problem.subject.schema).cloned();
                    problem
                }),
        );
        let mut counts = Counts {
            metas: u64::from(self.next.metas),
            packages: graph.packages.len() as u64,
            quarantined: graph.quarantined.len() as u64,
            ..Counts::default()
        };
        let mut bundles = std::collections::HashSet::new();
        for channel in graph.packages.iter().flat_map(|package| &package.channels) {
            counts.channels += 1;
            counts.entries += channel.entries.len() as u64;
            bundles.extend(channel.entries.iter().map(|entry| entry.bundle));
        }
        counts.bundles = bundles.len() as u64;
        problems.extend(sizes::problems(
            &self.blobs,
            &graph,
            &self.messages,
            &self.ends,
            &self.paths,
        ));
        let catalog = EncodedCatalog {
            blobs: self.blobs,
            messages: self.messages,
            ends: self.ends,
            fields: self.fields.schemas,
            graph,
            problems,
        };
        (catalog, counts)
    }
}

/// The counts before a piece: metas in the catalog, the others in its file.
#[derive(Clone, Copy, Default)]
struct Before {
    metas: u32,
    documents: u32,
    line_ends: u32,
}

fn append<T>(into: &mut Vec<Located<T>>, from: Vec<Located<T>>, before: Before, file: u32) {
    into.extend(from.into_iter().map(|mut located| {
        located.file = file;
        located.meta += before.metas;
        located.document += before.documents;
        located.line += before.line_ends;
        located
    }));
}

/// Keeps the blobs that `keep` selects, and their messages.
fn retain<B, M>(blobs: &mut Vec<B>, messages: &mut Vec<M>, keep: impl FnMut(&B) -> bool) {
    let kept: Vec<bool> = blobs.iter().map(keep).collect();
    if kept.iter().all(|kept| *kept) {
        return;
    }
    let mut of_blobs = kept.iter().copied();
    blobs.retain(|_| of_blobs.next() == Some(true));
    let mut of_messages = kept.iter().copied();
    messages.retain(|_| of_messages.next() == Some(true));
}

/// A count as a `u32`. Nothing in a catalog comes near to its limit.
fn saturated(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_dropped_with_its_blob() {
        let (mut blobs, mut messages) = (vec![1, 2, 3, 4], vec!["a", "b", "c", "d"]);
        retain(&mut blobs, &mut messages, |blob| blob % 2 == 0);
        assert_eq!((blobs, messages), (vec![2, 4], vec!["b", "d"]));
    }
}
