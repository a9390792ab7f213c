//! `ClusterImagePolicy` and `ImagePolicy` of OpenShift (config.openshift.io),
//! translated as its machine-config operator does: each is a requirement
//! `sigstoreSigned` for some scopes.

use serde_json::Value;

use crate::policy::identity::SignedIdentity;
use crate::policy::parse::members::{Json, Members, shown};
use crate::policy::parse::requirement::Requirement;
use crate::policy::parse::scopes::{check_image_scope, folded};
use crate::policy::parse::sigstore::{Fulcio, Pki, SigstoreSigned, SigstoreTrust};
use crate::signatures::FileOrData;
use crate::yaml::{self, Node};

/// The deepest nesting of lists of objects.
const MAX_LISTS: usize = 4;
/// The most scopes of one object.
const MAX_SCOPES: usize = 256;
/// The most bytes of one key or bundle of certificates.
const MAX_DATA: usize = 8192;

/// One object.
#[derive(Clone, Debug)]
pub(in crate::policy) struct ImagePolicy {
    /// Its namespace; none for the whole cluster.
    pub(in crate::policy) namespace: Option<String>,
    pub(super) scopes: Vec<String>,
    pub(super) requirement: Requirement,
}

impl ImagePolicy {
    /// The objects of a file. Those of other kinds are ignored.
    pub(in crate::policy) fn parse(text: &str) -> Result<Vec<Self>, String> {
        let mut found = Vec::new();
        for object in yaml::located_documents(text)? {
            collect(object, &mut found, 0)?;
        }
        Ok(found)
    }
}

fn collect(document: Node, found: &mut Vec<ImagePolicy>, depth: usize) -> Result<(), String> {
    let kind = document.text("kind").to_owned();
    if let Some(of) = kind.strip_suffix("List") {
        if depth == MAX_LISTS {
            return Err(format!("lists are nested deeper than {MAX_LISTS} times"));
        }
        for item in yaml::items(document, of) {
            collect(item, found, depth + 1)?;
        }
        return Ok(());
    }
    let in_namespace = match kind.as_str() {
        "ClusterImagePolicy" => false,
        "ImagePolicy" => true,
        _ => return Ok(()),
    };
    let document = Value::from(document);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let metadata = &document["metadata"];
    let name = text(&metadata["name"]).unwrap_or_default();
    let named = |problem: String| format!("{kind} {name:?}: {problem}");
    let version = text(&document["apiVersion"]).unwrap_or_default();
    if !version.starts_with("config.openshift.io/") {
        let problem =
            format!("its apiVersion is {version:?}; write apiVersion: config.openshift.io/v1");
        return Err(named(problem));
    }
    let namespace = text(&metadata["namespace"]);
    if in_namespace && namespace.is_none() {
        return Err(named("it has no namespace".into()));
    }
    let spec = Json::from(document["spec"].clone());
    let object = Object(format!("{kind} {name}"));
    let (scopes, requirement) = object.spec(spec).map_err(named)?;
    found.push(ImagePolicy {
        namespace: namespace.filter(|_| in_namespace),
        scopes,
        requirement,
    });
    Ok(())
}

/// The kind and name of an object, for messages.
struct Object(String);

impl Object {
    fn spec(&self, spec: Json) -> Result<(Vec<String>, Requirement), String> {
        let mut spec = spec.object().map_err(|_| "it has no spec")?;
        let scopes = spec.texts("scopes")?.unwrap_or_default();
        if scopes.is_empty() || scopes.len() > MAX_SCOPES {
            return Err(format!("it has no scopes, or more than {MAX_SCOPES}"));
        }
        scopes
            .iter()
            .try_for_each(|scope| check_image_scope(scope))?;
        let as_compared = |scope| folded("docker", scope);
        let scopes = scopes.into_iter().map(as_compared).collect();
        let policy = spec.field("policy", |policy| self.policy(policy))?;
        spec.finish()?;
        Ok((scopes, policy.ok_or("policy is missing")?))
    }

    fn policy(&self, policy: Json) -> Result<Requirement, String> {
        let mut policy = policy.object()?;
        let root = policy.field("rootOfTrust", |root| self.root(root))?;
        let (trust, rekor_keys) = root.ok_or("rootOfTrust is missing")?;
        let identity = policy.field("signedIdentity", identity)?;
        policy.finish()?;
        Ok(Requirement::SigstoreSigned(Box::new(SigstoreSigned {
            trust,
            rekor_keys,
            identity: identity.unwrap_or_default(),
        })))
    }

