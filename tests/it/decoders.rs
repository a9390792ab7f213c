//! The gzip of any selection, read by decoders of others.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use flate2::{Decompress, FlushDecompress, Status};
use proptest::prelude::*;
use serde_json::Value;

use crate::http::fruit_served;
use crate::support::cases::cases;
use crate::support::needs::skip_without;
use crate::support::served::Served;

const METAS: &str = "/catalogs/fruit/api/v1/metas";
/// However small it is, so that every selection is compressed.
const GZIP: (&str, &str) = ("Accept-Encoding", "gzip, identity;q=0");

/// A selection, as it is and compressed.
struct Selected {
    path: String,
    plain: Vec<u8>,
    packed: Vec<u8>,
}

fn select(served: &Served, schema: &str, package: &str, name: &str) -> Selected {
    let path = format!("{METAS}?schema={schema}&package={package}&name={name}");
    let packed = served.ask("GET", &path, &[GZIP]);
    assert_eq!(packed.header("content-encoding"), Some("gzip"), "{path}");
    Selected {
        plain: served.get(&path).body,
        packed: packed.body,
        path,
    }
}

/// The values that a key has in the catalog, one that it has not, and none.
fn values(served: &Served, key: &str) -> Vec<String> {
    let all = served.get(METAS).text();
    let blobs = all.lines().map(|line| serde_json::from_str(line).unwrap());
    let found: BTreeSet<String> = blobs
        .map(|blob: Value| blob[key].as_str().unwrap_or_default().to_owned())
        .chain(["nope".to_owned(), String::new()])
        .collect();
    found.into_iter().collect()
}

/// Selections of all kinds: nothing, one blob, a package, many runs, all.
fn selections(served: &Served) -> Vec<Selected> {
    let (schemas, packages) = (values(served, "schema"), values(served, "package"));
    let mut selections = Vec::new();
    for schema in &schemas {
        for package in &packages {
            selections.push(select(served, schema, package, ""));
        }
    }
    for name in values(served, "name") {
        selections.push(select(served, "", "", &name));
    }
    assert!(selections.len() > 50);
    selections
}

/// Reads gzip as Go's `compress/gzip` does: member after member until the
/// input ends just behind one; whatever else stands there is an error.
/// Returns the text and how many members there were.
fn multistream(mut input: &[u8]) -> Result<(Vec<u8>, usize), String> {
    let (mut text, mut members) = (Vec::new(), 0);
    loop {
        let (header, rest) = input.split_at_checked(10).ok_or("unexpected EOF")?;
        if header[..3] != [0x1f, 0x8b, 8] || header[3] != 0 {
            return Err("invalid header".into());
        }
        let mut inflate = Decompress::new(false);
        let mut member = Vec::new();
        loop {
            member.reserve(64 << 10);
            let read = inflate.total_in() as usize;
            let status = inflate
                .decompress_vec(&rest[read..], &mut member, FlushDecompress::None)
                .map_err(|error| error.to_string())?;
            match status {
                Status::StreamEnd => break,
                Status::Ok => {}
                Status::BufError => return Err("unexpected EOF".into()),
            }
        }
        let rest = &rest[inflate.total_in() as usize..];
        let (trailer, rest) = rest.split_at_checked(8).ok_or("unexpected EOF")?;
        let wanted = [crc32fast::hash(&member), member.len() as u32].map(u32::to_le_bytes);
        if trailer != wanted.concat() {
            return Err("invalid checksum".into());
        }
        text.append(&mut member);
        members += 1;
        if rest.is_empty() {
            return Ok((text, members));
        }
        input = rest;
    }
}

#[test]
fn a_reader_of_several_members_finds_one() {
    let served = fruit_served();
    for Selected {
        path,
        plain,
        packed,
    } in selections(&served)
    {
        assert!(multistream(&packed) == Ok((plain, 1)), "{path}");
        // The reader would see more, or less.
        let twice = [&packed[..], &packed].concat();
        assert_eq!(multistream(&twice).unwrap().1, 2);
        assert!(multistream(&[&packed[..], b"x"].concat()).is_err());
        assert!(multistream(&packed[..packed.len() - 1]).is_err());
    }
}

#[test]
fn random_selections_are_read_by_every_library() {
    let served = fruit_served();
    let choice = |key: &str| prop::sample::select(values(&served, key));
    proptest!(cases(150), |(
        schema in choice("schema"),
        package in choice("package"),
        name in choice("name"),
    )| {
        let Selected { plain, packed, .. } = select(&served, &schema, &package, &name);
        prop_assert_eq!(multistream(&packed), Ok((plain.clone(), 1)));
        let read = std::io::read_to_string(flate2::read::MultiGzDecoder::new(&packed[..]));
        prop_assert_eq!(read.unwrap().into_bytes(), plain);
    });
}

#[test]
fn gzip_reads_every_selection() {
    if skip_without("gzip") {
        return;
    }
    let served = fruit_served();
    let folder = tempfile::tempdir().unwrap();
    let mut gzip = Command::new("gzip");
    gzip.arg("-dc");
    let mut wanted = Vec::new();
    for (number, selected) in selections(&served).into_iter().enumerate() {
        let path = folder.path().join(format!("{number}.gz"));
        fs::write(&path, selected.packed).unwrap();
        gzip.arg(path);
        wanted.extend(selected.plain);
    }
    let output = gzip.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    assert!(output.stdout == wanted);
}

/// Takes each file as gzip in one go and piece by piece, and lets nothing be
/// left behind the end.
const PYTHON: &str = "
import gzip, sys, zlib
for path in sys.argv[1:]:
    packed = open(path + '.gz', 'rb').read()
    plain = open(path, 'rb').read()
    assert gzip.decompress(packed) == plain, path
    inflate = zlib.decompressobj(wbits=31)
    text = b''.join(inflate.decompress(packed[at:at + 7]) for at in range(0, len(packed), 7))
    assert text == plain and inflate.eof and not inflate.unused_data, path
print('all of', len(sys.argv) - 1)
";

#[test]
fn zlib_reads_every_selection() {
    if skip_without("python3") {
        return;
    }
    let served = fruit_served();
    let folder = tempfile::tempdir().unwrap();
    let mut python = Command::new("python3");
    python.args(["-c", PYTHON]);
    for (number, selected) in selections(&served).into_iter().enumerate() {
        let path = folder.path().join(number.to_string());
        fs::write(path.with_extension("gz"), selected.packed).unwrap();
        fs::write(&path, selected.plain).unwrap();
        python.arg(path);
    }
    let output = python.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.starts_with(b"all of"));
}

#[test]
fn curl_reads_every_selection_and_every_encoding() {
    if skip_without("curl") {
        return;
    }
    let mut served = fruit_served();
    crate::encodings::wait(&mut served);
    let folder = tempfile::tempdir().unwrap();
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail", "--noproxy", "*"]);
    curl.args(["--compressed", "--max-time", "60"]);
    let mut wanted = selections(&served)
        .into_iter()
        .map(|selected| (selected.path, selected.plain))
        .collect::<Vec<_>>();
    let all = "/catalogs/fruit/api/v1/all".to_owned();
    wanted.push((all.clone(), served.get(&all).body));
    for (number, (path, _)) in wanted.iter().enumerate() {
        curl.arg("--output")
            .arg(folder.path().join(number.to_string()));
        curl.arg(format!("http://{}{path}", served.http));
    }
    let output = curl.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    for (number, (path, plain)) in wanted.iter().enumerate() {
        let read = fs::read(folder.path().join(number.to_string())).unwrap_or_default();
        assert!(read == *plain, "{path}");
    }
}
