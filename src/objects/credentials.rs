//! Where the key of a bucket comes from: a choice of the configuration or of the environment.
//! Nothing else is tried.

use std::fmt;
use std::path::{Path, PathBuf};

use reqwest::Url;

use crate::objects::error::ObjectProblem;
use crate::objects::location::Store;

/// Variables of the environment that name a key, for each store in their order: those that
/// belong together, and those that may be added.
type Sets = &'static [(&'static [&'static str], &'static [&'static str])];
const S3: Sets = &[
    (
        &["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"],
        &["AWS_SESSION_TOKEN"],
    ),
    (
        &["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"],
        &["AWS_ROLE_SESSION_NAME", STS],
    ),
    (&["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"], &[]),
    (&[AGENT, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"], &[]),
];
const GOOGLE: Sets = &[(&["GOOGLE_APPLICATION_CREDENTIALS"], &[])];
const AZURE: Sets = &[
    (&["AZURE_STORAGE_ACCOUNT_KEY"], &[]),
    (&["AZURE_STORAGE_SAS_TOKEN"], &[]),
    (
        &[
            "AZURE_FEDERATED_TOKEN_FILE",
            "AZURE_CLIENT_ID",
            "AZURE_TENANT_ID",
        ],
        &[AUTHORITY],
    ),
];
/// Those that are addresses.
const STS: &str = "AWS_ENDPOINT_URL_STS";
const AGENT: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
const AUTHORITY: &str = "AZURE_AUTHORITY_HOST";
/// Addresses of the machine that hand out keys without TLS.
const AGENTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];

/// Where the key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    /// A file, which is read again for each request: of S3 in the format of the AWS tools, of
    /// Google a key in JSON, of Azure an account key or a shared access signature.
    File(PathBuf),
    /// Variables of the environment with a key, or with the way to one of the platform.
    Variables(Variables),
    /// The metadata service of the machine.
    Metadata,
    /// Nothing names any.
    None,
}

/// Variables with their values. The `Debug` output has no secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Variables(Vec<(&'static str, String)>);

impl CredentialSource {
    /// What the environment names for a store.
    pub fn from_variables(store: &Store, get: impl Fn(&'static str) -> Option<String>) -> Self {
        let found = |name: &&'static str| Some((*name, get(name)?));
        let complete = sets(store).iter().find_map(|(needed, more)| {
            let mut variables: Vec<_> = needed.iter().map(found).collect::<Option<_>>()?;
            variables.extend(more.iter().filter_map(found));
            Some(variables)
        });
        complete.map_or(Self::None, |variables| {
            Self::Variables(Variables(variables))
        })
    }

    /// A key of S3.
    pub fn from_key(id: &str, secret: &str) -> Self {
        Self::from_variables(&Store::S3, |name| match name {
            "AWS_ACCESS_KEY_ID" => Some(id.to_owned()),
            "AWS_SECRET_ACCESS_KEY" => Some(secret.to_owned()),
            _ => None,
        })
    }

    /// The file that has the key, or a token for the platform.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Variables(Variables(variables)) => {
                let mut variables = variables.iter();
                let is_file = |name: &str| name.ends_with("_FILE") || name == GOOGLE[0].0[0];
                let file = variables.find(|(name, _)| is_file(name));
                file.map(|(_, path)| Path::new(path))
            }
            Self::Metadata | Self::None => None,
        }
    }

    /// The settings of the crate for this source, with the text of its file.
    pub(super) fn options(
        &self,
        store: &Store,
        text: &str,
    ) -> Result<Vec<(&'static str, String)>, ObjectProblem> {
        match (self, store) {
            (Self::File(path), Store::Google) => {
                Ok(vec![(GOOGLE[0].0[0], path.to_string_lossy().into_owned())])
            }
            (Self::File(path), Store::S3) => parse(text).ok_or_else(|| {
                let advice = "write aws_access_key_id = ... and aws_secret_access_key = ...";
                let problem = format!("credentials_file: {}: {advice}", path.display());
                ObjectProblem::NoCredentials(problem)
            }),
            // Only a shared access signature has parameters.
            (Self::File(_), Store::Azure(_)) if text.contains("sig=") => {
                Ok(vec![("AZURE_STORAGE_SAS_TOKEN", text.trim().to_owned())])
            }
            (Self::File(_), Store::Azure(_)) => {
                Ok(vec![("AZURE_STORAGE_ACCOUNT_KEY", text.trim().to_owned())])
            }
            (Self::Variables(Variables(variables)), _) => {
                variables.iter().try_for_each(check)?;
                let mut names = variables.iter().map(|(name, _)| name);
                if names.any(|name| name.ends_with("_TOKEN_FILE")) && !is_visible(text) {
                    let advice = "write a token without blanks and line ends into its file";
                    return Err(ObjectProblem::NoCredentials(advice.to_owned()));
                }
                Ok(variables.clone())
            }
            // Without any, the crate asks the metadata service.
            (Self::Metadata, _) => Ok(Vec::new()),
            (Self::None, _) => {
                let names = sets(store)[0].0.join(" and ");
                let advice = format!(
                    "write credentials_file in [fleet], set {names}, or add credentials=metadata to \
                     objects where the machine lends a key"
                );
                Err(ObjectProblem::NoCredentials(advice))
            }
        }
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

fn sets(store: &Store) -> Sets {
    match store {
        Store::S3 => S3,
        Store::Google => GOOGLE,
        Store::Azure(_) => AZURE,
    }
}

/// Checks that tokens may be sent to the address, and keys taken from it, if it is one.
fn check((name, value): &(&'static str, String)) -> Result<(), ObjectProblem> {
    let is_safe = || {
        value.parse().is_ok_and(|url: Url| {
            let is_agent = url.host_str().is_some_and(|host| AGENTS.contains(&host));
            let is_near = is_agent || ::images::is_loopback(&url);
            url.scheme() == "https" || (url.scheme() == "http" && is_near)
        })
    };
    if ![STS, AGENT, AUTHORITY].contains(name) || is_safe() {
        return Ok(());
    }
    let problem = format!("{name} is no address with TLS");
    Err(ObjectProblem::NoCredentials(problem))
}

/// Reads the section `default` of a file of the AWS tools, or lines before any section. `None`
/// without a key.
fn parse(text: &str) -> Option<Vec<(&'static str, String)>> {
    let mut found: Vec<(&'static str, String)> = Vec::new();
    let mut counts = true;
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            counts = section.trim_end_matches(']').trim() == "default";
        }
        let Some((name, value)) = line.split_once('=').filter(|_| counts) else {
            continue;
        };
        let mut names = S3[0].0.iter().chain(S3[0].1);
        let name = names.find(|known| known.eq_ignore_ascii_case(name.trim()));
        found.retain(|(known, _)| Some(known) != name);
        let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
        found.extend(name.copied().zip(value));
    }
    let is_there = |name: &&str| found.iter().any(|(known, _)| known == name);
    S3[0].0.iter().all(is_there).then_some(found)
}

/// Whether a text can be sent in a header.
pub(super) fn is_visible(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(store: &Store, names: &[&str]) -> CredentialSource {
        let value = |name: &str| names.contains(&name).then(|| format!("of {name}"));
        CredentialSource::from_variables(store, value)
    }

    #[test]
    fn the_first_complete_set_of_variables_names_the_key() {
        let azure = Store::Azure("a".into());
        for (store, names, found) in [
            (
                &Store::S3,
                &["AWS_ACCESS_KEY_ID", "AWS_ROLE_ARN"][..],
                "None",
            ),
            (
                &Store::S3,
                &["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ROLE_ARN"],
                r#"Variables(["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])"#,
            ),
            (
                &Store::S3,
                &["AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", STS],
                r#"Variables(["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ENDPOINT_URL_STS"])"#,
            ),
            (&Store::S3, &[AGENT], "None"),
            (&Store::S3, &["GOOGLE_APPLICATION_CREDENTIALS"], "None"),
            (
                &Store::Google,
                &["GOOGLE_APPLICATION_CREDENTIALS"],
                r#"Variables(["GOOGLE_APPLICATION_CREDENTIALS"])"#,
            ),
            (&azure, &["AZURE_CLIENT_ID", "AZURE_TENANT_ID"], "None"),
            (
                &azure,
                &["AZURE_STORAGE_SAS_TOKEN", "AZURE_CLIENT_ID"],
                r#"Variables(["AZURE_STORAGE_SAS_TOKEN"])"#,
            ),
        ] {
            assert_eq!(format!("{:?}", source(store, names)), found, "{names:?}");
        }
    }

    #[test]
    fn a_file_is_read_as_the_tools_of_aws_read_it() {
        let text = "# mine\n[other]\naws_access_key_id=x\n[default]\n\
            aws_access_key_id = AKIA\naws_secret_access_key=s/3=\naws_session_token = t\n";
        let found = parse(text).unwrap();
        let found: Vec<_> = found.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(found, ["AKIA", "s/3=", "t"]);
        let plain = "aws_access_key_id=a\naws_secret_access_key=b\n";
        assert_eq!(parse(plain).unwrap().len(), 2);
        for wrong in [
            "",
            "aws_access_key_id=a",
            "aws_access_key_id=a\naws_secret_access_key=",
        ] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn tokens_are_sent_to_no_address_without_tls() {
        for good in [
            "https://sts.example/",
            "http://127.0.0.1:80/",
            "http://169.254.170.23/v1/credentials",
            "http://[fd00:ec2::23]/v1/credentials",
        ] {
            assert!(check(&(AGENT, good.into())).is_ok(), "{good}");
        }
        for wrong in [
            "",
            "sts.example",
            "http://sts.example/",
            "http://169.254.169.254/",
        ] {
            for name in [STS, AGENT, AUTHORITY] {
                assert!(check(&(name, wrong.into())).is_err(), "{wrong}");
            }
        }
    }

    #[test]
    fn a_source_is_shown_without_secrets() {
        let shown = format!("{:?}", CredentialSource::from_key("AKIA", "S3CRET"));
        assert!(!shown.contains("S3CRET"), "{shown}");
    }
}
