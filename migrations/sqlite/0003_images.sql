-- The images that revisions are pulled as over OCI distribution. Made once a
-- revision is published; what they are made of is in revision_blobs as well.

CREATE TABLE images (
    revision INTEGER PRIMARY KEY REFERENCES revisions (id) ON DELETE CASCADE,
    -- The whole image as JSON: tags, manifests and blobs by digest.
    document TEXT    NOT NULL
);
