//! `almanac grpc-health-probe`, and the program under the name
//! `grpc_health_probe`: asks a gRPC server whether it is healthy, with the
//! flags, the exit codes and the words of the probe that catalogs are looked
//! after with.
//!
//! `words` reads flags as Go writes them, `connect` connects, `tls` says whom
//! to trust.

mod connect;
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

use crate::cli::compat::go_bool::truth;
use crate::cli::compat::go_flags::{self, Header, Shown, duration};
use connect::{Connection, Target};
use tls::Tls;

/// The command's name.
pub(crate) const NAME: &str = "grpc-health-probe";

/// The arguments cannot be used.
const ARGUMENTS: u8 = 1;
/// Nobody answers as a gRPC server does.
const CONNECTION: u8 = 2;
/// The call failed.
const CALL: u8 = 3;
/// The answer is another than SERVING.
const UNHEALTHY: u8 = 4;

/// Ask a gRPC server whether it is healthy
///
/// Takes the place of the `grpc_health_probe` that catalogs are looked after
/// with, also when the program runs under that name. Flags may have one dash or
/// two. What it finds is written to standard error.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES, args_override_self = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Arguments {
    /// Where the server is
    #[arg(long, value_name = "HOST:PORT")]
    addr: Option<String>,

    /// The service to ask about
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "NAME"
    )]
    service: String,

    /// How the probe names itself
    #[arg(long, default_value = "grpc_health_probe", value_name = "TEXT")]
    user_agent: HeaderValue,

    /// How long connecting may take; it is tried again until then
    #[arg(long, default_value = "1s", value_parser = duration, value_name = "TIME")]
    connect_timeout: Duration,

    /// How long the answer may take
    #[arg(long, default_value = "1s", value_parser = duration, value_name = "TIME")]
    rpc_timeout: Duration,

    /// A header to send; may be given again
    #[arg(long = "rpc-header", value_name = "NAME: VALUE")]
    headers: Vec<Header>,

    /// Speak TLS
    #[arg(long, value_name = "BOOL", value_parser = truth, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    tls: bool,

    /// Take any certificate
    #[arg(long, value_name = "BOOL", value_parser = truth, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    tls_no_verify: bool,

    /// Whom to trust instead of the system's authorities (PEM)
    #[arg(long, value_name = "FILE")]
    tls_ca_cert: Option<PathBuf>,

    /// The certificate to show (PEM)
    #[arg(long, value_name = "FILE")]
    tls_client_cert: Option<PathBuf>,

    /// Its key (PEM)
    #[arg(long, value_name = "FILE")]
    tls_client_key: Option<PathBuf>,

    /// The name that the server's certificate has to have
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,

    /// Tell more
    #[arg(long = "v", value_name = "BOOL", value_parser = truth, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    verbose: bool,

    /// Means nothing here: the question is a few bytes
    #[arg(long, value_name = "BOOL", value_parser = truth, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    gzip: bool,

    /// Not supported
    #[arg(long, hide = true, value_name = "BOOL", value_parser = truth, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    spiffe: bool,

    /// Not supported
    #[arg(long, hide = true, value_name = "BOOL", value_parser = truth, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    alts: bool,
}

const EXAMPLES: &str = "\
Examples:
  grpc_health_probe -addr=:50051
  grpc_health_probe -addr=localhost:50051 -service=community -rpc-timeout=5s
  almanac grpc-health-probe -addr=catalogs.example.com:443 -tls

Exit codes:
  0  it is SERVING
  1  the arguments cannot be used
  2  it cannot be connected to in time
  3  the call failed, or did not end in time
  4  the answer is another than SERVING";

/// The program when it is called `grpc_health_probe`.
#[derive(Debug, clap::Parser)]
#[command(name = "grpc_health_probe", version, about = "almanac in the place of grpc_health_probe", long_about = None)]
struct Program {
    #[command(flatten)]
    arguments: Arguments,
}

/// What was found: the sentence about it and the code to end with.
struct Found {
    code: u8,
    text: String,
}

/// Does what the words say. The first one is the program's name.
pub(crate) fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    match Program::try_parse_from(go_flags::with_two_dashes(words)) {
        Ok(program) => program.arguments.run(),
        Err(error) => {
            // There is nobody left to tell that this failed.
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
        let found = match self.check() {
            // One thread is enough for one question.
            Ok((target, tls)) => match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime.block_on(self.ask(&target, tls)),
                Err(error) => Found {
                    code: CALL,
                    text: format!("error: cannot start: {error}"),
                },
            },
            Err(problem) => Found {
                code: ARGUMENTS,
                text: format!("error: {problem}"),
            },
        };
        say(&found.text);
        ExitCode::from(found.code)
    }

    /// What the arguments come to, or why they cannot be used.
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
            (true, None) => tls::Trust::Anybody,
            (false, Some(file)) => tls::Trust::File(file),
            (false, None) => tls::Trust::System,
        };
        let name = self.tls_server_name.as_deref();
        let tls = Tls::new(&trust, client, name, &target)
            .map_err(|error| format!("failed to initialize tls credentials: {error:#}"))?;
        Ok((target, Some(tls)))
    }

    async fn ask(&self, target: &Target, tls: Option<Tls>) -> Found {
        self.tell(|| format!("connecting to {target}, TLS: {}", tls.is_some()));
        let begin = Instant::now();
        let connection = connect::connect(target, tls.as_ref(), self.connect_timeout).await;
        let connection = match connection {
            Ok(connection) => connection,
            Err(cause) => {
                return Found {
                    code: CONNECTION,
                    text: format!(
                        "timeout: failed to connect service {:?} within {}: {cause}",
                        self.addr.as_deref().unwrap_or_default(),
                        Shown(self.connect_timeout)
                    ),
                };
            }
        };
        self.tell(|| format!("connection established (took {:?})", begin.elapsed()));
        let authority = tls.map_or_else(|| target.authority(), |tls| tls.authority().to_owned());
        match self.call(connection, &authority).await {
            Ok(ServingStatus::Serving) => {
                self.tell(|| format!("time elapsed: {:?}", begin.elapsed()));
                Found {
                    code: 0,
                    text: "status: SERVING".into(),
                }
            }
            Ok(other) => Found {
                code: UNHEALTHY,
                text: format!(
                    "service unhealthy (responded with {:?})",
                    other.as_str_name()
                ),
            },
            Err(status) => Found {
                code: CALL,
                text: self.failed(&status),
            },
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
                Shown(self.rpc_timeout)
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
    // There is nobody left to tell that this failed.
    let _ = writeln!(io::stderr(), "{}", crate::cli::output::Shown(text));
}
