//! Files ─► metas and blobs ─► graph: the stage `read`, shared by passes and by
//! the loader of commands.

use std::collections::HashMap;
use std::thread;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::answers::catalog::EncodedCatalog;
use crate::answers::grpc::bundle_message::{BundleMessage, CsvEnds};
use crate::answers::grpc::encoder::Encoder;
use crate::answers::{graphql, sizes};
use crate::ingest::done::{Done, PIECE};
use crate::ingest::files::CatalogFiles;
use crate::ingest::ordered::ordered;
use crate::store::{Base, Counts, Stored};
use ::images::digest::Digest;
use fbc::document::{Blobs, Defect, Located};
use fbc::fields::{Fields, MAX_SCHEMAS};
use fbc::graph;
use fbc::problem::{Code, DocumentPosition, Problem, Severity, Subject};
use fbc::read::{Format, Piece, Reader, pieces};

/// The number of pieces by which workers may be ahead of the writer.
const WINDOW: usize = 6;
/// The number of problems of documents that are kept.
const MAX_PROBLEMS: usize = 10_000;
/// The number of defects of blobs that are kept in full, and of blobs without a
/// package: more than are ever listed.
const MAX_DEFECTS: usize = 2 * graph::MAX_PROBLEMS;

/// Reads the files and builds the graph. Each piece's bytes go to `sink`, in
/// catalog order, which returns where they lie. `keep` says whether the next revision
/// may copy what is made.
pub(super) fn read<E>(
    files: &CatalogFiles,
    keep: bool,
    mut sink: impl FnMut(&Done) -> Result<Base, E>,
) -> Result<(EncodedCatalog, Counts), E> {
    let mut collected = Collected {
        paths: &files.paths,
        ..Collected::default()
    };
    // Buffers that were written out. They are used again, since the first touch
    // of fresh memory is slow.
    let recycled: Mutex<Vec<Done>> = Mutex::default();
    ordered(
        pieces_of(files),
        thread::available_parallelism()
            .map_or(2, usize::from)
            .min(4),
        WINDOW,
        Reader::default,
        |reader, (file, piece, bytes, early)| {
            let mut done = early.unwrap_or_else(|| {
                let mut done = recycled.lock().pop().unwrap_or_default();
                done.take(reader, &piece, &bytes, files.known.as_deref());
                done
            });
            done.file = file;
            if !done.is_copied() {
                store(&mut done);
            }
            if keep {
                done.keep(&piece, &bytes);
            }
            done
        },
        |mut done| {
            let base = sink(&done)?;
            collected.take(&mut done, base);
            done.clear();
            let mut recycled = recycled.lock();
            if recycled.len() < WINDOW {
                recycled.push(done);
            }
            Ok(())
        },
    )?;
    Ok(collected.finish())
}

/// The pieces of the files, and what was read of them early.
fn pieces_of(
    files: &CatalogFiles,
) -> impl Iterator<Item = (u32, Piece, Bytes, Option<Done>)> + Send {
    let CatalogFiles {
        contents, early, ..
    } = files;
    (0_u32..).zip(contents).flat_map(move |(file, content)| {
        // Of a file that was left out of the spool, the content is not there.
        let copied = early.whole(file).map(|count| {
            (0..count).map(move |number| {
                let (range, format) = (0..0, Format::Json);
                let none = Piece { range, format };
                (file, none, Bytes::new(), early.take(file, number))
            })
        });
        let read = copied.is_none().then(|| {
            (0..)
                .zip(pieces(content, PIECE))
                .map(move |(number, piece)| {
                    let bytes = content.slice(piece.range.clone());
                    (file, piece, bytes, early.take(file, number))
                })
        });
        copied
            .into_iter()
            .flatten()
            .chain(read.into_iter().flatten())
    })
}

