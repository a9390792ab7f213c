-- The latest date that the fleet had shown of the catalog, under any configuration, when a
-- replica began to follow this track, in seconds since 1970-01-01 UTC: nothing older is to be
-- shown. And whether no other replica followed it then.
ALTER TABLE tracks ADD COLUMN not_before bigint;
ALTER TABLE tracks ADD COLUMN abandoned boolean NOT NULL DEFAULT false;
