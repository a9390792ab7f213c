-- What packages are found by: one row for each package of each revision.
CREATE TABLE search_packages (
    id       INTEGER PRIMARY KEY,
    revision INTEGER NOT NULL REFERENCES revisions (id) ON DELETE CASCADE,
    -- The package, by its number in the revision's index.
    package  INTEGER NOT NULL
);

CREATE INDEX search_packages_by_revision ON search_packages (revision, package);

-- The words of those rows, by rowid. The texts themselves are not kept: what
-- is answered lies in the revision's files. Columns stand from the one whose
-- match says most to the one that says least.
CREATE VIRTUAL TABLE search USING fts5 (
    name, display_name, keywords, kinds, provider, description,
    content = '', contentless_delete = 1,
    tokenize = "unicode61 remove_diacritics 2"
);

-- Rows go with their revision, and words with their row.
CREATE TRIGGER search_packages_removed AFTER DELETE ON search_packages
BEGIN
    DELETE FROM search WHERE rowid = old.id;
END;
