//! What is no archive, and commands that are killed.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::{Carried, Side, export, import};
use crate::support::almanac::Almanac;
use crate::support::program::Start;

#[test]
fn what_is_no_archive_is_told_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let tar_of = |name: &str, text: &[u8]| {
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, text).unwrap();
        archive.into_inner().unwrap()
    };
    let compressed = {
        let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut encoder = encoder;
        std::io::Write::write_all(&mut encoder, &tar_of("oci-layout", b"{}")).unwrap();
        encoder.finish().unwrap()
    };
    for (bytes, said) in [
        (compressed, "gunzip"),
        (tar_of("manifest.json", b"[]"), "oci-archive:FILE"),
        // As other tools write it.
        (
            tar_of("oci-layout", br#"{"imageLayoutVersion": "1.0.0"}"#),
            "oci-archive:FILE",
        ),
        (b"not at all".to_vec(), "it is not a tar"),
        (Vec::new(), "it is empty"),
    ] {
        fs::write(&path, bytes).unwrap();
        let data = folder.path().join("data");
        let finished = import(&path, &data);
        assert_eq!(finished.status.code(), Some(3), "{finished:?}");
        assert!(finished.stderr.contains(said), "{said}: {finished:?}");
        assert!(!data.exists());
    }
}

#[test]
fn an_export_into_a_folder_that_is_not_there_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let carried = Carried::start(&folder);
    let missing = folder.path().join("missing");
    let finished = export(&carried.almanac, &missing.join("a.tar"), &[]);
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    let said = format!("there is no folder {} ", missing.display());
    assert!(finished.stderr.contains(&said), "{finished:?}");
}

#[test]
fn an_import_that_is_killed_leaves_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut carried = Carried::start(&folder);
    let first = carried.export("first.tar", "etcd", &[]);
    let second = carried.export("second.tar", "kafka", &[]);
    let there = folder.path().join("there");
    assert!(import(&first, &there).status.success());
    let copy = |name: &str| {
        let copy = folder.path().join(name);
        let copied = Command::new("cp").arg("-r").args([&there, &copy]).status();
        assert!(copied.unwrap().success());
        copy
    };
    let whole = copy("whole");
    let begin = Instant::now();
    assert!(import(&second, &whole).status.success());
    let time = begin.elapsed();
    let config = format!("offline = true\n{}", carried.config);
    for step in 0..8 {
        let data = copy(&format!("killed-{step}"));
        let mut program = Start::new(["import"])
            .argument(format!("--data-dir={}", data.display()))
            .argument(second.display().to_string())
            .start();
        std::thread::sleep(time * step / 8);
        program.kill9();
        let mut almanac = Almanac::start_in(&data, &config);
        almanac.program.wait_until_ready();
        let packages = almanac.packages("a").unwrap();
        assert!(["etcd", "kafka"].contains(&&*packages[0]), "{packages:?}");
        assert!(almanac.all("a").text().contains(&packages[0]));
        assert_eq!(almanac.http("/v2/a/manifests/latest").status, 200);
        assert_eq!(almanac.packages("b").unwrap(), ["vault"]);
        almanac.stop();
        // The next one succeeds, and nothing is left of the one before.
        assert!(import(&second, &data).status.success());
        let names = |data: &Path| -> Vec<String> {
            let blobs = fs::read_dir(data.join("blobs/sha256")).unwrap();
            let mut names: Vec<String> = blobs
                .map(|blob| blob.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(&data), names(&whole));
    }
}

#[test]
fn an_export_that_is_killed_leaves_no_half_of_an_archive() {
    let side = Side::start();
    let begin = Instant::now();
    let whole = fs::read(side.exported("whole.tar", &[])).unwrap();
    let time = begin.elapsed();
    let file = side.path("killed.tar");
    for step in 0..8 {
        let mut program = Start::new(["export"])
            .argument(format!(
                "--data-dir={}",
                side.almanac.program.data().display()
            ))
            .argument(format!("--file={}", file.display()))
            .start();
        std::thread::sleep(time * step / 8);
        program.kill9();
        // All of it has the name, or nothing has.
        if file.exists() {
            assert!(fs::read(&file).unwrap() == whole, "step {step}");
            fs::remove_file(&file).unwrap();
        }
    }
    // What a killed one left is no hindrance, and is removed.
    let left = side.path(".almanac-export-left");
    fs::write(&left, "").unwrap();
    let running = side.path(".almanac-export-running");
    let file = fs::File::create(&running).unwrap();
    file.lock().unwrap();
    let again = side.exported("killed.tar", &[]);
    assert!(fs::read(again).unwrap() == whole);
    let entries = fs::read_dir(side.folder.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let unfinished: Vec<String> = names.filter(|name| name.starts_with('.')).collect();
    assert_eq!(unfinished, [".almanac-export-running"]);
}
