//! `almanac images`: lists the images of a catalog or a selection.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::anyhow;

use crate::answers::images::Form;
use crate::cli::help::{NO_HEADING, help_of_reading};
use crate::cli::input::{InputArguments, image_list};
use crate::cli::{Failure, output};
use crate::config::Environment;
use fbc::image_list::ImageList;
use fbc::select::{ChannelSelection, PackageSelection, Request, Selection, VersionRange};

/// List the images of a catalog or of a selection from it
///
/// The list has the images of bundles and their related images, each once.
/// Without options, it covers all bundles. --package selects what a mirror copies
/// of a package: the heads of its channels, or the versions from --min to --max.
/// The image of the catalog itself is not listed.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    input: InputArguments,

    /// Only this package; repeatable
    #[arg(long = "package", short, value_name = "PACKAGE", help_heading = NO_HEADING)]
    packages: Vec<String>,

    /// Only this channel of the package; repeatable
    #[arg(long = "channel", value_name = "CHANNEL", requires = "packages", help_heading = NO_HEADING)]
    channels: Vec<String>,

    /// The lowest version of the package
    #[arg(long, value_name = "VERSION", requires = "packages", help_heading = NO_HEADING)]
    min: Option<String>,

    /// The highest version of the package
    #[arg(long, value_name = "VERSION", requires = "packages", help_heading = NO_HEADING)]
    max: Option<String>,

    /// All versions of the packages, instead of the heads of their channels
    #[arg(long, conflicts_with = "heads", help_heading = NO_HEADING)]
    full: bool,

    /// The heads of all channels, instead of all versions
    #[arg(long, help_heading = NO_HEADING)]
    heads: bool,

    /// Also the dependencies of the bundles
    #[arg(long, help_heading = NO_HEADING)]
    dependencies: bool,

    /// The output format
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT", help_heading = NO_HEADING)]
    output: Form,

    /// The target of a mapping, such as mirror.example.com:5000
    #[arg(long, value_name = "HOST[/PATH]")]
    #[arg(help_heading = NO_HEADING)]
    to: Option<String>,
}

const EXAMPLES: &str = help_of_reading!(
    "  almanac images quay.io/operatorhubio/catalog:latest --package etcd
  almanac images file:deploy/catalog -p ferry-operator --channel v2 --min 2.0.0
  almanac images curated:imageset.yaml --output json
  almanac images file:deploy/catalog -o mapping --to mirror.example.com:5000",
    "  0  printed
  1  the selection is impossible, or the output failed
  2  invalid arguments
  3  the catalog cannot be read or served"
);

impl Arguments {
    pub(super) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        let request = self.request()?;
        if self.to.is_some() && self.output != Form::Mapping {
            return Err(Failure::usage(anyhow!(
                "--to is the target registry of a mapping: add --output mapping, or leave --to out"
            )));
        }
        // Before anything is pulled.
        let (form, to) = (self.output, self.to.as_deref());
        form.write(&ImageList::default(), to)
            .map_err(|error| Failure::usage(anyhow!("--to: {error}")))?;
        let list = image_list(&self.input.select(environment, &request)?);
        let written = form.write(&list, to).map_err(Failure::run)?;
        output::print(|out| out.write_all(&written))
    }

    /// The selection in the arguments.
    fn request(&self) -> Result<Request, Failure> {
        let narrow = !self.channels.is_empty() || self.min.is_some() || self.max.is_some();
        if narrow && self.packages.len() != 1 {
            return Err(Failure::usage(anyhow!(
                "--channel, --min and --max are for one --package"
            )));
        }
        let text = |version: &Option<String>| version.clone().unwrap_or_default();
        let range =
            VersionRange::new(&text(&self.min), &text(&self.max)).map_err(Failure::usage)?;
        let packages = self.packages.iter().map(|name| PackageSelection {
            name: name.clone(),
            default_channel: String::new(),
            channels: (self.channels.iter())
                .map(|name| ChannelSelection {
                    name: name.clone(),
                    range: VersionRange::default(),
                })
                .collect(),
            range: range.clone(),
        });
        let request = Request {
            selections: vec![Selection {
                from: vec![0],
                full: self.full || (self.packages.is_empty() && !self.heads),
                packages: packages.collect(),
            }],
            dependencies: self.dependencies,
            any_default: true,
        };
        request.check().map_err(Failure::usage)?;
        Ok(request)
    }
}
