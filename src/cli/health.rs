//! `almanac health`: checks whether the local almanac is ready.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};

use crate::cli::terminal::{self, TerminalArguments};
use crate::cli::{Failure, output, progress};
use crate::config::{Address, Environment, Settings, Time};

/// The timeout of the whole check.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The time between two questions of a check that waits.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest answer that is read, in bytes.
const MAX_ANSWER: usize = 16 << 10;

/// Check whether the local almanac is ready
///
/// almanac is ready after one attempt per catalog, also if that failed. With
/// --loaded, each catalog must have content. Problems are printed after `ready`:
/// catalogs that failed, and permissions that are missing in the cluster.
///
/// This command is meant for the health check of a container. It takes three
/// seconds at most; with --wait, it asks again until almanac is ready.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The address of the admin port [default: that of `serve`]
    #[arg(long, value_name = "ADDR")]
    admin: Option<Address>,

    /// The configuration file of `serve`, for the address; mistakes elsewhere in it
    /// do not matter
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The longest time to wait until almanac is ready, such as 30s or 5m
    #[arg(long, value_name = "DURATION")]
    wait: Option<Time>,

    /// Not ready before each catalog has content
    #[arg(long)]
    loaded: bool,

    #[command(flatten)]
    terminal: TerminalArguments,
}

const EXAMPLES: &str = "\
Examples:
  almanac health
  almanac health --admin 127.0.0.1:9091
  almanac health --wait 5m && almanac list catalogs
  almanac health --wait 5m --loaded

Exit codes:
  0  ready
  1  not ready, or not running; with --loaded, a catalog without content
  2  invalid arguments, or no such configuration file";

impl Arguments {
    pub(super) fn run(self, environment: &Environment) -> Result<ExitCode, Failure> {
        self.terminal.apply(environment);
        let address = admin_address(self.admin, self.config.as_deref(), environment)?;
        let began = Instant::now();
        let wait = self.wait.map_or(Duration::ZERO, |Time(wait)| wait);
        let _waiting = self.wait.map(|_| progress::Line::waiting("waiting"));
        let problems = loop {
            let error = match ask(address, self.loaded) {
                Ok(problems) => break problems,
                Err(error) => error,
            };
            let left = wait.saturating_sub(began.elapsed());
            if left.is_zero() {
                let error = error.context(format!("not ready: {address}"));
                return Err(Failure::run(error));
            }
            thread::sleep(left.min(PAUSE));
        };
        if terminal::is_quiet() {
            return Ok(ExitCode::SUCCESS);
        }
        output::print(|out| match &problems {
            Some(problems) => writeln!(out, "ready; {problems}"),
            None => writeln!(out, "ready"),
        })
    }
}

/// The address of the local admin port, in the arguments or the configuration. A file
/// that cannot be used is noted.
pub(super) fn admin_address(
    admin: Option<Address>,
    config: Option<&Path>,
    environment: &Environment,
) -> Result<SocketAddr, Failure> {
    let flags = Settings {
        admin,
        ..Settings::default()
    };
    let found = Settings::find_admin_address(flags, config, environment);
    let (address, error) = found.map_err(Failure::usage)?;
    if let Some(error) = error {
        // A running almanac refused this file too, and serves on.
        output::note(&format!(
            "almanac: {error}; the file cannot be used, so the admin port is looked for at {address}"
        ));
    }
    Ok(reachable(address))
}

/// The local address of a listener at `address`.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

/// The problems in an answer with 200: catalogs that failed, and what works only in part.
/// Any other answer is an error, with `loaded` also that of an almanac with a catalog
/// without content.
fn ask(address: SocketAddr, loaded: bool) -> anyhow::Result<Option<String>> {
    let path = if loaded {
        "/readyz?loaded=true"
    } else {
        "/readyz"
    };
    let answer = get(address, path).map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => anyhow!(
            "connection refused: no program listens there; is almanac running, and is this its \
             admin port?"
        ),
        // A read with a limit that has passed would have blocked.
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            anyhow!("no answer within {}", humantime::format_duration(TIMEOUT))
        }
        _ => anyhow::Error::new(error).context("no answer"),
    })?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let line = head.lines().next().unwrap_or_default();
    let status = line.strip_prefix("HTTP/1.").and_then(|line| line.get(2..));
    match status {
        Some(status) if status.starts_with("200") => {
            let problems = body.trim().strip_prefix("ok; ");
            Ok(problems.map(|problems| problems.replace('\n', "; ")))
        }
        Some(status) if status.starts_with("404") => {
            bail!("404: it has no /readyz, so it is not the admin port, by default 9090")
        }
        Some(status) => bail!("{}", format!("{status} {body}").trim().replace('\n', "; ")),
        None => bail!("the answer is not HTTP, so another program listens there"),
    }
}

/// The bytes of the answer that arrive in time.
fn get(address: SocketAddr, path: &str) -> io::Result<Vec<u8>> {
    let end = Instant::now() + TIMEOUT;
    let mut connection = TcpStream::connect_timeout(&address, TIMEOUT)?;
    connection.set_write_timeout(Some(TIMEOUT))?;
    let question = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    connection.write_all(question.as_bytes())?;
    let mut answer = vec![0; MAX_ANSWER];
    let mut length = 0;
    while length < answer.len() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        connection.set_read_timeout(Some(left))?;
        match connection.read(&mut answer[length..])? {
            0 => break,
            read => length += read,
        }
    }
    answer.truncate(length);
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// The outcome for this answer.
    fn asked(answer: &'static str) -> Result<Option<String>, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answering = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let mut question = [0; 1024];
            let length = connection.read(&mut question).unwrap();
            connection.write_all(answer.as_bytes()).unwrap();
            String::from_utf8_lossy(&question[..length]).into_owned()
        });
        let found = ask(address, false).map_err(|error| format!("{error:#}"));
        let question = answering.join().unwrap();
        assert!(
            question.starts_with("GET /readyz HTTP/1.1\r\n"),
            "{question}"
        );
        found
    }

    #[test]
    fn only_200_is_ready() {
        assert_eq!(asked("HTTP/1.1 200 OK\r\n\r\nok\n"), Ok(None));
        let partly = asked("HTTP/1.1 200 OK\r\n\r\nok; cannot list a\n");
        assert_eq!(partly, Ok(Some("cannot list a".to_owned())));
        let waiting =
            asked("HTTP/1.1 503 Service Unavailable\r\nA: b\r\n\r\nwaiting for a\nand b\n");
        let message = "503 Service Unavailable waiting for a; and b";
        assert_eq!(waiting, Err(message.to_owned()));
        let other = asked("HTTP/1.1 404 Not Found\r\n\r\n404 page not found\n").unwrap_err();
        assert!(other.contains("not the admin port"), "{other}");
        assert!(asked("SSH-2.0\r\n").is_err());
        assert!(asked("").is_err());
    }

    #[test]
    fn nobody_there_is_not_ready() {
        // The superuser alone could listen there, and does not.
        let error = ask("127.0.0.1:1".parse().unwrap(), false).unwrap_err();
        assert!(error.to_string().contains("is almanac running"), "{error}");
    }

    #[test]
    fn what_listens_everywhere_is_asked_here() {
        for (address, expected) in [
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:1", "[::1]:1"),
            ("10.0.0.1:1", "10.0.0.1:1"),
        ] {
            assert_eq!(reachable(address.parse().unwrap()).to_string(), expected);
        }
    }
}
