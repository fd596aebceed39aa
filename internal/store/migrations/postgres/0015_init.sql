-- Times are microseconds since 1970 in UTC; 0 stands for "never".

CREATE TABLE personal_schema (
    version        INTEGER PRIMARY KEY,
    min_compatible INTEGER NOT NULL, -- the lowest target of a program that can work on this version
    applied_at     BIGINT NOT NULL
);

CREATE TABLE personal_accounts (
    id                 BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    login              TEXT NOT NULL,
    login_key          TEXT NOT NULL UNIQUE,
    name               TEXT,
    email              TEXT NOT NULL,
    email_key          TEXT UNIQUE, -- NULL: an imported account without an address
    email_verified     BOOLEAN NOT NULL DEFAULT FALSE, -- the e-mail was confirmed
    unverified_email   TEXT NOT NULL DEFAULT '',
    unverified_key     TEXT, -- the address to confirm before the first sign-in, not unique; NULL: none
    search             TEXT NOT NULL DEFAULT '', -- login, addresses and name, in the form that searches compare
    password_hash      TEXT NOT NULL,
    credential_version BIGINT NOT NULL,
    fields             JSONB NOT NULL,
    locale             TEXT NOT NULL DEFAULT '', -- BCP 47, of mails that no request of the user causes; '': unknown
    disabled           BOOLEAN NOT NULL,
    erase_at           BIGINT NOT NULL DEFAULT 0, -- its user has deleted it; 0: not
    two_factor_secret  BYTEA, -- encrypted; NULL: no second factor
    two_factor_key     TEXT NOT NULL DEFAULT '', -- the id of the key that decrypts the secret
    two_factor_step    BIGINT NOT NULL DEFAULT 0, -- the last time step (RFC 6238) with a used code
    user_handle        BYTEA, -- identifies the account to authenticators; random; NULL: no passkey was ever added
    created            BIGINT NOT NULL,
    updated            BIGINT NOT NULL,
    last_sign_in       BIGINT NOT NULL DEFAULT 0 -- of a day's sign-ins the first. No index: a sign-in changes it
);
CREATE INDEX personal_accounts_unverified ON personal_accounts (unverified_key, created) WHERE unverified_key IS NOT NULL;
CREATE INDEX personal_accounts_erase ON personal_accounts (erase_at) WHERE erase_at > 0;
CREATE INDEX personal_accounts_two_factor ON personal_accounts (two_factor_key, id) WHERE two_factor_secret IS NOT NULL;
-- For lists of users. No sign-in changes these columns.
CREATE INDEX personal_accounts_disabled ON personal_accounts (id) WHERE disabled;
CREATE INDEX personal_accounts_waiting ON personal_accounts (id) WHERE unverified_key IS NOT NULL;
CREATE INDEX personal_accounts_factors ON personal_accounts (id) WHERE two_factor_secret IS NOT NULL;
CREATE INDEX personal_accounts_created ON personal_accounts (created, id);

-- A write of a session changes no index (it is HOT) if no index has a column that it changes, and if
-- the page has room for another version of the row.
CREATE TABLE personal_sessions (
    id              BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id      BIGINT NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    selector        BYTEA NOT NULL UNIQUE,
    chain_key       BYTEA NOT NULL,
    newest          BYTEA NOT NULL,
    created         BIGINT NOT NULL,
    rotated         BIGINT NOT NULL,
    rotations       BIGINT NOT NULL DEFAULT 0,
    marks           BYTEA NOT NULL DEFAULT '', -- the rotation counts at some past times
    used            BIGINT NOT NULL,
    last_seen       BIGINT NOT NULL,
    address         TEXT NOT NULL,
    agent           TEXT NOT NULL,
    method          TEXT NOT NULL, -- how it began
    passkey_id      BIGINT, -- of the passkey that began it; NULL: none
    -- A proof that the user of the session has given.
    proof           BYTEA, -- its digest; NULL: none
    proof_created   BIGINT,
    proof_version   BIGINT, -- the account's credential version then: with another the proof is void
    proof_email_key TEXT, -- the account's e-mail then, likewise; '': none
    proof_with_code BOOLEAN, -- a code of the second factor was judged
    proof_passkey   BIGINT -- of the passkey that gave the proof; NULL: none
) WITH (fillfactor = 80);
CREATE INDEX personal_sessions_account ON personal_sessions (account_id);

