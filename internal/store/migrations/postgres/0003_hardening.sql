ALTER TABLE personal_sessions ADD COLUMN rotations BIGINT NOT NULL DEFAULT 0;
ALTER TABLE personal_sessions ADD COLUMN marks BYTEA NOT NULL DEFAULT ''; -- when there were how many rotations

ALTER TABLE personal_audit ADD COLUMN actor TEXT NOT NULL DEFAULT ''; -- user, administrator or system; '': written by version 0.1.0
ALTER TABLE personal_audit ADD COLUMN actor_name TEXT NOT NULL DEFAULT ''; -- the administrator's, as the host gave it
CREATE INDEX personal_audit_account_type ON personal_audit (account_id, type, id);
DROP INDEX personal_audit_account;

CREATE TABLE personal_hash_formats (
    format TEXT   PRIMARY KEY, -- what of a stored password hash determines how long it takes to verify
    seen   BIGINT NOT NULL     -- when an import or a scan last met it
);
