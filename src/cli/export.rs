//! `almanac export`: writes catalogs into an archive.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use clap::ValueEnum as _;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use serde_json::json;

use crate::app;
use crate::cli::format::Report;
use crate::cli::input::check_archive;
use crate::cli::terminal::TerminalArguments;
use crate::cli::{Failure, block_on, output, progress};
use crate::config::{Environment, Settings, Written};
use crate::ingest::archive::{self, ArchiveError, Export, Since};
use crate::name::CatalogName;
use crate::store::Store;

/// Write catalogs into an archive, to import them in a network without access
///
/// The archive is an OCI layout in a tar file, with the images of the catalogs
/// and the dates and numbers of their revisions. It is written completely or not
/// at all. almanac may serve from the data folder at the same time. With the
/// configuration of a fleet and no data folder here, it has what the fleet serves.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    /// A catalog to export; repeatable [default: the configured catalogs, or
    /// all stored ones without a configuration]
    #[arg(long, value_name = "NAME")]
    catalog: Vec<CatalogName>,

    /// Leave out the content that the other side has: the file of an archive
    /// that it imported, or the number of a revision in this data folder
    #[arg(long, value_name = "FILE|REVISION", value_parser = OsStringValueParser::new().map(since))]
    since: Option<Since>,

    /// Leave out signatures and other attachments of mirrored images
    #[arg(long)]
    without_signatures: bool,

    /// The archive to write
    #[arg(long, value_name = "FILE", required_unless_present = "output")]
    file: Option<PathBuf>,

    /// The format of the report on standard output: json or yaml
    /// [default: notes on standard error]
    // Once the archive; with a path, it still is.
    #[arg(long, short, value_name = "FORMAT")]
    output: Option<OsString>,

    #[command(flatten)]
    serve: ServeArguments,
}

/// The arguments of `serve` that commands on its data folder share.
#[derive(Debug, clap::Args)]
pub(super) struct ServeArguments {
    /// The data folder; an import creates it if missing [default: that of `serve`]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// The configuration file of `serve`, for the data folder and the catalogs
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    pub(super) terminal: TerminalArguments,
}

const EXAMPLES: &str = "\
Examples:
  almanac export --file monday.tar
  almanac export --since monday.tar --file tuesday.tar
  almanac export --data-dir /var/lib/almanac --catalog ours --file ours.tar

Exit codes:
  0  the archive is written
  1  the archive cannot be written
  2  invalid arguments or configuration
  3  the data folder, or the archive of --since, cannot be read";

impl Arguments {
    pub(super) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        self.serve.terminal.apply(environment);
        let (file, report) = target(self.file, self.output)?;
        if let Some(Since::Archive(archive)) = &self.since {
            check_archive(archive)?;
        }
        let settings = self.serve.settings(environment)?;
        let configured = settings.catalog_names().map_err(Failure::usage)?;
        let restricted = settings.restricted_catalogs().map_err(Failure::usage)?;
        let export = Export {
            data: settings.data_folder(),
            catalogs: self.catalog,
            configured,
            since: self.since,
            signatures: !self.without_signatures,
            restricted,
            output: file,
        };
        let progress = progress::progress();
        let fleet = settings.fleet(environment).map_err(Failure::usage)?;
        let limits = settings.limits.resolve();
        let work = async {
            match fleet {
                // A start that failed may have left an empty store.
                Some(fleet) if !has_catalogs(&export.data).await => {
                    app::export_of_fleet(&fleet, &export, &limits, &progress).await
                }
                _ => archive::export(&export, &progress).await,
            }
        };
        let work = progress::stop_on_signal(&progress, work);
        let exported = block_on(work)?.map_err(failure)?;
        if let Some(format) = report {
            return format.print(&json!({
                "file": export.output,
                "catalogs": (exported.catalogs.iter())
                    .map(|(name, revision)| json!({ "name": name.as_str(), "revision": revision }))
                    .collect::<Vec<_>>(),
                "missing": names(&exported.missing),
                "leftOut": names(&exported.others),
                "new": exported.new,
                "blobs": exported.blobs,
                "held": exported.held,
                "bytes": exported.bytes,
            }));
        }
        for (catalog, revision) in &exported.catalogs {
            output::note(&format!("exported {catalog} at revision {revision}"));
        }
        for name in &exported.missing {
            output::note(&format!(
                "nothing is stored of {name}, so the archive lacks it"
            ));
        }
        if !exported.others.is_empty() {
            let others: Vec<&str> = exported.others.iter().map(CatalogName::as_str).collect();
            output::note(&format!(
                "left out, since the configuration does not have them: {}; --catalog adds them",
                others.join(", ")
            ));
        }
        if exported.new == 0 {
            output::note("nothing is new: the other side has all of it");
        }
        output::note(&format!(
            "{}: {}, {}, {} that the other side has, {} bytes",
            export.output.display(),
            output::count(exported.catalogs.len() as u64, "catalog"),
            output::count(exported.blobs as u64, "blob"),
            exported.held,
            exported.bytes
        ));
        Ok(ExitCode::SUCCESS)
    }
}

