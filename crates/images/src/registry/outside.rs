//! Where a registry may lead to, by redirects and by the address of its token
//! service.
//!
//! A registry on another machine must not make this one ask itself, its network
//! link, or the metadata service of a cloud: services there often trust whoever can
//! reach them. Addresses are checked here, names when they are resolved. A proxy
//! resolves names by itself.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::local_address::is_local_address;

/// Why such a place is not asked.
pub(super) const PROBLEM: &str =
    "it leads to this machine, its network link or the metadata of a cloud";

/// A host that a registry leads to, and that of the registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OutsideHost {
    name: String,
    registry: String,
}

/// The error of a name that leads to such an address.
#[derive(Debug)]
struct LocalAddress;

impl std::error::Error for LocalAddress {}

impl fmt::Display for LocalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PROBLEM)
    }
}

impl OutsideHost {
    /// The host of a URL that the registry leads to, whose name has to be checked
    /// when it is resolved. `None` for the registry itself and for an address.
    ///
    /// # Errors
    /// If the URL has a local address, and the registry has none.
    pub(super) async fn new(registry: &Url, url: &Url) -> Result<Option<Self>, &'static str> {
        let (registry, name) = (host(registry), host(url));
        if registry == name {
            return Ok(None);
        }
        if name != "localhost" && name.parse::<IpAddr>().is_err() {
            return Ok(Some(Self { name, registry }));
        }
        if is_here(&name).await && !is_here(&registry).await {
            return Err(PROBLEM);
        }
        Ok(None)
    }

    /// Whether a request failed because of this check.
    pub(super) fn refused(error: &reqwest::Error) -> bool {
        let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(error) = next {
            if error.is::<LocalAddress>() {
                return true;
            }
            next = error.source();
        }
        false
    }
}

impl Resolve for OutsideHost {
    fn resolve(&self, name: Name) -> Resolving {
        let outside = self.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found: Vec<SocketAddr> = found.collect();
            // Other names are those of proxies.
            if name.as_str().eq_ignore_ascii_case(&outside.name)
                && found.iter().any(|address| is_local_address(address.ip()))
                && !is_here(&outside.registry).await
            {
                return Err(LocalAddress.into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// The name or address, without the brackets of IPv6.
fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Whether a host is this machine or on its link. One without an address is not.
async fn is_here(host: &str) -> bool {
    match tokio::net::lookup_host((host, 0)).await {
        Ok(mut addresses) => addresses.any(|address| is_local_address(address.ip())),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(registry: &str, url: &str) -> Result<bool, &'static str> {
        let parse = |text: &str| Url::parse(text).unwrap();
        let host = OutsideHost::new(&parse(registry), &parse(url)).await;
        host.map(|host| host.is_some())
    }

    #[tokio::test]
    async fn a_registry_elsewhere_leads_neither_here_nor_to_the_link() {
        let elsewhere = "https://192.0.2.1/v2/";
        for url in [
            "https://127.0.0.1/",
            "https://127.9.9.9:5000/",
            "https://localhost/",
            "https://LOCALHOST./",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://0.0.0.0/",
            "https://[::]/",
            "http://169.254.169.254/latest/meta-data/",
            "https://[fe80::1]/",
            "http://100.100.100.200/latest/meta-data/",
            "http://[fd00:ec2::254]/latest/meta-data/",
            "https://[64:ff9b::7f00:1]/",
            "https://[2002:a9fe:a9fe::1]/",
            "https://[::127.0.0.1]/",
            // As browsers read it.
            "https://2130706433/",
        ] {
            assert_eq!(check(elsewhere, url).await, Err(PROBLEM), "{url}");
            for here in ["http://127.0.0.1:5000/v2/", "http://localhost/v2/"] {
                assert_eq!(check(here, url).await, Ok(false), "{here} {url}");
            }
        }
        for url in [
            "https://192.0.2.1:5000/",
            "https://10.0.0.1/",
            "https://[2001:db8::1]/",
        ] {
            assert_eq!(check(elsewhere, url).await, Ok(false), "{url}");
        }
        // Its address is checked when it is resolved.
        assert_eq!(check(elsewhere, "https://cdn.example/").await, Ok(true));
    }

    #[tokio::test]
    async fn a_name_that_leads_here_is_not_resolved_for_a_registry_elsewhere() {
        let resolve = async |name: &str, of: &str, registry: &str| {
            let outside = OutsideHost {
                name: of.to_owned(),
                registry: registry.to_owned(),
            };
            outside.resolve(name.parse().unwrap()).await.map(drop)
        };
        // The only name that leads here on every machine.
        let refused = resolve("localhost", "localhost", "192.0.2.1").await;
        assert_eq!(refused.unwrap_err().to_string(), PROBLEM);
        for (of, registry) in [("cdn.example", "192.0.2.1"), ("localhost", "127.0.0.1")] {
            assert!(resolve("localhost", of, registry).await.is_ok(), "{of}");
        }
    }
}
