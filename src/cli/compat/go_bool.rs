//! Flags that are true or false, as programs in Go read them.

/// Whether a flag is set, in any of the ways it may be written.
pub(crate) fn truth(text: &str) -> Result<bool, String> {
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
    fn a_truth_is_read_as_go_reads_it() {
        for (text, wanted) in [("1", Ok(true)), ("F", Ok(false)), ("True", Ok(true))] {
            assert_eq!(truth(text), wanted);
        }
        for text in ["", "yes", "tRUE", "2"] {
            assert!(truth(text).is_err(), "{text}");
        }
    }
}