/// Whether a data folder has catalogs, or cannot be looked into.
async fn has_catalogs(data: &Path) -> bool {
    match Store::open_beside(data).await {
        Ok(None) => false,
        Ok(Some(store)) => {
            let catalogs = store.catalogs().await;
            store.close().await;
            catalogs.map_or(true, |catalogs| !catalogs.is_empty())
        }
        Err(_) => true,
    }
}

impl ServeArguments {
    /// Both, to be read as `serve` reads them.
    pub(super) fn written(&self, environment: &Environment) -> Written {
        let flags = Settings {
            data_dir: self.data_dir.clone(),
            ..Settings::default()
        };
        Written::new(flags, self.config.clone(), environment)
    }

    /// The settings for the data folder and the catalogs.
    pub(super) fn settings(self, environment: &Environment) -> Result<Settings, Failure> {
        let flags = Settings {
            data_dir: self.data_dir,
            ..Settings::default()
        };
        Settings::gather(flags, self.config.as_deref(), environment).map_err(Failure::usage)
    }
}

/// The archive, and the format of the report. `--output` named the archive before.
fn target(
    file: Option<PathBuf>,
    output: Option<OsString>,
) -> Result<(PathBuf, Option<Report>), Failure> {
    let Some(output) = output else {
        // The parser requires one of the two.
        return Ok((file.unwrap_or_default(), None));
    };
    let format = output
        .to_str()
        .and_then(|text| Report::from_str(text, true).ok());
    match (file, format) {
        (Some(file), Some(format)) => Ok((file, Some(format))),
        (Some(_), None) => Err(Failure::usage(anyhow!(
            "--output {} is not a format; write json or yaml",
            output.display()
        ))),
        // A name with a dot or a slash is no mistyped format.
        (None, None)
            if output
                .as_encoded_bytes()
                .iter()
                .any(|it| b"./".contains(it)) =>
        {
            let file = PathBuf::from(output);
            output::note(&format!(
                "almanac: --output is a format; write --file {} for the archive",
                file.display()
            ));
            Ok((file, None))
        }
        (None, _) => Err(Failure::usage(anyhow!(
            "--file is missing: it names the archive, and --output is the format of the report; \
             for an archive of this name write --file {}",
            Path::new(&output).display()
        ))),
    }
}

fn names(names: &[CatalogName]) -> Vec<&str> {
    names.iter().map(CatalogName::as_str).collect()
}

/// A text of digits is a revision, and any other a file.
fn since(text: OsString) -> Since {
    let digits = text
        .to_str()
        .filter(|text| text.bytes().all(|it| it.is_ascii_digit()));
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(revision) => Since::Revision(revision),
        None => Since::Archive(text.into()),
    }
}

/// The failure for an archive error, with the exit code for its cause.
pub(super) fn failure(error: ArchiveError) -> Failure {
    match error {
        ArchiveError::UnknownCatalog { .. }
        | ArchiveError::NoneConfigured { .. }
        | ArchiveError::UnknownRevision { .. }
        | ArchiveError::NotConfigured { .. }
        | ArchiveError::OtherSource { .. }
        | ArchiveError::Name(_) => Failure::usage(error),
        ArchiveError::Stopped
        | ArchiveError::Io(_)
        | ArchiveError::NoFolder { .. }
        | ArchiveError::Output { .. }
        | ArchiveError::Fleet(_)
        | ArchiveError::Unfetched { .. }
        | ArchiveError::Store(_) => Failure::run(error),
        ArchiveError::Pass { ref source, .. } if source.is_local() => Failure::run(error),
        _ => Failure::unreadable(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_a_format_and_names_the_archive_only_with_a_path() {
        let target = |file: Option<&str>, output: Option<&str>| {
            let made = target(file.map(Into::into), output.map(Into::into));
            made.map_err(|failure| failure.to_string())
        };
        let archive = |name: &str, report| Ok((PathBuf::from(name), report));
        assert_eq!(target(Some("a.tar"), None), archive("a.tar", None));
        let json = archive("json", Some(Report::Yaml));
        assert_eq!(target(Some("json"), Some("yaml")), json);
        for old in ["monday.tar", "/tmp/monday", "./json"] {
            assert_eq!(target(None, Some(old)), archive(old, None));
        }
        for (file, output, said) in [
            (None, "json", "--file json"),
            (None, "jsno", "--file jsno"),
            (Some("a.tar"), "jsno", "write json or yaml"),
        ] {
            let error = target(file, Some(output)).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
