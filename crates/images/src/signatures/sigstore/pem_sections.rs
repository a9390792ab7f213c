//! Sections of PEM files, bounded.

use pem::Pem;

/// The most sections that are read.
const MAX_SECTIONS: usize = 64;

/// All sections of a text. Text outside of them is ignored.
pub(crate) fn sections(text: &[u8]) -> Result<Vec<Pem>, &'static str> {
    let sections = pem::parse_many(text).map_err(|_| "it is not PEM")?;
    if sections.len() > MAX_SECTIONS {
        return Err("it has more than 64 PEM sections");
    }
    Ok(sections)
}

/// The only section of a text, whatever its kind. Nothing follows it.
pub(crate) fn only(text: &[u8]) -> Result<Pem, &'static str> {
    let mut sections = sections(text)?;
    match (sections.pop(), sections.is_empty()) {
        (Some(_), true) if !text.trim_ascii_end().ends_with(b"-----") => {
            Err("something follows its PEM section")
        }
        (Some(section), true) => Ok(section),
        (Some(_), false) => Err("it has more than one PEM section"),
        (None, _) => Err("it is not PEM"),
    }
}
