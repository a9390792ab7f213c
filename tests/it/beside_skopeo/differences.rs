//! The wanted differences. Each is a row of the table in
//! docs/reference/registries.md, and a rewriting: what a site would write for
//! skopeo to get what almanac does. A difference is explained when skopeo does
//! the same as almanac after the rewriting.

use super::auth_cases::NAME as AUTH;
use super::case::{Case, Outcome};
use super::certificate_cases::NAME as CERTIFICATES;
use super::conf_cases::NAME as CONF;
use super::{auth_rewrites as auth, certificate_rewrites as certificates, conf_rewrites as conf};

/// A wanted difference.
pub(super) struct Difference {
    /// The first cell of its row.
    pub(super) name: &'static str,
    /// The cases that meet it, by the start of their names.
    pub(super) met_by: &'static str,
    /// The same case for skopeo; none where the difference is of no concern.
    rewrite: fn(&Case) -> Option<Case>,
}

/// The differences, in the order in which they are rewritten.
pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "`registries.conf` version 1",
        met_by: CONF,
        rewrite: conf::refuse_version_1,
    },
    Difference {
        name: "settings for short names",
        met_by: CONF,
        rewrite: conf::drop_short_names,
    },
    Difference {
        name: "characters outside of names, `a.*.b`",
        met_by: CONF,
        rewrite: conf::refuse_odd_names,
    },
    Difference {
        name: "host and wildcard of one length",
        met_by: CONF,
        rewrite: conf::host_before_wildcard,
    },
    Difference {
        name: "hosts in capitals",
        met_by: AUTH,
        rewrite: lower_hosts,
    },
    Difference {
        name: "location that makes no valid name",
        met_by: CONF,
        rewrite: conf::drop_bad_locations,
    },
    Difference {
        name: "`blocked` beside another `location`",
        met_by: CONF,
        rewrite: conf::block_rewritten,
    },
    Difference {
        name: "place named twice",
        met_by: CONF,
        rewrite: conf::ask_once,
    },
    Difference {
        name: "wrong digest or truncated blob",
        met_by: CONF,
        rewrite: conf::no_wrong_bytes,
    },
    Difference {
        name: "password wanted, none configured",
        met_by: AUTH,
        rewrite: auth::no_empty_password,
    },
    Difference {
        name: "key with a slash at its end",
        met_by: AUTH,
        rewrite: auth::trim_keys,
    },
    Difference {
        name: "`username` and `password` in place of `auth`",
        met_by: AUTH,
        rewrite: auth::encode_passwords,
    },
    Difference {
        name: "`auth` in base64 without padding, or between spaces",
        met_by: AUTH,
        rewrite: auth::canonical_base64,
    },
    Difference {
        name: "`auth` without a user",
        met_by: AUTH,
        rewrite: auth::name_users,
    },
    Difference {
        name: "empty password, token wanted",
        met_by: AUTH,
        rewrite: auth::send_empty_password,
    },
    Difference {
        name: "broken auth file",
        met_by: AUTH,
        rewrite: auth::ask_before_reading,
    },
    Difference {
        name: "`identitytoken` without `auth`",
        met_by: AUTH,
        rewrite: auth::add_to_tokens,
    },
    Difference {
        name: "empty or broken entry",
        met_by: AUTH,
        rewrite: auth::drop_broken,
    },
    Difference {
        name: "`credHelpers` for a path or address",
        met_by: AUTH,
        rewrite: auth::ask_helpers,
    },
    Difference {
        name: "`credsStore`",
        met_by: AUTH,
        rewrite: auth::ask_store,
    },
    Difference {
        name: "failing credential helper",
        met_by: AUTH,
        rewrite: auth::drop_failing_helpers,
    },
    Difference {
        name: "several auth files",
        met_by: AUTH,
        rewrite: auth::merge,
    },
    Difference {
        name: "several client certificates in a folder",
        met_by: CERTIFICATES,
        rewrite: certificates::first_pair,
    },
    Difference {
        name: "folder with `*.crt`, none of them usable",
        met_by: CERTIFICATES,
        rewrite: certificates::refuse_unusable,
    },
    Difference {
        name: "client certificate at a token service on another host",
        met_by: CERTIFICATES,
        rewrite: certificates::hide_from_token_service,
    },
];

fn lower_hosts(case: &Case) -> Option<Case> {
    conf::lower_hosts(case).or_else(|| auth::lower_hosts(case))
}

/// The rows that explain a difference: one of them, or as many from the first
/// on as are needed.
pub(super) fn explain(
    case: &Case,
    ours: &Outcome,
    skopeo: impl Fn(&Case) -> Outcome,
) -> Option<Vec<usize>> {
    let same = |case: &Case| ours.same(&skopeo(case));
    let rows = || DIFFERENCES.iter().enumerate();
    for (number, row) in rows() {
        if (row.rewrite)(case).is_some_and(|case| same(&case)) {
            return Some(vec![number]);
        }
    }
    let (mut case, mut used) = (case.clone(), Vec::new());
    for (number, row) in rows() {
        if let Some(rewritten) = (row.rewrite)(&case) {
            case = rewritten;
            used.push(number);
            if used.len() > 1 && same(&case) {
                return Some(used);
            }
        }
    }
    None
}
