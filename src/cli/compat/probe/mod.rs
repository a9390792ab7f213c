//! `almanac grpc-health-probe`, and the program under the name
//! `grpc_health_probe`: checks the health of a gRPC server, with the flags,
//! exit codes and messages of the probe that OLM uses for catalogs.

mod connect;
mod target;
mod tls;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser as _;
use http::{HeaderName, HeaderValue};
use tokio::runtime::Builder;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;

use crate::cli::compat::go_flags::{self, GoDuration, Header, parse_bool, parse_duration};
use connect::Connection;
use target::Target;
use tls::Tls;

/// The command's name.
pub(crate) const NAME: &str = "grpc-health-probe";

/// Invalid arguments.
const ARGUMENTS: u8 = 1;
/// No connection to a gRPC server.
const CONNECTION: u8 = 2;
/// The call failed.
const CALL: u8 = 3;
/// An answer other than SERVING.
const UNHEALTHY: u8 = 4;

/// Check the health of a gRPC server
///
/// Replaces `grpc_health_probe`, which OLM uses for catalogs, also when the
/// program runs under that name. Flags may have one dash or two. The result is
/// written to standard error.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES, args_override_self = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Arguments {
    /// The address of the server
    #[arg(long, value_name = "HOST:PORT")]
    addr: Option<String>,

    /// The service to check
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "NAME"
    )]
    service: String,

    /// The user agent of the probe
    #[arg(long, default_value = "grpc_health_probe", value_name = "TEXT")]
    user_agent: HeaderValue,

    /// The timeout of connecting, which is retried until then
    #[arg(long, default_value = "1s", value_parser = parse_duration, value_name = "TIME")]
    connect_timeout: Duration,

    /// The timeout of the call
    #[arg(long, default_value = "1s", value_parser = parse_duration, value_name = "TIME")]
    rpc_timeout: Duration,

    /// A header to send; repeatable
    #[arg(long = "rpc-header", value_name = "NAME: VALUE")]
    headers: Vec<Header>,

    /// Use TLS
    #[arg(long, value_name = "BOOL", value_parser = parse_bool, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    tls: bool,

    /// Accept any certificate
    #[arg(long, value_name = "BOOL", value_parser = parse_bool, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    tls_no_verify: bool,

    /// The authorities to trust instead of the system's (PEM)
    #[arg(long, value_name = "FILE")]
    tls_ca_cert: Option<PathBuf>,

    /// The client certificate (PEM)
    #[arg(long, value_name = "FILE")]
    tls_client_cert: Option<PathBuf>,

    /// Its key (PEM)
    #[arg(long, value_name = "FILE")]
    tls_client_key: Option<PathBuf>,

    /// The expected name in the server's certificate
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,

    /// Print more
    #[arg(long = "v", value_name = "BOOL", value_parser = parse_bool, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    verbose: bool,

    /// Ignored: the request has only a few bytes
    #[arg(long, value_name = "BOOL", value_parser = parse_bool, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    gzip: bool,

    /// Not supported
    #[arg(long, hide = true, value_name = "BOOL", value_parser = parse_bool, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    spiffe: bool,

    /// Not supported
    #[arg(long, hide = true, value_name = "BOOL", value_parser = parse_bool, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    alts: bool,
}

const EXAMPLES: &str = "\
Examples:
  grpc_health_probe -addr=:50051
  grpc_health_probe -addr=localhost:50051 -service=community -rpc-timeout=5s
  almanac grpc-health-probe -addr=catalogs.example.com:443 -tls

Exit codes:
  0  the server is SERVING
  1  invalid arguments
  2  no connection in time
  3  the call failed or timed out
  4  the status is not SERVING";

/// The program under the name `grpc_health_probe`.
#[derive(Debug, clap::Parser)]
#[command(name = "grpc_health_probe", version, about = "almanac as a replacement for grpc_health_probe", long_about = None)]
struct Program {
    #[command(flatten)]
    arguments: Arguments,
}

/// The exit code and the message of a check.
type Outcome = (u8, String);

/// Runs the probe. The first argument is the name of the program.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match Program::try_parse_from(go_flags::with_two_dashes(arguments)) {
        Ok(program) => program.arguments.run(),
        Err(error) => {
            // Without standard error, this cannot be reported.
            let _ = error.print();
            if error.use_stderr() {
                ExitCode::from(ARGUMENTS)
            } else {
                ExitCode::SUCCESS
            }
        }
    }
}

