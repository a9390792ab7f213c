-- The platform of a revision's image, or the digest of a curated catalog's
-- selection; NULL for folders. Before, it stood in `source` behind a space.
ALTER TABLE revisions ADD COLUMN variant TEXT;

-- Without its spaces, a text has all characters that may end it behind the last
-- space; rtrim removes those, and leaves the text up to that space. Spaces in
-- the path of a folder are its own.
UPDATE revisions SET
    variant = substr(source, length(rtrim(source, replace(source, ' ', ''))) + 1),
    source = substr(source, 1, length(rtrim(source, replace(source, ' ', ''))) - 1)
  WHERE source NOT GLOB 'file:*' AND instr(source, ' ') > 0;
