//! An error and its causes on one line, for messages and log fields.

use std::error::Error;
use std::io;

/// The message of an error, followed by those of its causes. A cause that the
/// line already quotes is left out.
///
/// ```
/// use almanac::error_chain::error_chain;
///
/// let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
/// assert_eq!(error_chain(&refused), "connection refused");
/// ```
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        next = cause.source();
    }
    line
}

/// An error and its causes. That of an I/O error is the error that it holds.
pub(crate) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        match error.downcast_ref().and_then(io::Error::get_ref) {
            Some(held) => Some(held as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        source: Option<Box<Link>>,
    }

    fn chain(texts: &[&'static str]) -> Option<Box<Link>> {
        let (text, causes) = texts.split_first()?;
        let source = chain(causes);
        Some(Box::new(Link { text, source }))
    }

    #[test]
    fn causes_follow_in_order_and_quoted_ones_are_left_out() {
        let shown = |texts: &[&'static str]| error_chain(&*chain(texts).unwrap());
        assert_eq!(shown(&["a"]), "a");
        assert_eq!(shown(&["a", "b", "c"]), "a: b: c");
        assert_eq!(
            shown(&["cannot read x: denied", "denied", "limit"]),
            "cannot read x: denied: limit"
        );
        assert_eq!(shown(&["of b: a", "c", "of b"]), "of b: a: c");
    }
}