impl Arguments {
    pub(crate) fn run(self) -> ExitCode {
        let (code, text) = match self.check() {
            // One thread is enough for one request.
            Ok((target, tls)) => match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime.block_on(self.ask(&target, tls)),
                Err(error) => (CALL, format!("error: cannot start: {error}")),
            },
            Err(problem) => (ARGUMENTS, format!("error: {problem}")),
        };
        say(&text);
        ExitCode::from(code)
    }

    /// The target and TLS settings of the arguments, or the reason why they are
    /// invalid.
    fn check(&self) -> Result<(Target, Option<Tls>), String> {
        let Some(addr) = &self.addr else {
            return Err("-addr not specified".into());
        };
        let target = Target::parse(addr)?;
        for (name, time) in [("connect", self.connect_timeout), ("rpc", self.rpc_timeout)] {
            if time.is_zero() {
                return Err(format!("-{name}-timeout must be greater than zero"));
            }
        }
        if self.spiffe || self.alts {
            return Err("-spiffe and -alts are not supported".into());
        }
        let given = [
            ("-tls-no-verify", self.tls_no_verify),
            ("-tls-ca-cert", self.tls_ca_cert.is_some()),
            ("-tls-client-cert", self.tls_client_cert.is_some()),
            ("-tls-client-key", self.tls_client_key.is_some()),
            ("-tls-server-name", self.tls_server_name.is_some()),
        ];
        if !self.tls {
            return match given.iter().find(|(_, given)| *given) {
                Some((flag, _)) => Err(format!("specified {flag} without specifying -tls")),
                None => Ok((target, None)),
            };
        }
        let client = match (&self.tls_client_cert, &self.tls_client_key) {
            (Some(certificate), Some(key)) => Some((certificate.as_path(), key.as_path())),
            (None, None) => None,
            (Some(_), None) => {
                return Err("specified -tls-client-cert without specifying -tls-client-key".into());
            }
            (None, Some(_)) => {
                return Err("specified -tls-client-key without specifying -tls-client-cert".into());
            }
        };
        let trust = match (self.tls_no_verify, &self.tls_ca_cert) {
            (true, Some(_)) => {
                return Err("cannot specify -tls-ca-cert with -tls-no-verify".into());
            }
            (true, None) if self.tls_server_name.is_some() => {
                return Err("cannot specify -tls-server-name with -tls-no-verify".into());
            }
            (true, None) => tls::Trust::Any,
            (false, Some(file)) => tls::Trust::File(file),
            (false, None) => tls::Trust::System,
        };
        let name = self.tls_server_name.as_deref();
        let tls = Tls::new(&trust, client, name, &target)
            .map_err(|error| format!("failed to initialize tls credentials: {error:#}"))?;
        Ok((target, Some(tls)))
    }

    async fn ask(&self, target: &Target, tls: Option<Tls>) -> Outcome {
        self.tell(|| format!("connecting to {target}, TLS: {}", tls.is_some()));
        let begin = Instant::now();
        let connection = connect::connect(target, tls.as_ref(), self.connect_timeout).await;
        let connection = match connection {
            Ok(connection) => connection,
            Err(cause) => {
                let text = format!(
                    "timeout: failed to connect service {:?} within {}: {cause}",
                    self.addr.as_deref().unwrap_or_default(),
                    GoDuration(self.connect_timeout)
                );
                return (CONNECTION, text);
            }
        };
        self.tell(|| format!("connection established (took {:?})", begin.elapsed()));
        let authority = tls.map_or_else(|| target.to_string(), |tls| tls.authority().to_owned());
        match self.call(connection, &authority).await {
            Ok(ServingStatus::Serving) => {
                self.tell(|| format!("time elapsed: {:?}", begin.elapsed()));
                (0, "status: SERVING".into())
            }
            Ok(other) => {
                let status = other.as_str_name();
                let text = format!("service unhealthy (responded with {status:?})");
                (UNHEALTHY, text)
            }
            Err(status) => (CALL, self.failed(&status)),
        }
    }

    async fn call(&self, connection: Connection, authority: &str) -> Result<ServingStatus, Status> {
        let mut request = tonic::Request::new(HealthCheckRequest {
            service: self.service.clone(),
        });
        request.set_timeout(self.rpc_timeout);
        let headers = self
            .headers
            .iter()
            .map(|Header(name, value)| (name.clone(), value.clone()));
        let agent = (
            HeaderName::from_static("user-agent"),
            self.user_agent.clone(),
        );
        let mut client = connection.health(authority, headers.chain([agent]).collect())?;
        match tokio::time::timeout(self.rpc_timeout, client.check(request)).await {
            Ok(answer) => Ok(answer?.into_inner().status()),
            Err(_) => Err(Status::deadline_exceeded("")),
        }
    }

    fn failed(&self, status: &Status) -> String {
        match status.code() {
            Code::Unimplemented => format!(
                "error: this server does not implement the grpc health protocol \
                 (grpc.health.v1.Health): {}",
                status.message()
            ),
            Code::DeadlineExceeded => format!(
                "timeout: health rpc did not complete within {}",
                GoDuration(self.rpc_timeout)
            ),
            code => format!(
                "error: health rpc failed: code = {code:?} desc = {}",
                status.message()
            ),
        }
    }

    fn tell(&self, text: impl FnOnce() -> String) {
        if self.verbose {
            say(&text());
        }
    }
}

/// Writes a line to standard error, as the original does.
fn say(text: &str) {
    // Without standard error, this cannot be reported.
    let _ = writeln!(io::stderr(), "{}", crate::cli::output::Shown(text));
}
