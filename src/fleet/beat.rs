//! The beat: one statement every two seconds that keeps the session, and says who lives, who
//! should follow what, and what is new.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use futures_util::FutureExt as _;
use serde::Deserialize;
use sqlx::Row as _;
use sqlx::postgres::PgConnection;
use tokio_util::sync::CancellationToken;

use crate::fleet::error::FleetError;
use crate::fleet::fleet_metrics;
use crate::fleet::generations::{newest, pass_number};
use crate::fleet::numbers::{TrackId, numbers};
use crate::fleet::ranking::{Candidate, preferred};
use crate::fleet::replica::Replica;
use crate::fleet::session::{CHANNEL, POOLER, RETRY, SessionNumber, statements};
use crate::fleet::track_state::{Ask, Role};
use crate::store::unix_of_time;
use ::images::digest::Digest;

/// The time between two beats.
const INTERVAL: Duration = Duration::from_secs(2);
/// The least time: whoever may connect to the database may send notifications.
const LEAST: Duration = Duration::from_millis(100);
/// The same after a beat that failed.
const AGAIN: Duration = Duration::from_secs(1);
/// After so many failures in a row, the session is left: another replica may do better.
const MOST_FAILURES: u32 = 3;
/// The time before another reason of the same failure is logged.
const LOG_AGAIN: Duration = Duration::from_secs(5);
/// After so long without a notification its connection is replaced: it may be dead.
const SILENCE: Duration = Duration::from_mins(10);
/// The time between two tries to hear of changes.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);
/// The least time between two retries that others ask for.
const RETRY_AGAIN: Duration = Duration::from_secs(2);
/// The difference between the clocks of this machine and of the database that is reported.
const SKEW: u64 = 60;

/// All that a beat asks for.
const BEAT: &str = "WITH locks AS MATERIALIZED (
    SELECT classid::bigint AS class, objid::bigint AS id, granted, pid FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 2
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  ), live AS MATERIALIZED (
    SELECT * FROM replicas WHERE id IN (SELECT id FROM locks WHERE class = 1 AND granted))
  SELECT json_build_object(
    'fleet', (SELECT id FROM fleet),
    'process', pg_backend_pid(),
    'now', extract(epoch FROM clock_timestamp())::bigint,
    'live', (SELECT coalesce(json_agg(json_build_object(
      'id', id, 'tracks', tracks, 'unfit', unfit)), '[]') FROM live),
    'missing', (SELECT coalesce(json_agg(DISTINCT 'sha256:' || encode(m, 'hex')), '[]')
      FROM live, unnest(missing) m),
    'held', (SELECT coalesce(json_agg(id), '[]') FROM locks
      WHERE class = 2 AND granted AND pid = pg_backend_pid()),
    'awaited', (SELECT coalesce(json_agg(id), '[]') FROM locks WHERE class = 2 AND NOT granted),
    'tracks', (SELECT coalesce(json_agg(json_build_object(
      'id', id, 'newest', newest, 'not_before', not_before)), '[]')
      FROM tracks WHERE id = ANY($1)))::text";

/// The answer to a beat.
#[derive(Debug, Deserialize)]
struct Beat {
    /// The fleet of the database.
    fleet: Option<String>,
    /// The process of the server that answers.
    process: i32,
    /// The time of the database, in seconds since 1970.
    now: u64,
    /// The replicas that live.
    live: Vec<Candidate>,
    /// The objects that they report as missing.
    missing: Vec<Digest>,
    /// The tracks whose lock this session has.
    held: Vec<i32>,
    /// The tracks whose lock somebody waits for, such as an import.
    awaited: Vec<i32>,
    tracks: Vec<TrackRow>,
}

#[derive(Debug, Deserialize)]
struct TrackRow {
    id: i32,
    newest: Option<i64>,
    not_before: i64,
}

/// What the last beats have shown.
#[derive(Default)]
struct Seen {
    /// The session in which this replica is registered, and its process of the server.
    registered: Option<(SessionNumber, i32)>,
    /// The row of this replica.
    me: Option<i32>,
    /// What its row has.
    told: Option<Told>,
    /// Whether the clocks differ.
    is_skewed: bool,
}

