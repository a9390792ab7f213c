//! Gets the key of a bucket, and gets another one when its file changes.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use object_store::azure::AzureCredential;
use object_store::gcp::GcpCredential;
use tokio::sync::Mutex;

use crate::objects::credentials::{CredentialSource, is_visible};
use crate::objects::error::ObjectProblem;

/// The largest file of credentials, in bytes.
const MAX_FILE: usize = 64 << 10;

/// What gives keys of a kind.
pub(super) type Provider<C> = Arc<dyn CredentialProvider<Credential = C>>;
/// Makes what gives keys, with the text of the source's file if it has one.
type Make<C> = dyn Fn(&str) -> Result<Provider<C>, ObjectProblem> + Send + Sync;

/// A key of a store.
pub(super) trait Key: fmt::Debug + Send + Sync + 'static {
    /// The texts that become parts of headers.
    fn texts(&self) -> Vec<&str>;
}

/// The key of a store, as its source says.
pub(super) struct Supply<C> {
    source: CredentialSource,
    make: Box<Make<C>>,
    state: Mutex<State<C>>,
}

struct State<C> {
    /// The text of the file, with what was made of it.
    made: Option<(String, Provider<C>)>,
    /// The last key of it.
    last: Option<Arc<C>>,
}

impl<C: Key> Supply<C> {
    pub(super) fn new(
        source: CredentialSource,
        make: impl Fn(&str) -> Result<Provider<C>, ObjectProblem> + Send + Sync + 'static,
    ) -> Self {
        Self {
            source,
            make: Box::new(make),
            state: Mutex::new(State {
                made: None,
                last: None,
            }),
        }
    }

    async fn key(&self) -> Result<Arc<C>, ObjectProblem> {
        let text = match self.source.file() {
            Some(path) => self.read(path).await?,
            None => String::new(),
        };
        let mut state = self.state.lock().await;
        let provider = match &state.made {
            Some((of, provider)) if *of == text => Arc::clone(provider),
            _ => {
                let provider = (self.make)(&text)?;
                state.made = Some((text, Arc::clone(&provider)));
                state.last = None;
                provider
            }
        };
        let problem = match provider.get_credential().await {
            Ok(key) if key.texts().into_iter().all(is_visible) => {
                return Ok(Arc::clone(state.last.insert(key)));
            }
            Ok(_) => unreadable(),
            Err(error) => match ObjectProblem::from_store(&error) {
                ObjectProblem::CredentialsRefused(answer)
                | ObjectProblem::AccessRefused(answer)
                | ObjectProblem::Refused(answer, _) => ObjectProblem::NotLent(answer),
                // Without an identity, metadata services answer so.
                ObjectProblem::Busy(answer, advice) if !advice.is_empty() => {
                    ObjectProblem::NotLent(answer)
                }
                // Of the service of keys, not of the store.
                ObjectProblem::Unreachable(problem) | ObjectProblem::Broken(problem) => {
                    ObjectProblem::NoKeyService(problem)
                }
                ObjectProblem::Slow(after) => ObjectProblem::NoKeyService(format!(
                    "nothing came within {}",
                    humantime::format_duration(after)
                )),
                // The texts of parsers may repeat a part of the key.
                ObjectProblem::Unreadable(_) => unreadable(),
                problem => problem,
            },
        };
        // If the time of the last one is over, the store says so.
        let last = state.last.clone().ok_or_else(|| problem.clone())?;
        tracing::warn!(%problem, "the key of the bucket cannot be renewed yet");
        Ok(last)
    }

    /// A file of credentials, or of a token for the platform.
    async fn read(&self, path: &Path) -> Result<String, ObjectProblem> {
        let refused = |problem: &dyn fmt::Display| {
            ObjectProblem::NoCredentials(format!("{}: {problem}", path.display()))
        };
        let bytes = tokio::fs::read(path).await;
        let bytes = bytes.map_err(|error| refused(&error))?;
        if bytes.len() > MAX_FILE {
            return Err(refused(&"the file is too large"));
        }
        String::from_utf8(bytes).map_err(|_| refused(&"the file is not UTF-8"))
    }
}

impl<C: Key> CredentialProvider for Supply<C> {
    type Credential = C;

    fn get_credential<'a, 'b>(&'a self) -> BoxFuture<'b, object_store::Result<Arc<C>>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let key = self.key().await;
            key.map_err(|problem| object_store::Error::Unauthenticated {
                path: String::new(),
                source: Box::new(problem),
            })
        })
    }
}

