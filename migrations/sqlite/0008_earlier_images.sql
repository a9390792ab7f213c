-- The images that clients see while the current revisions of their catalogs have none.
-- The revisions that they were made of may be gone.

CREATE TABLE earlier_images (
    catalog  TEXT    PRIMARY KEY REFERENCES catalogs (name) ON DELETE CASCADE,
    revision INTEGER NOT NULL,
    -- As in revisions: where it came from.
    source   TEXT    NOT NULL,
    variant  TEXT,
    -- As in images.
    document TEXT    NOT NULL
);
