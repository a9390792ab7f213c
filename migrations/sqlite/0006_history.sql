-- The revisions that were published, also those whose files are gone.

CREATE TABLE history (
    -- The number of the revision.
    revision    INTEGER PRIMARY KEY,
    catalog     TEXT    NOT NULL REFERENCES catalogs (name) ON DELETE CASCADE,
    source      TEXT    NOT NULL,
    digest      TEXT    NOT NULL,
    -- The digest of the canonical metas. The outline's file has its name.
    content     TEXT    NOT NULL,
    committed   INTEGER NOT NULL,
    packages    INTEGER NOT NULL,
    channels    INTEGER NOT NULL,
    entries     INTEGER NOT NULL,
    bundles     INTEGER NOT NULL,
    quarantined INTEGER NOT NULL,
    -- The revision that the changes are counted from.
    before      INTEGER,
    -- The number of changes since then; NULL for the first one.
    changed     INTEGER,
    -- The first of these changes, as JSON.
    changes     TEXT
);

CREATE INDEX history_by_catalog ON history (catalog, revision);
