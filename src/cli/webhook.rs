//! `almanac webhook`: tries the webhooks of a configuration.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use clap::Subcommand;

use crate::cli::terminal::TerminalArguments;
use crate::cli::{Failure, block_on, output};
use crate::config::{Environment, Settings};
use crate::webhooks::{DeliveryError, Receiver, Webhook};
use fbc::text::suggest;

/// The exit code when a receiver did not take the event.
const NOT_TAKEN: u8 = 1;

/// Try the webhooks of a configuration
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Test(TestArguments),
}

/// Send an event of the type almanac.webhook.test to webhooks
///
/// Each event is sent once, signed as `serve` signs events. Nothing else of the
/// configuration is used.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
struct TestArguments {
    /// The names of webhooks [default: all of the configuration]
    #[arg(value_name = "WEBHOOK")]
    names: Vec<String>,

    /// The configuration file of `serve`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    terminal: TerminalArguments,
}

const EXAMPLES: &str = "\
Examples:
  almanac webhook test --config almanac.toml
  almanac webhook test --config almanac.toml chat

Exit codes:
  0  every receiver took the event
  1  a receiver did not take it
  2  invalid arguments or configuration";

impl Arguments {
    pub(super) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        let Command::Test(arguments) = self.command;
        arguments.run(environment)
    }
}

impl TestArguments {
    fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        self.terminal.apply(environment);
        let file = self.config.as_deref();
        let settings = Settings::gather(Settings::default(), file, environment);
        let settings = settings.map_err(Failure::usage)?;
        let webhooks = settings.webhooks().map_err(Failure::usage)?;
        let receivers = chosen(webhooks, &self.names)?.into_iter().map(|webhook| {
            let receiver = Receiver::new(&webhook).map_err(Failure::usage)?;
            Ok((webhook, receiver))
        });
        let receivers = receivers.collect::<Result<Vec<_>, Failure>>()?;
        let results = block_on(async {
            let mut results = Vec::new();
            for (webhook, receiver) in receivers {
                results.push((webhook, receiver.test().await));
            }
            results
        })?;
        report(results)
    }
}

/// The webhooks of these names, or all.
fn chosen(webhooks: Vec<Webhook>, names: &[String]) -> Result<Vec<Webhook>, Failure> {
    if webhooks.is_empty() {
        let problem =
            "the configuration has no webhook; name a file that has [[webhook]] with --config";
        return Err(Failure::usage(anyhow!(problem)));
    }
    let known: BTreeSet<&str> = webhooks.iter().map(|it| it.name.as_str()).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(name.as_str())) {
        let proposal = suggest::proposal_or_all(name, known);
        return Err(Failure::usage(anyhow!(
            "there is no webhook {name:?}{proposal}"
        )));
    }
    let is_chosen = |webhook: &Webhook| {
        let name = webhook.name.as_str();
        names.is_empty() || names.iter().any(|one| one == name)
    };
    Ok(webhooks.into_iter().filter(is_chosen).collect())
}

/// A webhook, and the status of its receiver after a time.
type Tested = (Webhook, Result<(u16, Duration), DeliveryError>);

fn report(results: Vec<Tested>) -> Result<ExitCode, Failure> {
    let mut code = ExitCode::SUCCESS;
    for (webhook, result) in results {
        match result {
            Ok((status, elapsed)) => {
                let milliseconds = elapsed.as_millis();
                output::print(|out| {
                    writeln!(
                        out,
                        "{}: {} answered {status} after {milliseconds} ms",
                        webhook.name, webhook.url
                    )
                })?;
            }
            Err(error) => {
                code = ExitCode::from(NOT_TAKEN);
                let place = format!("webhook {}: {}", webhook.name, webhook.url);
                Failure::run(anyhow::Error::new(error).context(place)).print();
            }
        }
    }
    Ok(code)
}
