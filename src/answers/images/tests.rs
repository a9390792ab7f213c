//! The paths of images below a mirror.

use crate::answers::images::Form;
use fbc::image_list::{Image, ImageList, ImageVersion};

fn image(registry: &str, repository: &str, version: ImageVersion) -> Image {
    Image {
        registry: registry.into(),
        repository: repository.into(),
        version,
        uses: Vec::new(),
    }
}

fn list(images: Vec<Image>) -> ImageList {
    ImageList {
        images,
        refused: Vec::new(),
    }
}

fn tag(text: &str) -> ImageVersion {
    ImageVersion::Tag(text.into())
}

#[test]
fn images_of_one_path_in_two_registries_lie_apart() {
    let digest = ImageVersion::Digest(format!("sha256:{}", "0".repeat(64)));
    let list = list(vec![
        image("docker.io", "lib/x", tag("1")),
        image("docker.io", "lib/y", tag("1")),
        image("localhost:5000", "lib/x", tag("2")),
        image("quay.io", "lib/x", tag("1")),
        image("quay.io", "lib/x", digest),
    ]);
    let bytes = Form::Mapping.write(&list, Some("m.example.com/ops"));
    let text = String::from_utf8(bytes.unwrap()).unwrap();
    let digits = "0".repeat(64);
    assert_eq!(
        text,
        format!(
            "docker.io/lib/x:1=m.example.com/ops/docker.io/lib/x:1\n\
             docker.io/lib/y:1=m.example.com/ops/lib/y:1\n\
             localhost:5000/lib/x:2=m.example.com/ops/localhost-5000/lib/x:2\n\
             quay.io/lib/x:1=m.example.com/ops/quay.io/lib/x:1\n\
             quay.io/lib/x@sha256:{digits}=m.example.com/ops/lib/x:{digits}\n"
        )
    );
}

#[test]
fn what_would_still_lie_in_one_place_is_refused_with_both_names() {
    let list = list(vec![
        image("docker.io", "lib/x", tag("1")),
        image("proxy.example.com", "quay.io/lib/x", tag("1")),
        image("quay.io", "lib/x", tag("1")),
    ]);
    let error = Form::Mapping.write(&list, Some("m.example.com"));
    let error = error.unwrap_err().to_string();
    for name in ["proxy.example.com/quay.io/lib/x:1", " quay.io/lib/x:1"] {
        assert!(error.contains(name), "{error}");
    }
}
