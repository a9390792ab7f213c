//! The command line: one module per command.
//!
//! A command parses its arguments, calls the library, and turns the result into
//! output and an exit code. It makes no decisions of its own.

mod check;
mod compat;
mod completions;
mod diff;
mod export;
mod failure;
mod format;
mod graph;
mod health;
mod help;
mod image;
mod images;
mod import;
mod input;
mod list;
mod log_sampler;
mod man;
mod manifests;
mod migrate;
mod output;
mod panics;
mod parse;
mod progress;
mod prune;
mod query;
mod render;
mod runtime;
mod serve;
mod sign;
mod status;
mod telemetry;
mod terminal;
mod verify;
mod version;
mod webhook;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

pub use compat::run;
use compat::{opm, probe};
pub use failure::Failure;
pub(crate) use runtime::block_on;

use crate::config::Environment;

/// Follows Kubernetes operator catalogs by digest and serves them over gRPC
/// and HTTP.
#[derive(Debug, Parser)]
#[command(name = "almanac", version, max_term_width = 100)]
#[command(mut_subcommands(help::complete))]
#[command(after_help = "`almanac COMMAND --help` documents a command, with examples.")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::Arguments>),
    Check(Box<check::Arguments>),
    Render(Box<render::Arguments>),
    List(Box<list::Arguments>),
    Search(Box<query::search::Arguments>),
    Providers(Box<query::providers::Arguments>),
    Updates(Box<query::updates::Arguments>),
    Diff(Box<diff::Arguments>),
    Graph(Box<graph::Arguments>),
    Export(Box<export::Arguments>),
    Import(Box<import::Arguments>),
    Images(Box<images::Arguments>),
    Manifests(Box<manifests::Arguments>),
    Migrate(migrate::Arguments),
    Prune(prune::Arguments),
    Status(status::Arguments),
    Sign(Box<sign::Arguments>),
    Verify(Box<verify::Arguments>),
    Webhook(webhook::Arguments),
    Health(health::Arguments),
    Version(version::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
    Opm(opm::Arguments),
    GrpcHealthProbe(probe::Arguments),
}

impl Arguments {
    /// Runs the command.
    pub fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        match self.command {
            Command::Serve(arguments) => arguments.run(environment),
            Command::Check(arguments) => arguments.run(environment),
            Command::Render(arguments) => arguments.run(environment),
            Command::List(arguments) => arguments.run(environment),
            Command::Search(arguments) => arguments.run(environment),
            Command::Providers(arguments) => arguments.run(environment),
            Command::Updates(arguments) => arguments.run(environment),
            Command::Diff(arguments) => arguments.run(environment),
            Command::Graph(arguments) => arguments.run(environment),
            Command::Export(arguments) => arguments.run(environment),
            Command::Import(arguments) => arguments.run(environment),
            Command::Images(arguments) => arguments.run(environment),
            Command::Manifests(arguments) => arguments.run(environment),
            Command::Migrate(arguments) => arguments.run(environment),
            Command::Prune(arguments) => arguments.run(environment),
            Command::Status(arguments) => arguments.run(environment),
            Command::Sign(arguments) => arguments.run(environment),
            Command::Verify(arguments) => arguments.run(environment),
            Command::Webhook(arguments) => arguments.run(environment),
            Command::Health(arguments) => arguments.run(environment),
            Command::Version(arguments) => arguments.run(),
            Command::Completions(arguments) => arguments.run(Self::command()),
            Command::Man(arguments) => arguments.run(Self::command()),
            Command::Opm(arguments) => arguments.run(environment),
            Command::GrpcHealthProbe(arguments) => Ok(arguments.run()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_fit_together() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_help_of_a_command_names_the_variables_of_its_options() {
        let mut checked = 0;
        for mut command in Arguments::command().get_subcommands().cloned() {
            let help = command.render_long_help().to_string();
            // These have the options of other programs.
            if ["opm", "grpc-health-probe"].contains(&command.get_name()) {
                continue;
            }
            for argument in command.get_arguments() {
                let flag = argument.get_long().unwrap_or_default();
                if let Some(variable) = Environment::variable_for(flag) {
                    checked += 1;
                    let name = variable.name;
                    assert!(help.contains(name), "{}: {name}", command.get_name());
                }
            }
            for line in help.lines().filter(|line| !line.contains("http")) {
                assert!(
                    line.chars().count() <= 100,
                    "{}: {line}",
                    command.get_name()
                );
            }
        }
        assert!(checked > 50, "only {checked} options have variables");
    }

    #[test]
    fn the_help_of_serve_names_the_variables_of_all_settings() {
        let mut command = Arguments::command();
        command.build();
        let help = |command: &mut clap::Command, name: &str| {
            let command = command.find_subcommand_mut(name).unwrap();
            command.render_long_help().to_string()
        };
        let serve = help(&mut command, "serve");
        let serve_command = command.find_subcommand("serve").unwrap();
        let flags = serve_command
            .get_arguments()
            .filter_map(clap::Arg::get_long);
        let variables = flags
            .chain(["catalogs"])
            .filter_map(Environment::variable_for);
        for variable in variables.chain(Environment::variables_without_flag()) {
            let name = variable.name;
            let mut lines = serve.lines().map(str::split_whitespace);
            let is_listed = lines.any(|mut words| words.next() == Some(name));
            assert!(is_listed, "{name}: {serve}");
        }
        // Those of a fleet have no flags.
        for (name, is_of_fleet) in [
            ("export", true),
            ("import", true),
            ("migrate", true),
            ("prune", false),
        ] {
            let help = help(&mut command, name);
            for variable in ["ALMANAC_DATABASE", "ALMANAC_OBJECTS", "AWS_ACCESS_KEY_ID"] {
                assert_eq!(help.contains(variable), is_of_fleet, "{name}: {variable}");
            }
        }
    }
}
