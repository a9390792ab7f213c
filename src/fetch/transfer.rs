//! The download.

use std::io::{self, Write};

use flate2::write::GzDecoder;
use reqwest::Response;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING};

use crate::error_chain::error_chain;
use crate::fetch::client::{Settings, client, is_loopback};
use crate::fetch::error::FetchError;
use crate::fetch::url::CatalogUrl;

/// The most bytes of an error response that are shown.
const MAX_MESSAGE: usize = 300;

impl CatalogUrl {
    /// Writes the whole catalog to `out`, decompressed. An error of `out` ends the
    /// download, so `out` can bound the size.
    pub async fn fetch(&self, settings: &Settings, out: impl Write) -> Result<(), FetchError> {
        tokio::time::timeout(settings.timeout, self.transfer(settings, out))
            .await
            .unwrap_or_else(|_| {
                Err(FetchError::Timeout {
                    url: self.all().to_owned(),
                    limit: settings.timeout,
                })
            })
    }

    async fn transfer(&self, settings: &Settings, out: impl Write) -> Result<(), FetchError> {
        let request = client(settings, is_loopback(&self.all))?
            .get(self.all.clone())
            .header(ACCEPT_ENCODING, "gzip")
            .send();
        let answer = request.await.map_err(|error| self.failed(error))?;
        if answer.status() != reqwest::StatusCode::OK {
            return Err(self.refusal(answer).await);
        }
        let encoding = answer.headers().get(CONTENT_ENCODING);
        match encoding.map_or(&b"identity"[..], |encoding| encoding.as_bytes()) {
            b"identity" => self.receive(settings.limit, answer, out).await.map(drop),
            b"gzip" => {
                let unpacking = GzDecoder::new(out);
                let unpacking = self.receive(settings.limit, answer, unpacking).await?;
                unpacking.finish().map(drop).map_err(|e| self.writing(e))
            }
            other => Err(FetchError::Encoding {
                url: self.all().to_owned(),
                encoding: String::from_utf8_lossy(other).into_owned(),
            }),
        }
    }

    async fn receive<W: Write>(
        &self,
        limit: u64,
        mut answer: Response,
        mut out: W,
    ) -> Result<W, FetchError> {
        let mut received = 0;
        while let Some(piece) = answer.chunk().await.map_err(|error| self.failed(error))? {
            received += piece.len() as u64;
            if received > limit {
                return Err(FetchError::TooLarge {
                    url: self.all().to_owned(),
                    limit,
                });
            }
            out.write_all(&piece).map_err(|error| self.writing(error))?;
        }
        Ok(out)
    }

    async fn refusal(&self, mut answer: Response) -> FetchError {
        let status = answer.status();
        let mut message = Vec::new();
        while message.len() < MAX_MESSAGE
            && let Ok(Some(piece)) = answer.chunk().await
        {
            message.extend_from_slice(&piece[..piece.len().min(MAX_MESSAGE)]);
        }
        let target = answer.headers().get(reqwest::header::LOCATION);
        let message = match target.filter(|_| status.is_redirection()) {
            Some(target) => format!("leads to {:?}", String::from_utf8_lossy(target.as_bytes())),
            None => String::from_utf8_lossy(&message).trim().to_owned(),
        };
        FetchError::Status {
            url: self.all().to_owned(),
            status: status.as_u16(),
            message: if message.is_empty() {
                message
            } else {
                format!(": {message}")
            },
        }
    }

    fn failed(&self, error: reqwest::Error) -> FetchError {
        FetchError::Request {
            url: self.all().to_owned(),
            problem: error_chain(&error.without_url()),
        }
    }

    fn writing(&self, source: io::Error) -> FetchError {
        FetchError::Write {
            url: self.all().to_owned(),
            source,
        }
    }
}