    fn root(&self, root: Json) -> Result<(SigstoreTrust, Vec<FileOrData>), String> {
        let mut root = root.object()?;
        let kind = root.required_text("policyType")?;
        let field = match kind.as_str() {
            "PublicKey" => "publicKey",
            "FulcioCAWithRekor" => "fulcioCAWithRekor",
            "PKI" => "pki",
            _ => return Err("policyType is neither PublicKey, FulcioCAWithRekor nor PKI".into()),
        };
        let found = root.field(field, |trust| {
            let mut trust = trust.object()?;
            let found = match kind.as_str() {
                "PublicKey" => self.public_key(&mut trust),
                "FulcioCAWithRekor" => self.fulcio(&mut trust),
                _ => self.pki(&mut trust),
            }?;
            trust.finish()?;
            Ok(found)
        })?;
        root.finish()?;
        found.ok_or_else(|| format!("{field} is missing"))
    }

    fn public_key(&self, of: &mut Members) -> Result<(SigstoreTrust, Vec<FileOrData>), String> {
        let key = self.required(of, "keyData")?;
        let rekor = self.data(of, "rekorKeyData")?;
        Ok((SigstoreTrust::Keys(vec![key]), rekor.into_iter().collect()))
    }

    fn fulcio(&self, of: &mut Members) -> Result<(SigstoreTrust, Vec<FileOrData>), String> {
        let authorities = self.required(of, "fulcioCAData")?;
        let rekor = self.required(of, "rekorKeyData")?;
        let subject = of.field("fulcioSubject", |subject| {
            let mut subject = subject.object()?;
            let issuer = subject.full_text("oidcIssuer")?;
            let email = subject.full_text("signedEmail")?;
            subject.finish()?;
            Ok(issuer.zip(email))
        })?;
        let missing = "fulcioSubject with oidcIssuer and signedEmail is missing";
        let (issuer, email) = subject.flatten().ok_or(missing)?;
        let fulcio = Fulcio {
            authorities,
            issuer,
            email,
        };
        Ok((SigstoreTrust::Fulcio(fulcio), vec![rekor]))
    }

    fn pki(&self, of: &mut Members) -> Result<(SigstoreTrust, Vec<FileOrData>), String> {
        let roots = self.required(of, "caRootsData")?;
        let intermediates = self.data(of, "caIntermediatesData")?;
        let subject = of.field("pkiCertificateSubject", |subject| {
            let mut subject = subject.object()?;
            let email = subject.full_text("email")?;
            let hostname = subject.full_text("hostname")?;
            subject.finish()?;
            Ok((email, hostname))
        })?;
        let (email, hostname) = subject.unwrap_or_default();
        if email.is_none() && hostname.is_none() {
            return Err("pkiCertificateSubject with email or hostname is missing".into());
        }
        let pki = Pki {
            roots,
            intermediates,
            email,
            hostname,
        };
        Ok((SigstoreTrust::Pki(pki), Vec::new()))
    }

    fn required(&self, of: &mut Members, field: &str) -> Result<FileOrData, String> {
        let data = self.data(of, field)?;
        data.ok_or_else(|| format!("{field} is missing"))
    }

    fn data(&self, of: &mut Members, field: &str) -> Result<Option<FileOrData>, String> {
        let bytes = of.bytes(field)?;
        if bytes.as_ref().is_some_and(|bytes| bytes.len() > MAX_DATA) {
            return Err(format!("{field} has more than {MAX_DATA} bytes"));
        }
        let name = format!("{field} of {}", self.0);
        Ok(bytes.map(|bytes| FileOrData::Data(name, bytes)))
    }
}

fn identity(json: Json) -> Result<SignedIdentity, String> {
    let mut members = json.object()?;
    let kind = members.text("matchPolicy")?;
    let identity = match kind.as_deref() {
        None | Some("MatchRepoDigestOrExact") => SignedIdentity::MatchRepoDigestOrExact,
        Some("MatchRepository") => SignedIdentity::MatchRepository,
        Some("ExactRepository") => {
            let exact = members.field("exactRepository", |exact| {
                let mut exact = exact.object()?;
                let repository = exact.required_text("repository")?;
                exact.finish()?;
                SignedIdentity::exact_repository(&repository)
            })?;
            exact.ok_or("exactRepository is missing")?
        }
        Some("RemapIdentity") => {
            let remap = members.field("remapIdentity", |remap| {
                let mut remap = remap.object()?;
                let prefix = remap.required_text("prefix")?;
                let signed = remap.required_text("signedPrefix")?;
                remap.finish()?;
                SignedIdentity::remap(prefix, signed)
            })?;
            remap.ok_or("remapIdentity is missing")?
        }
        Some(other) => {
            return Err(format!(
                "its matchPolicy {:?} is neither MatchRepoDigestOrExact, MatchRepository, \
                 ExactRepository nor RemapIdentity",
                shown(other)
            ));
        }
    };
    members.finish()?;
    Ok(identity)
}
