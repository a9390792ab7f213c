//! Material of sigstore's services: certificates of an authority, and promises of
//! a log.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use images::digest::Digest;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use serde_json::{Value, json};

use crate::support::cosign::{Signed, Signer};

/// The issuer of identities.
pub(crate) const ISSUER: &str = "https://accounts.example.com";
/// The identity.
pub(crate) const EMAIL: &str = "builder@example.com";
/// The first second of the validity of leaves, and the second after the last.
pub(crate) const LEAF_FROM: u64 = 1_717_200_000;
pub(crate) const LEAF_UNTIL: u64 = 1_717_286_400;
/// A second between them.
pub(crate) const LOGGED: u64 = LEAF_FROM + 3600;

/// A root, and an intermediate authority below it.
pub(crate) struct Authorities {
    pub(crate) root: CertifiedIssuer<'static, KeyPair>,
    pub(crate) intermediate: CertifiedIssuer<'static, KeyPair>,
}

/// A transparency log.
pub(crate) struct Log(Signer);

/// An authority, with these changes.
pub(crate) fn authority(
    name: &str,
    change: impl FnOnce(&mut CertificateParams),
) -> CertificateParams {
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.not_before = date_time_ymd(2024, 1, 1);
    parameters.not_after = date_time_ymd(2044, 1, 1);
    change(&mut parameters);
    parameters
}

impl Authorities {
    pub(crate) fn new() -> Self {
        Self::with(|_| (), |_| ())
    }

    /// Authorities with changes to the root and to the intermediate.
    pub(crate) fn with(
        root: impl FnOnce(&mut CertificateParams),
        intermediate: impl FnOnce(&mut CertificateParams),
    ) -> Self {
        let key = || KeyPair::generate().unwrap();
        let root = CertifiedIssuer::self_signed(authority("root", root), key()).unwrap();
        let parameters = authority("intermediate", intermediate);
        let intermediate = CertifiedIssuer::signed_by(parameters, key(), &root).unwrap();
        Self { root, intermediate }
    }

    /// The authorities as cosign writes them beside a certificate.
    pub(crate) fn chain(&self) -> String {
        self.intermediate.pem() + &self.root.pem()
    }

    /// A signer whose certificate names the issuer and the email, with changes.
    pub(crate) fn certify(&self, change: impl FnOnce(&mut CertificateParams)) -> (Signer, String) {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::ExplicitNoCa;
        parameters.not_before = date_time_ymd(2024, 6, 1);
        parameters.not_after = date_time_ymd(2024, 6, 2);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        parameters.subject_alt_names = vec![email(EMAIL)];
        parameters.custom_extensions = vec![issuer_1(ISSUER), issuer_8(ISSUER)];
        change(&mut parameters);
        let pair = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&pair, &self.intermediate).unwrap();
        (Signer::of(pair), certificate.pem())
    }
}

pub(crate) fn email(address: &str) -> SanType {
    SanType::Rfc822Name(address.try_into().unwrap())
}

/// The issuer in Fulcio's first form, plain text.
pub(crate) fn issuer_1(issuer: &str) -> CustomExtension {
    let content = issuer.as_bytes().to_vec();
    CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 57264, 1, 1], content)
}

/// The issuer in Fulcio's second form, a string of DER.
pub(crate) fn issuer_8(issuer: &str) -> CustomExtension {
    let mut content = vec![0x0c, u8::try_from(issuer.len()).unwrap()];
    content.extend_from_slice(issuer.as_bytes());
    CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 57264, 1, 8], content)
}

/// The body of a log's entry for a signature. `signer` is the key or certificate
/// in PEM.
pub(crate) fn entry(signed: &Signed, signer: &str) -> Value {
    json!({
        "apiVersion": "0.0.1",
        "kind": "hashedrekord",
        "spec": {
            "data": {"hash": {
                "algorithm": "sha256",
                "value": Digest::of(signed.payload()).hex(),
            }},
            "signature": {
                "content": signed.signature(),
                "publicKey": {"content": BASE64_STANDARD.encode(signer)},
            },
        },
    })
}

impl Log {
    pub(crate) fn new() -> Self {
        Self(Signer::new())
    }

    /// Its public key, as a policy has it.
    pub(crate) fn key_data(&self) -> String {
        self.0.key_data()
    }

    /// The log's signature of an entry at a time (the promise), with the signed
    /// members.
    pub(crate) fn promise(&self, body: &str, time: u64) -> (String, Value) {
        let body = BASE64_STANDARD.encode(body);
        let log = "c0ffee";
        let signed =
            format!(r#"{{"body":"{body}","integratedTime":{time},"logID":"{log}","logIndex":7}}"#);
        let promise = BASE64_STANDARD.encode(self.0.signature(signed.as_bytes()));
        (promise, serde_json::from_str(&signed).unwrap())
    }

    /// The annotation of cosign with an entry.
    pub(crate) fn annotation(&self, entry: &Value, time: u64) -> String {
        let (promise, payload) = self.promise(&entry.to_string(), time);
        json!({"SignedEntryTimestamp": promise, "Payload": payload}).to_string()
    }
}
