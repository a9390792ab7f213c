//! The proxies that the environment names. The HTTP library reads them, too. This
//! module knows which one a request takes, for messages, and which hosts are reached
//! without one: more forms count in `NO_PROXY` than the library knows.

use std::error::Error;
use std::fmt;
use std::net::IpAddr;

use http::Uri;
use http::uri::Authority;
use reqwest::Url;

use crate::registry::url::is_loopback;

/// The variables of the proxies for a scheme. The first that is set applies.
const HTTP: [&str; 4] = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
const HTTPS: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
/// The text of the library's error for a proxy that answers 407 to CONNECT. The library
/// exports no type for it.
const TUNNEL_REFUSED: &str = "tunnel error: proxy authorization required";
/// The variables of the hosts that are reached without a proxy.
const DIRECT: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The proxies of the environment. Has no passwords.
///
/// ```
/// use images::Proxies;
///
/// let proxies = Proxies::from_variables(|name| match name {
///     "HTTPS_PROXY" => Some("http://me:secret@proxy.example:3128".to_owned()),
///     "NO_PROXY" => Some("*.example.com,quay.io:8443".to_owned()),
///     _ => None,
/// });
/// let proxy_for = |url: &str| proxies.proxy_for(&url.parse().unwrap());
/// let proxy = proxy_for("https://quay.io/v2/").unwrap();
/// assert_eq!(proxy.to_string(), "proxy.example:3128");
/// assert!(proxy_for("https://quay.io:8443/v2/").is_none());
/// assert!(proxy_for("https://registry.example.com/v2/").is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
    direct: Vec<DirectHost>,
}

/// A proxy. Has no password, and is shown as its `HOST[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    place: String,
    /// Whether its variable has a user.
    has_login: bool,
    /// Whether the way to it is encrypted.
    pub(crate) has_tls: bool,
}

impl Proxy {
    /// What a response with 407 of this proxy means.
    pub fn login_problem(&self) -> &'static str {
        if self.has_login {
            "the proxy refuses the user and password of its variable (407)"
        } else {
            "the proxy wants a user and password (407): write its variable as \
             http://USER:PASSWORD@HOST:PORT"
        }
    }

    /// Whether a connection failed because a proxy answered 407.
    pub fn wants_login(error: &(dyn Error + 'static)) -> bool {
        let mut causes = std::iter::successors(Some(error), |&error| error.source());
        causes.any(|cause| cause.to_string() == TUNNEL_REFUSED)
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}

/// An entry of `NO_PROXY`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DirectHost {
    host: HostPattern,
    /// All ports without one.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostPattern {
    Any,
    /// An address, or those whose first bits are the same.
    Network(IpAddr, u8),
    /// A host, and those below it.
    Domain(String),
    /// The hosts below a domain.
    Below(String),
}

impl Proxies {
    /// The proxies of this process.
    pub fn from_environment() -> Self {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    /// The proxies by the values of variables.
    pub fn from_variables(value: impl Fn(&str) -> Option<String>) -> Self {
        // An empty variable is not set.
        let first = |names: &[&str]| {
            let mut values = names.iter().filter_map(|name| value(name));
            values.find(|value| !value.is_empty())
        };
        let proxy = |names: &[&str]| first(names).and_then(|value| parse(&value));
        let direct = first(&DIRECT).unwrap_or_default();
        let direct = direct.split(',').map(str::trim);
        Self {
            http: proxy(&HTTP),
            https: proxy(&HTTPS),
            direct: direct.filter_map(|entry| entry.parse().ok()).collect(),
        }
    }

    /// The proxy that a request takes; none for a direct one.
    pub fn proxy_for(&self, url: &Url) -> Option<&Proxy> {
        let proxy = match url.scheme() {
            "http" => self.http.as_ref(),
            "https" => self.https.as_ref(),
            _ => None,
        };
        proxy.filter(|_| !self.is_direct(url))
    }

    /// Whether a host is reached without a proxy.
    pub fn is_direct(&self, url: &Url) -> bool {
        is_loopback(url) || self.direct.iter().any(|direct| direct.includes(url))
    }

    /// Whether an entry of `NO_PROXY` can match a host.
    pub fn is_direct_entry(text: &str) -> bool {
        text.parse::<DirectHost>().is_ok()
    }
}

impl DirectHost {
    fn includes(&self, url: &Url) -> bool {
        if self.port.is_some() && self.port != url.port_or_known_default() {
            return false;
        }
        let host = url.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_below = |domain: &str| {
            let rest = host.strip_suffix(domain);
            rest.is_some_and(|rest| rest.ends_with('.') && rest.len() > 1)
        };
        match &self.host {
            HostPattern::Any => true,
            HostPattern::Network(network, bits) => host
                .parse()
                .is_ok_and(|address| has_prefix(address, *network, *bits)),
            HostPattern::Domain(domain) => host == domain || is_below(domain),
            HostPattern::Below(domain) => is_below(domain),
        }
    }
}

impl std::str::FromStr for DirectHost {
    type Err = ();

