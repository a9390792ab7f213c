//! `almanac export`: writes catalogs into an archive.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{OsStringValueParser, TypedValueParser as _};

use crate::cli::{Failure, block_on, output, progress};
use crate::config::{Environment, Settings};
use crate::ingest::archive::{self, ArchiveError, Export, Since};
use crate::name::CatalogName;

/// Write catalogs into an archive, to import them in a network without access
///
/// The archive is an OCI layout in a tar file, with the images of the catalogs
/// and the dates and numbers of their revisions. It is written completely or not
/// at all. almanac may serve from the data folder at the same time.
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
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

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
}

const EXAMPLES: &str = "\
Examples:
  almanac export --output monday.tar
  almanac export --since monday.tar --output tuesday.tar
  almanac export --catalog community --data-dir /var/lib/almanac -o community.tar

Environment:
  ALMANAC_DATA_DIR and ALMANAC_CONFIG set the options of the same name.

Exit codes:
  0  the archive is written
  1  the archive cannot be written
  2  invalid arguments or configuration
  3  the data folder, or the archive of --since, cannot be read";

impl Arguments {
    pub(super) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        let settings = self.serve.settings(environment)?;
        let configured = settings.catalog_names().map_err(Failure::usage)?;
        let export = Export {
            data: settings.data_folder(),
            catalogs: self.catalog,
            configured,
            since: self.since,
            signatures: !self.without_signatures,
            output: self.output,
        };
        let progress = progress::progress();
        let work = progress::stop_on_signal(&progress, archive::export(&export, &progress));
        let exported = block_on(work)?.map_err(failure)?;
        for (catalog, revision) in &exported.catalogs {
            output::note(&format!("exported {catalog} at revision {revision}"));
        }
        for name in &exported.missing {
            output::note(&format!("nothing is stored of {name}, so it is not in it"));
        }
        if !exported.others.is_empty() {
            let others: Vec<&str> = exported.others.iter().map(CatalogName::as_str).collect();
            output::note(&format!(
                "left out, since the configuration does not have them: {}; --catalog names such",
                others.join(", ")
            ));
        }
        if exported.new == 0 {
            output::note("nothing is new since what the other side has");
        }
        output::note(&format!(
            "{}: {} catalogs, {} blobs, {} left out, {} bytes",
            export.output.display(),
            exported.catalogs.len(),
            exported.blobs,
            exported.held,
            exported.bytes
        ));
        Ok(ExitCode::SUCCESS)
    }
}

impl ServeArguments {
    /// The settings for the data folder and the catalogs.
    pub(super) fn settings(self, environment: &Environment) -> Result<Settings, Failure> {
        let flags = Settings {
            data_dir: self.data_dir,
            ..Settings::default()
        };
        Settings::gather(flags, self.config.as_deref(), environment).map_err(Failure::usage)
    }
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
        | ArchiveError::Name(_) => Failure::usage(error),
        ArchiveError::Stopped
        | ArchiveError::Io(_)
        | ArchiveError::NoFolder { .. }
        | ArchiveError::Output { .. }
        | ArchiveError::Store(_) => Failure::run(error),
        ArchiveError::Pass { ref source, .. } if source.is_local() => Failure::run(error),
        _ => Failure::unreadable(error),
    }
}
