//! The forms that a selection can be sent in, and which of them a client gets.

use http::header::{ACCEPT_ENCODING, IF_MATCH, IF_NONE_MATCH, IF_RANGE};
use http::{HeaderMap, HeaderName};

use super::conditional::{Validators, lists};
use super::encoding::Accepted;
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
/// asked for.
pub(super) fn choose(selection: &Selection, headers: &HeaderMap, piece: bool) -> Chosen {
    let accepted = Accepted::read(headers.get_all(ACCEPT_ENCODING));
    let forms = forms(selection, accepted);
    let best = forms.first().map_or(Form::Identity, |(form, _)| *form);
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
        let mut forms = forms.iter().map(|(form, _)| *form);
        forms.find(|form| lists(headers, &header, validators(*form).tag()))
    };
    let wanted = [IF_NONE_MATCH, IF_MATCH]
        .into_iter()
        .chain(piece.then_some(IF_RANGE))
        .filter(|header| headers.contains_key(header))
        .find_map(named);
    let form = wanted.unwrap_or_else(|| {
        // As with the peer, who asks for a piece means a piece of the lines.
        let tagged = headers.get(IF_RANGE).is_some_and(is_tag);
        if piece && !tagged && accepted.identity.is_some() {
            Form::Identity
        } else {
            best
        }
    });
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
fn forms(selection: &Selection, accepted: Accepted) -> Vec<(Form, u16)> {
    let zstd = Form::Whole(Encoding::Zstd);
    let gzip = Form::Whole(Encoding::Gzip);
    let whole = |encoding| selection.whole(encoding).is_some();
    let mut forms = Vec::with_capacity(4);
    if accepted.zstd > 0 && whole(Encoding::Zstd) {
        forms.push((zstd, accepted.zstd));
    }
    if accepted.gzip > 0 {
        if whole(Encoding::Gzip) {
            forms.push((gzip, accepted.gzip));
        }
        forms.push((Form::Segments, accepted.gzip));
    }
    if let Some(weight) = accepted.identity {
        forms.push((Form::Identity, weight));
    }
    // Of equal weight, in the order they stand here.
    forms.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    if selection.length() < SMALLEST_COMPRESSED && accepted.identity.is_some() {
        forms.retain(|(form, _)| *form == Form::Identity);
    }
    forms
}