CREATE TABLE personal_passkeys ( -- WebAuthn credentials
    id              BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id      BIGINT NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    credential_id   BYTEA NOT NULL UNIQUE, -- chosen by the authenticator
    public_key      BYTEA NOT NULL, -- a COSE_Key
    sign_count      BIGINT NOT NULL,
    backup_eligible BOOLEAN NOT NULL,
    backed_up       BOOLEAN NOT NULL,
    rp_id           TEXT NOT NULL, -- the setting passkeys.rp_id when it was added
    name            TEXT NOT NULL,
    created         BIGINT NOT NULL,
    last_used       BIGINT NOT NULL, -- 0: never
    with_code       BOOLEAN NOT NULL, -- it needs no code of the second factor
    transports      TEXT NOT NULL DEFAULT '', -- how browsers reach the authenticator, by spaces; '': unknown
    confirmation    BYTEA -- a digest of the request that added it: its repetition succeeds; NULL: imported
);
CREATE INDEX personal_passkeys_account ON personal_passkeys (account_id);

CREATE TABLE personal_passkey_ceremonies ( -- of sessions; those of sign-ins are sealed
    digest             BYTEA PRIMARY KEY,
    session_id         BIGINT NOT NULL REFERENCES personal_sessions ON DELETE CASCADE,
    purpose            TEXT NOT NULL,
    challenge          BYTEA NOT NULL,
    credential_version BIGINT NOT NULL,
    with_code          BOOLEAN NOT NULL, -- the passkey that is added will need no code
    created            BIGINT NOT NULL
);
CREATE INDEX personal_passkey_ceremonies_session ON personal_passkey_ceremonies (session_id);
CREATE INDEX personal_passkey_ceremonies_created ON personal_passkey_ceremonies (created);

CREATE TABLE personal_used_ceremonies ( -- sealed attempts that were used, until they expire
    digest  BYTEA PRIMARY KEY,
    expires BIGINT NOT NULL
);
CREATE INDEX personal_used_ceremonies_expires ON personal_used_ceremonies (expires);

CREATE TABLE personal_identities ( -- of users at providers
    issuer     BYTEA NOT NULL,
    subject    BYTEA NOT NULL,
    account_id BIGINT NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    linked     BIGINT NOT NULL,
    PRIMARY KEY (issuer, subject)
);
CREATE INDEX personal_identities_account ON personal_identities (account_id);

CREATE TABLE personal_recovery_codes ( -- the unused ones
    account_id BIGINT NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    digest     BYTEA NOT NULL,
    PRIMARY KEY (account_id, digest)
);

CREATE TABLE personal_pending_factors ( -- secrets that their user has not confirmed yet
    session_id         BIGINT PRIMARY KEY REFERENCES personal_sessions ON DELETE CASCADE,
    credential_version BIGINT NOT NULL,
    secret             BYTEA NOT NULL, -- encrypted
    secret_key         TEXT NOT NULL,
    created            BIGINT NOT NULL
);
CREATE INDEX personal_pending_factors_created ON personal_pending_factors (created);

CREATE TABLE personal_repeats ( -- responses for the same request once more
    session_id BIGINT PRIMARY KEY REFERENCES personal_sessions ON DELETE CASCADE,
    former     BYTEA UNIQUE, -- the selector that the session had before; NULL: it has the same one
    by_former  BYTEA NOT NULL, -- encrypted with the hash of the request
    by_new     BYTEA NOT NULL, -- encrypted with the hash that replaces it
    created    BIGINT NOT NULL
);
CREATE INDEX personal_repeats_created ON personal_repeats (created);

CREATE TABLE personal_refused_codes ( -- of second factors, away from fully known addresses
    account_id BIGINT NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    refused    BIGINT NOT NULL,
    blocks     BOOLEAN NOT NULL, -- since then, only recovery codes are accepted there
    noticed    BOOLEAN NOT NULL -- a notice was stored
);
CREATE INDEX personal_refused_codes_account ON personal_refused_codes (account_id, refused);
CREATE INDEX personal_refused_codes_refused ON personal_refused_codes (refused);

CREATE TABLE personal_known_addresses (
    account_id         BIGINT NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    address            TEXT NOT NULL, -- an address, or the network that one customer has of IPv6
    seen               BIGINT NOT NULL,
    since              BIGINT NOT NULL, -- when the address became known
    credential_version BIGINT, -- the account's at the last sign-in there; NULL: none that counts
    email_key          TEXT NOT NULL DEFAULT '', -- likewise; '': no e-mail
    codes_only         BOOLEAN NOT NULL DEFAULT FALSE, -- the address was kept by a recovery, and counts for codes alone
    PRIMARY KEY (account_id, address)
);
CREATE INDEX personal_known_addresses_seen ON personal_known_addresses (seen);

