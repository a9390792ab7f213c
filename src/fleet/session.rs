//! The session of a replica: one connection, whose advisory locks say that the replica lives
//! and which catalogs it follows. Publications run on it, so that a replica without its locks
//! publishes nothing.
//!
//! The server ends a session after [`LIFE`] without a statement. So a replica that is stopped,
//! hangs or is cut off loses its locks, though its connection may look alive.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::postgres::{PgConnection, PgListener, PgPoolOptions, PgRow};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, Row as _};
use tokio::sync::{Mutex, watch};

use crate::fleet::error::{Backend, CONNECT, FleetError};
use crate::fleet::settings::Settings;
use crate::fleet::tables::{check_rights, check_tables, check_version};

/// Notifications of changes.
pub(super) const CHANNEL: &str = "almanac";
/// The content of one that asks for retries.
pub(super) const RETRY: &str = "retry";
/// The longest time between two statements of a session, as the server has it.
const LIFE: &str = "6s";
/// Whoever waits for a locked row sees what was committed meanwhile, whatever the isolation
/// level of the database is.
const LIMITS: &str = "SET idle_in_transaction_session_timeout = '6s'; SET lock_timeout = '3s'; \
    SET statement_timeout = '4s'; SET default_transaction_isolation = 'read committed'";
/// The server notices a client that is gone without a word.
const KEEPALIVE: &str = "SET client_connection_check_interval = '2s'; \
    SET tcp_keepalives_idle = 2; SET tcp_keepalives_interval = 2; \
    SET tcp_keepalives_count = 2; SET tcp_user_timeout = 6000";
/// The longest time of a connection attempt.
const CONNECTING: Duration = Duration::from_secs(5);
/// The longest time of some statements: the server ends its part earlier.
const LONGEST: Duration = Duration::from_secs(5);

/// The longest time of the end of a session.
const CLOSING: Duration = Duration::from_secs(2);

/// Numbers the sessions of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionNumber(u64);

#[cfg(test)]
impl SessionNumber {
    /// A number for tests without a database.
    pub(super) const fn of_test(number: u64) -> Self {
        Self(number)
    }
}

/// Work of a session: it takes the connection and returns a future that borrows it. The closure
/// has this type only where it is an argument.
pub(super) fn statements<T, W>(work: W) -> W
where
    W: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T, FleetError>>,
{
    work
}

/// A session that is connected again when it has ended. Cheap to clone.
#[derive(Clone)]
pub(super) struct Session(Arc<Inner>);

struct Inner {
    settings: Settings,
    /// Its holder runs statements. Without a connection, the next one connects.
    live: Mutex<Option<Live>>,
    number: watch::Sender<Option<SessionNumber>>,
    /// The fleet that the database has to be of, once that is known.
    fleet: OnceLock<String>,
}

struct Live {
    connection: PgConnection,
    number: SessionNumber,
}

impl Session {
    /// A session that connects with its first statement.
    pub(super) fn new(settings: &Settings) -> Self {
        Self(Arc::new(Inner {
            settings: settings.clone(),
            live: Mutex::new(None),
            number: watch::Sender::new(None),
            fleet: OnceLock::new(),
        }))
    }

    /// Connects from now on only to the database of this fleet, which may be replaced by another's.
    pub(super) fn expect(&self, fleet: &str) {
        // The first one stays: a process knows one fleet.
        let _ = self.0.fleet.set(fleet.to_owned());
    }

    /// Whether a database of this fleet may be used.
    pub(super) fn expects(&self, fleet: &str) -> bool {
        self.0.fleet.get().is_none_or(|expected| expected == fleet)
    }

    /// The session, once it is connected.
    pub(super) fn number(&self) -> Option<SessionNumber> {
        *self.0.number.borrow()
    }

    /// Waits until a session has ended.
    pub(super) async fn ended(&self, number: SessionNumber) {
        let mut numbers = self.0.number.subscribe();
        // The sender lives as long as this session.
        let _ = numbers.wait_for(|now| *now != Some(number)).await;
    }

    /// Runs statements. An error of the connection ends the session.
    pub(super) async fn run<T, W>(&self, work: W) -> Result<T, FleetError>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T, FleetError>>
            + Send
            + 'static,
    {
        self.run_for(LONGEST, None, work).await
    }

    /// The same, in the session with this number only if there is one.
    pub(super) async fn run_in<T, W>(
        &self,
        number: impl Into<Option<SessionNumber>>,
        work: W,
    ) -> Result<T, FleetError>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T, FleetError>>
            + Send
            + 'static,
    {
        self.run_for(LONGEST, number.into(), work).await
    }

