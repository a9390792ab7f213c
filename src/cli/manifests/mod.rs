//! `almanac manifests`: writes the Kubernetes manifests for catalogs and a mirror.

mod network;
mod shapes;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::{Context as _, anyhow};
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::answers::images::{Form, MirrorSet, Mirrors};
use crate::cli::input::{Configured, Input, Options, ReadingArguments, image_list};
use crate::cli::query::text;
use crate::cli::{Failure, block_on, format, output};
use crate::config::{Config, ConfigError, Environment, Settings, suggest_name};
use crate::ingest::Mirror;
use crate::name::CatalogName;
use crate::serve::access::AccessSettings;
use fbc::image_list::ImageList;
use fbc::select::Request;
use network::Ports;
use shapes::{Kind, PORT, Presentation, Way};

/// Write the manifests with which a cluster uses the catalogs
///
/// These are a CatalogSource, its Service and a ClusterCatalog per catalog, the
/// NetworkPolicies for them, and with --mirror the mirror rules for the images of
/// operators. Their names are those of the catalogs, and do not change with the
/// version. Catalogs are read only for --mirror.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The catalogs; SOURCE is as for the other commands. With --config, names of
    /// configured catalogs [default: the configured catalogs]
    #[arg(value_name = "[NAME=]SOURCE")]
    catalogs: Vec<String>,

    /// The configuration file with the catalogs
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Only this catalog; repeatable [default: all]
    #[arg(long = "catalog", value_name = "NAME")]
    chosen: Vec<CatalogName>,

    /// The name of the catalog for people, in its CatalogSource; for one catalog
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,

    /// The publisher in each CatalogSource
    #[arg(long, value_name = "TEXT")]
    publisher: Option<String>,

    /// The namespace of each CatalogSource and of almanac
    #[arg(long, value_name = "NAMESPACE", default_value = "olm")]
    namespace: String,

    /// The host from which the cluster pulls catalog images: almanac's HTTP
    /// port, or a registry with copies of the images
    #[arg(long, value_name = "HOST[/PATH]")]
    catalog_host: Option<String>,

    /// How a CatalogSource reaches its catalog
    #[arg(long, value_enum, default_value_t, value_name = "WAY")]
    by: By,

    /// The mirror of the images of operators
    #[arg(long, value_name = "HOST[/PATH]")]
    mirror: Option<String>,

    /// The name of the manifests for the mirror
    #[arg(long, value_name = "NAME", default_value = "almanac")]
    mirror_name: String,

    /// Only manifests of this kind; repeatable [default: all but icsp]
    #[arg(long = "kind", value_enum, value_name = "KIND")]
    kinds: Vec<Kind>,

    /// The output format
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    output: Output,

    #[command(flatten)]
    reading: ReadingArguments,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    /// YAML documents
    #[default]
    Yaml,
    /// One object of the kind List
    Json,
    /// KIND/NAME of each object, one per line
    Name,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum By {
    /// Through a Service of almanac with the name of the catalog
    #[default]
    Address,
    /// Through a pod that runs its image; needs --catalog-host
    Image,
}

const EXAMPLES: &str = "\
Examples:
  almanac manifests community=quay.io/operatorhubio/catalog:latest
  almanac manifests --config almanac.toml --catalog-host almanac.example.com
  almanac manifests --config almanac.toml --catalog ours --kind service
  almanac manifests ours=curated:set.yaml --mirror mirror.example.com:5000
  almanac manifests ours=file:catalog --mirror mirror.example.com --kind icsp

Exit codes:
  0  printed
  1  a selection is impossible, or the output failed
  2  invalid arguments or configuration
  3  a catalog cannot be read or served";

/// A catalog, and the origin of its images.
struct Named {
    name: CatalogName,
    origin: Origin,
    /// Whether almanac serves the unchanged image of its registry.
    unchanged: bool,
    /// Whether its readers need a token or a certificate over HTTP.
    is_guarded: bool,
}

