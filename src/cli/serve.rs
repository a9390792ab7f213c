//! `almanac serve`: runs until it is told to end.

use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::app;
use crate::cli::{Failure, block_on, telemetry};
use crate::config::{Environment, Settings, Written};

/// Follow catalogs and serve them
///
/// Catalogs are followed by digest and served over gRPC (the Operator Registry
/// API) and HTTP (the API of OLM v1's catalogd). What was served
/// last is served again at once after a start, before any registry is reached.
///
/// The configuration file is read again when it changes and on SIGHUP; one that
/// cannot be used is refused, and the old one stays.
///
/// Ends on SIGTERM or SIGINT once open streams have finished, and at once on a
/// second one.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The configuration file (TOML); deploy/almanac.toml is one with every key
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    settings: Settings,
}

const EXAMPLES: &str = "\
Examples:
  almanac serve quay.io/operatorhubio/catalog:latest
  almanac serve community=quay.io/operatorhubio/catalog:latest own=file:deploy/catalog
  almanac serve --data-dir /var/lib/almanac oci:/srv/layout:v4.20
  almanac serve --config deploy/almanac.toml

Environment:
  Each option can stand in the environment as well: ALMANAC_ and its name, such
  as ALMANAC_DATA_DIR or ALMANAC_CONFIG. ALMANAC_CATALOGS and ALMANAC_INSECURE
  take several with spaces between them, ALMANAC_AUTH_FILE and ALMANAC_CA_FILE
  with colons. Flags outweigh the environment, which outweighs the file.

Exit codes:
  0  told to end, and all is finished
  1  something failed while starting or running
  2  the arguments or the configuration cannot be used";

impl Arguments {
    pub(super) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        let written = Written::new(self.settings, self.config, environment);
        let config = written.load().map_err(Failure::usage)?;
        telemetry::start(&config.log, environment)?;
        let serving = async {
            let hangup = signal(SignalKind::hangup()).context("cannot wait for signals")?;
            until_told(|stop| app::run(written, config, hangup, stop)).await
        };
        block_on(serving)?.map_err(Failure::run)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Completes when the program is told to end.
pub(super) type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves until a signal comes; the second one cuts off what the first one
/// left to finish.
pub(super) async fn until_told<F>(serve: impl FnOnce(Stop) -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let mut signals = Signals::new().context("cannot wait for signals")?;
    let (stop, stopped) = oneshot::channel();
    let told = async {
        signals.next().await;
        // It is gone when the program fails at this very moment.
        let _ = stop.send(());
        signals.next().await;
    };
    let stopped = async {
        // An error would mean that `told` is over, and with it everything.
        let _ = stopped.await;
    };
    tokio::select! {
        result = serve(Box::pin(stopped)) => result,
        () = told => anyhow::bail!("told to end a second time, what was open is cut off"),
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
