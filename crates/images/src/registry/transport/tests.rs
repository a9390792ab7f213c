//! Which hosts are contacted, and how.

use super::*;

fn transport(insecure: &[&str]) -> Transport {
    Transport::new(&Settings {
        insecure: insecure.iter().map(|name| (*name).to_owned()).collect(),
        ..Settings::default()
    })
    .unwrap()
}

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

#[test]
fn only_loopback_and_insecure_registries_use_plain_http() {
    let transport = transport(&["Registry.example:5000", "plain.example"]);
    for (image, begin) in [
        ("quay.io/a", "https://quay.io/v2/a/x"),
        (
            "docker.io/library/a",
            "https://registry-1.docker.io/v2/library/a/x",
        ),
        (
            "registry.example:5000/a",
            "http://registry.example:5000/v2/a/x",
        ),
        (
            "registry.example:5001/a",
            "https://registry.example:5001/v2/a/x",
        ),
        ("registry.example/a", "https://registry.example/v2/a/x"),
        ("plain.example/a", "http://plain.example/v2/a/x"),
        ("localhost:443/a", "http://localhost:443/v2/a/x"),
        ("127.0.0.1:5000/a", "http://127.0.0.1:5000/v2/a/x"),
        ("127.1.2.3/a", "http://127.1.2.3/v2/a/x"),
        ("[::1]:5000/a", "http://[::1]:5000/v2/a/x"),
        ("localhost.example/a", "https://localhost.example/v2/a/x"),
        ("10.0.0.1/a", "https://10.0.0.1/v2/a/x"),
    ] {
        let url = transport.url(&image.parse().unwrap(), "x").unwrap();
        assert_eq!(url.as_str(), begin);
    }
}

#[test]
fn a_redirect_never_leads_down_to_plain_http() {
    let transport = transport(&["plain.example"]);
    let origin = url("https://quay.io/v2/");
    assert!(
        transport
            .may_ask(&origin, &url("https://cdn.example/x?sig=1"))
            .is_ok()
    );
    assert!(
        transport
            .may_ask(&origin, &url("http://plain.example/x"))
            .is_ok()
    );
    assert!(
        transport
            .may_ask(&url("http://127.0.0.1/"), &url("http://127.0.0.1:1/"))
            .is_ok()
    );
    for bad in [
        "http://cdn.example/x",
        "http://127.0.0.1/x",
        "ftp://cdn.example/x",
        "file:///etc/passwd",
        "https://me:secret@cdn.example/x",
    ] {
        assert!(transport.may_ask(&origin, &url(bad)).is_err(), "{bad}");
    }
}

#[test]
fn a_host_without_a_valid_url_is_rejected() {
    let url = transport(&[]).url(&"256.1.1.1/a".parse().unwrap(), "x");
    assert!(matches!(url, Err(Error::Host { .. })));
}

#[tokio::test]
async fn an_https_request_to_something_else_fails_as_tls() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let page = b"HTTP/1.1 400 Bad Request\r\n\r\n";
        tokio::io::AsyncWriteExt::write_all(&mut stream, page)
            .await
            .unwrap();
    });
    let reference = "localhost/a".parse().unwrap();
    let request = Request {
        reference: &reference,
        method: Method::GET,
        url: url(&format!("https://{address}/")),
        accept: "*/*",
        authorization: None,
        headers: HeaderMap::new(),
        form: None,
        is_configured: false,
    };
    let error = transport(&[]).send(request).await.unwrap_err();
    assert_eq!(error.reason(), "tls", "{error:?}");
    let told = error.to_string();
    assert!(told.contains("it does not speak TLS"), "{told}");
}

#[test]
fn invalid_certificate_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for content in [None, Some(""), Some("no pem")] {
        let path = folder.path().join("ca.pem");
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let settings = Settings {
            ca_files: vec![path],
            ..Settings::default()
        };
        let error = Transport::new(&settings).err().unwrap().to_string();
        assert!(error.contains("ca.pem"), "{error}");
    }
}
