-- Revisions of imports that webhooks have not been told of.

CREATE TABLE untold (
    revision INTEGER PRIMARY KEY REFERENCES revisions (id) ON DELETE CASCADE
);
