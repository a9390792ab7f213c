//! The images that a selection of the catalog needs, in the formats of mirroring
//! tools.

use axum::response::Response;

use crate::answers::images::{Form, FormError, ImageListRecord};
use crate::serve::http::api::operation::{Answer, Content, Operation, Parameter, QueryAnswer};
use crate::serve::http::api::problem::Problem;
use crate::serve::http::api::request::{ParsedQuery, QueryRequest, SCANS};
use crate::serve::http::api::response::QueryResponse;
use fbc::image_list::ImageList;
use fbc::select;
use fbc::select::{
    ChannelSelection, PackageSelection, Request, RequestError, Selection, VersionRange,
};

/// `/catalogs/{catalog}/api/v1/images`.
pub(crate) static LIST: Operation = Operation {
    id: "images",
    summary: "The images that a selection needs",
    description: "The bundle images and related images, each once, of the whole catalog or of what \
would be mirrored of packages: the heads of channels, or a range of versions.",
    parameters: &[
        Parameter::text("package", "Only these packages, with commas between them.")
            .example("ferry-operator"),
        Parameter::repeated(
            "channel",
            "Only this channel; may be given several times. For one package.",
        ),
        Parameter::text("min", "The lowest version. For one package.")
            .longest(1024)
            .example("1.0.0"),
        Parameter::text("max", "The highest version. For one package.")
            .longest(1024)
            .example("2.0.0"),
        Parameter::flag(
            "full",
            "All versions of the packages, and not the heads of their channels.",
        ),
        Parameter::flag(
            "heads",
            "The heads of the channels of all packages, and not all versions.",
        ),
        Parameter::flag("dependencies", "What the bundles need as well."),
        Parameter::choice(
            "format",
            "How the list is written.",
            &[
                "json",
                "yaml",
                "jsonl",
                "list",
                "mapping",
                "skopeo",
                "image-set",
            ],
        )
        .default("json"),
        Parameter::text(
            "to",
            "The registry that a mapping leads to, with or without a path.",
        )
        .example("mirror.example.com:5000"),
    ],
    answer: Answer::Query(QueryAnswer::object::<ImageListRecord<'_>>().or(&[
        Content::Text("text/plain"),
        Content::Any("application/yaml"),
    ])),
};

/// The images of a selection.
pub(crate) async fn list(request: QueryRequest) -> Response {
    request.run(&SCANS, &LIST, images).await
}

fn images(query: &ParsedQuery) -> Result<QueryResponse, Problem> {
    let form: Form = match query.parameters.get("format") {
        None => Form::Json,
        Some(text) => text.parse().map_err(|error| form_problem(&error))?,
    };
    let to = query.parameters.get("to");
    if to.is_some() && form != Form::Mapping {
        let detail = "to is where a mapping leads to; give format=mapping too, or leave it out";
        return Err(Problem::invalid_parameter("to", detail));
    }
    let (request, packages) = request(query)?;
    // Dependencies may be anywhere in the catalog.
    let wanted: &[&str] = if request.dependencies { &[] } else { &packages };
    let name = query.catalog();
    let catalog = query.snapshot.selection_input(name, wanted);
    let selected = select::select(&[catalog], &request)
        .map_err(|error| Problem::invalid_parameter(parameter(&error), error.to_string()))?;
    let list = ImageList::from_selections([&selected]);
    let bytes = form
        .write(&list, to)
        .map_err(|error| form_problem(&error))?;
    Ok(QueryResponse::Text {
        bytes: bytes.into(),
        media_type: form.media_type(),
    })
}

/// The selection that the parameters describe, and its packages.
fn request(query: &ParsedQuery) -> Result<(Request, Vec<&str>), Problem> {
    let parameters = &query.parameters;
    let packages: Vec<&str> = (parameters.get("package").into_iter())
        .flat_map(|packages| packages.split(','))
        .map(str::trim)
        .filter(|package| !package.is_empty())
        .collect();
    let channels: Vec<&str> = parameters.all("channel").collect();
    for package in &packages {
        let names = query.package(package)?.channels.iter();
        let names: Vec<&str> = names.map(|(name, _)| &**name).collect();
        if let Some(unknown) = channels.iter().find(|name| !names.contains(name)) {
            return Err(Problem::unknown("channel", unknown, names));
        }
    }
    let (min, max) = (parameters.get("min"), parameters.get("max"));
    let narrow = !channels.is_empty() || min.is_some() || max.is_some();
    if narrow && packages.len() != 1 {
        let detail = "channel, min and max are for one package; give package with one name";
        return Err(Problem::invalid_parameter("package", detail));
    }
    let range =
        VersionRange::new(min.unwrap_or_default(), max.unwrap_or_default()).map_err(|error| {
            Problem::invalid_parameter(range_parameter(&error, min), error.to_string())
        })?;
    let (full, heads) = (parameters.flag("full")?, parameters.flag("heads")?);
    if full && heads {
        let detail = "full and heads contradict each other; leave out one of them";
        return Err(Problem::invalid_parameter("heads", detail));
    }
    let selections = packages.iter().map(|package| PackageSelection {
        name: (*package).to_owned(),
        channels: channels.iter().map(|name| channel(name)).collect(),
        range: range.clone(),
        default_channel: String::new(),
    });
    let selection = Selection {
        from: vec![0],
        // The default: everything of a whole catalog, the heads of named
        // packages.
        full: full || (packages.is_empty() && !heads),
        packages: selections.collect(),
    };
    let request = Request {
        selections: vec![selection],
        dependencies: parameters.flag("dependencies")?,
        any_default: true,
    };
    Ok((request, packages))
}

fn channel(name: &str) -> ChannelSelection {
    ChannelSelection {
        name: name.to_owned(),
        range: VersionRange::default(),
    }
}

fn range_parameter(error: &RequestError, min: Option<&str>) -> &'static str {
    match error {
        RequestError::Version { text, .. } if Some(text.as_str()) != min => "max",
        _ => "min",
    }
}

/// The parameter that most likely has to change.
fn parameter(error: &select::SelectError) -> &'static str {
    match error {
        select::SelectError::Request(RequestError::FullAndRange(_)) => "full",
        select::SelectError::Request(RequestError::ChannelTwice { .. })
        | select::SelectError::DefaultDropped { .. }
        | select::SelectError::DefaultUnknown { .. } => "channel",
        select::SelectError::Channel { .. }
        | select::SelectError::DefaultEmpty { .. }
        | select::SelectError::NothingInRange { .. } => "min",
        _ => "package",
    }
}

fn form_problem(error: &FormError) -> Problem {
    let parameter = match error {
        FormError::Unknown(_) | FormError::SamePlace { .. } => "format",
        FormError::NoDestination | FormError::Destination { .. } => "to",
    };
    Problem::invalid_parameter(parameter, error.to_string())
}