/// Computes the values that are stored beside each line.
fn store(done: &mut Done) {
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
struct Collected<'a> {
    paths: &'a [String],
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
    /// The file of the last piece, and the counts before the next one.
    file: u32,
    next: Before,
}

impl Collected<'_> {
    fn take(&mut self, done: &mut Done, base: Base) {
        if self.file != done.file {
            self.file = done.file;
            (self.next.documents, self.next.line_ends) = (0, 0);
        }
        let before = self.next;
        let (output, encoder) = (&mut done.output, &mut done.encoder);
        let mut from = std::mem::take(&mut output.blobs);
        self.bound(&mut from, encoder);
        let into = &mut self.blobs;
        into.incomplete |= from.incomplete;
        append(&mut into.packages, from.packages, before, done.file);
        append(&mut into.channels, from.channels, before, done.file);
        append(&mut into.deprecations, from.deprecations, before, done.file);
        append(&mut into.lifecycles, from.lifecycles, before, done.file);
        append(&mut into.bundles, from.bundles, before, done.file);
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
            let file = self.paths.get(done.file as usize).filter(|_| !known);
            self.schemas.extend(file.map(|file| {
                let position = DocumentPosition {
                    file: file.clone(),
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
            problem.position = self
                .paths
                .get(done.file as usize)
                .map(|file| DocumentPosition {
                    file: file.clone(),
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

    fn finish(self) -> (EncodedCatalog, Counts) {
        let (graph, found) = graph::build(&self.blobs, self.paths);
        let mut problems = self.problems;
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
            self.paths,
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
    use crate::ingest::files::FolderCopy;
    use crate::ingest::folder_listing::FolderRules;

    #[test]
    fn a_message_is_dropped_with_its_blob() {
        let (mut blobs, mut messages) = (vec![1, 2, 3, 4], vec!["a", "b", "c", "d"]);
        retain(&mut blobs, &mut messages, |blob| blob % 2 == 0);
        assert_eq!((blobs, messages), (vec![2, 4], vec!["b", "d"]));
    }

    /// Whichever files the reader beside the copy gets to.
    #[test]
    fn what_is_read_early_is_what_is_read_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..60 {
            let name = format!("p{number:02}");
            let documents = match number % 4 {
                0 => format!("schema: olm.package\nname: {name}\n---\nname: nothing\n"),
                1 => "{\"schema\":\"olm.package\",\"name\":7}\n{\"schema\"".into(),
                _ => format!(
                    "{{\"schema\":\"olm.package\",\"name\":\"{name}\"}}\n\n\
                     {{\"schema\":\"olm.bundle\",\"package\":\"{name}\",\"name\":\"{name}.v1\",\
                     \"text\":\"{}\"}}\n",
                    "x".repeat(400_000 * (number % 3))
                ),
            };
            let ending = ["yaml", "json", "json", "other"][number % 4];
            let path = folder.path().join(format!("{name}.{ending}"));
            std::fs::write(path, documents).unwrap();
        }
        let temporary = tempfile::tempdir().unwrap();
        let rules = FolderRules::default();
        let copy = FolderCopy::of(folder.path(), &rules, temporary.path(), None).unwrap();
        let (_, early) = copy.files(folder.path(), temporary.path()).unwrap();
        let plain = CatalogFiles::new(early.paths.clone(), early.contents.clone());
        let [early, plain] = [early, plain].map(|files| {
            let mut lines = Vec::new();
            let sink = |done: &Done| {
                lines.extend_from_slice(done.lines());
                Ok::<_, std::convert::Infallible>(Base::default())
            };
            let Ok((catalog, counts)) = read(&files, false, sink);
            let EncodedCatalog {
                blobs, problems, ..
            } = &catalog;
            assert!(blobs.packages.len() >= 45, "{}", blobs.packages.len());
            (lines, format!("{blobs:?} {problems:?} {counts:?}"))
        });
        assert!(early.0 == plain.0);
        assert_eq!(early.1, plain.1);
    }
}
