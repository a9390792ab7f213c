//! The part of a line with a problem, and the position of its caret.

use unicode_width::UnicodeWidthStr as _;

use crate::cli::output::Shown;

/// How much of a line is shown, in characters.
const WIDTH: usize = 120;
/// How much of a longer line is shown before the place.
const BEFORE: usize = 80;

/// A part of a line, for a terminal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    /// The text, with control characters escaped.
    pub(super) text: String,
    /// The distance of the place from the start, in columns of a terminal.
    pub(super) caret: Option<usize>,
}

impl Excerpt {
    /// The part of `line` around a column, from 1, or its beginning. `None` for an
    /// empty line.
    pub(super) fn new(line: &[u8], column: Option<u32>) -> Option<Self> {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end();
        if line.is_empty() {
            return None;
        }
        let place = column.map(|column| column.max(1) as usize - 1);
        let skipped = place
            .filter(|place| *place >= WIDTH)
            .map_or(0, |place| place - BEFORE);
        let mut rest = line.chars().skip(skipped);
        let mut text = String::new();
        if skipped > 0 {
            text.push('…');
        }
        let mut caret = None;
        for number in skipped..skipped + WIDTH {
            if place == Some(number) {
                caret = Some(text.width());
            }
            let Some(sign) = rest.next() else { break };
            text.push_str(&Shown(sign.encode_utf8(&mut [0; 4])).to_string());
        }
        if rest.next().is_some() {
            text.push('…');
        }
        Some(Self { text, caret })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(line: &str, column: Option<u32>) -> (String, Option<usize>) {
        let Excerpt { text, caret } = Excerpt::new(line.as_bytes(), column).unwrap();
        (text, caret)
    }

    #[test]
    fn the_beginning_of_a_line_is_shown_where_no_place_is_known() {
        assert_eq!(excerpt("schema: x\r", None), ("schema: x".into(), None));
        let long = "é".repeat(WIDTH + 1);
        assert_eq!(excerpt(&long, None).0, format!("{}…", "é".repeat(WIDTH)));
        assert_eq!(Excerpt::new(b" \r", Some(1)), None);
    }

    #[test]
    fn the_caret_stands_under_the_character() {
        for (line, column, caret) in [
            ("name: b", 1, 0),
            ("name: b", 7, 6),
            // Behind the last one, where something is missing.
            ("name: b ", 8, 7),
            ("名前: b", 5, 6),
            ("é\u{301}: b", 4, 2),
            // A tab is shown as two characters.
            ("\tname", 2, 2),
        ] {
            assert_eq!(excerpt(line, Some(column)).1, Some(caret), "{line:?}");
        }
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let line = format!("{}!{}", "a".repeat(3000), "b".repeat(3000));
        let (text, caret) = excerpt(&line, Some(3001));
        let (before, behind) = ("a".repeat(BEFORE), "b".repeat(WIDTH - BEFORE - 1));
        assert_eq!(text, format!("…{before}!{behind}…"));
        assert_eq!(caret, Some(BEFORE + 1));
        let (text, caret) = excerpt(&"a".repeat(300), Some(301));
        assert_eq!(
            (text.as_str(), caret),
            (&*format!("…{before}"), Some(BEFORE + 1))
        );
        // No mark points past the end of a line.
        assert_eq!(excerpt("a", Some(300)).1, None);
    }
}
