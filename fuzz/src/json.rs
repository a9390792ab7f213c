//! The JSON reader: what it writes is canonical JSON, stays as it is when it
//! is read again, and is the same however a file is cut.

use super::memory::{assert_in_proportion, most_memory};
use almanac::answers::grpc::encoder::Encoder;
use fbc::problem::Severity;
use fbc::read::{Output, Reader, pieces};
use fbc::text::json::{Canonicaliser, TopMember};
use serde::de::IgnoredAny;

/// Checks one input.
pub fn run(bytes: &[u8]) {
    values(bytes);
    file(bytes);
}

/// Reads the input as values, one behind the other.
fn values(bytes: &[u8]) {
    let mut reader = Canonicaliser::default();
    let (mut once, mut twice) = (Vec::new(), Vec::new());
    let mut at = 0;
    loop {
        once.clear();
        let (read, most) = most_memory(|| reader.read(bytes, at, &mut once));
        assert_in_proportion(bytes.len(), most, 24, 1 << 12);
        let end = match read {
            Ok(Some(end)) => end,
            Ok(None) => return,
            Err(error) => return assert!(error.offset <= bytes.len()),
        };
        assert!(end > at && end <= bytes.len());
        assert!(
            once.len() <= 8 * (end - at),
            "{} of {}",
            once.len(),
            end - at
        );
        at = end;
        assert!(!once.contains(&b'\n'));
        // No limit of depth applies to what is not kept.
        if let Err(error) = serde_json::from_slice::<IgnoredAny>(&once) {
            panic!("{error}: {}", once.escape_ascii());
        }
        for TopMember { key, value, .. } in reader.top_members() {
            assert!(once[key.clone()].len() < value.start);
            assert!(serde_json::from_slice::<IgnoredAny>(&once[value.clone()]).is_ok());
        }
        twice.clear();
        let end = reader.read(&once, 0, &mut twice);
        assert_eq!(end, Ok(Some(once.len())));
        assert_eq!(
            once.escape_ascii().to_string(),
            twice.escape_ascii().to_string()
        );
    }
}

/// Reads the input as a file, whole and in pieces.
fn file(bytes: &[u8]) {
    let (whole, encoded) = read(bytes, bytes.len() + 1);
    for target in [1, 7, bytes.len() / 2 + 1] {
        let (parts, encoded_parts) = read(bytes, target);
        // Behind what cannot be read, pieces may find what the whole does not.
        if unreadable(&whole) {
            assert!(unreadable(&parts), "{target}");
            continue;
        }
        assert_eq!(
            parts.lines.escape_ascii().to_string(),
            whole.lines.escape_ascii().to_string(),
            "{target}"
        );
        assert_eq!(parts.metas, whole.metas, "{target}");
        assert_eq!(encoded_parts.messages, encoded.messages, "{target}");
        assert_eq!(parts.documents, whole.documents, "{target}");
    }
}

fn read(bytes: &[u8], target: usize) -> (Output, Encoder) {
    let (mut out, mut encoder) = (Output::default(), Encoder::default());
    let mut reader = Reader::default();
    let mut next = 0;
    for piece in pieces(bytes, target) {
        assert_eq!(piece.range.start, next);
        next = piece.range.end;
        let bytes = &bytes[piece.range.clone()];
        reader.read(&piece, bytes, 0, &mut out, &mut encoder);
    }
    assert_eq!(next, bytes.len());
    assert_eq!(
        out.lines.split_inclusive(|byte| *byte == b'\n').count(),
        out.metas.len()
    );
    assert_eq!(
        out.metas
            .iter()
            .map(|meta| meta.length as usize)
            .sum::<usize>(),
        out.lines.len()
    );
    assert_eq!(out.blobs.packages.len(), encoder.ends.len());
    assert_eq!(out.blobs.bundles.len(), encoder.bundles.len());
    (out, encoder)
}

fn unreadable(out: &Output) -> bool {
    out.problems
        .iter()
        .any(|(_, problem)| problem.severity == Severity::Fatal)
}
