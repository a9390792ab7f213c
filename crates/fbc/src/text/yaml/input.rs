//! The input of the parser: checked text, in small pieces, with the line ends that the
//! reader of opm and catalogd makes of it.

use std::io::{self, BufRead, Read};

use libyaml_safer::{Encoding, Mark, Parser, Scanner, TokenData};
use memchr::memchr;
use memchr::memmem::Finder;

use crate::text::yaml::error::{YamlError, position};
use crate::text::yaml::split::malformed_separator;

/// The size of the parser's input in bytes. The parser keeps its input as characters
/// of four bytes, so it gets small pieces.
const PIECE: usize = 4096;
/// The number of `%TAG` directives of a document: the parser compares each with all
/// others, and with each tag.
const MOST_TAG_DIRECTIVES: usize = 64;

/// A document's text as input of the parser: CRLF becomes LF, and the last line gets
/// an end, which the parser relies on.
pub(crate) struct Source<'a> {
    rest: &'a [u8],
    ended: bool,
}

/// A parser of `text`, before its first event.
pub(crate) fn parser(text: &str) -> Parser<Source<'_>> {
    let mut parser = Parser::new();
    parser.set_encoding(Encoding::Utf8);
    parser.set_input(Source::new(text));
    parser
}

/// The text of a document, if the parser can read it at all.
pub(crate) fn checked(document: &[u8]) -> Result<&str, YamlError> {
    if let Some(line) = malformed_separator(document) {
        return Err(YamlError::new(
            "a line that starts with `---` may hold nothing else but a comment",
        )
        .at(line as u64, 0));
    }
    if document.starts_with(b"\xff\xfe") || document.starts_with(b"\xfe\xff") {
        return Err(YamlError::new("the file is UTF-16; catalogs are UTF-8").at(0, 0));
    }
    let document = document.strip_prefix(b"\xef\xbb\xbf").unwrap_or(document);
    let text = std::str::from_utf8(document).map_err(|error| {
        let (line, column) = position(&document[..error.valid_up_to()]);
        YamlError::new("the text is not valid UTF-8").at(line, column)
    })?;
    check_directives(text)?;
    check_tags(text)?;
    Ok(text)
}

fn check_directives(text: &str) -> Result<(), YamlError> {
    if !text.contains("%TAG") {
        return Ok(());
    }
    let mut directives = text
        .lines()
        .enumerate()
        .filter(|(_, line)| line.starts_with("%TAG"));
    match directives.nth(MOST_TAG_DIRECTIVES) {
        Some((line, _)) => {
            Err(YamlError::new("there are too many %TAG directives").at(line as u64, 0))
        }
        None => Ok(()),
    }
}

/// Refuses a tag with a comma right after it, as in `[!a, b]`: goyaml does,
/// and the parser would panic.
///
/// Such text may also be part of a string. Therefore a copy with a blank before each
/// such comma is cut into tokens. If a tag ends at one of these blanks, it is a tag.
fn check_tags(text: &str) -> Result<(), YamlError> {
    let commas = tag_like_commas(text.as_bytes());
    let Some(first) = commas.first() else {
        return Ok(());
    };
    let mut copy = String::with_capacity(text.len() + commas.len());
    // Their positions for the scanner, which sees CRLF as one byte.
    let mut blanks = Vec::with_capacity(commas.len());
    let mut dropped = returns(&text[..*first]);
    copy.push_str(&text[..*first]);
    for (index, comma) in commas.iter().enumerate() {
        blanks.push(copy.len() - dropped);
        copy.push(' ');
        let piece = &text[*comma..commas.get(index + 1).copied().unwrap_or(text.len())];
        dropped += returns(piece);
        copy.push_str(piece);
    }
    let mut scanner = Scanner::new();
    scanner.set_encoding(Encoding::Utf8);
    scanner.set_input(Source::new(&copy));
    let index = |mark: Mark| usize::try_from(mark.index).unwrap_or(usize::MAX);
    let mut done = 0;
    for token in scanner {
        let token = match token {
            Ok(token) => token,
            // A tag may be among the tokens that the scanner has read ahead.
            Err(error) => {
                let failed = error.problem_mark().map_or(usize::MAX, index);
                let hidden = blanks.iter().any(|blank| (done..=failed).contains(blank));
                return if hidden {
                    Err(YamlError::from_parser(&error, text))
                } else {
                    Ok(())
                };
            }
        };
        done = index(token.end_mark);
        if matches!(token.data, TokenData::Tag { .. }) && blanks.binary_search(&done).is_ok() {
            let message = "did not find expected whitespace or line break while scanning a tag";
            return Err(YamlError::new(message).at(token.end_mark.line, token.end_mark.column));
        }
    }
    Ok(())
}