/// What a replica's row says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Told {
    tracks: Vec<TrackId>,
    unfit: Vec<TrackId>,
    missing: Vec<Digest>,
}

/// Beats until it is stopped, then ends the session, and with it all locks.
pub(super) async fn beat(replica: Replica, stop: CancellationToken) {
    // A task that panicked has left its session.
    replica.fleet().close().await;
    let mut seen = Seen::default();
    let mut logged: Option<(String, Instant)> = None;
    let mut failures = 0;
    loop {
        let begun = Instant::now();
        let result = once(&replica, &mut seen).await;
        let interval = match result {
            Ok(beat) => {
                failures = 0;
                if logged.take().is_some() {
                    tracing::info!("the database of the fleet answers again");
                }
                let live = beat.live.iter().map(|one| one.id).collect();
                replica.heard(live, beat.missing);
                INTERVAL
            }
            Err(error) => {
                fleet_metrics::failed(&error);
                failures += 1;
                // One statement may fail while the locks stay. Else nobody there knows what
                // this replica may do, or it does nothing with its locks.
                let is_passing = matches!(error, FleetError::Database { .. });
                if !is_passing || failures >= MOST_FAILURES {
                    replica.fleet().close().await;
                }
                let session = replica.fleet().session().number();
                if session.is_none() || session != seen.session() {
                    replica.lost_session();
                }
                let error = error.to_string();
                let is_known = logged
                    .as_ref()
                    .is_some_and(|(text, when)| *text == error || when.elapsed() < LOG_AGAIN);
                if !is_known {
                    tracing::warn!(error, "serving goes on, and passes wait for the database");
                    logged = Some((error.clone(), Instant::now()));
                }
                replica.failed(error);
                AGAIN
            }
        };
        let pausing = async {
            tokio::time::sleep(LEAST).await;
            let left = interval.saturating_sub(begun.elapsed());
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                () = replica.nudged() => {}
                () = ended(&replica, &seen) => {}
            }
        };
        tokio::select! {
            () = pausing => {}
            () = stop.cancelled() => break,
        }
    }
    replica.lost_session();
    replica.fleet().close().await;
}

/// Waits until the session ends.
async fn ended(replica: &Replica, seen: &Seen) {
    match seen.registered {
        Some((session, _)) => replica.fleet().session().ended(session).await,
        None => std::future::pending().await,
    }
}

async fn once(replica: &Replica, seen: &mut Seen) -> Result<Beat, FleetError> {
    let fleet = replica.fleet();
    if fleet.session().number().is_none() || fleet.session().number() != seen.session() {
        replica.lost_session();
        register(replica, seen).await?;
    }
    let (session, process) = seen.registered.ok_or(FleetError::Fenced)?;
    tell(replica, seen, session).await?;
    let tracks: Vec<TrackId> = replica
        .tracks()
        .into_iter()
        .filter_map(|(_, id)| id)
        .collect();
    let asked = numbers(&tracks);
    let beat = fleet
        .session()
        .run_in(session, move |connection| ask(connection, asked).boxed())
        .await?;
    if beat.process != process {
        return Err(FleetError::Refused(POOLER.to_owned()));
    }
    let of = beat.fleet.as_deref().ok_or(FleetError::NoFleet)?;
    if !fleet.session().expects(of) {
        // The next connection is refused.
        fleet.close().await;
        return Err(FleetError::OtherFleet);
    }
    let is_known = beat.live.iter().any(|one| Some(one.id) == seen.me);
    if !is_known {
        // A restore has lost the row: this replica joins again.
        seen.registered = None;
        return Err(FleetError::Row("replicas"));
    }
    seen.report_skew(beat.now);
    learn(replica, session, &beat.tracks).await?;
    let Some(me) = seen.me else {
        return Ok(beat);
    };
    change_roles(replica, session, me, &beat).await?;
    Ok(beat)
}