enum Origin {
    Input(Input),
    Config(Rc<Configured>),
}

impl Arguments {
    pub(super) fn run(mut self, environment: &Environment) -> Result<ExitCode, Failure> {
        self.check()?;
        self.take_names()?;
        let (named, ports) = self.named(environment)?;
        let named = self.choose(named)?;
        let wanted = |kind: Kind| wants(&self.kinds, kind);
        let mut manifests: Vec<Value> = Vec::new();
        self.for_version_0(&named, ports, &mut manifests)?;
        if let (true, Some(host)) = (wanted(Kind::ClusterCatalog), &self.catalog_host) {
            let catalogs = named.iter();
            manifests.extend(catalogs.map(|named| shapes::cluster_catalog(&named.name, host)));
        }
        if let Some(mirror) = &self.mirror {
            // The catalogs in the arguments have nothing to do with a configuration.
            let file = self.config.as_deref().or(environment.config_file());
            let file = file.filter(|_| self.catalogs.is_empty());
            let options = self.reading.open(file, environment)?;
            let lists = block_on(lists(&named, &options))??;
            let mirrors = Mirrors::of(&lists, mirror).map_err(|error| {
                let apart = "or give each catalog a --mirror and a --mirror-name of its own";
                Failure::run(anyhow!("{error}, {apart}"))
            })?;
            for (kind, set) in [
                (Kind::Idms, MirrorSet::Digests),
                (Kind::Itms, MirrorSet::Tags),
                (Kind::Icsp, MirrorSet::OlderDigests),
            ] {
                let manifest = mirrors.manifest(set, &self.mirror_name);
                manifests.extend(manifest.filter(|_| wanted(kind)));
            }
        }
        if manifests.is_empty() {
            output::note("almanac: no manifest has the requested kinds");
        }
        self.output.print(&manifests)
    }

    /// Adds the objects for OLM v0.
    fn for_version_0(
        &self,
        named: &[Named],
        ports: Ports,
        manifests: &mut Vec<Value>,
    ) -> Result<(), Failure> {
        let by_address = self.by == By::Address;
        let services = by_address && wants(&self.kinds, Kind::Service);
        if by_address && wants(&self.kinds, Kind::NetworkPolicy) {
            if ports.grpc != PORT {
                output::note(&format!(
                    "almanac: the gRPC port is {}: OLM and the policies need {PORT}",
                    ports.grpc
                ));
            }
            manifests.extend(network::policies(&self.namespace, ports));
        }
        if !services && !wants(&self.kinds, Kind::CatalogSource) {
            return Ok(());
        }
        check_labels(named)?;
        let shown = Presentation {
            display_name: self.display_name.as_deref(),
            publisher: self.publisher.as_deref(),
        };
        for Named {
            name,
            unchanged,
            is_guarded,
            ..
        } in named
        {
            if by_address && *is_guarded {
                output::note(&format!(
                    "almanac: the catalog {name} is restricted over HTTP only: gRPC asks for no token, \
                     so every pod that reaches its Service can read it, unless [grpc_tls] has client_ca"
                ));
            }
            let way = match (self.by, &self.catalog_host) {
                (By::Image, Some(host)) => Way::Image {
                    host,
                    extract: !unchanged,
                },
                _ => Way::Address,
            };
            if services {
                manifests.push(network::service(name, &self.namespace, ports));
            }
            if wants(&self.kinds, Kind::CatalogSource) {
                manifests.push(shapes::catalog_source(name, &self.namespace, way, shown));
            }
        }
        Ok(())
    }

    /// Takes the words beside --config as names of its catalogs.
    fn take_names(&mut self) -> Result<(), Failure> {
        if self.config.is_none() {
            return Ok(());
        }
        for word in std::mem::take(&mut self.catalogs) {
            let name = word.parse().map_err(|_| {
                Failure::usage(anyhow!(
                    "{word:?} is not the name of a catalog: with --config, name catalogs of the file, or \
                     leave out --config to name sources"
                ))
            })?;
            self.chosen.push(name);
        }
        Ok(())
    }

