//! `almanac verify`: what the signature policy says about an image, and why.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::ValueEnum;
use serde::Serialize;
use serde_json::json;

use crate::cli::help::NO_HEADING;
use crate::cli::image::{ImageAccess, ImageDocuments, OpenImage, of_registry};
use crate::cli::input::check_paths;
use crate::cli::output::Shown;
use crate::cli::{Failure, block_on, format, output};
use crate::config::{Config, Environment, Settings};
use crate::error_chain::error_chain;
use crate::ingest::Source;
use crate::name::CatalogName;
use ::images::digest::Digest;
use ::images::policy::{Outcome, PolicySubject, SearchedPlace, Verdict};
use ::images::{Admission, Error, Manifest, Platform, PolicyFiles, Reference, Registries};
use fbc::text::suggest;

/// The exit code for an image that is not admitted.
const NOT_ADMITTED: u8 = 1;

/// Print what the signature policy says about an image
///
/// The command prints each requirement of the matching scope, whether it holds,
/// by which signature or why not, and where signatures were looked for. Nothing
/// of the image but its manifest is pulled. Layouts and archives hold no
/// signatures: a policy accepts or rejects them as a whole. With a configuration
/// file, the image is judged as `serve` judges it.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    /// An image reference, `oci:FOLDER`, `oci-archive:FILE` or
    /// `docker-archive:FILE` (with `:TAG` or `@DIGEST` where there are several
    /// images), or the name of a catalog of the configuration file
    #[arg(value_name = "IMAGE")]
    image: String,

    /// The configuration file of `serve`: its settings of registries and
    /// signatures apply, unless flags say otherwise
    #[arg(long, value_name = "FILE", help_heading = NO_HEADING)]
    config: Option<PathBuf>,

    #[command(flatten)]
    access: ImageAccess,

    /// Ask for a signature of this public key, under any tag of the repository,
    /// instead of the policy; repeatable, and one key will do
    #[arg(
        long = "key",
        value_name = "FILE",
        conflicts_with = "policy_file",
        help_heading = NO_HEADING
    )]
    keys: Vec<PathBuf>,

    /// The platform that chooses the image of a list [default: linux/amd64]
    #[arg(long, value_name = "OS/ARCH", help_heading = NO_HEADING)]
    platform: Option<Platform>,

    /// The output format
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT", help_heading = NO_HEADING)]
    output: Output,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    /// For humans
    #[default]
    #[value(alias = "table")]
    Text,
    /// One JSON object
    Json,
    /// The same object as YAML
    Yaml,
}

const EXAMPLES: &str = "\
Examples:
  almanac verify registry.redhat.io/redhat/redhat-operator-index:v4.20
  almanac verify quay.io/team/catalog:v1 --policy-file policy.json
  almanac verify community --config almanac.toml
  almanac verify quay.io/team/catalog:v1 --key cosign.pub --output json

Exit codes:
  0  the image is admitted
  1  the image is not admitted
  2  invalid arguments
  3  the image, the policy or a place of signatures cannot be read";

/// The document of `--output json` and `yaml`.
#[derive(Serialize)]
struct Document<'a> {
    image: String,
    digest: Digest,
    /// The chosen image of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<Digest>,
    admitted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    scope: &'a str,
    requirements: Vec<RequirementJson<'a>>,
    searched: Vec<PlaceJson<'a>>,
}

#[derive(Serialize)]
struct RequirementJson<'a> {
    requirement: &'a str,
    /// `holds`, `fails` or `unknown`.
    outcome: &'static str,
    reason: &'a str,
}

#[derive(Serialize)]
struct PlaceJson<'a> {
    place: &'a str,
    found: &'a str,
}

/// Findings about an image.
struct Found {
    digest: Digest,
    instance: Option<Digest>,
    verdict: Verdict,
    failure: Option<Error>,
}

impl Arguments {
    pub(super) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        check_paths("--key", &self.keys)?;
        let file = self.config.as_deref().or(environment.config_file());
        let (source, platform) = named(&self.image, file, environment)?;
        let platform = self.platform.or(platform);
        let mut image = self.access.open(source, platform, file, environment)?;
        let subject = image.subject()?;
        let folder = match &self.keys[..] {
            [] => None,
            keys => Some(policy_of(keys).map_err(Failure::run)?),
        };
        if let Some(folder) = &folder {
            image.settings.policy = PolicyFiles {
                named: Some(folder.path().join(POLICY)),
                ..PolicyFiles::default()
            };
        }
        let found = block_on(judge(&image, subject))?.map_err(|error| {
            // Most errors begin with the name.
            let (name, text) = (image.name(), error_chain(error.as_ref()));
            let text = text.replacen(&format!("{name}: "), "", 1);
            Failure::unreadable(anyhow!("{name} cannot be verified: {text}"))
        })?;
        let document = found.document(image.name(), folder.is_some());
        output::print(|out| match self.output {
            Output::Text => text(&document, out),
            Output::Json => output::json(&document, out),
            Output::Yaml => format::yaml_of(&document, out),
        })?;
        if document.admitted {
            return Ok(ExitCode::SUCCESS);
        }
        match found.failure {
            Some(error) => Err(Failure::unreadable(error)),
            None => Ok(ExitCode::from(NOT_ADMITTED)),
        }
    }
}