async fn ask(connection: &mut PgConnection, tracks: Vec<i32>) -> Result<Beat, FleetError> {
    let answer = sqlx::query_scalar(BEAT)
        .bind(tracks)
        .fetch_one(connection)
        .await;
    let answer: String = answer.map_err(FleetError::sql("look at the fleet"))?;
    serde_json::from_str(&answer).map_err(|_| FleetError::Row("replicas"))
}

/// Makes this replica one of the fleet's, in a new session.
async fn register(replica: &Replica, seen: &mut Seen) -> Result<(), FleetError> {
    let fleet = replica.fleet();
    let (before, name) = (seen.me, fleet.name().to_owned());
    let last = replica.last_number().await?;
    let work = statements(move |connection| {
        async move {
            let action = "join the fleet";
            pass_number(&mut *connection, last).await?;
            // The row of before, so that no catalog moves, unless its lock is not free yet.
            let query = sqlx::query_as(
                "SELECT id, pg_backend_pid(), pg_try_advisory_lock(1, id) FROM replicas
                 WHERE id = $1",
            );
            let known = query.bind(before).fetch_optional(&mut *connection).await;
            let known: Option<(i32, i32, bool)> = known.map_err(FleetError::sql(action))?;
            if let Some((id, process, true)) = known {
                return Ok((id, process));
            }
            let query = sqlx::query_as(
                "INSERT INTO replicas (name, version) VALUES ($1, $2)
                 RETURNING id, pg_backend_pid(), pg_try_advisory_lock(1, id)",
            );
            let query = query.bind(name).bind(env!("CARGO_PKG_VERSION"));
            let made = query.fetch_one(&mut *connection).await;
            let made: (i32, i32, bool) = made.map_err(FleetError::sql(action))?;
            Ok((made.0, made.1))
        }
        .boxed()
    });
    let (me, process): (i32, i32) = fleet.session().run(work).await?;
    let session = fleet.session().number().ok_or(FleetError::Fenced)?;
    seen.registered = Some((session, process));
    (seen.me, seen.told) = (Some(me), None);
    replica.joined(me);
    Ok(())
}

/// Writes what has changed of this replica into its row.
async fn tell(
    replica: &Replica,
    seen: &mut Seen,
    session: SessionNumber,
) -> Result<(), FleetError> {
    let Some(me) = seen.me else { return Ok(()) };
    let is_first = seen.told.is_none();
    name_tracks(replica, session, is_first).await?;
    let mut told = Told {
        missing: replica.missing().all(),
        ..Told::default()
    };
    let now = Instant::now();
    for (state, id) in replica.tracks() {
        let Some(id) = id else { continue };
        told.tracks.push(id);
        // A pass ends in the bucket.
        if !replica.fleet().owns_bucket() || state.borrow().is_unfit(now) {
            told.unfit.push(id);
        }
    }
    told.tracks.sort_unstable();
    if seen.told.as_ref() == Some(&told) {
        return Ok(());
    }
    let (tracks, unfit) = (numbers(&told.tracks), numbers(&told.unfit));
    let missing = told.missing.iter().map(|digest| digest.as_bytes().to_vec());
    let missing: Vec<Vec<u8>> = missing.collect();
    let statement =
        sqlx::query("UPDATE replicas SET tracks = $2, unfit = $3, missing = $4 WHERE id = $1");
    let statement = statement.bind(me).bind(tracks).bind(unfit).bind(missing);
    let action = "record this replica";
    let sessions = replica.fleet().session();
    let changed = sessions.execute(Some(session), action, statement).await;
    // A database that lost the row is joined again.
    if changed.as_ref().map_or(true, |changed| *changed == 0) {
        seen.registered = None;
    }
    if changed? == 0 {
        return Err(FleetError::Row("replicas"));
    }
    seen.told = Some(told);
    Ok(())
}