    /// The catalogs that --catalog names.
    fn choose(&self, mut named: Vec<Named>) -> Result<Vec<Named>, Failure> {
        for chosen in &self.chosen {
            if !named.iter().any(|catalog| catalog.name == *chosen) {
                let all: Vec<&str> = named.iter().map(|it| it.name.as_str()).collect();
                return Err(Failure::usage(anyhow!(
                    "--catalog: there is no catalog {chosen}, only {}",
                    all.join(", ")
                )));
            }
        }
        if !self.chosen.is_empty() {
            named.retain(|catalog| self.chosen.contains(&catalog.name));
        }
        if self.display_name.is_some() && named.len() > 1 {
            return Err(Failure::usage(anyhow!(
                "--display-name is for one catalog: choose it with --catalog"
            )));
        }
        Ok(named)
    }

    /// Checks that the arguments do not contradict each other.
    fn check(&self) -> Result<(), Failure> {
        let needs = |flag: &str, why: &str| {
            Err(Failure::usage(anyhow!(
                "{why} needs {flag}, such as {flag} mirror.example.com:5000/path"
            )))
        };
        if self.catalog_host.is_none() {
            if self.by == By::Image {
                return needs("--catalog-host", "--by image");
            }
            if self.kinds.contains(&Kind::ClusterCatalog) {
                return needs("--catalog-host", "--kind cluster-catalog");
            }
        }
        if self.by == By::Image && self.kinds.contains(&Kind::Service) {
            return Err(Failure::usage(anyhow!(
                "--kind service is for --by address: Operator Lifecycle Manager writes the Service \
                 of a pod"
            )));
        }
        let mirrors = [Kind::Idms, Kind::Itms, Kind::Icsp];
        if self.mirror.is_none() && self.kinds.iter().any(|kind| mirrors.contains(kind)) {
            return needs("--mirror", "a manifest for a mirror");
        }
        for (flag, host) in [
            ("--catalog-host", &self.catalog_host),
            ("--mirror", &self.mirror),
        ] {
            if let Some(host) = host {
                Form::Mapping
                    .write(&ImageList::default(), Some(host))
                    .map_err(|error| Failure::usage(anyhow!("{flag}: {error}")))?;
            }
        }
        // A namespace is a label, and a digit may begin it.
        let is_label = |name: &CatalogName| {
            let name = name.as_str();
            name.len() <= 63 && !name.contains('.')
        };
        let namespace = self.namespace.parse::<CatalogName>();
        if !namespace.as_ref().is_ok_and(is_label) {
            return Err(Failure::usage(anyhow!(
                "--namespace: {:?} is not a namespace: it takes at most 63 lower-case letters, digits \
                 and '-'",
                self.namespace
            )));
        }
        self.mirror_name.parse::<CatalogName>().map_err(|_| {
            let name = &self.mirror_name;
            Failure::usage(anyhow!(
                "--mirror-name: {name:?} is not a valid Kubernetes name"
            ))
        })?;
        Ok(())
    }

    /// The catalogs in the arguments, or those of the configuration, and its ports.
    fn named(&self, environment: &Environment) -> Result<(Vec<Named>, Ports), Failure> {
        if self.catalogs.is_empty() {
            let file = self.config.as_deref();
            let config = Config::load(Settings::default(), file, environment);
            let config = config.map_err(|error| match error {
                ConfigError::NoCatalog => Failure::usage(anyhow!(
                    "there is no catalog to write manifests for: name at least one, for example \
                     `almanac manifests community=quay.io/operatorhubio/catalog:latest`, or a file \
                     with `--config`"
                )),
                error => Failure::usage(error),
            })?;
            let ports = Ports::new(&config);
            let configured = Rc::new(Configured::new(config));
            let catalogs = configured.catalogs().iter();
            let named = catalogs
                .map(|catalog| Named {
                    name: catalog.name.clone(),
                    origin: Origin::Config(Rc::clone(&configured)),
                    unchanged: catalog.mirror == Mirror::Full,
                    is_guarded: catalog.access != AccessSettings::default(),
                })
                .collect();
            return Ok((named, ports));
        }
        let named: Result<Vec<Named>, Failure> =
            self.catalogs.iter().map(|text| read(text)).collect();
        let named = named?;
        for (number, catalog) in named.iter().enumerate() {
            if named[..number]
                .iter()
                .any(|other| other.name == catalog.name)
            {
                return Err(Failure::usage(anyhow!(
                    "two catalogs are named {0}; give one of them another name, as in NAME=SOURCE",
                    catalog.name
                )));
            }
        }
        Ok((named, Ports::default()))
    }
}

