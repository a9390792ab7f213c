//! Reads one object.

use std::time::Instant;

use bytes::Bytes;
use reqwest::header::{HeaderValue, IF_MATCH, RANGE};
use reqwest::{Method, Response, StatusCode};

use crate::objects::error::{ObjectError, ObjectProblem};
use crate::objects::sender::{Request, SLOWEST, Sender, TRIES, accept, late};

/// An object that is being read. A connection that breaks is replaced by another, which
/// goes on where it broke.
pub struct Body {
    pub(super) sender: Sender,
    pub(super) key: String,
    pub(super) answer: Response,
    /// Bytes so far.
    pub(super) received: u64,
    pub(super) tag: Option<HeaderValue>,
    /// When even the slowest way is through.
    pub(super) until: Instant,
}

impl Body {
    /// The next bytes; `None` at the end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ObjectError> {
        let mut tried = 0;
        loop {
            let idle = self.sender.idle();
            let left = self.until.saturating_duration_since(Instant::now());
            let problem = match tokio::time::timeout(idle.min(left), self.answer.chunk()).await {
                Ok(Ok(chunk)) => {
                    self.received += chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
                    return Ok(chunk);
                }
                Ok(Err(error)) => ObjectProblem::from(error),
                Err(_) if left > idle => late(idle),
                Err(_) => {
                    let slow = format!("it comes at less than {SLOWEST} bytes a second");
                    return Err(self.sender.failed("read", &self.key)(
                        ObjectProblem::Broken(slow),
                    ));
                }
            };
            tried += 1;
            let failed = self.sender.failed("read", &self.key);
            // Without a tag the rest could be that of another object.
            let Some(tag) = self.tag.clone().filter(|_| tried < TRIES) else {
                return Err(failed(problem));
            };
            let mut request = Request::of(Method::GET, self.sender.url(&self.key));
            let from = format!("bytes={}-", self.received);
            let from = HeaderValue::from_str(&from);
            let from = from.map_err(|_| failed(ObjectProblem::Unreadable("no range")))?;
            request.headers.insert(RANGE, from);
            request.headers.insert(IF_MATCH, tag);
            let answer = self.sender.send(&request).await.map_err(&failed)?;
            let answer = accept(answer, idle).await.map_err(&failed)?;
            if answer.status() != StatusCode::PARTIAL_CONTENT {
                return Err(failed(problem));
            }
            self.answer = answer;
        }
    }
}
