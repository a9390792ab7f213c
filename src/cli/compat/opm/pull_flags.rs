//! The flags of opm for pulling images.

use anyhow::anyhow;

use crate::cli::Failure;
use crate::cli::compat::go_flags::parse_bool;

/// The flags for pulling images, as far as they are given.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(super) struct PullFlags {
    /// Pull from registries over plain http, or with any certificate (deprecated)
    #[arg(long, global = true, hide = true, value_name = "BOOL", value_parser = parse_bool, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    skip_tls: Option<bool>,

    /// Pull from registries with any certificate
    #[arg(long, global = true, hide = true, value_name = "BOOL", value_parser = parse_bool, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    skip_tls_verify: Option<bool>,

    /// Pull from registries over plain http
    #[arg(long, global = true, hide = true, value_name = "BOOL", value_parser = parse_bool, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    use_http: Option<bool>,
}

impl PullFlags {
    /// Whether any of them asks for something.
    pub(super) fn is_set(self) -> bool {
        let all = [self.skip_tls, self.skip_tls_verify, self.use_http];
        all.contains(&Some(true))
    }

    /// Whether every registry may show any certificate, or none. opm does the same for
    /// each of the flags, and refuses the same pairs.
    pub(super) fn accept_any_certificate(self) -> Result<bool, Failure> {
        let both = |one: &str, other: &str| {
            Err(Failure::run(anyhow!(
                "--{one} and --{other} cannot be combined; leave out one of them"
            )))
        };
        match (self.skip_tls, self.skip_tls_verify, self.use_http) {
            (Some(_), _, Some(_)) => both("use-http", "skip-tls"),
            (Some(_), Some(_), _) => both("skip-tls-verify", "skip-tls"),
            (_, Some(true), Some(true)) => both("use-http", "skip-tls-verify"),
            _ => Ok(self.is_set()),
        }
    }

    /// Takes these flags out of the words of a verb. The last of several counts.
    pub(super) fn take_from(&mut self, words: Vec<String>) -> Result<Vec<String>, Failure> {
        let mut rest = Vec::with_capacity(words.len());
        for word in words {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, value),
                None => (word.as_str(), "true"),
            };
            let flag = match name {
                "--skip-tls" => &mut self.skip_tls,
                "--skip-tls-verify" => &mut self.skip_tls_verify,
                "--use-http" => &mut self.use_http,
                _ => {
                    rest.push(word);
                    continue;
                }
            };
            let parsed = parse_bool(value);
            *flag = Some(parsed.map_err(|problem| Failure::run(anyhow!("{name}: {problem}")))?);
        }
        Ok(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(words: &[&str]) -> Result<bool, String> {
        let mut flags = PullFlags::default();
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let rest = flags.take_from(words).map_err(|error| error.to_string())?;
        assert!(rest.iter().all(|word| word == "packages"), "{rest:?}");
        flags
            .accept_any_certificate()
            .map_err(|error| error.to_string())
    }

    #[test]
    fn each_flag_accepts_any_certificate_and_some_exclude_each_other() {
        assert_eq!(accepted(&["packages"]), Ok(false));
        for flag in ["--skip-tls", "--skip-tls-verify", "--use-http=1"] {
            assert_eq!(accepted(&["packages", flag]), Ok(true), "{flag}");
        }
        assert_eq!(
            accepted(&["--use-http=false", "--skip-tls-verify"]),
            Ok(true)
        );
        assert_eq!(accepted(&["--use-http", "--use-http=f"]), Ok(false));
        for pair in [
            ["--skip-tls", "--use-http=false"],
            ["--skip-tls-verify", "--skip-tls=false"],
            ["--skip-tls-verify", "--use-http"],
        ] {
            assert!(
                accepted(&pair).unwrap_err().contains("combined"),
                "{pair:?}"
            );
        }
        assert!(accepted(&["--use-http=maybe"]).is_err());
    }
}
