//! The records of a PAX header, as far as they say where an entry is.

use super::error::Damage;

/// What PAX records say of the entry after them.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    /// Whether the file is stored with holes.
    pub(super) sparse: bool,
}

/// Reads PAX records: `<length> <key>=<value>\n`, the length being that of the
/// whole record. Later ones replace earlier ones, an empty value unsets.
pub(super) fn read_records(mut rest: &[u8]) -> Result<Records, Damage> {
    let mut records = Records::default();
    let mut sparse_name = None;
    while !rest.is_empty() {
        let record = first_record(rest).ok_or(Damage::Extension)?;
        rest = &rest[record.len()..];
        let (key, value) = key_and_value(record).ok_or(Damage::Extension)?;
        let text = || (!value.is_empty()).then(|| value.to_vec());
        match key {
            b"path" => records.path = text(),
            b"linkpath" => records.link = text(),
            b"size" if value.is_empty() => records.size = None,
            b"size" => records.size = Some(decimal(value).ok_or(Damage::Size)?),
            key if key.starts_with(b"GNU.sparse.") => {
                records.sparse = true;
                if key == b"GNU.sparse.name" {
                    sparse_name = text();
                }
            }
            _ => {}
        }
    }
    // Where the file really is: the path names a stand-in.
    records.path = sparse_name.or(records.path);
    Ok(records)
}

fn first_record(rest: &[u8]) -> Option<&[u8]> {
    // A length has few digits: the search need not go further.
    let space = memchr::memchr(b' ', &rest[..rest.len().min(20)])?;
    let length = usize::try_from(decimal(&rest[..space])?).ok()?;
    let record = rest.get(..length)?;
    (length > space && record.ends_with(b"\n")).then_some(record)
}

fn key_and_value(record: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = memchr::memchr(b' ', record)?;
    let pair = record.get(space + 1..record.len() - 1)?;
    let equals = memchr::memchr(b'=', pair)?;
    Some((&pair[..equals], &pair[equals + 1..]))
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}
