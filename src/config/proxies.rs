//! The proxies for registries, from the environment. The registry client reads
//! the same variables itself; this module checks them and logs them.

use std::ffi::OsStr;
use std::net::IpAddr;

use http::Uri;
use http::uri::Authority;

use crate::config::environment::Environment;
use crate::config::error::ConfigError;

/// How much of an entry the log shows, in characters.
const MAX_SHOWN: usize = 100;

/// The proxies, and the hosts that are reached without one. Has no secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    /// The variables, and the `HOST[:PORT]` that each names.
    named: Vec<(&'static str, String)>,
    /// The variable with the hosts that are reached directly, and its entries.
    direct: Option<(&'static str, Vec<String>)>,
}

impl Environment {
    /// The proxies for registries. The client would silently ignore an invalid
    /// one.
    ///
    /// # Errors
    /// With the name of the variable, without its value.
    pub fn proxies(&self) -> Result<Proxies, ConfigError> {
        let first = |names: [&'static str; 2]| {
            let mut names = names.into_iter();
            names.find_map(|name| Some((name, self.get(name)?)))
        };
        let https = first(["HTTPS_PROXY", "https_proxy"]);
        let http = first(["HTTP_PROXY", "http_proxy"]);
        let both = https.is_some() && http.is_some();
        let all = first(["ALL_PROXY", "all_proxy"]).filter(|_| !both);
        let mut named = Vec::new();
        for (name, value) in [https, http, all].into_iter().flatten() {
            let proxy = host_and_port(value).map_err(|problem| {
                let problem = format!(
                    "{problem}; write http://HOST:PORT or https://HOST:PORT (the value is not \
                     shown, because it may have a password)"
                );
                ConfigError::Variable { name, problem }
            })?;
            named.push((name, proxy));
        }
        let direct = first(["NO_PROXY", "no_proxy"]).map(|(name, value)| {
            let value = value.to_string_lossy();
            let entries = value.split(',').map(str::trim);
            let entries = entries.filter(|entry| !entry.is_empty());
            (name, entries.map(str::to_owned).collect())
        });
        Ok(Proxies { named, direct })
    }
}

impl Proxies {
    /// Logs the proxies. Warns of invalid entries for direct hosts, because these
    /// hosts are then reached through a proxy. Without proxies, logs nothing.
    pub fn log(&self) {
        for (variable, proxy) in &self.named {
            tracing::info!(variable, proxy, "registries are reached through a proxy");
        }
        let Some((variable, entries)) = self.direct.as_ref().filter(|_| !self.named.is_empty())
        else {
            return;
        };
        let (good, bad): (Vec<_>, Vec<_>) = entries
            .iter()
            .partition(|entry| problem_of(entry).is_none());
        if !good.is_empty() {
            let good: Vec<String> = good.into_iter().map(|entry| shown(entry)).collect();
            let hosts = good.join(", ");
            tracing::info!(
                variable,
                hosts,
                "registries at these hosts are reached directly"
            );
        }
        for entry in bad {
            tracing::warn!(
                variable,
                entry = shown(entry),
                "the entry matches no host: {}",
                problem_of(entry).unwrap_or_default()
            );
        }
    }
}

/// The `HOST[:PORT]` of a proxy, or the reason why the value is invalid.
fn host_and_port(value: &OsStr) -> Result<String, &'static str> {
    const WRITE: &str = "it is not the URL of a proxy: write http://[USER:PASSWORD@]HOST[:PORT], \
        and %2F, %3F, %23 and %40 for /, ?, # and @ in a password";
    let text = value.to_str().ok_or(WRITE)?;
    let uri = text.parse::<Uri>().map_err(|_| WRITE)?;
    // If a password has one of these characters, the part before it would be
    // taken for the host.
    let ends = matches!(uri.path(), "" | "/") && uri.query().is_none() && !text.contains('#');
    let port = uri.authority().map(|authority| {
        let place = authority.as_str().rsplit('@').next().unwrap_or_default();
        place
            .rsplit_once(':')
            .filter(|(_, port)| !port.ends_with(']'))
    });
    let good = |port: &str| port.is_empty() || port.parse::<u16>().is_ok();
    if !ends || port.flatten().is_some_and(|(_, port)| !good(port)) {
        return Err(WRITE);
    }
    if !matches!(uri.scheme_str(), None | Some("http" | "https")) {
        return Err("only proxies that speak http are supported");
    }
    let authority = uri.authority().map_or("", Authority::as_str);
    let place = authority.rsplit('@').next().unwrap_or_default();
    match uri.host().unwrap_or_default() {
        "" => Err("it names no host"),
        _ => Ok(place.to_owned()),
    }
}

