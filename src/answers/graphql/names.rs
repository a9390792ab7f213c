//! The names of schemas and keys in the GraphQL API.

/// The name of the field of [`QUERY`](crate::answers::graphql::QUERY) that gives the blobs of a schema.
pub fn query_name(schema: &str) -> String {
    let mut name: String = schema
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .collect();
    name.push('s');
    beginning_with_letter(name)
}

/// The name of the type of a schema's blobs.
pub fn type_name(schema: &str) -> String {
    let name: String = schema
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .map(capitalized)
        .collect();
    let name = name.trim_start_matches(|letter: char| letter.is_ascii_digit());
    if name.is_empty() {
        return "Unknown".to_owned();
    }
    // Without the leading digits, the first letter may be a small one.
    capital(name)
}

/// The name of the field for a key.
pub fn field_name(key: &str) -> String {
    if key.is_empty() {
        return "value".to_owned();
    }
    let mut words = key
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default();
    let mut name = if first.bytes().any(|letter| letter.is_ascii_lowercase()) {
        let (head, rest) = first.split_at(1);
        head.to_ascii_lowercase() + rest
    } else {
        first.to_ascii_lowercase()
    };
    name.extend(words.map(capitalized));
    beginning_with_letter(name)
}

fn beginning_with_letter(name: String) -> String {
    if name.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        return name;
    }
    format!("field_{name}")
}

/// A word with its first letter large and the others small.
fn capitalized(word: &str) -> String {
    capital(&word.to_ascii_lowercase())
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| {
        format!("{}{}", first.to_ascii_uppercase(), letters.as_str())
    })
}
