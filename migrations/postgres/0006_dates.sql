-- The latest date of what other tracks of the catalog had shown when a replica began to follow
-- this one, in seconds since 1970-01-01 UTC. What this track shows is published again if it is
-- older.
ALTER TABLE tracks ADD COLUMN not_before bigint;
