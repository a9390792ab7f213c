//! How far the replicas are with a generation: each leaves a receipt once it has it.

use std::time::Duration;

use sqlx::{PgConnection, Row as _};

use crate::store::fleet::error::FleetError;
use crate::store::fleet::generation::GenerationId;
use crate::store::fleet::leases::ReplicaId;
use crate::store::fleet::pool::Fleet;
use crate::store::fleet::session::limited;

/// Beats of a replica are not further apart while the database answers.
pub const GAP: Duration = Duration::from_secs(3);

/// When replicas lived whose rows have expired, though they may live: while the database
/// was silent, nobody could beat. Times are of the database's clock, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Silences {
    /// Before a silence that ended lately.
    pub lived_at: Option<i64>,
    /// At the caller's last beat: longer than [`GAP`] ago, the database was silent since.
    pub beaten_at: Option<i64>,
}

/// How far the replicas are with a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The replicas that may have clients: they live, want the track and serve every
    /// current generation, or do so as well as any other.
    pub replicas: i64,
    /// Those of them that have it.
    pub having: i64,
    /// Whether the holder has it itself.
    pub mine: bool,
    /// Whether others live and want the track, ready or not.
    pub has_others: bool,
}

impl Fleet {
    /// Leaves a receipt: this replica has the generation on its disk, and open.
    pub async fn leave_receipt(&self, me: ReplicaId, id: GenerationId) -> Result<(), FleetError> {
        let statement = sqlx::query(
            "INSERT INTO receipts (track, number, replica)
             SELECT track, number, $3 FROM generations WHERE track = $1 AND number = $2
             ON CONFLICT DO NOTHING",
        );
        let statement = statement.bind(id.track.0).bind(id.number).bind(me.0);
        self.execute("leave a receipt", statement).await.map(drop)
    }

    /// How far the replicas are with a generation. Those that lived before a silence count
    /// as living.
    pub async fn prepared(
        &self,
        me: ReplicaId,
        id: GenerationId,
        silences: Silences,
    ) -> Result<Prepared, FleetError> {
        limited(async {
            let mut session = self.session("count receipts").await?;
            let found = prepared(&mut session, me, id, silences).await?;
            session.release();
            Ok(found)
        })
        .await
    }
}

/// Counts the receipts of a generation. Where no replica serves all, each that lives may
/// have clients.
pub(super) async fn prepared(
    database: &mut PgConnection,
    me: ReplicaId,
    id: GenerationId,
    silences: Silences,
) -> Result<Prepared, FleetError> {
    // The least of several times leaves out those that are NULL.
    let query = sqlx::query(
        "WITH times AS (
           SELECT clock_timestamp() AS now, to_timestamp($4::bigint / 1000000.0) AS lived,
             to_timestamp($5::bigint / 1000000.0) AS beaten
         ), living AS (
           SELECT id, ready FROM replicas, times WHERE $1 = ANY(wants) AND expires > least(
             now, lived,
             CASE WHEN now - beaten > $6 * interval '1 millisecond' THEN beaten END)
         ), wanting AS (
           SELECT id FROM living WHERE ready OR NOT EXISTS (SELECT 1 FROM living WHERE ready)
         ), got AS (SELECT replica FROM receipts WHERE track = $1 AND number = $2)
         SELECT (SELECT count(*) FROM wanting),
           (SELECT count(*) FROM wanting WHERE id IN (SELECT replica FROM got)),
           EXISTS (SELECT 1 FROM got WHERE replica = $3),
           EXISTS (SELECT 1 FROM living WHERE id <> $3)",
    );
    let query = query.bind(id.track.0).bind(id.number).bind(me.0);
    let query = query.bind(silences.lived_at).bind(silences.beaten_at);
    let query = query.bind(i64::try_from(GAP.as_millis()).unwrap_or(i64::MAX));
    let row = query.fetch_one(database).await;
    let row = row.map_err(FleetError::sql("count receipts"))?;
    Ok(Prepared {
        replicas: row.get(0),
        having: row.get(1),
        mine: row.get(2),
        has_others: row.get(3),
    })
}