    /// `*`, `HOST`, `.DOMAIN`, `*.DOMAIN` or an address, each with `:PORT` or without,
    /// or `ADDRESS/BITS`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let of = |host, port| Ok(Self { host, port });
        if text == "*" {
            return of(HostPattern::Any, None);
        }
        if let Some((address, bits)) = text.split_once('/') {
            let (address, bits) = (
                address.parse::<IpAddr>().map_err(drop)?,
                bits.parse::<u8>().map_err(drop)?,
            );
            let most = if address.is_ipv4() { 32 } else { 128 };
            if bits > most {
                return Err(());
            }
            return of(HostPattern::Network(address, bits), None);
        }
        let address = |text: &str| {
            let inner = text
                .strip_prefix('[')
                .and_then(|text| text.strip_suffix(']'));
            inner.unwrap_or(text).parse::<IpAddr>().map_err(drop)
        };
        let network = |address: IpAddr| {
            HostPattern::Network(address, if address.is_ipv4() { 32 } else { 128 })
        };
        if let Ok(address) = address(text) {
            return of(network(address), None);
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse::<u16>().map_err(drop)?)),
            None => (text, None),
        };
        if let Ok(address) = address(host) {
            return of(network(address), port);
        }
        let below = host.strip_prefix("*.");
        // The library counts the domain itself as well.
        let domain = below.or(host.strip_prefix('.')).unwrap_or(host);
        let is_name = |c: char| c.is_alphanumeric() || "-_.".contains(c);
        if domain.is_empty() || domain.starts_with('.') || !domain.chars().all(is_name) {
            return Err(());
        }
        let domain = domain.trim_end_matches('.').to_lowercase();
        let pattern = if below.is_some() {
            HostPattern::Below(domain)
        } else {
            HostPattern::Domain(domain)
        };
        of(pattern, port)
    }
}

/// Whether two addresses have the same first bits.
fn has_prefix(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let differ = match (address.to_canonical(), network.to_canonical()) {
        (IpAddr::V4(one), IpAddr::V4(other)) => u32::from(one) ^ u32::from(other),
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            let differ = u128::from(one) ^ u128::from(other);
            return differ.leading_zeros() >= u32::from(bits);
        }
        _ => return false,
    };
    // A network that is written as one of IPv6 may mean addresses of IPv4.
    let bits = if network.is_ipv4() {
        bits
    } else {
        bits.saturating_sub(96)
    };
    differ.leading_zeros() >= u32::from(bits)
}

