-- What each file of a revision must be: compared before and while it is served.

CREATE TABLE revision_files (
    revision INTEGER NOT NULL REFERENCES revisions (id) ON DELETE CASCADE,
    -- Its name in the revision's folder.
    file     TEXT    NOT NULL,
    -- Bytes.
    length   INTEGER NOT NULL,
    -- CRC-32 of each MiB, as four bytes each, the lowest first.
    sums     BLOB    NOT NULL,
    PRIMARY KEY (revision, file)
) WITHOUT ROWID;

-- Whether its files were found damaged: then it is not served after a start.
ALTER TABLE revisions ADD COLUMN damaged INTEGER NOT NULL DEFAULT 0;
