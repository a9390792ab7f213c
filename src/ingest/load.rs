//! Reading a catalog without following it, for commands that keep nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::ingest::context::ReadPermit;
use crate::ingest::curation::CurateError;
use crate::ingest::error::{Cause, PassError, Stage};
use crate::ingest::files_error::FilesError;
use crate::ingest::folder::listing::{FolderOptions, FolderRules};
use crate::ingest::followed::OnInvalid;
use crate::ingest::origin::Origin;
use crate::ingest::pass::curate;
use crate::ingest::pass::pull::{self, Pulled};
use crate::ingest::read;
use crate::ingest::read::files::CatalogFiles;
use crate::ingest::read::sqlite;
use crate::ingest::source::Source;
use crate::ingest::stages::blocking;
use crate::map::UnnamedFile;
use crate::store::content::{Contents, Tally};
use crate::store::{Base, Counts};
use ::images::digest::{Digest, Hasher};
use ::images::layers::Limits;
use ::images::{Choice, Platform, Registries};
use fbc::document::Blobs;
use fbc::graph::Graph;
use fbc::problem::{DocumentPosition, Problem, Severity};
use fbc::read::Meta;
use fbc::select;
use fbc::select::Selected;

/// How to read a catalog.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// The platform to choose from an image index.
    pub platform: Platform,
    /// The settings for registries.
    pub registries: images::Settings,
    /// The limits of an image and of a catalog.
    pub limits: Limits,
    /// How a folder is read.
    pub folder: FolderOptions,
    /// Counts the bytes that are pulled.
    pub tally: Tally,
}

/// The files of a catalog, ready to be read. They have no name on disk and are
/// gone when this is dropped.
pub struct Loaded {
    /// The digest that the source is at.
    pub digest: Digest,
    pub(super) files: CatalogFiles,
}

/// A catalog that was read.
#[derive(Debug)]
pub struct Reading {
    /// Its documents.
    pub blobs: Blobs,
    /// Its valid packages.
    pub graph: Graph,
    /// Its problems: files first, then packages by name.
    pub problems: Vec<Problem>,
    /// Its counts.
    pub counts: Counts,
}

/// Reads the files of a catalog from its source, by way of a temporary folder.
pub async fn load(source: &Source, options: &LoadOptions) -> Result<Loaded, PassError> {
    let folder = tempfile::tempdir()
        .map_err(Cause::Temporary)
        .map_err(PassError::at(Stage::Pull))?;
    let (digest, files) = match source {
        Source::File(path) => {
            let rules = FolderRules::new(&options.folder, &options.limits);
            let path = path.clone();
            let temporary = folder.path().to_owned();
            blocking(Stage::Unpack, move || {
                sqlite::from_folder(&path, &rules, &temporary).map_err(PassError::at(Stage::Unpack))
            })
            .await?
        }
        Source::Layout(layout) => {
            let origin = Origin::open(&options.registries.policy, layout).await?;
            image(&origin, layout.choice.as_ref(), options, folder.path()).await?
        }
        Source::Image(reference) => {
            let failed = PassError::at(Stage::Resolve);
            let registries = Registries::new(&options.registries).map_err(&failed)?;
            let route = registries.route(reference).await.map_err(&failed)?;
            image(
                &Origin::Registry(Box::new(route)),
                None,
                options,
                folder.path(),
            )
            .await?
        }
        // No text on a command line stands for one.
        Source::Curated(_) => return Err(PassError::at(Stage::Resolve)(CurateError::Alone)),
    };
    Ok(Loaded { digest, files })
}

async fn image(
    origin: &Origin,
    choice: Option<&Choice>,
    options: &LoadOptions,
    folder: &Path,
) -> Result<(Digest, CatalogFiles), PassError> {
    let store = Contents::open(folder.join("blobs")).map_err(PassError::at(Stage::Pull))?;
    let store = store.with_tally(options.tally.clone());
    let digest = origin.resolve(choice).await?;
    let (platform, limits) = (&options.platform, &options.limits);
    let mut pulled = pull::pull(origin, &store, &digest, platform, limits).await?;
    let unpack = async |pulled: &Pulled| {
        let (temporary, permit) = (folder.to_owned(), ReadPermit::alone());
        pulled.unpack(&store, temporary, limits, &permit).await
    };
    let mut files = unpack(&pulled).await;
    if pulled.needs_all(&files) {
        pull::pull_covered(origin, &store, &mut pulled).await?;
        files = unpack(&pulled).await;
    }
    Ok((pulled.digest, files?))
}

