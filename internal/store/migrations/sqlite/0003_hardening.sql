CREATE TABLE personal_hash_formats (
    format TEXT   PRIMARY KEY, -- what of a stored password hash determines how long it takes to verify
    seen   INTEGER NOT NULL     -- when an import or a scan last met it
) STRICT;

ALTER TABLE personal_audit ADD COLUMN actor TEXT NOT NULL DEFAULT ''; -- user, administrator or system; '': written by version 0.1.0
ALTER TABLE personal_audit ADD COLUMN actor_name TEXT NOT NULL DEFAULT ''; -- the administrator's, as the host gave it

-- Last: from here on readers of sessions wait for the end of the transaction.
ALTER TABLE personal_sessions ADD COLUMN rotations INTEGER NOT NULL DEFAULT 0;
ALTER TABLE personal_sessions ADD COLUMN marks BLOB NOT NULL DEFAULT x''; -- the rotation counts at some past times
