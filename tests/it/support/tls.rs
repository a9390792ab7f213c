//! Authorities, certificates and clients that speak TLS.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use tonic::transport::{Channel, Endpoint};

use super::http::{self, Reply};

/// Who signs certificates.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
pub(crate) struct Pair {
    pub certificate: String,
    pub key: String,
}

impl Pair {
    /// A certificate for `localhost` that is its own authority.
    pub(crate) fn of_itself() -> Self {
        let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self {
            certificate: parameters.self_signed(&key).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}

/// How a client speaks TLS.
#[derive(Clone)]
pub(crate) struct Client {
    config: Arc<ClientConfig>,
}

impl Authority {
    /// A new one.
    pub(crate) fn new() -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self {
            issuer: CertifiedIssuer::self_signed(parameters, key).unwrap(),
        }
    }

    /// Its own certificate, in PEM.
    pub(crate) fn pem(&self) -> String {
        self.issuer.as_ref().pem()
    }

    /// A certificate for `localhost`, or of a client.
    pub(crate) fn sign(&self) -> Pair {
        self.sign_for(&["localhost"])
    }

    /// A certificate for these names and addresses.
    pub(crate) fn sign_for(&self, names: &[&str]) -> Pair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let parameters = CertificateParams::new(names).unwrap();
        let key = KeyPair::generate().unwrap();
        Pair {
            certificate: parameters.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    /// A client that trusts it, and shows a certificate if it has one.
    pub(crate) fn client(&self, own: Option<&Pair>, protocols: &[&str]) -> Client {
        self.client_of(own, protocols, rustls::ALL_VERSIONS)
    }

    /// A client that speaks these versions only.
    pub(crate) fn client_of(
        &self,
        own: Option<&Pair>,
        protocols: &[&str],
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Client {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.as_ref().der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match own {
            None => config.with_no_client_auth(),
            Some(pair) => {
                let chain = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
                config.with_client_auth_cert(vec![chain], key).unwrap()
            }
        };
        config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
        Client {
            config: Arc::new(config),
        }
    }
}

impl Pair {
    /// How a server shows it, which asks for certificates of an authority if
    /// one is given.
    pub(crate) fn server(&self, clients: Option<&Authority>) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let config = match clients {
            None => config.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.issuer.as_ref().der().clone()).unwrap();
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                config.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let chain = CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        Arc::new(config.with_single_cert(vec![chain], key).unwrap())
    }

    /// Writes `tls.crt` and `tls.key` into a folder.
    pub(crate) fn write(&self, folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("tls.crt"), &self.certificate).unwrap();
        fs::write(folder.join("tls.key"), &self.key).unwrap();
    }
}

impl Client {
    /// A connection whose handshake is done, as far as the client sees.
    pub(crate) fn connect(
        &self,
        server: SocketAddr,
    ) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let mut tcp = http::connect(server)?;
        let name = ServerName::try_from("localhost").unwrap();
        let mut tls =
            ClientConnection::new(Arc::clone(&self.config), name).map_err(io::Error::other)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut tcp)?;
        }
        Ok(StreamOwned::new(tls, tcp))
    }

    /// Gets a path.
    pub(crate) fn get(&self, server: SocketAddr, path: &str) -> io::Result<Reply> {
        self.ask(server, path, &[])
    }

    /// Gets a path with headers.
    pub(crate) fn ask(
        &self,
        server: SocketAddr,
        path: &str,
        headers: &[(&str, &str)],
    ) -> io::Result<Reply> {
        http::exchange(
            self.connect(server)?,
            "localhost",
            "GET",
            path,
            headers,
            b"",
        )
    }

    /// The certificate that the server shows, and the protocol it chooses.
    pub(crate) fn look(&self, server: SocketAddr) -> io::Result<(Vec<u8>, Option<String>)> {
        let connection = self.connect(server)?;
        let shown = connection.conn.peer_certificates().unwrap()[0].to_vec();
        let protocol = connection.conn.alpn_protocol();
        let protocol = protocol.map(|name| String::from_utf8_lossy(name).into_owned());
        Ok((shown, protocol))
    }

    /// A connection for gRPC, for calls to an authority.
    pub(crate) async fn channel(
        &self,
        server: SocketAddr,
        authority: &str,
    ) -> Result<Channel, tonic::transport::Error> {
        let connector = tokio_rustls::TlsConnector::from(Arc::clone(&self.config));
        let connect = tower::service_fn(move |_: http_uri::Uri| {
            let connector = connector.clone();
            async move {
                let tcp = tokio::net::TcpStream::connect(server).await?;
                let name = ServerName::try_from("localhost").unwrap();
                let tls = connector.connect(name, tcp).await?;
                io::Result::Ok(TokioIo::new(tls))
            }
        });
        Endpoint::from_shared(format!("http://{authority}"))
            .unwrap()
            .timeout(std::time::Duration::from_secs(20))
            .connect_with_connector(connect)
            .await
    }
}

/// The crate, which a module here has the name of.
use ::http as http_uri;
