//! `almanac sign`: signs an image as `serve` signs the images that it makes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::ValueEnum;
use serde::Serialize;

use crate::cli::help::NO_HEADING;
use crate::cli::image::{ImageArguments, ImageDocuments};
use crate::cli::output::Shown;
use crate::cli::{Failure, block_on, format, output};
use crate::config::{Environment, SignedName};
use ::images::digest::Digest;
use ::images::signing::{
    KeySource, Password, SignatureDocuments, SigningKey, signature_tag, write_layout,
};

/// Sign an image, to try a signing key or to sign an exported image
///
/// The signatures have cosign's format and go into a new OCI layout, each under
/// the tag of its image: sha256-….sig. Copy them into the image's repository with
/// any tool. A list of images is signed with all its parts.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
#[command(override_usage = "almanac sign [OPTIONS] <IMAGE>")]
pub(super) struct Arguments {
    #[command(flatten)]
    image: ImageArguments,

    /// The private key: of cosign, or PKCS#8, for ECDSA with P-256
    #[arg(long, value_name = "FILE", help_heading = NO_HEADING)]
    key: PathBuf,

    /// The file with the password of the key
    /// [default: the password in `ALMANAC_SIGNING_PASSWORD`]
    #[arg(long, value_name = "FILE", help_heading = NO_HEADING)]
    password_file: Option<PathBuf>,

    /// The name that users pull the image by, without a tag
    #[arg(long, value_name = "HOST/REPOSITORY", help_heading = NO_HEADING)]
    name: SignedName,

    /// A tag of that name; repeatable
    #[arg(long = "tag", value_name = "TAG", required = true, help_heading = NO_HEADING)]
    tags: Vec<String>,

    /// The folder for the layout with the signatures, missing or empty
    #[arg(long, value_name = "FOLDER", help_heading = NO_HEADING)]
    folder: PathBuf,

    /// The output format
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT", help_heading = NO_HEADING)]
    output: Output,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    /// The references of the signatures, then the public key
    #[default]
    #[value(alias = "table")]
    Text,
    /// One JSON object with names, signatures and the public key
    Json,
    /// The same object as YAML
    Yaml,
    /// One line of JSON per signature
    Jsonl,
    /// The references of the signatures, one per line
    Name,
}

/// The document of `--output json` and `yaml`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    /// The signed names.
    names: &'a [String],
    signatures: Vec<Signature>,
    /// PEM.
    public_key: &'a str,
}

/// The signatures of one image.
#[derive(Serialize)]
struct Signature {
    /// The digest of the image.
    digest: Digest,
    /// The tag of its signatures.
    tag: String,
    /// Their place.
    reference: String,
}

const EXAMPLES: &str = "\
Examples:
  almanac sign oci:ours --key a.key --name h.example/ours --tag v1 --folder sigs

Exit codes:
  0  the signatures are written
  1  the signatures cannot be written
  2  invalid arguments, or a key that cannot be used
  3  the image cannot be read";

impl Arguments {
    pub(super) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        let names: Vec<String> = self
            .tags
            .iter()
            .map(|tag| {
                if ::images::reference::is_tag(tag) {
                    Ok(format!("{}:{tag}", self.name))
                } else {
                    Err(Failure::usage(anyhow!(
                        "--tag {tag:?} is not a tag; write letters, digits, _, . and -, such as v1"
                    )))
                }
            })
            .collect::<Result<_, _>>()?;
        let password = match (self.password_file, environment.signing_password()) {
            (Some(file), _) => Password::File(file),
            (None, Some(text)) => Password::Text(text),
            (None, None) => Password::Empty,
        };
        let source = KeySource {
            key: self.key,
            password,
        };
        let key = source.read().map_err(Failure::usage)?;
        let documents = self.image.open(None, environment)?;
        let read = block_on(async { documents.read().await })?;
        let ImageDocuments { digest, parts } = read.map_err(Failure::unreadable)?;
        let subjects: BTreeSet<Digest> = [digest].into_iter().chain(parts).collect();
        let signatures = sign(&key, &subjects, &names).map_err(Failure::run)?;
        write_layout(&self.folder, &signatures)
            .with_context(|| format!("cannot write {}", self.folder.display()))
            .map_err(Failure::run)?;
        let public_key = key.public_key_pem();
        let document = Document {
            names: &names,
            signatures: (subjects.into_iter())
                .map(|digest| {
                    let tag = signature_tag(&digest);
                    Signature {
                        digest,
                        reference: format!("oci:{}:{tag}", self.folder.display()),
                        tag,
                    }
                })
                .collect(),
            public_key: &public_key,
        };
        output::print(|out| document.write(self.output, out))
    }
}

impl Document<'_> {
    fn write(&self, format: Output, out: &mut impl Write) -> io::Result<()> {
        let mut signatures = self.signatures.iter();
        match format {
            Output::Text => {
                self.write(Output::Name, out)?;
                write!(out, "{}", self.public_key)
            }
            Output::Json => output::json(self, out),
            Output::Yaml => format::yaml_of(self, out),
            Output::Jsonl => signatures.try_for_each(|one| format::json_line(one, out)),
            Output::Name => {
                signatures.try_for_each(|one| writeln!(out, "{}", Shown(&one.reference)))
            }
        }
    }
}

/// The signatures of all digests, by tag.
fn sign(
    key: &SigningKey,
    subjects: &BTreeSet<Digest>,
    names: &[String],
) -> anyhow::Result<BTreeMap<String, SignatureDocuments>> {
    let signed = subjects.iter().map(|digest| {
        let documents = SignatureDocuments::sign(key, digest, names);
        Ok((
            signature_tag(digest),
            documents.map_err(|problem| anyhow!(problem))?,
        ))
    });
    signed.collect()
}
