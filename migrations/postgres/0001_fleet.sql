-- What the replicas of a fleet share. The bytes are in the bucket.

CREATE TABLE fleet (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- The object `fleet` in the bucket names it.
    id     text        NOT NULL,
    -- The place of the bucket.
    bucket text,
    -- The last migration that a program has to know. One that only adds leaves it.
    needs  bigint      NOT NULL DEFAULT 1,
    -- The last search for objects that nobody needs.
    listed timestamptz NOT NULL DEFAULT clock_timestamp()
);

INSERT INTO fleet (id) VALUES (replace(gen_random_uuid()::text, '-', ''));

-- JSON has no larger whole numbers.
CREATE SEQUENCE generation_numbers AS bigint MAXVALUE 9007199254740991;

-- A replica lives while its session holds the advisory lock (1, id).
CREATE TABLE replicas (
    id      integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name    text      NOT NULL,
    version text      NOT NULL,
    -- The tracks of its configuration.
    tracks  integer[] NOT NULL DEFAULT '{}',
    -- Those that others should follow, since passes fail at this replica.
    unfit   integer[] NOT NULL DEFAULT '{}',
    -- Digests of objects that it did not find in the bucket, or with other bytes.
    missing bytea[]   NOT NULL DEFAULT '{}'
);

-- A catalog of one configuration. Its holder has the advisory lock (2, id).
CREATE TABLE tracks (
    id         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    catalog    text NOT NULL,
    identity   text NOT NULL,
    -- Its newest generation.
    newest     bigint,
    -- A generation with an earlier date is not current: clients may have seen a later one of
    -- another configuration. In seconds since 1970-01-01 UTC.
    not_before bigint      NOT NULL DEFAULT 0,
    -- When a replica last had it in its configuration.
    wanted     timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (catalog, identity)
);

CREATE TABLE generations (
    number         bigint PRIMARY KEY,
    track          integer NOT NULL REFERENCES tracks (id) ON DELETE CASCADE,
    -- The number of the generation that brought its files.
    revision       bigint  NOT NULL,
    content        text    NOT NULL,
    -- Seconds since 1970-01-01 UTC, by the clock of the database.
    modified       bigint  NOT NULL,
    -- JSON: what the history keeps of the revision.
    published      text    NOT NULL,
    -- The image as JSON, and the revision that it was made of.
    image          text,
    image_revision bigint,
    -- When the pass began that found it at its source.
    resolved       timestamptz,
    -- Whether webhooks have not been notified of its revision.
    unnotified     boolean     NOT NULL,
    made           timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX generations_by_track ON generations (track, number);

-- The objects of a generation: files of its revision by name, parts of its image by digest.
CREATE TABLE objects (
    generation bigint NOT NULL REFERENCES generations (number) ON DELETE CASCADE,
    name       text   NOT NULL,
    digest     bytea  NOT NULL CHECK (length(digest) = 32),
    -- Decoded bytes.
    size       bigint NOT NULL,
    coding     text   NOT NULL CHECK (coding IN ('identity', 'zstd')),
    PRIMARY KEY (generation, name)
);

CREATE INDEX objects_by_digest ON objects (digest);

CREATE TABLE history (
    catalog   text   NOT NULL,
    revision  bigint NOT NULL,
    published text   NOT NULL,
    -- Its outline, unless it has none.
    outline   bytea CHECK (length(outline) = 32),
    size      bigint,
    PRIMARY KEY (catalog, revision)
);

CREATE INDEX history_by_outline ON history (outline);