/// Gives new tracks their rows; all of them in a new session, whose database may be another.
async fn name_tracks(
    replica: &Replica,
    session: SessionNumber,
    is_first: bool,
) -> Result<(), FleetError> {
    let named = replica.named_tracks(is_first);
    if named.is_empty() {
        return Ok(());
    }
    let (catalogs, identities): (Vec<String>, Vec<String>) = named
        .iter()
        .map(|((catalog, identity), _)| (catalog.to_string(), identity.clone()))
        .unzip();
    // Whoever opened a track before knows what its clients have seen.
    let is_opened = named.iter().map(|(_, state)| !state.borrow().is_known);
    let is_opened: Vec<bool> = is_opened.collect();
    let work = statements(move |connection| {
        async move {
            let action = "record the catalogs";
            // In one order, so that two replicas do not wait for each other.
            let query = sqlx::query_as(
                "INSERT INTO tracks (catalog, identity)
                 SELECT * FROM unnest($1::text[], $2::text[]) named (catalog, identity)
                 ORDER BY catalog, identity
                 ON CONFLICT (catalog, identity) DO UPDATE SET wanted = clock_timestamp()
                 RETURNING id, catalog, identity",
            );
            let query = query.bind(&catalogs).bind(&identities);
            let rows = query.fetch_all(&mut *connection).await;
            let rows: Vec<(i32, String, String)> = rows.map_err(FleetError::sql(action))?;
            let find = |(catalog, identity): (&String, &String)| {
                let mut rows = rows.iter();
                let found = rows.find(|row| (&row.1, &row.2) == (catalog, identity));
                found.map(|row| row.0)
            };
            let ids: Option<Vec<i32>> = catalogs.iter().zip(&identities).map(find).collect();
            let ids = ids.ok_or(FleetError::Row("tracks"))?;
            let opened = ids.iter().zip(is_opened).filter(|(_, opened)| *opened);
            let opened: Vec<i32> = opened.map(|(id, _)| *id).collect();
            // Clients of the replica that this one replaces may have seen another
            // configuration, and the date may not go back.
            let statement = sqlx::query(
                "UPDATE tracks t SET not_before = latest.modified
                 FROM (SELECT o.catalog, max(g.modified) AS modified
                   FROM tracks o JOIN generations g ON g.number = o.newest GROUP BY o.catalog
                 ) latest, generations own
                 WHERE t.id = ANY($1) AND latest.catalog = t.catalog AND own.number = t.newest
                   AND own.modified < latest.modified AND t.not_before < latest.modified",
            );
            let done = statement.bind(opened).execute(connection).await;
            done.map_err(FleetError::sql(action))?;
            Ok(ids)
        }
        .boxed()
    });
    let ids = replica.fleet().session().run_in(session, work).await?;
    for ((_, state), id) in named.iter().zip(ids) {
        state.send_modify(|state| state.id = Some(TrackId(id)));
    }
    Ok(())
}

/// Reads generations that are newer than those that this replica knows.
async fn learn(
    replica: &Replica,
    session: SessionNumber,
    rows: &[TrackRow],
) -> Result<(), FleetError> {
    let mut changed: BTreeMap<TrackId, i64> = BTreeMap::new();
    for (state, id) in replica.tracks() {
        let Some(row) = rows.iter().find(|row| Some(TrackId(row.id)) == id) else {
            // A restore has lost the row: the next beat makes it again.
            state.send_if_modified(|state| state.id.take().is_some());
            continue;
        };
        let state = state.borrow();
        let known = state.newest.as_ref().map(|newest| newest.number.0);
        if !state.is_known || known != row.newest || state.not_before != row.not_before {
            changed.insert(TrackId(row.id), row.not_before);
        }
    }
    read(replica, session, changed).await
}

/// Reads the newest generations of tracks, each with the earliest date of a current one.
async fn read(
    replica: &Replica,
    session: SessionNumber,
    tracks: BTreeMap<TrackId, i64>,
) -> Result<(), FleetError> {
    if tracks.is_empty() {
        return Ok(());
    }
    let asked: Vec<TrackId> = tracks.keys().copied().collect();
    let work = statements(move |connection| newest(connection, asked).boxed());
    let found = replica.fleet().session().run_in(session, work).await?;
    for (state, id) in replica.tracks() {
        let Some((id, not_before)) = id.and_then(|id| Some((id, *tracks.get(&id)?))) else {
            continue;
        };
        let newest = found
            .iter()
            .find(|generation| generation.track == id)
            .cloned();
        state.send_if_modified(|state| state.learn(newest, not_before));
    }
    Ok(())
}

