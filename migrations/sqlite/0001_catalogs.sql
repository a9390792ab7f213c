-- Catalogs, their revisions, what is wrong with them, and the passes over them.
-- Times are seconds since 1970-01-01 UTC.

-- A catalog by name; its settings are in the configuration.
CREATE TABLE catalogs (
    name    TEXT PRIMARY KEY,
    -- The revision that is served.
    current INTEGER REFERENCES revisions (id)
);

-- One catalog at one digest. Its files lie in revisions/<id>/.
CREATE TABLE revisions (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    catalog     TEXT    NOT NULL REFERENCES catalogs (name) ON DELETE CASCADE,
    -- Where it came from, as it was configured.
    source      TEXT    NOT NULL,
    -- The digest that the source was at: of the image's top-level document, or
    -- of the folder's files.
    digest      TEXT    NOT NULL,
    -- The digest of the canonical metas: the same for the same content.
    content     TEXT    NOT NULL,
    -- When this content first became a revision of the catalog.
    modified    INTEGER NOT NULL,
    committed   INTEGER NOT NULL,
    -- Layout of the files; another than this version's is made anew.
    format      INTEGER NOT NULL,
    metas       INTEGER NOT NULL,
    packages    INTEGER NOT NULL,
    channels    INTEGER NOT NULL,
    entries     INTEGER NOT NULL,
    bundles     INTEGER NOT NULL,
    quarantined INTEGER NOT NULL
);

CREATE INDEX revisions_by_catalog ON revisions (catalog);

-- The OCI blobs that a revision was made from: manifests, config, layers.
CREATE TABLE revision_blobs (
    revision INTEGER NOT NULL REFERENCES revisions (id) ON DELETE CASCADE,
    digest   TEXT    NOT NULL,
    PRIMARY KEY (revision, digest)
) WITHOUT ROWID;

CREATE INDEX revision_blobs_by_digest ON revision_blobs (digest);

-- What was found wrong with a revision, in the order of its files.
CREATE TABLE problems (
    revision INTEGER NOT NULL REFERENCES revisions (id) ON DELETE CASCADE,
    number   INTEGER NOT NULL,
    -- The whole problem as JSON.
    problem  TEXT    NOT NULL,
    PRIMARY KEY (revision, number)
) WITHOUT ROWID;

-- What became of each pass over a catalog; only the latest are kept.
CREATE TABLE passes (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    catalog  TEXT    NOT NULL REFERENCES catalogs (name) ON DELETE CASCADE,
    started  INTEGER NOT NULL,
    finished INTEGER NOT NULL,
    -- committed, refused or failed. A pass that finds nothing new leaves no row.
    outcome  TEXT    NOT NULL,
    digest   TEXT,
    -- Where and why it failed: short labels, then the sentence.
    stage    TEXT,
    reason   TEXT,
    error    TEXT
);

CREATE INDEX passes_by_catalog ON passes (catalog, id);
