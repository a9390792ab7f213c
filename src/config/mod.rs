//! The configuration: settings are gathered from three layers, then resolved
//! and checked once.
//!
//! 1. [`Settings`] is one layer: flags, the environment (`ALMANAC_…`) or the
//!    file, in order of precedence.
//! 2. [`Config`] is the result: complete, consistent, and in the types of the
//!    modules that use it.
//! 3. [`Written`] keeps the layers, so that a reload can resolve them again.
//!
//! Nothing is opened or bound here. No other module reads the environment.

mod cluster_names;
mod consistency;
mod curated;
mod declaration;
mod discovered;
mod environment;
mod error;
mod load;
mod log;
mod ports;
mod proxies;
#[cfg(test)]
mod reference;
mod reload;
mod resolved;
mod settings;
mod template;
mod unread_document;
mod value;
mod variables;

pub use cluster_names::{Namespace, Selector};
pub use curated::{check_as_one, image_set_source, read_image_set};
pub use declaration::FlagPath;
pub use environment::Environment;
pub use error::{ConfigError, CuratedError, FilePosition};
pub use load::suggest_name;
pub use log::{LogConfig, LogSettings};
pub use ports::{ConnectionSettings, TlsSettings};
pub use proxies::Proxies;
pub use reload::Written;
pub use resolved::{CatalogConfig, Config, KubernetesConfig};
pub use settings::{
    CacheSettings, CatalogError, CatalogSettings, ChannelSettings, DistributionSettings,
    FleetSettings, HistorySettings, KubernetesSettings, LimitSettings, NamePrefix, PackageSettings,
    PagesSettings, RegistrySettings, ScrubSettings, ServiceUrl, Settings, SignedName,
    SigningSettings, WebhookSettings, WrittenDatabase, WrittenObjects,
};
pub use template::{ImageTemplate, KubeVersion, WrittenSource};
pub use unread_document::UnreadDocument;
pub use value::{
    Address, Authority, ClientCertificates, Host, LogFormat, OnInvalidSetting, Origin, Poll, Time,
    Timeout, TlsVersion, ValueError,
};
pub use variables::VariableHelp;
