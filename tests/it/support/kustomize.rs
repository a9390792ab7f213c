//! The objects of a kustomization that has no patches and no components, read
//! without kubectl.

use std::path::Path;

use serde_json::{Value, json};

use super::yaml;

/// The objects of a folder, with its namespace.
pub(crate) fn objects(folder: &Path) -> Vec<Value> {
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let [kustomization] = &yaml::documents(&read("kustomization.yaml"))[..] else {
        panic!("{}: one document", folder.display())
    };
    let mut found = Vec::new();
    for (key, value) in kustomization.as_object().unwrap() {
        match key.as_str() {
            // Its name and tag are those of the base.
            "apiVersion" | "kind" | "namespace" | "images" => {}
            "resources" => {
                for resource in value.as_array().unwrap() {
                    let resource = resource.as_str().unwrap();
                    if folder.join(resource).is_dir() {
                        found.extend(objects(&folder.join(resource)));
                    } else {
                        found.extend(yaml::documents(&read(resource)));
                    }
                }
            }
            "configMapGenerator" => {
                for generator in value.as_array().unwrap() {
                    let mut data = json!({});
                    for file in generator["files"].as_array().unwrap() {
                        let file = file.as_str().unwrap();
                        data[file] = read(file).into();
                    }
                    found.push(json!({
                        "apiVersion": "v1",
                        "kind": "ConfigMap",
                        "metadata": {
                            "name": generator["name"],
                            "labels": generator["options"]["labels"],
                        },
                        "data": data,
                    }));
                }
            }
            other => panic!("{}: {other} is not understood", folder.display()),
        }
    }
    if let Some(namespace) = kustomization["namespace"].as_str() {
        for object in &mut found {
            object["metadata"]["namespace"] = namespace.into();
        }
    }
    found
}
