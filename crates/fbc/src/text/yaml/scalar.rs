//! The types of scalars: YAML 1.1's types as goyaml v2 reads them, and their form in
//! JSON as a value and as a key.

use std::borrow::Cow;
use std::io::Write as _;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::text::json::write::{write_float, write_number, write_string};
use crate::text::yaml::timestamp::is_timestamp;

/// The prefix of the tags of YAML's own types.
const TAG_PREFIX: &str = "tag:yaml.org,2002:";
/// Base64 as Go decodes it: with padding, and with any left-over bits.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// A scalar with its type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar<'a> {
    Null,
    Bool(bool),
    /// An integer that fits into 64 bits with a sign.
    Signed(i64),
    /// A larger one that fits into 64 bits without.
    Unsigned(u64),
    /// A still larger one, as its digits and sign. It is a float in goyaml.
    Large(Cow<'a, str>),
    Float(f64),
    Text(Cow<'a, str>),
}

/// A scalar as the parser gives it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'a> {
    pub(crate) value: &'a str,
    pub(crate) tag: Option<&'a str>,
    /// Whether it has neither quotes nor a tag, so its text decides its type.
    pub(crate) plain: bool,
}

impl<'a> Raw<'a> {
    /// Whether it is, as a key, a merge of other mappings.
    pub(crate) fn is_merge(&self) -> bool {
        let tagged = || self.tag.and_then(|tag| tag.strip_prefix(TAG_PREFIX)) == Some("merge");
        self.value == "<<" && (self.plain || tagged())
    }

    /// The scalar with its type. The error is a sentence.
    pub(crate) fn typed(&self) -> Result<Scalar<'a>, String> {
        let text = || Scalar::Text(Cow::Borrowed(self.value));
        match self.tag {
            None | Some("" | "!") if self.plain => Ok(plain(self.value)),
            None | Some("" | "!") => Ok(text()),
            Some(tag) => match tag.strip_prefix(TAG_PREFIX) {
                Some("binary") => binary(self.value),
                Some(wanted @ ("null" | "bool" | "int" | "float" | "timestamp")) => {
                    tagged(self.value, wanted)
                }
                _ => Ok(text()),
            },
        }
    }
}

impl Scalar<'_> {
    /// Appends the scalar as a JSON value. The error is a sentence.
    pub(crate) fn write_value(&self, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Signed(number) if number.unsigned_abs() < 1 << 53 => write_display(out, number),
            Self::Signed(number) => write_digits(out, &number.to_string())?,
            Self::Unsigned(number) => write_digits(out, &number.to_string())?,
            Self::Large(digits) => write_digits(out, digits)?,
            Self::Float(float) if float.is_finite() => write_float(out, *float),
            Self::Float(_) => {
                return Err("JSON has no number for infinity or not-a-number".to_owned());
            }
            Self::Text(text) => write_string(out, text),
        }
        Ok(())
    }

    /// Appends the scalar as the key of a JSON object, a string in quotes. The
    /// error is a sentence.
    pub(crate) fn write_key(&self, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::Text(text) => write_string(out, text),
            Self::Bool(true) => out.extend_from_slice(b"\"true\""),
            Self::Bool(false) => out.extend_from_slice(b"\"false\""),
            Self::Signed(number) => write_display(out, format_args!("\"{number}\"")),
            Self::Large(digits) => {
                let float = digits
                    .parse()
                    .map_err(|_| "the key is too large a number".to_owned())?;
                write_float_key(out, float);
            }
            Self::Float(float) => write_float_key(out, *float),
            Self::Null => {
                return Err("null cannot be a key; quote it to make it a string".to_owned());
            }
            Self::Unsigned(number) => {
                return Err(format!(
                    "the number {number} is too large for a key; quote it to make it a string"
                ));
            }
        }
        Ok(())
    }
}

/// The type that an untagged scalar without quotes has.
pub(crate) fn plain(text: &str) -> Scalar<'_> {
    let found = match text.as_bytes().first() {
        None => Some(Scalar::Null),
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') => {
            word(text)
        }
        Some(b'.') => infinity(text).or_else(|| float(text)),
        Some(b'+' | b'-') => infinity(text).or_else(|| number(text)),
        Some(b'0'..=b'9') => number(text),
        _ => None,
    };
    found.unwrap_or(Scalar::Text(Cow::Borrowed(text)))
}

fn word(text: &str) -> Option<Scalar<'_>> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Some(Scalar::Bool(true))
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Some(Scalar::Bool(false))
        }
        "~" | "null" | "Null" | "NULL" => Some(Scalar::Null),
        _ => None,
    }
}

fn infinity<'a>(text: &str) -> Option<Scalar<'a>> {
    match text {
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            Some(Scalar::Float(f64::INFINITY))
        }
        "-.inf" | "-.Inf" | "-.INF" => Some(Scalar::Float(f64::NEG_INFINITY)),
        ".nan" | ".NaN" | ".NAN" => Some(Scalar::Float(f64::NAN)),
        _ => None,
    }
}

/// Integers of base 2, 8, 10 and 16 and floats, with `_` anywhere.
fn number(text: &str) -> Option<Scalar<'_>> {
    let text = if text.contains('_') {
        Cow::Owned(text.replace('_', ""))
    } else {
        Cow::Borrowed(text)
    };
    if let Some(integer) = integer(&text) {
        return Some(integer);
    }
    match float(&text) {
        Some(_) if whole(&text) => Some(Scalar::Large(decimal(text))),
        Some(found) => Some(found),
        // A sign after the prefix is taken for base 2 alone.
        None => {
            let signed = text
                .strip_prefix("0b")
                .filter(|rest| rest.starts_with(['+', '-']))?;
            i64::from_str_radix(signed, 2).ok().map(Scalar::Signed)
        }
    }
}

