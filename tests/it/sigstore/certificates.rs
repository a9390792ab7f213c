//! Fulcio and other authorities: the cases 26 to 33.

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, IsCa, SanType,
    date_time_ymd,
};
use serde_json::{Value, json};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::material::{
    Authorities, EMAIL, ISSUER, LEAF_FROM, LEAF_UNTIL, LOGGED, Log, email, entry, issuer_1,
    issuer_8,
};
use super::trial::{Case, SKOPEO, Trial};
use crate::support::needs::skip_without;

/// Makes the cases of one trial.
struct Maker<'t> {
    trial: &'t Trial,
    log: Log,
    cases: Vec<Case>,
}

/// Parts that differ from those of a good signature.
struct Parts<'a> {
    /// Who certifies, and whom the policy trusts.
    authorities: &'a Authorities,
    /// The authorities in the policy.
    trusted: String,
    leaf: Box<dyn FnOnce(&mut CertificateParams) + 'a>,
    chain: Option<String>,
    time: u64,
}

impl<'a> Parts<'a> {
    fn new(authorities: &'a Authorities) -> Self {
        Self {
            authorities,
            trusted: authorities.root.pem(),
            leaf: Box::new(|_| ()),
            chain: Some(authorities.chain()),
            time: LOGGED,
        }
    }

    fn leaf(authorities: &'a Authorities, leaf: impl FnOnce(&mut CertificateParams) + 'a) -> Self {
        Self {
            leaf: Box::new(leaf),
            ..Self::new(authorities)
        }
    }
}

impl Maker<'_> {
    fn fulcio(&self, trusted: &str) -> Value {
        json!({
            "type": "sigstoreSigned",
            "fulcio": {
                "caData": BASE64_STANDARD.encode(trusted),
                "oidcIssuer": ISSUER,
                "subjectEmail": EMAIL,
            },
            "rekorPublicKeyData": self.log.key_data(),
            "signedIdentity": {"type": "matchRepository"},
        })
    }

    fn add(&mut self, fact: &'static str, problem: Option<&'static str>, parts: Parts<'_>) {
        let number = self.cases.len();
        let name = format!("{}/catalogs/{number}", self.trial.upstream.host());
        let (signer, certificate) = parts.authorities.certify(parts.leaf);
        let mut signed = signer.sign(&self.trial.digest(), &name);
        let entry = entry(&signed, &certificate);
        signed.annotate("bundle", &self.log.annotation(&entry, parts.time));
        signed.annotate("certificate", &certificate);
        if let Some(chain) = &parts.chain {
            signed.annotate("chain", chain);
        }
        self.cases.push(Case {
            fact,
            requirement: self.fulcio(&parts.trusted),
            signed,
            problem,
        });
    }
}

fn cases(trial: &Trial) -> Vec<Case> {
    let authorities = &Authorities::new();
    let mut make = Maker {
        trial,
        log: Log::new(),
        cases: Vec::new(),
    };
    paths_and_times(&mut make, authorities);
    purposes(&mut make, authorities);
    issuers(&mut make, authorities);
    emails(&mut make, authorities);
    authorities_with_limits(&mut make);
    make.cases
}

fn paths_and_times(make: &mut Maker<'_>, authorities: &Authorities) {
    make.add(
        "a certified signer is let in",
        None,
        Parts::new(authorities),
    );
    make.add(
        "the last certificate of a chain does not count",
        Some("by no authority of the policy"),
        Parts {
            chain: Some(authorities.intermediate.pem()),
            ..Parts::new(authorities)
        },
    );
    make.add(
        "an intermediate authority is an anchor too",
        None,
        Parts {
            trusted: authorities.root.pem() + &authorities.intermediate.pem(),
            chain: None,
            ..Parts::new(authorities)
        },
    );
    for (fact, time, problem) in [
        ("the first second counts", LEAF_FROM, None),
        (
            "a second earlier is too early",
            LEAF_FROM - 1,
            Some("was not valid yet"),
        ),
        (
            "a minute after the end is too late",
            LEAF_UNTIL + 60,
            Some("was expired"),
        ),
    ] {
        make.add(
            fact,
            problem,
            Parts {
                time,
                ..Parts::new(authorities)
            },
        );
    }
}

