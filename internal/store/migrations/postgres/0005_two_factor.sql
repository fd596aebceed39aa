ALTER TABLE personal_accounts ADD COLUMN two_factor_secret BYTEA; -- encrypted; NULL: no second factor
ALTER TABLE personal_accounts ADD COLUMN two_factor_key TEXT NOT NULL DEFAULT ''; -- the id of the key that decrypts the secret
ALTER TABLE personal_accounts ADD COLUMN two_factor_step BIGINT NOT NULL DEFAULT 0; -- the last time step (RFC 6238) whose code was used

CREATE TABLE personal_recovery_codes ( -- the unused ones
    account_id BIGINT NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    digest     BYTEA  NOT NULL,
    PRIMARY KEY (account_id, digest)
);

CREATE TABLE personal_pending_factors ( -- secrets that their user has not confirmed yet
    session_id         BIGINT PRIMARY KEY REFERENCES personal_sessions ON DELETE CASCADE,
    credential_version BIGINT NOT NULL,
    secret             BYTEA  NOT NULL, -- encrypted
    secret_key         TEXT   NOT NULL,
    created            BIGINT NOT NULL
);
CREATE INDEX personal_pending_factors_created ON personal_pending_factors (created);
