//! Whiteouts: entries that hide files of lower layers (image-spec, layer).

/// The start of the name of a whiteout: it hides the rest of the name.
pub(super) const WHITEOUT: &[u8] = b".wh.";

/// The name of an opaque whiteout: it hides the contents of its folder.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// The start of the names of files that aufs kept for itself.
pub(super) const BOOKKEEPING: &[u8] = b".wh..wh.";

/// The effect of a whiteout on lower layers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Whiteout<'n> {
    /// Hides this name in its folder.
    Itself(&'n [u8]),
    /// Hides all contents of its folder.
    Below,
    /// Hides nothing.
    Bookkeeping,
}

/// Parses the name of a whiteout; none for other names.
pub(super) fn whiteout(name: &[u8]) -> Option<Whiteout<'_>> {
    let hidden = name.strip_prefix(WHITEOUT)?;
    Some(match name {
        OPAQUE => Whiteout::Below,
        name if name.starts_with(BOOKKEEPING) => Whiteout::Bookkeeping,
        _ => Whiteout::Itself(hidden),
    })
}