/// The image of a text: that of a catalog in the configuration file with its platform,
/// or any other.
fn named(
    text: &str,
    file: Option<&Path>,
    environment: &Environment,
) -> Result<(Source, Option<Platform>), Failure> {
    let mut proposal = String::new();
    if let Ok(name) = text.parse::<CatalogName>() {
        let Some(file) = file else {
            let source = Source::found(text).map_err(|error| {
                anyhow!("{error}; for a catalog of a configuration file, add --config FILE")
            });
            return Ok((source.map_err(Failure::usage)?, None));
        };
        let config = Config::load(Settings::default(), Some(file), environment);
        let catalogs = config.map_err(Failure::usage)?.catalogs;
        if let Some(catalog) = catalogs.iter().find(|catalog| catalog.name == name) {
            return Ok((catalog.source.clone(), Some(catalog.platform.clone())));
        }
        let names = catalogs.iter().map(|catalog| catalog.name.as_str());
        proposal = format!(
            "; there is no catalog of that name in {}{}",
            file.display(),
            suggest::proposal_or_all(text, names)
        );
    }
    let source = Source::found(text).map_err(|error| anyhow!("{error}{proposal}"));
    Ok((source.map_err(Failure::usage)?, None))
}

/// The name of the policy that is made of keys.
const POLICY: &str = "policy.json";

/// A folder with a policy that asks for a signature of one of the keys.
fn policy_of(keys: &[PathBuf]) -> anyhow::Result<tempfile::TempDir> {
    let keys: Vec<PathBuf> = keys
        .iter()
        .map(|key| std::path::absolute(key).with_context(|| key.display().to_string()))
        .collect::<Result<_, _>>()?;
    let policy = json!({"default": [{
        "type": "sigstoreSigned",
        "keyPaths": keys,
        "signedIdentity": {"type": "matchRepository"},
    }]});
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    write(&folder.path().join(POLICY), policy.to_string().as_bytes())?;
    Ok(folder)
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

async fn judge(image: &OpenImage, subject: PolicySubject) -> anyhow::Result<Found> {
    match &subject {
        PolicySubject::Registry(reference) => judge_in_registry(image, reference).await,
        PolicySubject::Layout(..) => {
            let ImageDocuments { digest, .. } = image.read().await?;
            let policy = image.settings.policy.clone();
            let reading =
                tokio::task::spawn_blocking(move || Admission::unjudged(&policy, &subject));
            let admission = reading.await??;
            let mut verdict = admission.verdict();
            if admission.needs_signature() {
                verdict.searched.push(SearchedPlace {
                    place: image.name(),
                    found: "layouts and archives hold no signatures".into(),
                });
            }
            Ok(Found {
                digest,
                instance: None,
                verdict,
                failure: None,
            })
        }
    }
}

async fn judge_in_registry(image: &OpenImage, reference: &Reference) -> anyhow::Result<Found> {
    let registries = Registries::new(&image.settings)?;
    let route = registries.unjudged_route(reference).await?;
    let (documents, manifest) = of_registry(&route).await?;
    let instance = match &manifest {
        Manifest::Image(_) => None,
        Manifest::Index(index) => Some(index.select(&image.platform)?.digest),
    };
    let (verdict, failure) = route.judge(&documents.digest, instance.as_ref()).await;
    Ok(Found {
        digest: documents.digest,
        instance,
        verdict,
        failure,
    })
}

impl Found {
    fn document(&self, image: String, by_keys: bool) -> Document<'_> {
        let verdict = &self.verdict;
        let policy = verdict.policy.as_ref().filter(|_| !by_keys);
        let requirements = verdict.requirements.iter().map(|one| {
            let (outcome, reason) = match &one.outcome {
                Outcome::Holds(by) => ("holds", by),
                Outcome::Fails(problem) => ("fails", problem),
                Outcome::Unknown(problem) => ("unknown", problem),
            };
            RequirementJson {
                requirement: &one.requirement,
                outcome,
                reason,
            }
        });
        let searched = verdict.searched.iter().map(|one| PlaceJson {
            place: &one.place,
            found: &one.found,
        });
        Document {
            image,
            digest: self.digest,
            instance: self.instance,
            admitted: verdict.admits(),
            policy: policy.map(|path| path.display().to_string()),
            scope: if by_keys { "" } else { &verdict.scope },
            requirements: requirements.collect(),
            searched: searched.collect(),
        }
    }
}

fn text(document: &Document<'_>, out: &mut impl Write) -> io::Result<()> {
    let Document {
        image,
        digest,
        instance,
        admitted,
        policy,
        scope,
        requirements,
        searched,
    } = document;
    writeln!(out, "{image}")?;
    writeln!(out, "  digest    {digest}")?;
    if let Some(instance) = instance {
        writeln!(out, "  instance  {instance}")?;
    }
    match policy {
        Some(policy) => writeln!(out, "  policy    {}, for {}", Shown(policy), Shown(scope))?,
        None if requirements.is_empty() => writeln!(out, "  policy    none")?,
        None => writeln!(out, "  policy    the keys of --key")?,
    }
    for one in requirements {
        let RequirementJson {
            requirement,
            outcome,
            reason,
        } = one;
        writeln!(out, "  requires  {}", Shown(requirement))?;
        writeln!(out, "    {outcome}: {}", Shown(reason))?;
    }
    for one in searched {
        writeln!(
            out,
            "  searched  {}: {}",
            Shown(one.place),
            Shown(one.found)
        )?;
    }
    writeln!(
        out,
        "{}",
        if *admitted {
            "admitted"
        } else {
            "not admitted"
        }
    )
}
