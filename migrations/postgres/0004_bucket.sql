-- Where the bucket is whose mark names this fleet, without secrets; NULL before a replica
-- has found or written the mark. A place without it is not the fleet's.
ALTER TABLE fleet ADD COLUMN bucket text;
