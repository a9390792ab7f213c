//! Requests are answered while a large image is read into the store.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use almanac::proto;
use almanac::serve::Limits;
use almanac::store::content::Contents;
use images::digest::{Digest, Hasher};
use images::{Descriptor, Format, Layout, Manifest};
use serde_json::{Value, json};

use crate::support::catalog::Catalog;
use crate::support::grpc::Client;
use crate::support::in_process::InProcess;

const GET_PACKAGE: &str = "/api.Registry/GetPackage";
/// The size of the layer.
const SIZE: u64 = 256 << 20;
/// After so many bytes of it, a request must have been answered.
const STRIDE: u64 = 16 << 20;
/// Only a request that gets no turn takes this long.
const PATIENCE: Duration = Duration::from_mins(1);

/// A reader that goes on only after requests were answered. On the thread that
/// answers them, it would wait in vain.
struct Gated<R> {
    inner: R,
    answered: Receiver<()>,
    left: u64,
}

impl<R: Read> Read for Gated<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let answered = self.answered.recv_timeout(PATIENCE);
            answered.map_err(|_| io::Error::other("no request is answered meanwhile"))?;
            // Later strides wait for later requests.
            while self.answered.try_recv().is_ok() {}
            self.left = STRIDE;
        }
        let length = self.inner.read(buffer)?;
        self.left = self.left.saturating_sub(length as u64);
        Ok(length)
    }
}

#[tokio::test(flavor = "current_thread")]
async fn requests_are_answered_while_a_large_layout_is_read_into_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let layer = write_layout(folder.path());
    let layout = Layout::open(Format::Folder, folder.path()).unwrap();
    let contents = Contents::open(folder.path().join("store")).unwrap();
    let server = InProcess::serve(&Catalog::small(), Limits::default()).await;
    let client = Client::new(server.grpc);
    let (tell, answered) = channel();
    let reader = Gated {
        inner: layout.read_blob(&layer).unwrap(),
        answered,
        left: STRIDE,
    };

    let import = tokio::spawn({
        let (contents, digest) = (contents.clone(), layer.digest);
        async move { contents.import(digest, reader).await }
    });
    while !import.is_finished() {
        let name = "missing".to_owned();
        let request = proto::GetPackageRequest { name };
        let answer = client.unary::<_, proto::Package>(GET_PACKAGE, request);
        let status = answer.await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unknown, "{status}");
        // Nobody listens once the import is done.
        let _ = tell.send(());
    }

    let path = import.await.unwrap().unwrap();
    assert_eq!(path.metadata().unwrap().len(), SIZE);
    server.end().await;
}

/// Writes an OCI layout with one image of one layer, which is written in full,
/// and returns the layer.
fn write_layout(folder: &Path) -> Descriptor {
    let blobs = folder.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    let unnamed = blobs.join("layer");
    let mut file = BufWriter::new(File::create(&unnamed).unwrap());
    let mut hasher = Hasher::default();
    let mut piece = vec![0; 1 << 20];
    for number in 0..SIZE >> 20 {
        for (at, byte) in piece.iter_mut().enumerate() {
            *byte = (at as u64).wrapping_mul(number + 1).to_le_bytes()[1];
        }
        hasher.update(&piece);
        file.write_all(&piece).unwrap();
    }
    file.into_inner().unwrap().sync_all().unwrap();
    let layer = hasher.finish();
    std::fs::rename(unnamed, blobs.join(layer.hex())).unwrap();

    let document = |media_type: &str, value: &Value| {
        let bytes = value.to_string();
        let digest = Digest::of(bytes.as_bytes());
        std::fs::write(blobs.join(digest.hex()), &bytes).unwrap();
        json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
    };
    let config = document("application/vnd.oci.image.config.v1+json", &json!({}));
    let layer = json!({
        "mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": layer, "size": SIZE,
    });
    let media_type = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({
        "schemaVersion": 2, "mediaType": media_type, "config": config, "layers": [layer],
    });
    let entry = document(media_type, &manifest);
    let index = json!({"schemaVersion": 2, "manifests": [entry]});
    std::fs::write(folder.join("index.json"), index.to_string()).unwrap();
    std::fs::write(
        folder.join("oci-layout"),
        r#"{"imageLayoutVersion":"1.0.0"}"#,
    )
    .unwrap();
    match Manifest::parse(manifest.to_string().as_bytes(), None).unwrap() {
        Manifest::Image(mut image) => image.layers.remove(0),
        Manifest::Index(_) => unreachable!("it is written above"),
    }
}
