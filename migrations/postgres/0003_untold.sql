-- Whether webhooks have not been told of a revision: an import has published it, and the
-- next replica that follows the track tells.
ALTER TABLE revisions ADD COLUMN untold boolean NOT NULL DEFAULT false;
