//! The wanted differences. Each is a row of the table in
//! docs/reference/registries.md, and a rewriting: what a site would write for
//! skopeo to get what almanac does. A difference is explained when skopeo does
//! the same as almanac after the rewriting.

use super::case::{Case, Outcome};
use super::{auth_rewrites as auth, certificate_rewrites as certificates, conf_rewrites as conf};

/// A wanted difference.
pub(super) struct Difference {
    /// The first cell of its row.
    pub(super) name: &'static str,
    /// The same case for skopeo; none where the difference is of no concern.
    rewrite: fn(&Case) -> Option<Case>,
}

/// The differences, in the order in which they are rewritten.
pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "`registries.conf` version 1",
        rewrite: conf::refuse_version_1,
    },
    Difference {
        name: "settings for short names",
        rewrite: conf::drop_short_names,
    },
    Difference {
        name: "characters outside of names, `a.*.b`",
        rewrite: conf::refuse_odd_names,
    },
    Difference {
        name: "host and wildcard of one length",
        rewrite: conf::host_before_wildcard,
    },
    Difference {
        name: "hosts in capitals",
        rewrite: lower_hosts,
    },
    Difference {
        name: "location that makes no valid name",
        rewrite: conf::drop_bad_locations,
    },
    Difference {
        name: "`blocked` beside another `location`",
        rewrite: conf::block_rewritten,
    },
    Difference {
        name: "place named twice",
        rewrite: conf::ask_once,
    },
    Difference {
        name: "wrong digest or truncated blob",
        rewrite: conf::no_wrong_bytes,
    },
    Difference {
        name: "password wanted, none configured",
        rewrite: auth::no_empty_password,
    },
    Difference {
        name: "key with a slash at its end",
        rewrite: auth::trim_keys,
    },
    Difference {
        name: "`username` and `password` in place of `auth`",
        rewrite: auth::encode_passwords,
    },
    Difference {
        name: "`auth` in base64 without padding, or between spaces",
        rewrite: auth::canonical_base64,
    },
    Difference {
        name: "`auth` without a user",
        rewrite: auth::name_users,
    },
    Difference {
        name: "empty password, token wanted",
        rewrite: auth::send_empty_password,
    },
    Difference {
        name: "broken auth file",
        rewrite: auth::ask_before_reading,
    },
    Difference {
        name: "`identitytoken` without `auth`",
        rewrite: auth::add_to_tokens,
    },
    Difference {
        name: "empty or broken entry",
        rewrite: auth::drop_broken,
    },
    Difference {
        name: "`credHelpers` for a path or address",
        rewrite: auth::ask_helpers,
    },
    Difference {
        name: "`credsStore`",
        rewrite: auth::ask_store,
    },
    Difference {
        name: "failing credential helper",
        rewrite: auth::drop_missing_helpers,
    },
    Difference {
        name: "several auth files",
        rewrite: auth::merge,
    },
    Difference {
        name: "several client certificates in a folder",
        rewrite: certificates::first_pair,
    },
    Difference {
        name: "folder with `*.crt`, none of them usable",
        rewrite: certificates::refuse_unusable,
    },
    Difference {
        name: "client certificate at a token service on another host",
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
