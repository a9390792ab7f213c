//! Keys for a short time that the platform gives to a program: in exchange for a token
//! of the cluster (AWS: IRSA), or from an address of the machine (AWS: pod identity and
//! ECS). The metadata of a virtual machine are not asked: its key is everybody's who runs
//! on it.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use reqwest::header::AUTHORIZATION;
use reqwest::{Client, RequestBuilder, Url};
use serde::Deserialize;

use crate::objects::access_key::AccessKey;
use crate::objects::answer::{self, element};
use crate::objects::error::ObjectProblem;
use crate::objects::signature::encoded;

/// The longest token, in bytes.
const MAX_TOKEN: usize = 64 << 10;
/// The longest request.
const LONGEST: Duration = Duration::from_secs(10);
/// The most bytes of a response.
const MAX_ANSWER: usize = 256 << 10;
/// Addresses of the machine that hand out keys without TLS.
const AGENTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];

/// Where the platform gives keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Platform {
    /// The token in a file is exchanged for the key of a role.
    WebIdentity {
        /// The token.
        token_file: PathBuf,
        /// The name of the role (ARN).
        role: String,
        /// The name of the session, which the store's log shows.
        session: String,
        /// The service of tokens, unless it is that of AWS in the bucket's region.
        endpoint: Option<String>,
    },
    /// An address gives the key.
    Container {
        /// The address.
        url: String,
        /// The file with what has to be shown there.
        token_file: Option<PathBuf>,
    },
}

/// A key and the end of its time.
#[derive(Clone)]
pub(super) struct Lent {
    pub(super) key: AccessKey,
    pub(super) until: SystemTime,
}

/// The document of a container's address.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: String,
}

impl Platform {
    /// Asks for a key. The client uses no proxy for addresses of the machine.
    pub(super) async fn lend(
        &self,
        client: &Client,
        direct: &Client,
        region: &str,
    ) -> Result<Lent, ObjectProblem> {
        match self {
            Self::WebIdentity {
                token_file,
                role,
                session,
                endpoint,
            } => {
                let usual = || format!("https://sts.{region}.amazonaws.com/");
                let url = endpoint.clone().unwrap_or_else(usual);
                let url = checked(&url, "AWS_ENDPOINT_URL_STS")?;
                let token = token(token_file).await?;
                let form = format!(
                    "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn={}\
                     &RoleSessionName={}&WebIdentityToken={}",
                    encoded(role),
                    encoded(session),
                    encoded(&token)
                );
                let form_type = "application/x-www-form-urlencoded";
                let request = client
                    .post(url)
                    .header("content-type", form_type)
                    .body(form);
                of_xml(&ask(request).await?)
            }
            Self::Container { url, token_file } => {
                let url = checked(url, "AWS_CONTAINER_CREDENTIALS_FULL_URI")?;
                let mut request = direct.get(url);
                if let Some(path) = token_file {
                    request = request.header(AUTHORIZATION, token(path).await?);
                }
                of_json(&ask(request).await?)
            }
        }
    }
}

/// The address, if tokens and keys may be sent to it.
fn checked(url: &str, variable: &str) -> Result<Url, ObjectProblem> {
    let refused = || ObjectProblem::Credentials(format!("{variable} is no address with TLS"));
    let url: Url = url.parse().map_err(|_| refused())?;
    let is_agent = url.host_str().is_some_and(|host| AGENTS.contains(&host));
    let is_plain = url.scheme() == "http" && (is_agent || ::images::is_loopback(&url));
    if is_plain || url.scheme() == "https" {
        Ok(url)
    } else {
        Err(refused())
    }
}

async fn token(path: &Path) -> Result<String, ObjectProblem> {
    let refused =
        |problem: String| ObjectProblem::Credentials(format!("{}: {problem}", path.display()));
    let bytes = tokio::fs::read(path).await;
    let bytes = bytes.map_err(|error| refused(error.to_string()))?;
    let text = String::from_utf8(bytes).unwrap_or_default();
    let text = text.trim();
    let is_token = text.bytes().all(|byte| byte.is_ascii_graphic());
    if text.is_empty() || text.len() > MAX_TOKEN || !is_token {
        return Err(refused("it has no token".into()));
    }
    Ok(text.to_owned())
}