impl Loaded {
    /// Reads the catalog. Each meta goes to `sink`, in catalog order, with its
    /// canonical line, the line end included.
    ///
    /// # Errors
    /// The first error of `sink`. Errors of the catalog are among its problems.
    pub fn read<E: Send>(
        &self,
        mut sink: impl FnMut(u32, &Meta, &[u8]) -> Result<(), E> + Send,
    ) -> Result<Reading, E> {
        let mut number = 0;
        let (catalog, counts) = read::read(&self.files, false, |done| {
            let mut lines = &done.output.lines[..];
            for meta in &done.output.metas {
                let (line, rest) = lines.split_at(meta.length as usize);
                lines = rest;
                sink(number, meta, line)?;
                number += 1;
            }
            Ok(Base::default())
        })?;
        Ok(Reading {
            blobs: catalog.blobs,
            graph: catalog.graph,
            problems: catalog.problems,
            counts,
        })
    }

    /// Reads the catalog, and fails when a pass would refuse it.
    pub fn check(&self, on_invalid: OnInvalid) -> Result<(), PassError> {
        let read = self.read(|_, _, _| Ok::<_, Infallible>(()));
        let reading = read.unwrap_or_else(|never| match never {});
        on_invalid.refuse(&reading.problems)
    }

    /// The catalog as the source of a selection. Messages call it `name`.
    pub fn selection_input(&self, name: &str) -> Result<select::Catalog, PassError> {
        let mut lines = Vec::new();
        let mut spool = BufWriter::new(UnnamedFile::new().map_err(spooling)?);
        let mut heads = Vec::new();
        let reading = self
            .read(|_, meta, line| {
                heads.push(meta.clone());
                spool.write_all(line)
            })
            .map_err(spooling)?;
        if reading
            .problems
            .iter()
            .any(|problem| problem.severity == Severity::Fatal)
        {
            return Err(PassError::at(Stage::Read)(Cause::Refused(reading.problems)));
        }
        let content = UnnamedFile::map_buffered(spool).map_err(spooling)?;
        let mut start = 0;
        for meta in &heads {
            let end = start + meta.length as usize;
            lines.push(select::Line {
                schema: meta.schema().into(),
                package: meta.package().into(),
                name: meta.name().into(),
                // Without its line end.
                json: content.slice(start..end.max(1) - 1),
            });
            start = end;
        }
        Ok(select::Catalog {
            name: name.to_owned(),
            lines,
            quarantined: reading.graph.quarantined.into_iter().collect(),
        })
    }

    /// The catalog that was selected. Its digest is of its lines.
    pub fn from_selection(selected: &Selected, limits: &Limits) -> Result<Self, PassError> {
        let files = curate::files_of(selected, limits, &tempfile::env::temp_dir())?;
        let mut hasher = Hasher::default();
        for content in &files.contents {
            hasher.update(content);
        }
        Ok(Self {
            digest: hasher.finish(),
            files,
        })
    }

    /// The original lines at some places of the files, by file and number.
    pub fn lines<'a>(
        &self,
        positions: impl IntoIterator<Item = &'a DocumentPosition>,
    ) -> HashMap<(&'a str, u32), &[u8]> {
        let mut wanted: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        for position in positions {
            wanted
                .entry(&position.file)
                .or_default()
                .insert(position.line);
        }
        let mut found = HashMap::new();
        for (path, content) in self.files.paths.iter().zip(&self.files.contents) {
            let Some((file, numbers)) = wanted.remove_entry(path.as_str()) else {
                continue;
            };
            let (mut number, mut rest) = (1, &content[..]);
            for wanted in numbers {
                while number < wanted
                    && let Some(end) = memchr::memchr(b'\n', rest)
                {
                    rest = &rest[end + 1..];
                    number += 1;
                }
                if number != wanted {
                    break;
                }
                let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                found.insert((file, wanted), &rest[..end]);
            }
        }
        found
    }
}