CREATE TABLE personal_mail_tokens (
    digest             BYTEA PRIMARY KEY,
    account_id         BIGINT NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    purpose            TEXT NOT NULL,
    credential_version BIGINT NOT NULL,
    email              TEXT NOT NULL,
    email_key          TEXT NOT NULL,
    mismatches         BIGINT NOT NULL DEFAULT 0, -- wrong logins that were presented with the token
    created            BIGINT NOT NULL,
    expires            BIGINT NOT NULL
);
CREATE INDEX personal_mail_tokens_account ON personal_mail_tokens (account_id);
CREATE INDEX personal_mail_tokens_expires ON personal_mail_tokens (expires);
CREATE INDEX personal_mail_tokens_created ON personal_mail_tokens (created);

CREATE TABLE personal_sent_mails ( -- mails that count towards a limit
    digest  BYTEA NOT NULL, -- of the address, with a key of personal_keys
    kind    TEXT NOT NULL,
    mail_id TEXT NOT NULL,
    created BIGINT NOT NULL,
    PRIMARY KEY (digest, kind, mail_id)
);
CREATE INDEX personal_sent_mails_created ON personal_sent_mails (created);

CREATE TABLE personal_mail_refusals ( -- the last mail of an account that the relay refused permanently
    account_id BIGINT PRIMARY KEY REFERENCES personal_accounts ON DELETE CASCADE,
    email_key  TEXT NOT NULL, -- of the address that it was for
    kind       TEXT NOT NULL,
    reply      TEXT NOT NULL, -- the relay's words
    time       BIGINT NOT NULL
);

CREATE TABLE personal_throttle (
    key BYTEA PRIMARY KEY,
    tat BIGINT NOT NULL
);
CREATE INDEX personal_throttle_tat ON personal_throttle (tat);

CREATE TABLE personal_keys (
    name  TEXT PRIMARY KEY,
    value BYTEA NOT NULL,
    secret_key TEXT NOT NULL DEFAULT '' -- the id of the secret key that encrypts the value; '': none
);

CREATE TABLE personal_jobs (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind       TEXT NOT NULL,
    payload    BYTEA NOT NULL,
    created    BIGINT NOT NULL,
    due        BIGINT NOT NULL, -- while it is leased: the end of the lease
    attempts   BIGINT NOT NULL,
    lease      BIGINT NOT NULL,
    runs_left  BIGINT, -- attempts that may follow; NULL: not limited
    account_id BIGINT -- NULL: of no account; no reference, as the end of an account is told too
);
CREATE INDEX personal_jobs_created ON personal_jobs (created);
CREATE INDEX personal_jobs_account ON personal_jobs (account_id, kind, id);
CREATE INDEX personal_jobs_kind ON personal_jobs (kind, due, id);

CREATE TABLE personal_audit (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id   TEXT NOT NULL,
    type       TEXT NOT NULL,
    time       BIGINT NOT NULL,
    account_id BIGINT REFERENCES personal_accounts ON DELETE SET NULL,
    address    TEXT NOT NULL,
    request_id TEXT NOT NULL,
    actor      TEXT NOT NULL DEFAULT '', -- user, administrator or system
    actor_name TEXT NOT NULL DEFAULT '', -- the administrator's, as the host gave it
    actor_key  TEXT NOT NULL DEFAULT '', -- actor_name in the form that searches compare
    fields     TEXT NOT NULL DEFAULT '', -- the names of what was changed, separated by spaces; '': none
    method     TEXT NOT NULL DEFAULT '', -- of signed_in: how its user was authenticated; '': of other events
    removed    BIGINT NOT NULL DEFAULT 0 -- how many passkeys or identities were removed; 0: of other events
);
CREATE INDEX personal_audit_time ON personal_audit (time);
CREATE INDEX personal_audit_account_type ON personal_audit (account_id, type, id);

CREATE TABLE personal_hash_classes ( -- which digests of a login without a password draw the work of which stored hashes
    start BIGINT PRIMARY KEY, -- the first of the digests
    class TEXT NOT NULL, -- a hash that no password matches, with the format and the costs
    width BIGINT NOT NULL, -- how many digests draw it
    laid  BIGINT NOT NULL -- how many of them have drawn it
);

CREATE TABLE personal_fill ( -- the last job that fills in defaults of user fields: one row at most
    id       BIGINT PRIMARY KEY CHECK (id = 1),
    revision TEXT NOT NULL,
    state    TEXT NOT NULL,
    after_id BIGINT NOT NULL, -- the accounts up to this id were checked
    checked  BIGINT NOT NULL,
    total    BIGINT NOT NULL,
    filled   BIGINT NOT NULL,
    started  BIGINT NOT NULL,
    ended    BIGINT NOT NULL
);

CREATE TABLE personal_sweeps ( -- how far work has come that goes through a table in parts
    step     TEXT PRIMARY KEY,
    position BIGINT NOT NULL, -- the rows up to this id were visited
    began    BIGINT NOT NULL
);
