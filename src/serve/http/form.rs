//! The forms that a selection can be sent in, and which of them a client gets.

use http::header::{ACCEPT_ENCODING, IF_MATCH, IF_NONE_MATCH, IF_RANGE};
use http::{HeaderMap, HeaderName};

use crate::serve::http::conditional::{Validators, lists};
use crate::serve::http::encoding::Accepted;
use crate::snapshot::{Encoded, Selection};
use crate::store::Encoding;

/// Below this many bytes an answer is not compressed, as with the peer.
pub(super) const SMALLEST_COMPRESSED: u64 = 1024;

/// How the lines of a selection are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As they are.
    Identity,
    /// As gzip, of the segments of each.
    Segments,
    /// Compressed as a whole.
    Whole(Encoding),
}

/// A form of a selection, and what tells one state of it from another.
pub(super) struct Chosen {
    pub(super) form: Form,
    pub(super) validators: Validators,
    pub(super) encoded: Encoded,
}

impl Form {
    /// What `Content-Encoding` says of it.
    pub(super) fn coding(self) -> Option<&'static str> {
        match self {
            Self::Identity => None,
            Self::Segments => Some("gzip"),
            Self::Whole(encoding) => Some(encoding.as_str()),
        }
    }
}

/// Chooses the form for a request: the one that it names the entity tag of, or
/// else the best that the client takes. `piece` tells whether a piece of it is
/// asked for, and `plain` that there is nothing to look for in the headers but
/// what encodings are taken.
pub(super) fn choose(
    selection: &Selection,
    headers: &HeaderMap,
    piece: bool,
    plain: bool,
) -> Chosen {
    let accepted = Accepted::read(headers.get_all(ACCEPT_ENCODING));
    let forms = forms(selection, accepted);
    let best = forms.clone().next().unwrap_or(Form::Identity);
    let tag = selection.tag();
    let validators = |form: Form| {
        let suffix = match form {
            Form::Identity => String::new(),
            // Its length as well, since another version of almanac may encode
            // the same in another way.
            Form::Segments => format!("-gzip-{:x}", selection.gzip_length()),
            Form::Whole(encoding) => {
                let length = selection.whole(encoding).unwrap_or_default().length;
                format!("-{}-all-{length:x}", encoding.as_str())
            }
        };
        Validators::new(&tag, selection.snapshot().modified(), &suffix)
    };
    // A client that has a form is asked to keep it, and one that has a piece
    // gets the rest of the same.
    let named = |header: HeaderName| {
        let mut forms = forms.clone();
        forms.find(|form| lists(headers, &header, validators(*form).tag()))
    };
    let wanted = || {
        [IF_NONE_MATCH, IF_MATCH]
            .into_iter()
            .chain(piece.then_some(IF_RANGE))
            .filter(|header| headers.contains_key(header))
            .find_map(named)
    };
    let form = if plain {
        best
    } else if let Some(wanted) = wanted() {
        wanted
    } else {
        // As with the peer, who asks for a piece means a piece of the lines.
        let tagged = headers.get(IF_RANGE).is_some_and(is_tag);
        if piece && !tagged && accepted.identity.is_some() {
            Form::Identity
        } else {
            best
        }
    };
    Chosen {
        form,
        validators: validators(form),
        encoded: match form {
            Form::Identity => selection.identity(),
            Form::Segments => selection.gzip(),
            Form::Whole(encoding) => selection.whole(encoding).unwrap_or_default(),
        },
    }
}

fn is_tag(value: &http::HeaderValue) -> bool {
    value.as_bytes().starts_with(b"\"") || value.as_bytes().starts_with(b"W/")
}

/// The forms that there are and that the client takes, the best first.
fn forms(selection: &Selection, accepted: Accepted) -> impl Iterator<Item = Form> + Clone {
    let small = selection.length() < SMALLEST_COMPRESSED && accepted.identity.is_some();
    let compressed = |weight| weight > 0 && !small;
    let whole = |encoding, weight| compressed(weight) && selection.whole(encoding).is_some();
    let Accepted {
        gzip,
        zstd,
        identity,
    } = accepted;
    let mut forms = [
        (
            Form::Whole(Encoding::Zstd),
            zstd,
            whole(Encoding::Zstd, zstd),
        ),
        (
            Form::Whole(Encoding::Gzip),
            gzip,
            whole(Encoding::Gzip, gzip),
        ),
        (Form::Segments, gzip, compressed(gzip)),
        (
            Form::Identity,
            identity.unwrap_or_default(),
            identity.is_some(),
        ),
    ];
    // Of equal weight, in the order they stand here.
    forms.sort_by_key(|(_, weight, _)| std::cmp::Reverse(*weight));
    let there = forms.into_iter().filter(|(.., there)| *there);
    there.map(|(form, ..)| form)
}
