//! The image of a bundle, and its related images.

use crate::document::Defect;
use crate::object::{MAX_LIST, Object};
use crate::problem::Code;
use crate::pullspec;
use crate::text::json::cursor::Cursor;
use crate::text::json::typed::{Text, fields};

#[derive(Default, PartialEq)]
struct RelatedImage<'a> {
    image: Text<'a>,
}

fields!(RelatedImage<'a> { image = "image" });

/// Checks the related images. Returns their number if they have the usual form: a
/// list of objects with an image and a name, both strings, and the image without
/// escapes.
pub(super) fn check_related_images(blob: &Object<'_>, defects: &mut Vec<Defect>) -> Option<usize> {
    if let Some(images) = blob.cursor("relatedImages").and_then(plain_images) {
        for image in &images {
            check_image("the related image", image, defects);
        }
        return Some(images.len());
    }
    let images: Vec<RelatedImage<'_>> = blob.list("relatedImages", defects);
    for RelatedImage { image } in &images {
        check_image("the related image", &image.0, defects);
    }
    None
}

/// The related images, if they have the usual form.
fn plain_images(mut cursor: Cursor<'_>) -> Option<Vec<&str>> {
    let mut images = Vec::new();
    if !cursor.enter_array() {
        return None;
    }
    while cursor.next_element() {
        if images.len() == MAX_LIST || !cursor.enter_object() {
            return None;
        }
        cursor.next_key().filter(|key| key == b"\"image\"")?;
        images.push(plain_text(cursor.skip())?);
        cursor.next_key().filter(|key| key == b"\"name\"")?;
        if cursor.peek() != Some(b'"') {
            return None;
        }
        cursor.skip();
        if cursor.next_key().is_some() {
            return None;
        }
    }
    Some(images)
}

/// The content of a JSON string without escapes.
pub(super) fn plain_text(value: &[u8]) -> Option<&str> {
    let inner = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let plain = memchr::memchr(b'\\', inner).is_none();
    str::from_utf8(inner).ok().filter(|_| plain)
}

pub(super) fn check_image(subject: &str, spec: &str, defects: &mut Vec<Defect>) {
    if spec.is_empty() {
        return;
    }
    if let Err(error) = pullspec::check(spec) {
        let message = format!("has {subject} {spec:?}, which is not a pull spec: {error}");
        note(defects, Defect::new(Code::ImageInvalid, message));
    }
}

/// The number of defects of a bundle that are kept.
const MAX_DEFECTS: usize = 1_000;

/// Notes a defect, unless it repeats the last one or is one too many.
pub(super) fn note(defects: &mut Vec<Defect>, defect: Defect) {
    if defects.len() < MAX_DEFECTS && defects.last() != Some(&defect) {
        defects.push(defect);
    }
}
