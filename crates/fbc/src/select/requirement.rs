//! Requirements of a bundle: packages (`olm.package.required`), APIs
//! (`olm.gvk.required`), and combinations of both (`olm.constraint`).

use crate::document::Gvk;
use crate::properties::PackageRequired;
use crate::text::json::typed::{Raw, fields, from_json};
use crate::text::semver::Range;

/// The deepest nesting of constraints.
const MAX_DEPTH: usize = 16;

/// A requirement of a bundle.
#[derive(Clone, Debug)]
pub(crate) enum Requirement {
    /// A version of a package.
    Package {
        /// Its name.
        name: String,
        /// The range, as it was written.
        text: String,
        /// The range; none when it cannot be read.
        range: Option<Range>,
    },
    /// A bundle that provides an API.
    Api(Gvk),
    /// All of them.
    All(Vec<Requirement>),
    /// One of them.
    Any(Vec<Requirement>),
    /// Something that cannot be added, such as a rule in CEL.
    Other(&'static str),
}

#[derive(Default)]
struct Constraint<'a> {
    package: Option<PackageRequired<'a>>,
    api: Option<Gvk>,
    all: Option<Compound<'a>>,
    any: Option<Compound<'a>>,
    cel: Option<Raw<'a>>,
}

fields!(Constraint<'a> {
    package = "package",
    api = "gvk",
    all = "all",
    any = "any",
    cel = "cel",
});

#[derive(Default)]
struct Compound<'a> {
    constraints: Vec<Raw<'a>>,
}

fields!(Compound<'a> { constraints = "constraints" });

impl Requirement {
    /// Reads a property, given as canonical JSON. `None` if it requires nothing that
    /// can be added.
    pub(crate) fn read(kind: &str, value: &[u8]) -> Option<Self> {
        match kind {
            "olm.package.required" => from_json(value).ok().map(Self::package),
            "olm.gvk.required" => from_json(value).ok().map(Self::Api),
            "olm.constraint" => Self::constraint(value, 0),
            _ => None,
        }
    }

    fn package(required: PackageRequired<'_>) -> Self {
        let text = required.version_range.0;
        Self::Package {
            range: Range::parse(&text).ok(),
            name: required.package_name.0.into_owned(),
            text: text.into_owned(),
        }
    }

    fn constraint(value: &[u8], depth: usize) -> Option<Self> {
        if depth > MAX_DEPTH {
            return Some(Self::Other("a constraint that nests too deep"));
        }
        let constraint: Constraint<'_> = from_json(value).ok()?;
        let below = |compound: Compound<'_>| {
            let constraints = compound.constraints.into_iter();
            let below = constraints.filter_map(|Raw(one)| Self::constraint(one, depth + 1));
            below.collect()
        };
        let Constraint {
            package,
            api,
            all,
            any,
            cel,
        } = constraint;
        (package.map(Self::package))
            .or_else(|| api.map(Self::Api))
            .or_else(|| all.map(|all| Self::All(below(all))))
            .or_else(|| any.map(|any| Self::Any(below(any))))
            // A negated constraint needs no addition.
            .or_else(|| cel.map(|_| Self::Other("a rule in CEL")))
    }

    /// The rest of a sentence about a bundle whose requirement is not met.
    pub(crate) fn unmet(&self) -> String {
        if let Self::Other(what) = self {
            return format!("has {what}, which is not looked into");
        }
        let beside = self.other();
        let beside = beside.map(|what| format!("; {what} is not looked into"));
        let (shown, beside) = (self.shown(), beside.unwrap_or_default());
        format!("needs {shown}, which these catalogs do not have{beside}")
    }

    /// The part of it that nothing can be added for.
    fn other(&self) -> Option<&'static str> {
        match self {
            Self::Package { .. } | Self::Api(_) => None,
            Self::All(of) | Self::Any(of) => of.iter().find_map(Self::other),
            Self::Other(what) => Some(what),
        }
    }

    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Package { name, text, .. } => format!("the package {name} {text}"),
            Self::Api(Gvk {
                group,
                version,
                kind,
            }) => format!("the API {group}/{version} {kind}"),
            Self::All(of) | Self::Any(of) => {
                let between = if matches!(self, Self::All(_)) {
                    " and "
                } else {
                    " or "
                };
                let shown: Vec<String> = of.iter().map(Self::shown).collect();
                shown.join(between)
            }
            Self::Other(what) => (*what).to_owned(),
        }
    }
}
