//! Boolean flags in the syntax of Go programs.

/// Parses a boolean in any form that Go accepts.
pub(crate) fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("write true or false".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boolean_has_the_forms_of_go() {
        for (text, wanted) in [("1", Ok(true)), ("F", Ok(false)), ("True", Ok(true))] {
            assert_eq!(parse_bool(text), wanted);
        }
        for text in ["", "yes", "tRUE", "2"] {
            assert!(parse_bool(text).is_err(), "{text}");
        }
    }
}