fn purposes(make: &mut Maker<'_>, authorities: &Authorities) {
    let usage = |usage: Vec<ExtendedKeyUsagePurpose>| {
        move |leaf: &mut CertificateParams| leaf.extended_key_usages = usage
    };
    make.add(
        "a certificate for servers signs no code",
        Some("not for signing code"),
        Parts::leaf(
            authorities,
            usage(vec![ExtendedKeyUsagePurpose::ServerAuth]),
        ),
    );
    make.add(
        "a certificate for nothing in particular signs code",
        None,
        Parts::leaf(authorities, usage(Vec::new())),
    );
    let stranger = Authorities::new();
    make.add(
        "another authority certifies nothing",
        Some("by no authority of the policy"),
        Parts {
            trusted: stranger.root.pem(),
            ..Parts::new(authorities)
        },
    );
    make.add(
        "an unknown critical extension is refused",
        Some("unknown critical extension"),
        Parts::leaf(authorities, |leaf| {
            let mut unknown = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
            unknown.set_criticality(true);
            leaf.custom_extensions.push(unknown);
        }),
    );
}

fn issuers(make: &mut Maker<'_>, authorities: &Authorities) {
    let issuers = |all: Vec<CustomExtension>| {
        move |leaf: &mut CertificateParams| leaf.custom_extensions = all
    };
    make.add(
        "either statement of the issuer will do",
        None,
        Parts::leaf(authorities, issuers(vec![issuer_1(ISSUER)])),
    );
    make.add(
        "the second statement will do as well",
        None,
        Parts::leaf(authorities, issuers(vec![issuer_8(ISSUER)])),
    );
    make.add(
        "both statements of the issuer agree",
        Some("names two issuers"),
        Parts::leaf(
            authorities,
            issuers(vec![issuer_1(ISSUER), issuer_8("https://b")]),
        ),
    );
    make.add(
        "there is a statement of the issuer",
        Some("names no issuer"),
        Parts::leaf(authorities, issuers(Vec::new())),
    );
    make.add(
        "the issuer is the one of the policy",
        Some("the issuer of its certificate is"),
        Parts::leaf(
            authorities,
            issuers(vec![issuer_1("https://accounts.example.net")]),
        ),
    );
}

fn emails(make: &mut Maker<'_>, authorities: &Authorities) {
    let only =
        |names: Vec<SanType>| move |leaf: &mut CertificateParams| leaf.subject_alt_names = names;
    make.add(
        "an email in other letters is another",
        Some("not for the email"),
        Parts::leaf(authorities, only(vec![email("Builder@example.com")])),
    );
    make.add(
        "a URI is no email",
        Some("not for the email"),
        Parts::leaf(
            authorities,
            only(vec![SanType::URI(EMAIL.try_into().unwrap())]),
        ),
    );
    make.add(
        "one of several emails will do",
        None,
        Parts::leaf(
            authorities,
            only(vec![email("a@example.com"), email(EMAIL)]),
        ),
    );
}

fn authorities_with_limits(make: &mut Maker<'_>) {
    let old = Authorities::with(|root| root.not_after = date_time_ymd(2024, 5, 1), |_| ());
    make.add(
        "an authority that was expired certifies nothing",
        Some("no authority of the policy was valid"),
        Parts::new(&old),
    );
    let old = Authorities::with(
        |_| (),
        |middle| middle.not_before = date_time_ymd(2024, 6, 2),
    );
    make.add(
        "the whole path was valid at the time",
        Some("was not valid yet"),
        Parts::new(&old),
    );
    let servers = Authorities::with(
        |root| root.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth],
        |_| (),
    );
    make.add(
        "an authority for servers certifies no code",
        Some("no authority of the policy was valid"),
        Parts::new(&servers),
    );
    let short = Authorities::with(
        |root| root.is_ca = IsCa::Ca(BasicConstraints::Constrained(0)),
        |_| (),
    );
    make.add(
        "a path is as long as its root allows",
        Some("cannot be verified"),
        Parts::new(&short),
    );
}