/// The number of bytes of a text that [`Source`] drops.
fn returns(text: &str) -> usize {
    Finder::new("\r\n").find_iter(text.as_bytes()).count()
}

/// The positions of commas behind text that looks like a tag.
pub(crate) fn tag_like_commas(text: &[u8]) -> Vec<usize> {
    let mut commas = Vec::new();
    let mut from = 0;
    while let Some(found) = memchr(b'!', &text[from..]) {
        let tag = &text[from + found..];
        from += found + verbatim_tag(tag).unwrap_or_else(|| tag_characters(tag));
        if text.get(from) == Some(&b',') {
            commas.push(from);
        }
    }
    commas
}

/// The length of `!<...>` at the start of `text`.
fn verbatim_tag(text: &[u8]) -> Option<usize> {
    let uri = text.strip_prefix(b"!<")?;
    let inner = |byte: &&u8| tag_character(**byte) || b",[]".contains(byte);
    let length = uri.iter().take_while(inner).count();
    (uri.get(length) == Some(&b'>')).then_some(length + 3)
}

/// The length of a plain tag at the start of `text`.
fn tag_characters(text: &[u8]) -> usize {
    text.iter().take_while(|byte| tag_character(**byte)).count()
}

fn tag_character(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_;/?:@&=+$.%!~*'()".contains(&byte)
}

impl<'a> Source<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            rest: text.as_bytes(),
            ended: text.ends_with('\n'),
        }
    }

    /// The next piece, without consuming it. Empty at the end only.
    fn piece(&mut self) -> &'a [u8] {
        if self.rest.is_empty() {
            return if self.ended { b"" } else { b"\n" };
        }
        if self.rest.starts_with(b"\r\n") {
            self.rest = &self.rest[1..];
        }
        let mut length = self.rest.len().min(PIECE);
        // Not within a character.
        while self
            .rest
            .get(length)
            .is_some_and(|byte| byte & 0xc0 == 0x80)
        {
            length += 1;
        }
        match memchr(b'\r', &self.rest[..length]) {
            Some(at) if self.rest.get(at + 1) == Some(&b'\n') && at > 0 => &self.rest[..at],
            Some(at) => &self.rest[..=at],
            None => &self.rest[..length],
        }
    }
}

impl Read for Source<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let piece = self.piece();
        let length = piece.len().min(into.len());
        into[..length].copy_from_slice(&piece[..length]);
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for Source<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        Ok(self.piece())
    }

    fn consume(&mut self, amount: usize) {
        if self.rest.is_empty() {
            self.ended |= amount > 0;
        } else {
            self.rest = self.rest.get(amount..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        let mut out = String::new();
        Source::new(text).read_to_string(&mut out).unwrap();
        out
    }

    #[test]
    fn line_ends_become_line_feeds_and_the_last_line_is_ended() {
        assert_eq!(read(""), "\n");
        assert_eq!(read("a"), "a\n");
        assert_eq!(read("a\n"), "a\n");
        assert_eq!(read("a\r\nb\r\n"), "a\nb\n");
        assert_eq!(read("a\rb\r\r\n\r"), "a\rb\r\n\r\n");
        let long = "äöü\r\n".repeat(5000);
        assert_eq!(read(&long), long.replace("\r\n", "\n"));
        let wide = "€".repeat(5000);
        assert_eq!(read(&wide), format!("{wide}\n"));
    }

    #[test]
    fn a_tag_before_a_comma_is_refused_but_not_text_that_looks_so() {
        assert!(checked(b"[!a, b]\n").is_err());
        assert!(checked(b"a: [!!str, b]\n").is_err());
        assert!(checked(b"[!<x!,y>, b]\n").is_err());
        assert!(checked(b"{!a, \n  |\n").is_err());
        assert!(checked(b"[\"a\"!b, !, c]\n").is_err());
        assert!(checked(b"a: 1\r\nb: [!c,\r\n !d, e]\r\n").is_err());
        assert!(checked("ä: 1\r\nb: [c,\r\n !ü, e]\r\n".as_bytes()).is_ok());
        assert!(checked("ä: 1\r\nb: [c,\r\n !d, e]\r\n".as_bytes()).is_err());
        assert!(checked(b"a: \"x !b, c\"\nd: !e [f !g, h]\ni: so !important, yes\n").is_ok());
    }
}
