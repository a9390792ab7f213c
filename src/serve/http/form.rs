//! The encoded forms of a selection, and the choice between them.

use std::sync::Arc;

use http::header::{ACCEPT_ENCODING, IF_MATCH, IF_NONE_MATCH, IF_RANGE};
use http::{HeaderMap, HeaderName};

use crate::serve::http::conditional::{Validators, lists};
use crate::serve::http::encoding::Accepted;
use crate::snapshot::{Comparing, Encoded, Selection, TooManyToCompare};
use crate::store::{Encoding, Segments};

/// Smaller responses are not compressed, as in catalogd. In bytes.
pub(super) const SMALLEST_COMPRESSED: u64 = 1024;

/// How the lines of a selection are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Not encoded.
    Identity,
    /// The stored gzip segments of its lines.
    Segments,
    /// The stored encoding of the whole catalog.
    Whole(Encoding),
}

/// The stored encodings of a selection that a client accepts. They are looked up once:
/// they may come or go during a request.
struct Stored {
    zstd: Option<Encoded>,
    gzip: Option<Encoded>,
    segments: Option<Arc<Segments>>,
}

impl Stored {
    fn of(
        selection: &Selection,
        accepted: Accepted,
        comparing: Comparing,
    ) -> Result<Self, TooManyToCompare> {
        let whole = |encoding, weight| match weight {
            0 => Ok(None),
            _ => selection.whole(encoding, comparing),
        };
        Ok(Self {
            zstd: whole(Encoding::Zstd, accepted.zstd)?,
            gzip: whole(Encoding::Gzip, accepted.gzip)?,
            segments: match accepted.gzip {
                0 => None,
                _ => selection.segments(comparing)?,
            },
        })
    }

    fn whole(&self, encoding: Encoding) -> Option<&Encoded> {
        match encoding {
            Encoding::Zstd => self.zstd.as_ref(),
            Encoding::Gzip => self.gzip.as_ref(),
            Encoding::Segments => None,
        }
    }
}

/// A form of a selection, with its validators and its bytes.
pub(super) struct Chosen {
    pub(super) form: Form,
    pub(super) validators: Validators,
    pub(super) encoded: Encoded,
}

impl Form {
    /// Its `Content-Encoding`.
    pub(super) fn coding(self) -> Option<&'static str> {
        match self {
            Self::Identity => None,
            Self::Segments => Some("gzip"),
            Self::Whole(encoding) => Some(encoding.as_str()),
        }
    }
}

/// Chooses the form for a request: the one whose entity tag the request names,
/// else the best that the client accepts. `piece` tells whether the request has a
/// range, and `plain` that it has neither conditions nor a range.
///
/// # Errors
/// When too much has to be compared first.
pub(super) fn choose(
    selection: &Selection,
    headers: &HeaderMap,
    (piece, plain): (bool, bool),
    comparing: Comparing,
) -> Result<Chosen, TooManyToCompare> {
    let accepted = Accepted::read(headers.get_all(ACCEPT_ENCODING));
    let stored = Stored::of(selection, accepted, comparing)?;
    let forms = forms(selection, accepted, &stored);
    let best = forms.clone().next().unwrap_or(Form::Identity);
    let tag = selection.tag();
    let validators = |form: Form| {
        let suffix = match form {
            Form::Identity => String::new(),
            // The length belongs to it: another version of almanac may encode
            // the same content differently.
            Form::Segments => {
                let length = stored.segments.as_ref();
                let length = length.map(|it| selection.gzip_length(it));
                format!("-gzip-{:x}", length.unwrap_or_default())
            }
            Form::Whole(encoding) => {
                let length = stored.whole(encoding).map_or(0, |it| it.length);
                format!("-{}-all-{length:x}", encoding.as_str())
            }
        };
        Validators::new(&tag, selection.snapshot().modified(), &suffix)
    };
    // A client that has one form revalidates that form, and a client that has a
    // range gets the rest of the same form.
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
        // As in catalogd, a range is one of the uncompressed lines.
        let tagged = headers.get(IF_RANGE).is_some_and(is_tag);
        if piece && !tagged && accepted.identity.is_some() {
            Form::Identity
        } else {
            best
        }
    };
    Ok(Chosen {
        form,
        validators: validators(form),
        encoded: match form {
            Form::Identity => selection.identity(comparing)?,
            // `forms` lists these only if they are there, so the default is never sent.
            Form::Segments => {
                let segments = stored.segments.as_ref();
                segments.map_or_else(Encoded::default, |it| selection.gzip(it))
            }
            Form::Whole(encoding) => stored.whole(encoding).cloned().unwrap_or_default(),
        },
    })
}

fn is_tag(value: &http::HeaderValue) -> bool {
    value.as_bytes().starts_with(b"\"") || value.as_bytes().starts_with(b"W/")
}

/// The available forms that the client accepts, in order of preference.
fn forms(
    selection: &Selection,
    accepted: Accepted,
    stored: &Stored,
) -> impl Iterator<Item = Form> + Clone + use<> {
    let small = selection.length() < SMALLEST_COMPRESSED && accepted.identity.is_some();
    let compressed = |weight| weight > 0 && !small;
    let whole = |encoding, weight| {
        let available = compressed(weight) && stored.whole(encoding).is_some();
        (Form::Whole(encoding), weight, available)
    };
    let (gzip, identity) = (accepted.gzip, accepted.identity);
    let mut forms = [
        whole(Encoding::Zstd, accepted.zstd),
        whole(Encoding::Gzip, gzip),
        (
            Form::Segments,
            gzip,
            compressed(gzip) && stored.segments.is_some(),
        ),
        (Form::Identity, identity.unwrap_or(0), identity.is_some()),
    ];
    // The sort is stable: equal weights keep the order above.
    forms.sort_by_key(|(_, weight, _)| std::cmp::Reverse(*weight));
    let available = forms.into_iter().filter(|(.., available)| *available);
    available.map(|(form, ..)| form)
}
