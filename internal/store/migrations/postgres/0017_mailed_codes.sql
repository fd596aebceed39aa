-- Codes that were mailed to sign in, or to prove who a user is. The attempt, a secret, is with the browser.
CREATE TABLE personal_mailed_codes (
    attempt            BYTEA PRIMARY KEY, -- the digest of the attempt
    account_id         BIGINT NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    purpose            TEXT NOT NULL,
    digest             BYTEA NOT NULL, -- of the code, with the attempt as its key
    credential_version BIGINT NOT NULL,
    email_key          TEXT NOT NULL,
    created            BIGINT NOT NULL,
    expires            BIGINT NOT NULL,
    used               BOOLEAN NOT NULL DEFAULT FALSE -- or void
);
CREATE INDEX personal_mailed_codes_account ON personal_mailed_codes (account_id);
CREATE INDEX personal_mailed_codes_expires ON personal_mailed_codes (expires);
CREATE INDEX personal_mailed_codes_created ON personal_mailed_codes (created);
