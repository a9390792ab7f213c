//! Timestamps, as goyaml recognises them. They stay strings, so this matters only for
//! scalars with a tag.

/// Whether goyaml reads `text` as a timestamp: a date, or a date and a time, either with
/// `T` and a zone or with a blank and no zone.
pub(crate) fn is_timestamp(text: &str) -> bool {
    parse(text.as_bytes()).is_some()
}

fn parse(text: &[u8]) -> Option<()> {
    let (year, rest) = number(text, 4, 4)?;
    let (month, rest) = number(rest.strip_prefix(b"-")?, 1, 2)?;
    let (day, rest) = number(rest.strip_prefix(b"-")?, 1, 2)?;
    if !(1..=12).contains(&month) || day == 0 || day > days(year, month) {
        return None;
    }
    match rest {
        [] => Some(()),
        [b'T' | b't', rest @ ..] => zone(time(rest)?),
        [b' ', rest @ ..] => time(rest)?.is_empty().then_some(()),
        _ => None,
    }
}

/// Takes `15:04:05.999` off the start.
fn time(text: &[u8]) -> Option<&[u8]> {
    let (hour, rest) = number(text, 1, 2)?;
    let (minute, rest) = number(rest.strip_prefix(b":")?, 1, 2)?;
    let (second, rest) = number(rest.strip_prefix(b":")?, 1, 2)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    match rest {
        [b'.' | b',', digits @ ..] if digits.first().is_some_and(u8::is_ascii_digit) => {
            let length = digits
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            Some(&digits[length..])
        }
        _ => Some(rest),
    }
}

fn zone(text: &[u8]) -> Option<()> {
    let [b'+' | b'-', rest @ ..] = text else {
        return (text == b"Z").then_some(());
    };
    let (hours, rest) = number(rest, 2, 2)?;
    let (minutes, rest) = number(rest.strip_prefix(b":")?, 2, 2)?;
    (hours <= 24 && minutes <= 60 && rest.is_empty()).then_some(())
}

/// A number of `least` to `most` digits off the start.
fn number(text: &[u8], least: usize, most: usize) -> Option<(u32, &[u8])> {
    let length = text
        .iter()
        .take(most)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (digits, rest) = text.split_at(length);
    let value = digits
        .iter()
        .fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
    (length >= least).then_some((value, rest))
}

fn days(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::is_timestamp;

    #[test]
    fn dates_and_times_are_told_from_other_text() {
        for text in [
            "2001-12-14",
            "2001-1-2",
            "2000-02-29",
            "2001-12-14t21:59:43.10-05:00",
            "2001-12-14T21:59:43Z",
            "2001-12-14 21:59:43.1",
            "2001-12-14 1:2:3",
        ] {
            assert!(is_timestamp(text), "{text}");
        }
        for text in [
            "",
            "2001",
            "2001-13-01",
            "2001-02-29",
            "2001-12-14 21:59:43 -5",
            "2001-12-14T21:59:43",
            "2001-12-14T24:00:00Z",
            "01-12-14",
            "2001-12-14x",
        ] {
            assert!(!is_timestamp(text), "{text}");
        }
    }
}
