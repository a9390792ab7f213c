-- How many replicas have given a track up for reasons of their own since its last pass that
-- succeeded, and when the last one did. Once all have, handing it over brings nothing.
ALTER TABLE leases ADD COLUMN given_up bigint NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN gave_up timestamptz;
