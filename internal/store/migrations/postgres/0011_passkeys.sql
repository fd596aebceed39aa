-- Passkeys (WebAuthn). The tables of accounts and sessions get nullable columns only: a row without them takes no more space.
ALTER TABLE personal_accounts ADD COLUMN user_handle BYTEA; -- identifies the account to authenticators; random; NULL: no passkey was ever added
ALTER TABLE personal_sessions ADD COLUMN method TEXT; -- how it began; NULL: by an earlier version
ALTER TABLE personal_sessions ADD COLUMN passkey_id BIGINT; -- of the passkey that began it; NULL: none
ALTER TABLE personal_sessions ADD COLUMN proof_passkey BIGINT; -- of the passkey that gave the proof; NULL: none
ALTER TABLE personal_audit ADD COLUMN removed BIGINT; -- how many passkeys or identities were removed; NULL: of other events

CREATE TABLE personal_passkeys (
    id                 BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id         BIGINT NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    credential_id      BYTEA NOT NULL UNIQUE, -- chosen by the authenticator
    public_key         BYTEA NOT NULL, -- a COSE_Key
    sign_count         BIGINT NOT NULL,
    backup_eligible    BOOLEAN NOT NULL,
    backed_up          BOOLEAN NOT NULL,
    rp_id              TEXT NOT NULL, -- the setting passkeys.rp_id when it was added
    name               TEXT NOT NULL,
    created            BIGINT NOT NULL,
    last_used          BIGINT NOT NULL, -- 0: never
    credential_version BIGINT NOT NULL, -- the account's: with another one the passkey is void
    with_code          BOOLEAN NOT NULL, -- it needs no code of the second factor
    confirmation       BYTEA -- a digest of the request that added it: its repetition succeeds
);
CREATE INDEX personal_passkeys_account ON personal_passkeys (account_id);

CREATE TABLE personal_passkey_attempts ( -- of sessions; those of sign-ins are sealed
    digest             BYTEA PRIMARY KEY,
    session_id         BIGINT NOT NULL REFERENCES personal_sessions ON DELETE CASCADE,
    purpose            TEXT NOT NULL,
    challenge          BYTEA NOT NULL,
    credential_version BIGINT NOT NULL,
    with_code          BOOLEAN NOT NULL, -- the passkey that is added will need no code
    created            BIGINT NOT NULL
);
CREATE INDEX personal_passkey_attempts_session ON personal_passkey_attempts (session_id);
CREATE INDEX personal_passkey_attempts_created ON personal_passkey_attempts (created);

CREATE TABLE personal_used_attempts ( -- sealed attempts that were used, until they expire
    digest  BYTEA PRIMARY KEY,
    expires BIGINT NOT NULL
);
CREATE INDEX personal_used_attempts_expires ON personal_used_attempts (expires);