/// The reason why an entry of `NO_PROXY` matches no host.
fn problem_of(entry: &str) -> Option<&'static str> {
    if ::images::Proxies::is_direct_entry(entry) {
        return None;
    }
    let address = entry.split('/').next().unwrap_or_default();
    if entry.contains('/') && address.parse::<IpAddr>().is_ok() {
        return Some("write a network as ADDRESS/BITS");
    }
    if entry.contains("://") || entry.contains('/') {
        return Some("write the host alone, without a scheme or path");
    }
    if entry.contains(char::is_whitespace) {
        return Some("write commas between hosts");
    }
    if entry.contains('*') {
        return Some("write .DOMAIN or *.DOMAIN for the hosts below a domain");
    }
    Some("write a host, .DOMAIN or an address, each with :PORT or without, ADDRESS/BITS or *")
}

/// An entry without the password that it may have.
fn shown(entry: &str) -> String {
    let entry = entry.rsplit('@').next().unwrap_or_default();
    entry.chars().take(MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Proxies {
        let environment: Environment = variables.iter().copied().collect();
        environment.proxies().unwrap()
    }

    #[test]
    fn proxies_are_known_without_their_passwords() {
        assert_eq!(proxies(&[]), Proxies::default());
        let found = proxies(&[
            ("HTTPS_PROXY", "http://me:s3cret@proxy.example:3128"),
            ("ALL_PROXY", "proxy.example"),
            ("no_proxy", " .example, ,10.0.0.0/8 "),
        ]);
        let named = [
            ("HTTPS_PROXY", "proxy.example:3128".to_owned()),
            ("ALL_PROXY", "proxy.example".to_owned()),
        ];
        let direct = vec![".example".to_owned(), "10.0.0.0/8".to_owned()];
        assert_eq!(
            found,
            Proxies {
                named: named.into(),
                direct: Some(("no_proxy", direct)),
            }
        );
    }

    #[test]
    fn a_proxy_that_would_show_a_part_of_its_password_is_refused_without_it() {
        for proxy in [
            "http://me:s3cret/part@127.0.0.1:3128",
            "http://me:s3cret?part@127.0.0.1:3128",
            "http://me:s3cret#part@127.0.0.1:3128",
            "http://s3cret/@proxy.example:1",
            "http://s3cret#@proxy.example:1",
            "http://proxy.example:s3cret",
        ] {
            let environment: Environment = [("HTTPS_PROXY", proxy)].into_iter().collect();
            let problem = environment.proxies().unwrap_err().to_string();
            assert!(problem.contains("HTTPS_PROXY"), "{problem}");
            assert!(!problem.contains("s3cret"), "{problem}");
        }
        for good in [
            "http://proxy.example:1/",
            "http://[::1]:3128",
            "http://[::1]",
        ] {
            proxies(&[("HTTPS_PROXY", good)]);
        }
    }

    #[test]
    fn an_entry_that_matches_no_host_is_reported_with_a_correction() {
        for good in [
            "*",
            "example.com",
            ".example.com",
            "localhost",
            "under_score",
            "10.1.2.3",
            "10.0.0.0/8",
            "fd00::/8",
            "::1",
            "*.example.com",
            "example.com:5000",
            "[fd00::1]:5000",
        ] {
            assert_eq!(problem_of(good), None, "{good}");
        }
        for (bad, said) in [
            ("http://example.com", "without a scheme"),
            ("example.com/path", "without a scheme"),
            ("a.example b.example", "commas"),
            ("example.com:port", "with :PORT"),
            ("[fd00::1:5000", "an address"),
            ("registry-*.example.com", ".DOMAIN"),
            ("10.0.0.0/33", "ADDRESS/BITS"),
            ("10.0.0.0/", "ADDRESS/BITS"),
            ("what;ever", "a host"),
        ] {
            let problem = problem_of(bad).unwrap();
            assert!(problem.contains(said), "{bad}: {problem}");
        }
        assert_eq!(shown("http://me:s3cret@host"), "host");
    }
}