#[test]
fn an_identity_needs_a_certificate_that_was_valid_when_it_was_logged() {
    let trial = Trial::new();
    trial.judge(cases(&trial), false);
}

#[test]
fn skopeo_judges_certificates_alike() {
    if skip_without(SKOPEO) {
        return;
    }
    let trial = Trial::new();
    trial.judge(cases(&trial), true);
}

#[test]
fn certificates_of_megabytes_are_refused_unread() {
    let trial = Trial::new();
    let authorities = Authorities::new();
    let mut make = Maker {
        trial: &trial,
        log: Log::new(),
        cases: Vec::new(),
    };
    let large = CustomExtension::from_oid_content(&[1, 2, 3], vec![0; 100 << 10]);
    make.add(
        "one certificate has at most 64 KiB",
        Some("a certificate of more than 64 KiB"),
        Parts::leaf(&authorities, |leaf| leaf.custom_extensions.push(large)),
    );
    make.add(
        "all together have at most 256 KiB",
        Some("larger than 256 KiB"),
        Parts {
            chain: Some(authorities.chain().repeat(400)),
            ..Parts::new(&authorities)
        },
    );
    make.add(
        "a chain has at most 32 certificates",
        Some("more than 32 certificates"),
        Parts {
            chain: Some(authorities.chain().repeat(20)),
            ..Parts::new(&authorities)
        },
    );
    make.add(
        "text is no certificate",
        Some("by no authority of the policy"),
        Parts {
            chain: Some("no certificate".into()),
            ..Parts::new(&authorities)
        },
    );
    let cases = make.cases;
    trial.judge(cases, false);
}

/// `pki` is judged now. skopeo of the next Debian does not know it.
#[test]
fn other_authorities_certify_an_email_or_a_host_as_of_now() {
    let trial = Trial::new();
    let authorities = Authorities::new();
    let log = Log::new();
    let valid = |leaf: &mut CertificateParams| {
        leaf.not_after = date_time_ymd(2044, 1, 1);
        leaf.custom_extensions.clear();
        let host = SanType::DnsName("*.build.example".try_into().unwrap());
        leaf.subject_alt_names.push(host);
    };
    let requirement = |names: Value| {
        let mut pki = names;
        pki["caRootsData"] = json!(BASE64_STANDARD.encode(authorities.root.pem()));
        pki["caIntermediatesData"] = json!(BASE64_STANDARD.encode(authorities.intermediate.pem()));
        json!({"type": "sigstoreSigned", "pki": pki,
            "signedIdentity": {"type": "matchRepository"}})
    };
    let mut cases = Vec::new();
    for (fact, expired, names, problem) in [
        ("an email", false, json!({"subjectEmail": EMAIL}), None),
        (
            "a host",
            false,
            json!({"subjectHostname": "a.build.example"}),
            None,
        ),
        (
            "both have to fit",
            false,
            json!({"subjectEmail": EMAIL, "subjectHostname": "build.example"}),
            Some("not for the host"),
        ),
        (
            "another email",
            false,
            json!({"subjectEmail": "a@example.com", "subjectHostname": "a.build.example"}),
            Some("not for the email"),
        ),
        (
            "a log entry of the past does not help an expired one",
            true,
            json!({"subjectEmail": EMAIL}),
            Some("was expired"),
        ),
    ] {
        let (signer, certificate) = authorities.certify(|leaf| {
            if !expired {
                valid(leaf);
            }
        });
        let name = format!("{}/catalogs/{}", trial.upstream.host(), cases.len());
        let mut signed = signer.sign(&trial.digest(), &name);
        signed.annotate("certificate", &certificate);
        let entry = entry(&signed, &certificate);
        signed.annotate("bundle", &log.annotation(&entry, LOGGED));
        cases.push(Case {
            fact,
            requirement: requirement(names),
            signed,
            problem,
        });
    }
    trial.judge(cases, false);
}