/// The proxy of a variable. The library ignores other values.
fn parse(value: &str) -> Option<Proxy> {
    let uri: Uri = value.parse().ok()?;
    if !matches!(uri.scheme_str(), None | Some("http" | "https")) {
        return None;
    }
    let authority = uri.authority().map(Authority::as_str)?;
    let place = authority.rsplit('@').next().unwrap_or_default();
    (!place.is_empty()).then(|| Proxy {
        place: place.to_owned(),
        has_login: authority.contains('@'),
        has_tls: uri.scheme_str() == Some("https"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Proxies {
        Proxies::from_variables(|name| {
            let mut found = variables.iter().filter(|(known, _)| *known == name);
            found.next().map(|(_, value)| (*value).to_owned())
        })
    }

    fn proxy(proxies: &Proxies, url: &str) -> Option<String> {
        let proxy = proxies.proxy_for(&url.parse().unwrap());
        proxy.map(ToString::to_string)
    }

    #[test]
    fn a_scheme_has_its_proxy_or_that_for_all() {
        let both = proxies(&[
            ("HTTPS_PROXY", "http://me:s3cret@one.example:3128/"),
            ("http_proxy", ""),
            ("all_proxy", "two.example"),
        ]);
        assert_eq!(
            proxy(&both, "https://quay.io/").unwrap(),
            "one.example:3128"
        );
        assert_eq!(proxy(&both, "http://quay.io/").unwrap(), "two.example");
        for here in [
            "https://localhost/",
            "http://127.0.0.1:5000/",
            "http://[::1]/",
        ] {
            assert_eq!(proxy(&both, here), None, "{here}");
        }
        let none = proxies(&[("HTTPS_PROXY", "socks5://a.example:1080")]);
        assert_eq!(proxy(&none, "https://quay.io/"), None);
    }

    #[test]
    fn a_refused_login_is_not_called_a_missing_one() {
        for (value, said) in [
            ("http://one.example:3128", "write its variable as"),
            (
                "http://me:s3cret@one.example:3128",
                "refuses the user and password",
            ),
        ] {
            let named = proxies(&[("HTTP_PROXY", value)]);
            let proxy = named.proxy_for(&"http://quay.io/".parse().unwrap());
            let problem = proxy.unwrap().login_problem();
            assert!(problem.contains(said), "{problem}");
        }
    }

    #[test]
    fn the_exceptions_of_go_are_exceptions() {
        for (entry, direct, through) in [
            (
                "*",
                &["https://a.example/", "https://10.0.0.1/"][..],
                &[][..],
            ),
            (
                "a.example",
                &[
                    "https://a.example/",
                    "https://A.example:1/",
                    "https://b.a.example/",
                ],
                &["https://ba.example/", "https://example/"],
            ),
            (
                ".a.example",
                &["https://b.a.example/"],
                &["https://ba.example/"],
            ),
            (
                "*.a.example",
                &["https://b.a.example/", "https://c.b.a.example:8443/"],
                &["https://a.example/", "https://ba.example/"],
            ),
            (
                "a.example:8443",
                &["https://a.example:8443/", "https://b.a.example:8443/"],
                &["https://a.example/"],
            ),
            (
                "a.example:443",
                &["https://a.example/"],
                &["https://a.example:8443/"],
            ),
            ("10.1.2.3", &["https://10.1.2.3:1/"], &["https://10.1.2.4/"]),
            (
                "10.1.2.3:5000",
                &["https://10.1.2.3:5000/"],
                &["https://10.1.2.3/"],
            ),
            ("10.0.0.0/8", &["https://10.1.2.3/"], &["https://11.0.0.1/"]),
            (
                "0.0.0.0/0",
                &["https://11.0.0.1/"],
                &["https://[fd00::1]/", "https://a/"],
            ),
            ("fd00::/8", &["https://[fd00::1]/"], &["https://[fe00::1]/"]),
            (
                "fd00::1",
                &["https://[fd00::1]:1/"],
                &["https://[fd00::2]/"],
            ),
            (
                "[fd00::1]:5000",
                &["https://[fd00::1]:5000/"],
                &["https://[fd00::1]/"],
            ),
            (
                " b.example , a.example ",
                &["https://a.example/"],
                &["https://c/"],
            ),
        ] {
            let proxies = proxies(&[("HTTPS_PROXY", "proxy:1"), ("NO_PROXY", entry)]);
            for url in direct {
                assert_eq!(proxy(&proxies, url), None, "{entry}: {url}");
            }
            for url in through {
                assert!(proxy(&proxies, url).is_some(), "{entry}: {url}");
            }
        }
    }

    #[test]
    fn other_entries_match_nothing() {
        for bad in [
            "",
            ".",
            "*.",
            "a*b",
            "http://a.example",
            "a.example/path",
            "a.example:port",
            "a.example:99999",
            "a b",
            "10.0.0.0/33",
            "10.0.0.0/",
            "what;ever",
        ] {
            assert!(!Proxies::is_direct_entry(bad), "{bad}");
        }
    }
}