/// A catalog of one file that can be read only once, such as standard input. The
/// bytes written here become the file.
pub struct Spool {
    name: String,
    out: BufWriter<UnnamedFile>,
    hasher: Hasher,
    length: u64,
    limit: u64,
}

impl Spool {
    /// A spool for a file of this name.
    pub fn new(name: &str, limits: &Limits) -> Result<Self, PassError> {
        let file = UnnamedFile::new().map_err(spooling)?;
        Ok(Self {
            name: name.to_owned(),
            out: BufWriter::new(file),
            hasher: Hasher::default(),
            length: 0,
            limit: limits.folder_bytes,
        })
    }

    /// Its size in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The catalog. Its digest is of the bytes.
    pub fn finish(self) -> Result<Loaded, PassError> {
        let content = UnnamedFile::map_buffered(self.out).map_err(spooling)?;
        Ok(Loaded {
            digest: self.hasher.finish(),
            files: CatalogFiles::new(vec![self.name], vec![content]),
        })
    }
}

/// Fails when the file exceeds the limits.
impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.length.saturating_add(bytes.len() as u64) > self.limit {
            return Err(io::Error::other(FilesError::Limit {
                what: "the size of the file, in bytes,",
                path: self.name.clone(),
                limit: self.limit,
            }));
        }
        let written = self.out.write(bytes)?;
        self.length += written as u64;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn spooling(source: io::Error) -> PassError {
    let path = tempfile::env::temp_dir();
    PassError::at::<Cause>(Stage::Pull)(FilesError::Spool { path, source }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spooled(content: &[u8]) -> Loaded {
        let mut spool = Spool::new("<stdin>", &Limits::default()).unwrap();
        spool.write_all(content).unwrap();
        assert_eq!(spool.length(), content.len() as u64);
        spool.finish().unwrap()
    }

    #[test]
    fn a_spooled_file_is_read_like_any_other() {
        let loaded = spooled(b"schema: a\nname: x\n---\nname: b\n---\nschema: c\n");
        let mut seen = Vec::new();
        let reading = loaded
            .read(|number, meta, line| {
                let line = String::from_utf8(line.to_vec()).unwrap();
                seen.push((number, meta.schema().to_owned(), line));
                Ok::<_, Infallible>(())
            })
            .unwrap();
        assert_eq!(
            seen,
            [
                (0, "a".into(), "{\"name\":\"x\",\"schema\":\"a\"}\n".into()),
                (1, "c".into(), "{\"schema\":\"c\"}\n".into()),
            ]
        );
        assert_eq!(reading.counts.metas, 2);
        let position = reading.problems[0].position.as_ref().unwrap();
        assert_eq!(position.to_string(), "<stdin>:4 (document 2)");
    }

    #[test]
    fn a_file_that_grows_too_large_is_refused() {
        let limits = Limits::for_testing();
        let mut spool = Spool::new("<stdin>", &limits).unwrap();
        let error = io::copy(&mut io::repeat(b'a'), &mut spool).unwrap_err();
        let limit = limits.folder_bytes.to_string();
        assert!(error.to_string().contains(&limit), "{error}");
        assert!(spool.length() <= limits.folder_bytes);
    }

    #[test]
    fn lines_are_found_by_their_number() {
        let loaded = spooled(b"one\r\n\nthree and more\nfour");
        let position = |file: &str, line| DocumentPosition {
            file: file.into(),
            document: 1,
            line,
            column: None,
        };
        let positions = [
            position("<stdin>", 4),
            position("<stdin>", 1),
            position("<stdin>", 3),
            position("<stdin>", 2),
            position("<stdin>", 9),
            position("elsewhere", 1),
        ];
        let lines = loaded.lines(&positions);
        let line = |number| lines.get(&("<stdin>", number)).copied();
        assert_eq!(line(1), Some(&b"one\r"[..]));
        assert_eq!(line(2), Some(&b""[..]));
        assert_eq!(line(3), Some(&b"three and more"[..]));
        assert_eq!(line(4), Some(&b"four"[..]));
        assert_eq!(lines.len(), 4);
    }
}