impl Output {
    fn print(self, manifests: &[Value]) -> Result<ExitCode, Failure> {
        let mut each = manifests.iter();
        output::print(|out| match self {
            Self::Yaml => each.try_for_each(|manifest| {
                writeln!(out, "---")?;
                for line in network::reason(manifest).lines() {
                    writeln!(out, "# {line}")?;
                }
                format::yaml_of(manifest, out)
            }),
            Self::Json => output::json(
                &json!({"apiVersion": "v1", "kind": "List", "items": manifests}),
                out,
            ),
            Self::Name => each.try_for_each(|manifest| {
                let kind = text(manifest, "kind").to_lowercase();
                let name = manifest.get("metadata").map(|data| text(data, "name"));
                writeln!(out, "{kind}/{}", name.unwrap_or_default())
            }),
        })
    }
}

/// Whether manifests of a kind are written, for the kinds in the arguments.
fn wants(kinds: &[Kind], kind: Kind) -> bool {
    match kinds {
        [] => kind != Kind::Icsp,
        kinds => kinds.contains(&kind),
    }
}

/// Checks that no two catalogs have the same `CatalogSource`.
fn check_labels(named: &[Named]) -> Result<(), Failure> {
    let mut labels = BTreeMap::new();
    for Named { name, .. } in named {
        let label = name.service_name();
        if let Some(first) = labels.insert(label.clone(), name) {
            return Err(Failure::usage(anyhow!(
                "the catalogs {first} and {name} would both be the CatalogSource {label}; give one \
                 of them another name"
            )));
        }
    }
    Ok(())
}

/// Parses `[NAME=]SOURCE`.
fn read(text: &str) -> Result<Named, Failure> {
    // A '=' after a '/' or ':' belongs to a path.
    let named = text
        .split_once('=')
        .filter(|(name, _)| !name.contains(['/', ':']));
    let source = named.map_or(text, |(_, source)| source);
    let input = Input::found(source).map_err(Failure::usage)?;
    let name = match named {
        Some((name, _)) => Some(name.parse().map_err(Failure::usage)?),
        None => match &input {
            Input::Source(source) => suggest_name(source),
            Input::Server(_) => source.rsplit('/').find_map(|part| part.parse().ok()),
            Input::Configured(_) | Input::Stdin | Input::Curated(_) => None,
        },
    };
    let name = name.ok_or_else(|| {
        Failure::usage(anyhow!(
            "no name can be made from {input}: write NAME={input}"
        ))
    })?;
    Ok(Named {
        name,
        origin: Origin::Input(input),
        unchanged: false,
        is_guarded: false,
    })
}

/// The images of the catalogs.
async fn lists(named: &[Named], options: &Options) -> Result<Vec<ImageList>, Failure> {
    let mut lists = Vec::with_capacity(named.len());
    for Named { name, origin, .. } in named {
        let selected = match origin {
            Origin::Input(input) => input.select(options, &Request::whole()).await?,
            Origin::Config(configured) => {
                let selected = configured.select(name, &options.load).await;
                let selected = selected
                    .with_context(|| format!("the catalog {name} cannot be read"))
                    .map_err(Failure::unreadable)?;
                vec![selected]
            }
        };
        lists.push(image_list(&selected));
    }
    Ok(lists)
}
