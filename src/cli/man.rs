//! `almanac man`: manual pages, made from the description of the command line.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::{Arg, ArgAction, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use crate::build_info;
use crate::cli::{Failure, output};
use fbc::text::suggest;

/// Print a manual page, or write all of them to a folder
///
/// The page of a command has the text of its --help. Pages are written for the
/// program `man`.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The command, such as `serve` or `opm serve` [default: almanac itself]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,

    /// Write all pages to this folder: almanac.1, almanac-serve.1 and so on
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    folder: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  almanac man | man -l -
  almanac man opm serve | man -l -
  almanac man --folder /usr/local/share/man/man1

Exit codes:
  0  printed or written
  1  the output failed
  2  invalid arguments, such as an unknown command";

impl Arguments {
    /// Prints or writes pages of the command line `program`.
    pub(super) fn run(self, program: Command) -> Result<ExitCode, Failure> {
        let mut program = program.disable_help_subcommand(true);
        program.build();
        if let Some(folder) = &self.folder {
            write_all(&program, folder).map_err(Failure::run)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut command = &program;
        for word in &self.command {
            command = command.find_subcommand(word).ok_or_else(|| {
                let names = command.get_subcommands().map(Command::get_name);
                let proposal = suggest::proposal_or_all(word, names);
                Failure::usage(anyhow!(
                    "{} has no command {word:?}{proposal}",
                    name_of(command).replace('-', " ")
                ))
            })?;
        }
        output::print(|out| out.write_all(&page(command)?))
    }
}

/// Writes the pages of a command and of all below it.
fn write_all(command: &Command, folder: &Path) -> anyhow::Result<()> {
    let cannot = |path: &Path| format!("cannot write {}", path.display());
    fs::create_dir_all(folder).with_context(|| cannot(folder))?;
    let mut rest = vec![command];
    while let Some(command) = rest.pop() {
        rest.extend(command.get_subcommands());
        let path = folder.join(format!("{}.1", name_of(command)));
        let text = page(command).with_context(|| cannot(&path))?;
        fs::write(&path, text).with_context(|| cannot(&path))?;
    }
    Ok(())
}

/// The name of a command's page: those of all commands on the way, with hyphens.
fn name_of(command: &Command) -> &str {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
}

/// The page of a command in roff.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone())
        .source(format!("almanac {}", build_info::VERSION))
        .manual("almanac");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    synopsis(command).to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let help = command.get_after_long_help().or(command.get_after_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let mut roff = Roff::new();
    for Section { heading, lines } in sections(&help) {
        roff.control("SH", [heading.as_str()]);
        // The lines stay as they are: examples, and tables of codes.
        roff.control("nf", []);
        for line in lines {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    roff.to_writer(&mut page)?;
    Ok(page)
}

/// The section with the usage: the options with their values, then the arguments.
fn synopsis(command: &Command) -> Roff {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    if let Some(usage) = command.get_overridden_usage() {
        roff.control("nf", []);
        for line in usage.to_string().lines() {
            roff.text([roman(line.trim_start())]);
        }
        roff.control("fi", []);
        return roff;
    }
    let mut line = vec![bold(name)];
    let arguments = command.get_arguments().filter(|it| !it.is_hide_set());
    let (positional, options): (Vec<&Arg>, Vec<&Arg>) =
        arguments.partition(|argument| argument.is_positional());
    for argument in options.into_iter().chain(positional) {
        let (start, end) = if argument.is_required_set() {
            (" ", "")
        } else {
            (" [", "]")
        };
        line.push(roman(start));
        line.extend(form(argument));
        let is_repeatable = matches!(argument.get_action(), ArgAction::Append | ArgAction::Count);
        line.push(roman(if is_repeatable { "..." } else { "" }));
        line.push(roman(end));
    }
    if command.has_subcommands() {
        line.push(roman(" "));
        line.push(italic("COMMAND"));
    }
    roff.text(line);
    roff
}

/// An argument as it is written: its flags, and its value.
fn form(argument: &Arg) -> Vec<Inline> {
    let mut form = Vec::new();
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    for flag in short.into_iter().chain(long) {
        if !form.is_empty() {
            form.push(roman("|"));
        }
        form.push(bold(flag));
    }
    if argument.is_positional() || argument.get_action().takes_values() {
        if !form.is_empty() {
            form.push(roman(" "));
        }
        let names = argument.get_value_names().unwrap_or_default();
        form.push(italic(names.join(" ")));
    }
    form
}

/// A part of the text below the options.
#[derive(Debug, PartialEq, Eq)]
struct Section<'a> {
    heading: String,
    lines: Vec<&'a str>,
}

/// The sections of the text below the options. A line at the margin that ends with
/// a colon begins one.
fn sections(text: &str) -> Vec<Section<'_>> {
    let mut sections = vec![Section {
        heading: "NOTES".into(),
        lines: Vec::new(),
    }];
    for line in text.lines() {
        match line.strip_suffix(':') {
            Some(heading) if !line.starts_with(' ') => sections.push(Section {
                heading: heading.to_uppercase(),
                lines: Vec::new(),
            }),
            _ => {
                if let Some(section) = sections.last_mut() {
                    section.lines.push(line);
                }
            }
        }
    }
    for section in &mut sections {
        while section.lines.last().is_some_and(|line| line.is_empty()) {
            section.lines.pop();
        }
    }
    sections.retain(|section| !section.lines.is_empty());
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_synopsis_has_the_values_of_options() {
        let mut command = Command::new("sail")
            .arg(Arg::new("config").long("config").value_name("FILE"))
            .arg(
                Arg::new("verbose")
                    .short('v')
                    .long("verbose")
                    .action(ArgAction::Count),
            )
            .arg(Arg::new("port").value_name("PORT").required(true))
            .disable_help_flag(true);
        command.build();
        let text = synopsis(&command).to_roff();
        let text = text
            .replace("\\fB", "")
            .replace("\\fI", "")
            .replace("\\fR", "");
        let expected = "sail [\\-\\-config FILE] [\\-v|\\-\\-verbose...] PORT";
        assert!(text.contains(expected), "{text}");
        let other = command.override_usage("sail PORT\n       sail --list");
        let text = synopsis(&other).to_roff();
        assert!(text.contains("sail PORT\nsail \\-\\-list\n"), "{text}");
    }

    #[test]
    fn headings_of_the_help_are_sections_of_the_page() {
        let text = "A note.\n\nExamples:\n  a:\n  b\n\nExit codes:\n  0  good\n";
        let section = |heading: &str, lines: &[&'static str]| Section {
            heading: heading.into(),
            lines: lines.to_vec(),
        };
        let wanted = [
            section("NOTES", &["A note."]),
            section("EXAMPLES", &["  a:", "  b"]),
            section("EXIT CODES", &["  0  good"]),
        ];
        assert_eq!(sections(text), wanted);
        assert_eq!(sections(""), []);
    }
}
