//! Looking for the signatures that the policy requires, at each location of an
//! image. A registry can return anything, so all counts and sizes are bounded.

mod search;
mod sigstore;
mod simple;

use crate::digest::Digest;
use crate::error::Error;
use crate::policy::Verdict;
use crate::pull::route::Route;
use crate::pull::signatures::search::Search;

impl Route {
    /// Checks that the policy admits the image. `digest` is the digest of its
    /// top-level document, `instance` that of the image chosen from an index.
    /// A signature of either suffices. Returns by what it came in.
    pub async fn admit(
        &self,
        digest: &Digest,
        instance: Option<&Digest>,
    ) -> Result<Verdict, Error> {
        if let Some(source) = self.admission.rejection() {
            return Err(self.rejected(source));
        }
        let (verdict, failure) = self.judge(digest, instance).await;
        if verdict.admits() {
            return Ok(verdict);
        }
        // A location that failed may have the signature.
        Err(failure.unwrap_or_else(|| {
            let problem = verdict.problem().unwrap_or_default();
            self.rejected(self.admission.unsigned(problem))
        }))
    }

    /// The verdict of the policy about the image, requirement by requirement, and
    /// the first failure of a location.
    pub async fn judge(
        &self,
        digest: &Digest,
        instance: Option<&Digest>,
    ) -> (Verdict, Option<Error>) {
        let mut digests = vec![*digest];
        digests.extend(instance.filter(|instance| *instance != digest));
        let places = &self.signatures;
        let search = Search::new(&self.requested, &self.admission, places.digest_suffices);
        for location in self.usable() {
            for digest in &digests {
                if search.is_done() {
                    break;
                }
                let (search, stores) = (&search, &places.stores);
                let attached = |client, image| async move {
                    sigstore::run(search, &client, &image, digest).await
                };
                if let Err(error) = self.clients.run(location, attached).await {
                    search.failed(error);
                }
                if search.is_done() {
                    break;
                }
                let apart = |client, image| async move {
                    simple::run(search, stores, &client, &image, digest).await
                };
                if let Err(error) = self.clients.run(location, apart).await {
                    search.failed(error);
                }
            }
        }
        search.finish()
    }
}
