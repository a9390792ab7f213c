//! Limits on making one response: time, values, bytes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use async_graphql::extensions::{
    Extension, ExtensionContext, ExtensionFactory, NextResolve, ResolveInfo,
};
use async_graphql::{ServerError, ServerResult, Value};
use parking_lot::Mutex;
use serde::Serialize;

/// The longest time for one answer.
pub const MAX_TIME: Duration = Duration::from_secs(5);

/// How many values an answer may have.
const MAX_VALUES: usize = 300_000;
/// How many bytes of text they may have.
const MAX_BYTES: usize = 32 << 20;

/// A limit that an answer exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Limit {
    #[error("query exceeds maximum execution time of {} seconds", MAX_TIME.as_secs())]
    Time,
    #[error(
        "result exceeds maximum of {MAX_VALUES} values: ask for fewer fields, or for less at a \
         time with limit and offset"
    )]
    Values,
    #[error(
        "result exceeds maximum size of {} MiB: ask for fewer fields, or for less at a time with \
         limit and offset",
        MAX_BYTES >> 20
    )]
    Bytes,
}

/// Cancels an answer that nobody waits for.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Ends the work soon.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The work for one answer.
pub(super) struct Effort {
    deadline: Instant,
    cancel: Cancel,
    values: AtomicUsize,
    bytes: AtomicUsize,
    exceeded: OnceLock<Limit>,
    cuts: Mutex<Vec<Cut>>,
}

/// A page with fewer items than there are, or than were asked for. The query is
/// bounded, so there are few.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cut {
    /// The key of the page in the answer.
    pub(super) path: String,
    /// The `limit` of the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) requested: Option<i64>,
    /// The limit that was applied instead.
    pub(super) limit: usize,
    /// How many items were returned.
    pub(super) returned: usize,
    /// The `offset` of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_offset: Option<usize>,
    /// The same in words.
    pub(super) message: String,
}

impl Effort {
    pub(super) fn new(time: Duration, cancel: Cancel) -> Self {
        Self {
            deadline: Instant::now() + time,
            cancel,
            values: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            exceeded: OnceLock::new(),
            cuts: Mutex::default(),
        }
    }

    /// The first exceeded limit.
    pub(super) fn exceeded(&self) -> Option<Limit> {
        self.exceeded.get().copied()
    }

    /// Counts a value, and checks the time.
    pub(super) fn value(&self) -> Result<(), Limit> {
        if let Some(limit) = self.exceeded() {
            return Err(limit);
        }
        let values = self.values.fetch_add(1, Ordering::Relaxed);
        if values >= MAX_VALUES {
            return self.exceed(Limit::Values);
        }
        self.time()
    }

    /// Checks the time.
    pub(super) fn time(&self) -> Result<(), Limit> {
        if Instant::now() >= self.deadline || self.cancel.0.load(Ordering::Relaxed) {
            return self.exceed(Limit::Time);
        }
        Ok(())
    }

    /// Counts bytes of text.
    pub(super) fn bytes(&self, count: usize) -> Result<(), Limit> {
        let bytes = self.bytes.fetch_add(count, Ordering::Relaxed);
        if bytes.saturating_add(count) > MAX_BYTES {
            return self.exceed(Limit::Bytes);
        }
        Ok(())
    }

    /// Notes a page that was cut.
    pub(super) fn cut(&self, cut: Cut) {
        self.cuts.lock().push(cut);
    }

    /// The pages that were cut, by path: they are made in any order.
    pub(super) fn cuts(&self) -> Vec<Cut> {
        let mut cuts = std::mem::take(&mut *self.cuts.lock());
        cuts.sort_by(|one, other| one.path.cmp(&other.path));
        cuts
    }

    fn exceed<T>(&self, limit: Limit) -> Result<T, Limit> {
        Err(*self.exceeded.get_or_init(|| limit))
    }
}

/// Counts every value of an answer, including those of introspection, which
/// async-graphql resolves.
pub(super) struct Count;

impl ExtensionFactory for Count {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(Self)
    }
}

#[async_graphql::async_trait::async_trait]
impl Extension for Count {
    async fn resolve(
        &self,
        ctx: &ExtensionContext<'_>,
        info: ResolveInfo<'_>,
        next: NextResolve<'_>,
    ) -> ServerResult<Option<Value>> {
        if let Some(effort) = ctx.data_opt::<Arc<Effort>>() {
            effort
                .value()
                .map_err(|limit| ServerError::new(limit.to_string(), None))?;
        }
        next.run(ctx, info).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_limit_that_is_passed_stays() {
        let effort = Effort::new(Duration::from_mins(1), Cancel::default());
        assert_eq!(effort.bytes(MAX_BYTES), Ok(()));
        assert_eq!(effort.value(), Ok(()));
        assert_eq!(effort.bytes(1), Err(Limit::Bytes));
        assert_eq!(effort.value(), Err(Limit::Bytes));
        assert_eq!(effort.exceeded(), Some(Limit::Bytes));

        let effort = Effort::new(Duration::from_mins(1), Cancel::default());
        for _ in 0..MAX_VALUES {
            assert_eq!(effort.value(), Ok(()));
        }
        assert_eq!(effort.value(), Err(Limit::Values));
    }

    #[test]
    fn the_clock_and_the_client_end_the_work() {
        let effort = Effort::new(Duration::ZERO, Cancel::default());
        assert_eq!(effort.value(), Err(Limit::Time));
        let cancel = Cancel::default();
        let effort = Effort::new(Duration::from_mins(1), cancel.clone());
        assert_eq!(effort.value(), Ok(()));
        cancel.cancel();
        assert_eq!(effort.value(), Err(Limit::Time));
    }
}
