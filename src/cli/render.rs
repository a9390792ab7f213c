//! `almanac render`: prints a catalog in a uniform format.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Seek as _, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::ValueEnum;

use crate::cli::help::{NO_HEADING, help_of_reading};
use crate::cli::input::InputArguments;
use crate::cli::{Failure, output};
use crate::config::Environment;
use fbc::presentation;
use fbc::read::Meta;
use fbc::text::json::cursor::Cursor;
use fbc::text::yaml;

/// Print a catalog in a uniform format
///
/// Each blob is printed once with sorted keys, exactly as `serve` returns it. The
/// order is that of the catalog: files by name, blobs by position. Packages with
/// errors are printed too. Nothing is printed for a catalog that cannot be served
/// at all.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) input: InputArguments,

    /// Further catalogs, printed behind the first
    #[arg(value_name = "SOURCE", help_heading = NO_HEADING)]
    more: Vec<String>,

    /// The output format
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT", help_heading = NO_HEADING)]
    output: Output,

    /// Only the blobs of this package; repeatable
    #[arg(long = "package", short, value_name = "PACKAGE", help_heading = NO_HEADING)]
    packages: Vec<String>,

    /// Whether the related images of bundles are sorted, as by opm.
    #[arg(skip)]
    pub(super) as_opm: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// One line of JSON per blob
    #[default]
    Jsonl,
    /// One YAML document per blob
    Yaml,
    /// One JSON array
    Json,
}

const EXAMPLES: &str = help_of_reading!(
    "  almanac render quay.io/operatorhubio/catalog:latest > catalog.jsonl
  almanac render file:deploy/catalog --output yaml
  almanac render oci:layout:v4.20 --package etcd --package kafka | jq .schema",
    "  0  printed
  1  unknown package, or the output failed
  2  invalid arguments
  3  the catalog cannot be read or served"
);

/// The wanted packages, and those that were found.
struct Selection {
    wanted: Vec<String>,
    found: BTreeSet<String>,
}

impl Arguments {
    pub(super) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        let catalogs = self.input.load_with(&self.more, environment)?;
        let mut selection = Selection {
            wanted: self.packages,
            found: BTreeSet::new(),
        };
        // Nothing is printed before the last blob is read, because only then it
        // is certain that the catalog can be served.
        let mut spool = tempfile::tempfile().map(BufWriter::new).map_err(spooling)?;
        let (mut document, mut sorted) = (Vec::new(), Vec::new());
        let mut count = 0_usize;
        if self.output == Output::Json {
            spool.write_all(b"[").map_err(spooling)?;
        }
        let mut write = |meta: &Meta, line: &[u8]| {
            if !selection.takes(meta) {
                return Ok(());
            }
            sorted.clear();
            let line = if self.as_opm && meta.schema() == "olm.bundle" {
                sort_related_images(line, &mut sorted);
                &sorted
            } else {
                line
            };
            match self.output {
                Output::Jsonl => spool.write_all(line),
                Output::Json => {
                    spool.write_all(if count == 0 { b"\n" } else { b",\n" })?;
                    count += 1;
                    spool.write_all(line.trim_ascii_end())
                }
                Output::Yaml => {
                    document.clear();
                    document.extend_from_slice(b"---\n");
                    yaml::from_json(line, &mut document);
                    spool.write_all(&document)
                }
            }
        };
        for catalog in catalogs {
            catalog.read(|_, meta, line| write(meta, line))?;
        }
        if self.output == Output::Json {
            spool.write_all(b"\n]\n").map_err(spooling)?;
        }
        selection.check()?;
        let mut spool = rewound(spool)
            .context("cannot read a temporary file")
            .map_err(Failure::run)?;
        output::print(|out| io::copy(&mut spool, out).map(drop))
    }
}

impl Selection {
    fn takes(&mut self, meta: &Meta) -> bool {
        let package = match meta.schema() {
            "olm.package" => meta.name(),
            _ => meta.package(),
        };
        if self.wanted.is_empty() {
            return true;
        }
        if !package.is_empty() && !self.found.contains(package) {
            self.found.insert(package.to_owned());
        }
        self.wanted.iter().any(|wanted| wanted == package)
    }

    /// Fails if a wanted package is missing.
    fn check(&self) -> Result<(), Failure> {
        for wanted in &self.wanted {
            if !self.found.contains(wanted) {
                let names = self.found.iter().map(String::as_str);
                return Err(Failure::no_package(wanted, names));
            }
        }
        Ok(())
    }
}

fn spooling(error: io::Error) -> Failure {
    Failure::run(anyhow::Error::new(error).context("cannot write a temporary file"))
}

/// Appends the line of a bundle to `out`, with its related images sorted by image.
fn sort_related_images(line: &[u8], out: &mut Vec<u8>) {
    let mut cursor = Cursor::new(line);
    cursor.enter_object();
    let is_wanted = |key: &[u8]| key.eq_ignore_ascii_case(b"\"relatedImages\"");
    while let Some(key) = cursor.next_key() {
        let start = cursor.position();
        if !is_wanted(key) || !cursor.enter_array() {
            cursor.skip();
            continue;
        }
        let mut images = Vec::new();
        while cursor.next_element() {
            let image = cursor.skip();
            images.push((presentation::image(image), image));
        }
        images.sort_by(|(one, _), (other, _)| one.cmp(other));
        let images: Vec<&[u8]> = images.into_iter().map(|(_, image)| image).collect();
        out.extend_from_slice(&line[..=start]);
        out.extend_from_slice(&images.join(&b','));
        out.extend_from_slice(&line[cursor.position() - 1..]);
        return;
    }
    out.extend_from_slice(line);
}

fn rewound(spool: BufWriter<File>) -> io::Result<File> {
    let mut file = spool.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.rewind()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn related_images_are_sorted_by_image_and_nothing_else_changes() {
        let sorted = |line: &str| {
            let mut out = Vec::new();
            sort_related_images(line.as_bytes(), &mut out);
            String::from_utf8(out).unwrap()
        };
        let images = [
            r#"{"image":"b","name":"1"}"#,
            r#"{"image":"a","name":"2"}"#,
            r#"{"image":"a","name":"3"}"#,
        ];
        let line = |[a, b, c]: [&str; 3]| {
            format!(
                "{{\"image\":\"c\",\"relatedImages\":[{a},{b},{c}],\"schema\":\"olm.bundle\"}}\n"
            )
        };
        let [first, second, third] = images;
        assert_eq!(sorted(&line(images)), line([second, third, first]));
        for same in [
            "{\"relatedImages\":[],\"z\":1}\n",
            "{\"relatedImages\":null}\n",
            "{\"image\":\"a\"}\n",
        ] {
            assert_eq!(sorted(same), same);
        }
    }
}
