-- Passkeys (WebAuthn). The tables of accounts and sessions get nullable columns only: a row without them takes no more space.
ALTER TABLE personal_accounts ADD COLUMN user_handle BLOB; -- identifies the account to authenticators; random; NULL: no passkey was ever added
ALTER TABLE personal_sessions ADD COLUMN method TEXT; -- how it began; NULL: by an earlier version
ALTER TABLE personal_sessions ADD COLUMN passkey_id INTEGER; -- of the passkey that began it; NULL: none
ALTER TABLE personal_sessions ADD COLUMN proof_passkey INTEGER; -- of the passkey that gave the proof; NULL: none
ALTER TABLE personal_audit ADD COLUMN removed INTEGER; -- how many passkeys or identities were removed; NULL: of other events

CREATE TABLE personal_passkeys (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    account_id         INTEGER NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    credential_id      BLOB NOT NULL UNIQUE, -- chosen by the authenticator
    public_key         BLOB NOT NULL, -- a COSE_Key
    sign_count         INTEGER NOT NULL,
    backup_eligible    INTEGER NOT NULL,
    backed_up          INTEGER NOT NULL,
    rp_id              TEXT NOT NULL, -- the setting passkeys.rp_id when it was added
    name               TEXT NOT NULL,
    created            INTEGER NOT NULL,
    last_used          INTEGER NOT NULL, -- 0: never
    credential_version INTEGER NOT NULL, -- the account's: with another one the passkey is void
    with_code          INTEGER NOT NULL, -- it needs no code of the second factor
    confirmation       BLOB -- a digest of the request that added it: its repetition succeeds
) STRICT;
CREATE INDEX personal_passkeys_account ON personal_passkeys (account_id);

CREATE TABLE personal_passkey_attempts ( -- of sessions; those of sign-ins are sealed
    digest             BLOB PRIMARY KEY,
    session_id         INTEGER NOT NULL REFERENCES personal_sessions ON DELETE CASCADE,
    purpose            TEXT NOT NULL,
    challenge          BLOB NOT NULL,
    credential_version INTEGER NOT NULL,
    with_code          INTEGER NOT NULL, -- the passkey that is added will need no code
    created            INTEGER NOT NULL
) STRICT;
CREATE INDEX personal_passkey_attempts_session ON personal_passkey_attempts (session_id);
CREATE INDEX personal_passkey_attempts_created ON personal_passkey_attempts (created);

CREATE TABLE personal_used_attempts ( -- sealed attempts that were used, until they expire
    digest  BLOB PRIMARY KEY,
    expires INTEGER NOT NULL
) STRICT;
CREATE INDEX personal_used_attempts_expires ON personal_used_attempts (expires);