/// Takes and releases locks.
async fn change_roles(
    replica: &Replica,
    session: SessionNumber,
    me: i32,
    beat: &Beat,
) -> Result<(), FleetError> {
    let (mut to_lock, mut to_unlock) = (Vec::new(), Vec::new());
    for (state, id) in replica.tracks() {
        let Some(TrackId(id)) = id else { continue };
        let should = preferred(id, &beat.live) == Some(me) && !beat.awaited.contains(&id);
        let holds = beat.held.contains(&id);
        state.send_if_modified(|state| {
            let (role, ask) = state.role.after_beat(session, holds, should);
            match ask {
                Ask::Lock => to_lock.push(id),
                Ask::Unlock => to_unlock.push(id),
                Ask::Nothing => {}
            }
            std::mem::replace(&mut state.role, role) != role
        });
    }
    // What left the configuration.
    let wanted: Vec<i32> = replica
        .tracks()
        .iter()
        .filter_map(|(_, id)| Some((*id)?.0))
        .collect();
    to_unlock.extend(beat.held.iter().filter(|id| !wanted.contains(id)));
    if !to_unlock.is_empty() {
        let unlock = sqlx::query(
            "SELECT pg_advisory_unlock(2, id), pg_notify($2, '') FROM unnest($1::int[]) id",
        );
        let unlock = unlock.bind(to_unlock).bind(CHANNEL);
        let sessions = replica.fleet().session();
        sessions
            .execute(Some(session), "release catalogs", unlock)
            .await?;
    }
    if to_lock.is_empty() {
        return Ok(());
    }
    let lock = sqlx::query(
        "SELECT id, not_before, pg_try_advisory_lock(2, id) FROM tracks WHERE id = ANY($1)",
    );
    let sessions = replica.fleet().session();
    let asked = sessions.rows(Some(session), "take catalogs", lock.bind(to_lock));
    let asked = asked.await?;
    let locked = asked.iter().filter(|row| row.get(2));
    let locked = locked.map(|row| (TrackId(row.get(0)), row.get(1)));
    let locked: BTreeMap<TrackId, i64> = locked.collect();
    // After the lock: the holder before may have published since the beat.
    read(replica, session, locked.clone()).await?;
    for (state, id) in replica.tracks() {
        if id.is_some_and(|id| locked.contains_key(&id)) {
            state.send_modify(|state| {
                state.role = Role::Holds {
                    session,
                    working: 0,
                };
            });
        }
    }
    fleet_metrics::took(locked.len());
    Ok(())
}

impl Seen {
    /// Reports a clock that differs from that of the database, which dates the catalogs.
    fn report_skew(&mut self, now: u64) {
        let skew = now.abs_diff(unix_of_time(SystemTime::now()));
        fleet_metrics::skew(skew);
        let is_skewed = skew >= SKEW;
        if is_skewed && !self.is_skewed {
            tracing::warn!(
                seconds = skew,
                "the clocks of this machine and of the database differ: the database dates the \
                 catalogs"
            );
        }
        self.is_skewed = is_skewed;
    }

    fn session(&self) -> Option<SessionNumber> {
        self.registered.map(|(session, _)| session)
    }
}

/// Nudges at each notification. They may get lost, so nothing depends on them.
pub(super) async fn listen(replica: Replica, stop: CancellationToken) {
    let listening = async {
        let mut retried: Option<Instant> = None;
        loop {
            match replica.fleet().session().listen().await {
                Ok(mut listener) => {
                    replica.nudge();
                    while let Ok(Ok(notification)) =
                        tokio::time::timeout(SILENCE, listener.recv()).await
                    {
                        if notification.payload() != RETRY {
                            replica.nudge();
                        } else if retried.is_none_or(|when| when.elapsed() >= RETRY_AGAIN) {
                            retried = Some(Instant::now());
                            replica.retry();
                        }
                    }
                }
                Err(error) => tracing::debug!(%error, "changes are heard of by beats only"),
            }
            tokio::time::sleep(LISTEN_AGAIN).await;
        }
    };
    stop.run_until_cancelled(listening).await;
}