/// Without keys.
impl<C> fmt::Debug for Supply<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl Key for AwsCredential {
    fn texts(&self) -> Vec<&str> {
        let key = [&*self.key_id, &*self.secret_key];
        key.into_iter().chain(self.token.as_deref()).collect()
    }
}

impl Key for GcpCredential {
    fn texts(&self) -> Vec<&str> {
        vec![&self.bearer]
    }
}

impl Key for AzureCredential {
    fn texts(&self) -> Vec<&str> {
        match self {
            Self::BearerToken(token) => vec![token],
            // They become signatures and parameters.
            Self::AccessKey(_) | Self::SASToken(_) => Vec::new(),
        }
    }
}

fn unreadable() -> ObjectProblem {
    ObjectProblem::Unreadable("it has no key that can be used".into())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use object_store::StaticCredentialProvider;

    use super::*;

    /// Gives keys with numbers, and fails after the first two.
    #[derive(Debug)]
    struct Numbered(String, AtomicU32);

    impl CredentialProvider for Numbered {
        type Credential = GcpCredential;

        fn get_credential<'a, 'b>(
            &'a self,
        ) -> BoxFuture<'b, object_store::Result<Arc<GcpCredential>>>
        where
            'a: 'b,
            Self: 'b,
        {
            Box::pin(async move {
                let number = self.1.fetch_add(1, Ordering::Relaxed);
                if number < 2 {
                    let bearer = format!("{}{number}", self.0);
                    return Ok(Arc::new(GcpCredential { bearer }));
                }
                let source = Box::new(ObjectProblem::Broken("away".into()));
                let store = "test";
                Err(object_store::Error::Generic { store, source })
            })
        }
    }

    #[tokio::test]
    async fn a_key_that_holds_is_used_while_no_other_can_be_had() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "a").unwrap();
        let source = CredentialSource::File(file.path().to_owned());
        let supply = Supply::<GcpCredential>::new(source, |text| {
            Ok(Arc::new(Numbered(text.to_owned(), AtomicU32::new(0))) as Provider<_>)
        });
        for bearer in ["a0", "a1", "a1", "a1"] {
            assert_eq!(supply.key().await.unwrap().bearer, bearer);
        }
        // What is in the file now is used at once.
        std::fs::write(&file, "b").unwrap();
        assert_eq!(supply.key().await.unwrap().bearer, "b0");
        std::fs::remove_file(&file).unwrap();
        let missing = supply.key().await.unwrap_err();
        assert!(
            matches!(missing, ObjectProblem::NoCredentials(_)),
            "{missing}"
        );
    }

    #[tokio::test]
    async fn a_key_that_no_header_takes_is_refused() {
        let supply = Supply::<GcpCredential>::new(CredentialSource::Metadata, |_| {
            let bearer = "a\nb".into();
            let key = StaticCredentialProvider::new(GcpCredential { bearer });
            Ok(Arc::new(key) as Provider<_>)
        });
        assert_eq!(supply.key().await.unwrap_err(), unreadable());
    }

    #[tokio::test]
    async fn an_error_of_the_service_of_keys_is_not_one_of_the_store() {
        #[derive(Debug)]
        struct Failing(ObjectProblem);

        impl CredentialProvider for Failing {
            type Credential = GcpCredential;

            fn get_credential<'a, 'b>(
                &'a self,
            ) -> BoxFuture<'b, object_store::Result<Arc<GcpCredential>>>
            where
                'a: 'b,
                Self: 'b,
            {
                let (store, source) = ("test", Box::new(self.0.clone()));
                let failed = object_store::Error::Generic { store, source };
                Box::pin(async move { Err(failed) })
            }
        }

        let none = ObjectProblem::from_answer(404, None, b"");
        let late = ObjectProblem::Slow(std::time::Duration::from_secs(10));
        for (problem, advice) in [
            (none, "the role or identity exists"),
            (late, "within 10s; check that the network"),
            (
                ObjectProblem::Unreachable("refused".into()),
                "refused; check that the network",
            ),
        ] {
            let supply = Supply::<GcpCredential>::new(CredentialSource::Metadata, move |_| {
                Ok(Arc::new(Failing(problem.clone())) as Provider<_>)
            });
            let told = supply.key().await.unwrap_err().to_string();
            assert!(told.contains(advice), "{told}");
            assert!(!told.contains("endpoint"), "{told}");
        }
    }
}
