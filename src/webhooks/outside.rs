//! Keeps events from this machine, its network link and the metadata services of
//! clouds, unless a setting allows them: services there often trust whoever can reach
//! them.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use ::images::is_local_address;

/// Resolves the name of a receiver, and refuses it when it leads here.
pub(super) struct OutsideHost {
    /// The name of the receiver. Other names are those of proxies.
    pub(super) name: String,
}

/// The error of a name that leads here.
#[derive(Debug)]
pub(super) struct LocalAddress;

impl Error for LocalAddress {}

impl fmt::Display for LocalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the receiver is on this machine, its network link or the metadata service of a \
             cloud; allow_local = true allows that",
        )
    }
}

impl LocalAddress {
    /// Whether a request failed because of this check.
    pub(super) fn is_cause_of(error: &reqwest::Error) -> bool {
        let mut next: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(error) = next {
            if error.is::<Self>() {
                return true;
            }
            next = error.source();
        }
        false
    }
}

impl Resolve for OutsideHost {
    fn resolve(&self, name: Name) -> Resolving {
        let is_receiver = name.as_str().eq_ignore_ascii_case(&self.name);
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found: Vec<SocketAddr> = found.collect();
            // The request goes to these addresses, so that a second look-up cannot
            // give others.
            if is_receiver && found.iter().any(|address| is_local_address(address.ip())) {
                return Err(LocalAddress.into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_that_leads_here_is_refused_when_it_is_resolved() {
        let receiver = OutsideHost {
            name: "LocalHost".into(),
        };
        let name = |text: &str| text.parse::<Name>().unwrap();
        let error = receiver.resolve(name("localhost")).await.err().unwrap();
        assert!(error.to_string().contains("allow_local"), "{error}");
        // A proxy may be here.
        let proxy = OutsideHost {
            name: "hooks.example.com".into(),
        };
        assert!(proxy.resolve(name("localhost")).await.is_ok());
    }
}
