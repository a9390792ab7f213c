//! The texts of failed requests, with their verb and resource.

use crate::error_chain::error_chain;
use crate::kubernetes::resources::Kind;
use fbc::text::display::shown;

/// A failed request.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    /// The text.
    pub(super) text: String,
    /// Whether no role grants the verb.
    pub(super) is_forbidden: bool,
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self {
            text,
            is_forbidden: false,
        }
    }
}

/// The text of a failed request.
pub(super) fn of_request(error: &kube::Error, kind: Kind, verb: &str) -> Problem {
    match error {
        kube::Error::Api(status) => of_status(status, kind, verb),
        error => {
            let resource = kind.name();
            let problem = match error {
                kube::Error::Service(error) => error_chain(&**error),
                error => error_chain(error),
            };
            let problem = shown(&problem);
            format!("cannot {verb} {resource}: {problem}").into()
        }
    }
}

fn of_status(status: &kube::core::Status, kind: Kind, verb: &str) -> Problem {
    let resource = kind.name();
    let message = shown(&status.message);
    let text = match status.code {
        401 => format!(
            "cannot {verb} {resource}: the API server does not accept the credentials: {message}"
        ),
        403 => format!(
            "cannot {verb} {resource}: the API server forbids it: {message}; a role must grant \
             the verb {verb} on {resource}"
        ),
        404 => format!("cannot {verb} {resource}: the API server does not have it: {message}"),
        code => format!(
            "cannot {verb} {resource}: {code} {}: {message}",
            shown(&status.reason)
        ),
    };
    Problem {
        text,
        is_forbidden: status.code == 403,
    }
}