/// An integer of at most 64 bits. Only the signed ones may have a sign.
fn integer<'a>(text: &str) -> Option<Scalar<'a>> {
    let (digits, negative) = match text.as_bytes() {
        [b'-', ..] => (&text[1..], true),
        [b'+', ..] => (&text[1..], false),
        _ => (text, false),
    };
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (&digits[2..], 16),
        [b'0', b'o' | b'O', _, ..] => (&digits[2..], 8),
        [b'0', b'b' | b'B', _, ..] => (&digits[2..], 2),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits, 10),
    };
    if digits.starts_with('+') {
        return None; // `from_str_radix` would take a second sign.
    }
    let size = u64::from_str_radix(digits, radix).ok()?;
    match i64::try_from(size) {
        Ok(size) if negative => Some(Scalar::Signed(-size)),
        Ok(size) => Some(Scalar::Signed(size)),
        Err(_) if negative && size == i64::MIN.unsigned_abs() => Some(Scalar::Signed(i64::MIN)),
        Err(_) if !text.starts_with(['+', '-']) => Some(Scalar::Unsigned(size)),
        Err(_) => None,
    }
}

/// A finite float in the form that goyaml accepts, which is narrower than Rust's.
fn float<'a>(text: &str) -> Option<Scalar<'a>> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let whole = digits(unsigned);
    let (fraction, rest) = match unsigned[whole..].strip_prefix('.') {
        Some(rest) => (digits(rest), &rest[digits(rest)..]),
        None => (0, &unsigned[whole..]),
    };
    if whole == 0 && fraction == 0 {
        return None;
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if exponent.is_empty() || digits(exponent) != exponent.len() {
            return None;
        }
    } else if !rest.is_empty() {
        return None;
    }
    text.parse()
        .ok()
        .filter(|float: &f64| float.is_finite())
        .map(Scalar::Float)
}

/// The number of digits at the start of `text`.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// Whether a number has neither a fraction nor an exponent.
fn whole(number: &str) -> bool {
    let unsigned = number.strip_prefix(['+', '-']).unwrap_or(number);
    digits(unsigned) == unsigned.len()
}

/// A whole number as JSON writes it: no plus, no leading zeros.
fn decimal(number: Cow<'_, str>) -> Cow<'_, str> {
    let unsigned = number.strip_prefix(['+', '-']).unwrap_or(&number);
    let trimmed = unsigned.trim_start_matches('0');
    let sign = if number.starts_with('-') { "-" } else { "" };
    if sign.len() + trimmed.len() == number.len() {
        number
    } else {
        Cow::Owned(format!("{sign}{trimmed}"))
    }
}

/// A scalar whose tag demands a type.
fn tagged<'a>(text: &'a str, wanted: &str) -> Result<Scalar<'a>, String> {
    if wanted == "timestamp" && is_timestamp(text) {
        return Ok(Scalar::Text(Cow::Borrowed(text)));
    }
    let found = plain(text);
    match (&found, wanted) {
        (Scalar::Null, "null")
        | (Scalar::Bool(_), "bool")
        | (Scalar::Signed(_) | Scalar::Unsigned(_), "int")
        | (Scalar::Float(_) | Scalar::Large(_), "float") => Ok(found),
        (Scalar::Signed(number), "float") => Ok(Scalar::Float(*number as f64)),
        _ => {
            let shown: String = text.chars().take(40).collect();
            Err(format!("{shown:?} is tagged !!{wanted}, but is none"))
        }
    }
}

/// The decoded text of a `!!binary` scalar. As in Go, each byte that is not UTF-8
/// becomes U+FFFD.
fn binary<'a>(text: &str) -> Result<Scalar<'a>, String> {
    let encoded: Vec<u8> = text
        .bytes()
        .filter(|byte| !matches!(byte, b'\r' | b'\n'))
        .collect();
    let bytes = BASE64
        .decode(encoded)
        .map_err(|_| "the !!binary value is not valid base64".to_owned())?;
    let mut decoded = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        decoded.push_str(chunk.valid());
        decoded.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Ok(Scalar::Text(Cow::Owned(decoded)))
}

/// Appends digits as a JSON number, unless it is too large.
fn write_digits(out: &mut Vec<u8>, digits: &str) -> Result<(), String> {
    write_number(out, digits).map_err(|error| error.to_string())
}

/// Appends a float key as opm and catalogd do: Go's shortest 32-bit form.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a float key is a 32-bit number to opm and catalogd"
)]
fn write_float_key(out: &mut Vec<u8>, float: f64) {
    let short = float as f32;
    if short.is_nan() {
        out.extend_from_slice(b"\".nan\"");
    } else if short.is_infinite() {
        out.extend_from_slice(if short > 0.0 {
            b"\".inf\""
        } else {
            b"\"-.inf\""
        });
    } else {
        let scientific = format!("{short:e}");
        let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        match exponent.parse::<i32>() {
            Ok(exponent) if !(-4..6).contains(&exponent) => {
                let sign = if exponent < 0 { '-' } else { '+' };
                write_display(
                    out,
                    format_args!("\"{mantissa}e{sign}{:02}\"", exponent.unsigned_abs()),
                );
            }
            _ => write_display(out, format_args!("\"{short}\"")),
        }
    }
}

fn write_display(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{value}");
}