async fn ask(request: RequestBuilder) -> Result<String, ObjectProblem> {
    let mut response = request.timeout(LONGEST).send().await?;
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_ANSWER {
            return Err(ObjectProblem::Unreadable("it is too large"));
        }
    }
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| ObjectProblem::Unreadable("it is not UTF-8"))?;
    let status = response.status();
    if status.is_success() {
        Ok(text)
    } else {
        let (code, message) = answer::reason(&text);
        let status = status.as_u16();
        Err(ObjectProblem::Lender {
            status,
            code,
            message,
        })
    }
}

fn of_xml(document: &str) -> Result<Lent, ObjectProblem> {
    let wrong = ObjectProblem::Unreadable("it has no key");
    let Some((credentials, _)) = element(document, "Credentials") else {
        return Err(wrong);
    };
    let text = |name| element(credentials, name).map(|(text, _)| answer::plain(text).into_owned());
    match (
        text("AccessKeyId"),
        text("SecretAccessKey"),
        text("Expiration"),
    ) {
        (Some(id), Some(secret), Some(until)) => lent(id, secret, text("SessionToken"), &until),
        _ => Err(wrong),
    }
}

fn of_json(document: &str) -> Result<Lent, ObjectProblem> {
    let document: Document =
        serde_json::from_str(document).map_err(|_| ObjectProblem::Unreadable("it has no key"))?;
    let Document {
        access_key_id,
        secret_access_key,
        token,
        expiration,
    } = document;
    lent(access_key_id, secret_access_key, token, &expiration)
}

fn lent(
    id: String,
    secret: String,
    token: Option<String>,
    until: &str,
) -> Result<Lent, ObjectProblem> {
    let visible = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    let until = humantime::parse_rfc3339(until);
    match until {
        Ok(until) if visible(&id) && visible(&secret) && token.as_deref().is_none_or(visible) => {
            Ok(Lent {
                key: AccessKey { id, secret, token },
                until,
            })
        }
        _ => Err(ObjectProblem::Unreadable(
            "its key or its time cannot be used",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_from_both_documents() {
        let xml = "<AssumeRoleWithWebIdentityResponse><Result><Credentials>\
            <AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>a/b=</SecretAccessKey>\
            <SessionToken>t+1</SessionToken><Expiration>2030-01-02T03:04:05Z</Expiration>\
            </Credentials></Result></AssumeRoleWithWebIdentityResponse>";
        let json = r#"{"AccessKeyId": "ASIA", "SecretAccessKey": "a/b=", "Token": "t+1",
            "Expiration": "2030-01-02T03:04:05Z", "AccountId": "1"}"#;
        let wanted = AccessKey {
            id: "ASIA".into(),
            secret: "a/b=".into(),
            token: Some("t+1".into()),
        };
        for lent in [of_xml(xml).unwrap(), of_json(json).unwrap()] {
            assert!(lent.key == wanted);
            let until = humantime::format_rfc3339_seconds(lent.until).to_string();
            assert_eq!(until, "2030-01-02T03:04:05Z");
        }
        for wrong in ["", "{}", "<Credentials></Credentials>"] {
            assert!(of_xml(wrong).is_err() && of_json(wrong).is_err(), "{wrong}");
        }
        let late = json.replace("2030-01-02T03:04:05Z", "later");
        assert!(of_json(&late).is_err());
        let split = json.replace("t+1", "a b");
        assert!(of_json(&split).is_err());
    }

    #[test]
    fn tokens_are_sent_to_no_address_without_tls() {
        for good in [
            "https://sts.example/",
            "http://127.0.0.1:80/",
            "http://169.254.170.23/v1/credentials",
            "http://[fd00:ec2::23]/v1/credentials",
        ] {
            assert!(checked(good, "A").is_ok(), "{good}");
        }
        for wrong in [
            "",
            "sts.example",
            "http://sts.example/",
            "http://169.254.169.254/",
        ] {
            assert!(checked(wrong, "A").is_err(), "{wrong}");
        }
    }
}
