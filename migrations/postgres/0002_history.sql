-- What replicas that were away, or are new, learn of earlier revisions.

-- The revision as the history has it, as JSON; NULL of a version without a history.
ALTER TABLE revisions ADD COLUMN published text;
ALTER TABLE revisions ADD COLUMN variant text;

-- The revisions that were served, of all tracks of a name.
CREATE TABLE history (
    catalog     text   NOT NULL,
    revision    bigint NOT NULL,
    published   text   NOT NULL,
    -- Its outline, unless it has none.
    digest      bytea,
    incarnation bigint,
    PRIMARY KEY (catalog, revision),
    FOREIGN KEY (digest, incarnation) REFERENCES objects (digest, incarnation)
);

-- When the bucket was last compared with the rows.
ALTER TABLE fleet ADD COLUMN listed timestamptz NOT NULL DEFAULT clock_timestamp();

CREATE INDEX history_by_object ON history (digest, incarnation);
