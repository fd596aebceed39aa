ALTER TABLE personal_accounts ADD COLUMN two_factor_secret BLOB; -- encrypted; NULL: no second factor
ALTER TABLE personal_accounts ADD COLUMN two_factor_key TEXT NOT NULL DEFAULT ''; -- the id of the key that decrypts the secret
ALTER TABLE personal_accounts ADD COLUMN two_factor_step INTEGER NOT NULL DEFAULT 0; -- the last time step (RFC 6238) whose code was used

CREATE TABLE personal_recovery_codes ( -- the unused ones
    account_id INTEGER NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    digest     BLOB    NOT NULL,
    PRIMARY KEY (account_id, digest)
) STRICT;

CREATE TABLE personal_pending_factors ( -- secrets that their user has not confirmed yet
    session_id         INTEGER PRIMARY KEY REFERENCES personal_sessions ON DELETE CASCADE,
    credential_version INTEGER NOT NULL,
    secret             BLOB    NOT NULL, -- encrypted
    secret_key         TEXT    NOT NULL,
    created            INTEGER NOT NULL
) STRICT;
CREATE INDEX personal_pending_factors_created ON personal_pending_factors (created);
