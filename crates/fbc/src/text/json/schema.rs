//! Go types as data: the fields of an object, their types, and a value that does
//! not fit.

use std::fmt;

use crate::text::json::strings::is_name;

/// A type.
#[derive(Debug)]
pub(crate) enum Shape {
    /// A string.
    Text,
    /// A boolean.
    Bool,
    /// A 32-bit integer.
    Integer,
    /// Any value, unchanged.
    Any,
    /// An object of strings.
    Texts,
    /// An array.
    List(&'static Shape),
    /// An object with known fields.
    Object(&'static [Field]),
}

/// A field of an object.
#[derive(Debug)]
pub(crate) struct Field {
    /// Its key.
    pub(crate) name: &'static str,
    /// Its type.
    pub(crate) shape: Shape,
    /// Whether it is omitted if it is empty. Objects with known fields never count as
    /// empty.
    pub(crate) omitted: bool,
}

impl Field {
    /// A field that is omitted if it is empty.
    pub(crate) const fn omitted(name: &'static str, shape: Shape) -> Self {
        Self {
            name,
            shape,
            omitted: true,
        }
    }

    /// A field that is always present.
    pub(crate) const fn kept(name: &'static str, shape: Shape) -> Self {
        Self {
            name,
            shape,
            omitted: false,
        }
    }
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    /// Whether the value stays the same.
    pub(crate) same: bool,
    /// Whether it is empty.
    pub(crate) empty: bool,
}

/// A value of another type. One word long: checks of most values have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch(Box<Position>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Position {
    /// The keys that lead to the value, in quotes, the innermost first.
    keys: Vec<String>,
    /// The rest of a sentence about the value.
    reason: &'static str,
}

impl Mismatch {
    #[cold]
    fn new(reason: &'static str) -> Self {
        Self(Box::new(Position {
            keys: Vec::new(),
            reason,
        }))
    }

    /// The value needs a tree that would be too large.
    pub(crate) fn too_large() -> Self {
        Self::new("holds too many values for keys in another case than documented")
    }

    /// The value does not have this type.
    pub(crate) fn from_shape(shape: &Shape) -> Self {
        Self::new(match shape {
            Shape::Text => "must be a string",
            Shape::Bool => "must be true or false",
            Shape::Integer => "must be an integer",
            Shape::Any => "must be a value",
            Shape::List(_) => "must be a list",
            Shape::Texts | Shape::Object(_) => "must be an object",
        })
    }

    /// The value is in the one with this key, given with its quotes.
    #[cold]
    pub(crate) fn within(mut self, key: &[u8]) -> Self {
        self.0.keys.push(String::from_utf8_lossy(key).into_owned());
        self
    }
}

/// The rest of a sentence that begins with the value.
impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { keys, reason } = &*self.0;
        if !keys.is_empty() {
            f.write_str("its ")?;
        }
        for key in keys.iter().rev() {
            write!(f, "{key} ")?;
        }
        f.write_str(reason)
    }
}

/// Appends the zero value of a type.
pub(crate) fn write_zero(shape: &Shape, out: &mut Vec<u8>) {
    let zero: &[u8] = match shape {
        Shape::Text => b"\"\"",
        Shape::Bool => b"false",
        Shape::Integer => b"0",
        Shape::Any => b"null",
        Shape::List(_) => b"[]",
        Shape::Texts => b"{}",
        Shape::Object(fields) => {
            out.push(b'{');
            let kept = fields.iter().filter(|field| !field.omitted);
            for (number, field) in kept.enumerate() {
                out.extend_from_slice(if number > 0 { b",\"" } else { b"\"" });
                out.extend_from_slice(field.name.as_bytes());
                out.extend_from_slice(b"\":");
                write_zero(&field.shape, out);
            }
            b"}"
        }
    };
    out.extend_from_slice(zero);
}

/// A canonical number as an integer of 32 bits.
pub(crate) fn integer(digits: &[u8]) -> Result<i32, Mismatch> {
    let text = str::from_utf8(digits).ok();
    let number = text.and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| Mismatch::new("must be a 32-bit integer"))
}

/// The field that Go reads a key into, and whether the key is exactly its name.
/// Keys and fields are sorted, so the field is most likely `next` or behind it.
pub(crate) fn find(fields: &[Field], key: &[u8], next: usize) -> Option<(usize, bool)> {
    let is = |field: &Field| field.name.as_bytes() == key;
    let behind = fields.get(next..).and_then(|rest| rest.iter().position(is));
    let exactly = behind.map(|further| next + further);
    let exactly = exactly.or_else(|| fields.iter().position(is));
    exactly.map(|number| (number, true)).or_else(|| {
        let folded = fields.iter().position(|field| is_name(key, field.name));
        folded.map(|number| (number, false))
    })
}
