//! The errors of the gRPC API. Clients of opm compare the texts.

use fbc::document::Gvk;
use fbc::text::go_quote::Quoted;

/// The requested item does not exist. The texts are opm's, to the letter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// No such package.
    #[error("package {} not found", Quoted(.0))]
    Package(String),
    /// No such package, as `GetBundleThatReplaces` says it.
    #[error("package {0} not found")]
    PackageUnquoted(String),
    /// No such channel.
    #[error("package {}, channel {} not found", Quoted(.0), Quoted(.1))]
    Channel(String, String),
    /// No such bundle.
    #[error("package {}, channel {}, bundle {} not found", Quoted(.0), Quoted(.1), Quoted(.2))]
    Bundle(String, String, String),
    /// Nothing in the channel replaces it.
    #[error("no entry found for package {}, channel {}", Quoted(.0), Quoted(.1))]
    Replacement(String, String),
    /// Nothing at all replaces it.
    #[error("no channel entries found that replace {0}")]
    Replacements(String),
    /// Nothing provides it.
    #[error("no channel entries found that provide {}", shown(.0))]
    Providers(Gvk),
    /// No head of a default channel provides it.
    #[error("no entry found that provides {}", shown(.0))]
    DefaultProvider(Gvk),
}

fn shown(api: &Gvk) -> String {
    let [group, version, kind] = [&api.group, &api.version, &api.kind].map(|text| Quoted(text));
    format!("group:{group} version:{version} kind:{kind}")
}