    /// The same, for so long at most.
    pub(super) async fn run_for<T, W>(
        &self,
        longest: Duration,
        number: Option<SessionNumber>,
        work: W,
    ) -> Result<T, FleetError>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T, FleetError>>
            + Send
            + 'static,
    {
        let session = self.clone();
        // A task of its own: a caller that is dropped must not end the session.
        let running = tokio::spawn(async move {
            let mut slot = session.0.live.lock().await;
            let mut live = match slot.take() {
                Some(live) => live,
                None if number.is_some() => return Err(FleetError::Fenced),
                None => session.connect().await?,
            };
            if number.is_some_and(|number| number != live.number) {
                *slot = Some(live);
                return Err(FleetError::Fenced);
            }
            let done = tokio::time::timeout(longest, work(&mut live.connection)).await;
            let late = FleetError::NoAnswer {
                of: Backend::Database,
                after: longest,
            };
            let done = done.unwrap_or(Err(late));
            if done.as_ref().err().is_none_or(FleetError::leaves_session) {
                *slot = Some(live);
            } else {
                session.0.number.send_replace(None);
            }
            done
        });
        // A panic has been logged.
        running.await.unwrap_or(Err(FleetError::Fenced))
    }

    /// Ends the session, and with it all of its locks.
    pub(super) async fn close(&self) {
        self.0.number.send_replace(None);
        let closing = async {
            if let Some(live) = self.0.live.lock().await.take() {
                let _ = live.connection.close().await;
            }
        };
        // A statement may wait for long. It ends with the process.
        let _ = tokio::time::timeout(CLOSING, closing).await;
    }

    async fn connect(&self) -> Result<Live, FleetError> {
        // The files are read now: a password may have changed.
        let options = self.0.settings.connection().map_err(FleetError::Refused)?;
        let options = options.options([("idle_session_timeout", LIFE)]);
        let connecting = async {
            let mut connection = options.connect().await?;
            connection.execute(LIMITS).await?;
            // Not every system has them.
            let _ = connection.execute(KEEPALIVE).await;
            let query = "SELECT current_setting('server_version_num')::int AS version,
                current_setting('server_version') AS shown,
                current_setting('idle_session_timeout', true) = '6s' AS is_limited";
            let row = sqlx::query(query).fetch_one(&mut connection).await?;
            Ok::<_, sqlx::Error>((connection, row))
        };
        let late = FleetError::NoAnswer {
            of: Backend::Database,
            after: CONNECTING,
        };
        let connected = tokio::time::timeout(CONNECTING, connecting).await;
        let connected = connected.map_err(|_| late)?;
        let (mut connection, row) = connected.map_err(FleetError::sql(CONNECT))?;
        check_server(&row)?;
        if self.0.fleet.get().is_some() {
            // Before anything is written.
            let checking = async {
                let found = check_tables(&mut connection).await?;
                check_rights(&mut connection).await?;
                Ok(found)
            };
            let late = FleetError::NoAnswer {
                of: Backend::Database,
                after: LONGEST,
            };
            let found = tokio::time::timeout(LONGEST, checking).await;
            if !self.expects(&found.unwrap_or(Err(late))?) {
                return Err(FleetError::OtherFleet);
            }
        }
        let mut number = SessionNumber(0);
        self.0.number.send_modify(|now| {
            number = SessionNumber(fastrand::u64(..));
            *now = Some(number);
        });
        Ok(Live { connection, number })
    }

    /// A second connection, which hears of changes.
    pub(super) async fn listen(&self) -> Result<PgListener, FleetError> {
        let options = self.0.settings.connection().map_err(FleetError::Refused)?;
        let pool = PgPoolOptions::new().max_connections(1);
        let pool = pool.acquire_timeout(CONNECTING).connect_lazy_with(options);
        let mut listener = PgListener::connect_with(&pool).await;
        if let Ok(listener) = &mut listener {
            listener.eager_reconnect(false);
            let listening = listener.listen(CHANNEL).await;
            listening.map_err(FleetError::sql("listen"))?;
        }
        listener.map_err(FleetError::sql("listen"))
    }
}

/// Refuses a server that lacks what the session needs.
fn check_server(row: &PgRow) -> Result<(), FleetError> {
    check_version(row.get("version"), row.get("shown"))?;
    if row.get::<Option<bool>, _>("is_limited") == Some(true) {
        Ok(())
    } else {
        Err(FleetError::Refused(POOLER.to_owned()))
    }
}

/// The advice for a pooler, which gives each transaction another session.
pub(super) const POOLER: &str = "the session with the database does not keep its settings, as \
    behind a pooler: name the address of PostgreSQL itself in database";
