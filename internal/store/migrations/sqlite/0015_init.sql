-- Times are microseconds since 1970 in UTC; 0 stands for "never".

CREATE TABLE personal_schema (
    version        INTEGER PRIMARY KEY,
    min_compatible INTEGER NOT NULL, -- the lowest target of a program that can work on this version
    applied_at     INTEGER NOT NULL
) STRICT;

CREATE TABLE personal_accounts (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    login              TEXT NOT NULL,
    login_key          TEXT NOT NULL UNIQUE,
    name               TEXT,
    email              TEXT NOT NULL,
    email_key          TEXT UNIQUE, -- NULL: an imported account without an address
    email_verified     INTEGER NOT NULL DEFAULT FALSE, -- the e-mail was confirmed
    unverified_email   TEXT NOT NULL DEFAULT '',
    unverified_key     TEXT, -- the address to confirm before the first sign-in, not unique; NULL: none
    search             TEXT NOT NULL DEFAULT '', -- login, addresses and name, in the form that searches compare
    password_hash      TEXT NOT NULL,
    credential_version INTEGER NOT NULL,
    fields             TEXT NOT NULL,
    locale             TEXT NOT NULL DEFAULT '', -- BCP 47, of mails that no request of the user causes; '': unknown
    disabled           INTEGER NOT NULL,
    erase_at           INTEGER NOT NULL DEFAULT 0, -- its user has deleted it; 0: not
    two_factor_secret  BLOB, -- encrypted; NULL: no second factor
    two_factor_key     TEXT NOT NULL DEFAULT '', -- the id of the key that decrypts the secret
    two_factor_step    INTEGER NOT NULL DEFAULT 0, -- the last time step (RFC 6238) with a used code
    user_handle        BLOB, -- identifies the account to authenticators; random; NULL: no passkey was ever added
    created            INTEGER NOT NULL,
    updated            INTEGER NOT NULL,
    last_sign_in       INTEGER NOT NULL DEFAULT 0 -- of a day's sign-ins the first. No index: a sign-in changes it
) STRICT;
CREATE INDEX personal_accounts_unverified ON personal_accounts (unverified_key, created) WHERE unverified_key IS NOT NULL;
CREATE INDEX personal_accounts_erase ON personal_accounts (erase_at) WHERE erase_at > 0;
CREATE INDEX personal_accounts_two_factor ON personal_accounts (two_factor_key, id) WHERE two_factor_secret IS NOT NULL;
-- For lists of users. No sign-in changes these columns.
CREATE INDEX personal_accounts_disabled ON personal_accounts (id) WHERE disabled;
CREATE INDEX personal_accounts_waiting ON personal_accounts (id) WHERE unverified_key IS NOT NULL;
CREATE INDEX personal_accounts_factors ON personal_accounts (id) WHERE two_factor_secret IS NOT NULL;
CREATE INDEX personal_accounts_created ON personal_accounts (created, id);

CREATE TABLE personal_sessions (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    account_id      INTEGER NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    selector        BLOB NOT NULL UNIQUE,
    chain_key       BLOB NOT NULL,
    newest          BLOB NOT NULL,
    created         INTEGER NOT NULL,
    rotated         INTEGER NOT NULL,
    rotations       INTEGER NOT NULL DEFAULT 0,
    marks           BLOB NOT NULL DEFAULT x'', -- the rotation counts at some past times
    used            INTEGER NOT NULL,
    last_seen       INTEGER NOT NULL,
    address         TEXT NOT NULL,
    agent           TEXT NOT NULL,
    method          TEXT NOT NULL, -- how it began
    passkey_id      INTEGER, -- of the passkey that began it; NULL: none
    -- A proof that the user of the session has given.
    proof           BLOB, -- its digest; NULL: none
    proof_created   INTEGER,
    proof_version   INTEGER, -- the account's credential version then: with another the proof is void
    proof_email_key TEXT, -- the account's e-mail then, likewise; '': none
    proof_with_code INTEGER, -- a code of the second factor was judged
    proof_passkey   INTEGER -- of the passkey that gave the proof; NULL: none
) STRICT;
CREATE INDEX personal_sessions_account ON personal_sessions (account_id);

CREATE TABLE personal_passkeys ( -- WebAuthn credentials
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    account_id      INTEGER NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    credential_id   BLOB NOT NULL UNIQUE, -- chosen by the authenticator
    public_key      BLOB NOT NULL, -- a COSE_Key
    sign_count      INTEGER NOT NULL,
    backup_eligible INTEGER NOT NULL,
    backed_up       INTEGER NOT NULL,
    rp_id           TEXT NOT NULL, -- the setting passkeys.rp_id when it was added
    name            TEXT NOT NULL,
    created         INTEGER NOT NULL,
    last_used       INTEGER NOT NULL, -- 0: never
    with_code       INTEGER NOT NULL, -- it needs no code of the second factor
    transports      TEXT NOT NULL DEFAULT '', -- how browsers reach the authenticator, by spaces; '': unknown
    confirmation    BLOB -- a digest of the request that added it: its repetition succeeds; NULL: imported
) STRICT;
CREATE INDEX personal_passkeys_account ON personal_passkeys (account_id);

CREATE TABLE personal_passkey_ceremonies ( -- of sessions; those of sign-ins are sealed
    digest             BLOB PRIMARY KEY,
    session_id         INTEGER NOT NULL REFERENCES personal_sessions ON DELETE CASCADE,
    purpose            TEXT NOT NULL,
    challenge          BLOB NOT NULL,
    credential_version INTEGER NOT NULL,
    with_code          INTEGER NOT NULL, -- the passkey that is added will need no code
    created            INTEGER NOT NULL
) STRICT;
CREATE INDEX personal_passkey_ceremonies_session ON personal_passkey_ceremonies (session_id);
CREATE INDEX personal_passkey_ceremonies_created ON personal_passkey_ceremonies (created);

CREATE TABLE personal_used_ceremonies ( -- sealed attempts that were used, until they expire
    digest  BLOB PRIMARY KEY,
    expires INTEGER NOT NULL
) STRICT;
CREATE INDEX personal_used_ceremonies_expires ON personal_used_ceremonies (expires);

CREATE TABLE personal_identities ( -- of users at providers
    issuer     BLOB NOT NULL,
    subject    BLOB NOT NULL,
    account_id INTEGER NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    linked     INTEGER NOT NULL,
    PRIMARY KEY (issuer, subject)
) STRICT;
CREATE INDEX personal_identities_account ON personal_identities (account_id);

CREATE TABLE personal_recovery_codes ( -- the unused ones
    account_id INTEGER NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    digest     BLOB NOT NULL,
    PRIMARY KEY (account_id, digest)
) STRICT;

CREATE TABLE personal_pending_factors ( -- secrets that their user has not confirmed yet
    session_id         INTEGER PRIMARY KEY REFERENCES personal_sessions ON DELETE CASCADE,
    credential_version INTEGER NOT NULL,
    secret             BLOB NOT NULL, -- encrypted
    secret_key         TEXT NOT NULL,
    created            INTEGER NOT NULL
) STRICT;
CREATE INDEX personal_pending_factors_created ON personal_pending_factors (created);

CREATE TABLE personal_repeats ( -- responses for the same request once more
    session_id INTEGER PRIMARY KEY REFERENCES personal_sessions ON DELETE CASCADE,
    former     BLOB UNIQUE, -- the selector that the session had before; NULL: it has the same one
    by_former  BLOB NOT NULL, -- encrypted with the hash of the request
    by_new     BLOB NOT NULL, -- encrypted with the hash that replaces it
    created    INTEGER NOT NULL
) STRICT;
CREATE INDEX personal_repeats_created ON personal_repeats (created);

CREATE TABLE personal_refused_codes ( -- of second factors, away from fully known addresses
    account_id INTEGER NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    refused    INTEGER NOT NULL,
    blocks     INTEGER NOT NULL, -- since then, only recovery codes are accepted there
    noticed    INTEGER NOT NULL -- a notice was stored
) STRICT;
CREATE INDEX personal_refused_codes_account ON personal_refused_codes (account_id, refused);
CREATE INDEX personal_refused_codes_refused ON personal_refused_codes (refused);

CREATE TABLE personal_known_addresses (
    account_id         INTEGER NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    address            TEXT NOT NULL, -- an address, or the network that one customer has of IPv6
    seen               INTEGER NOT NULL,
    since              INTEGER NOT NULL, -- when the address became known
    credential_version INTEGER, -- the account's at the last sign-in there; NULL: none that counts
    email_key          TEXT NOT NULL DEFAULT '', -- likewise; '': no e-mail
    codes_only         INTEGER NOT NULL DEFAULT FALSE, -- the address was kept by a recovery, and counts for codes alone
    PRIMARY KEY (account_id, address)
) STRICT;
CREATE INDEX personal_known_addresses_seen ON personal_known_addresses (seen);

CREATE TABLE personal_mail_tokens (
    digest             BLOB PRIMARY KEY,
    account_id         INTEGER NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    purpose            TEXT NOT NULL,
    credential_version INTEGER NOT NULL,
    email              TEXT NOT NULL,
    email_key          TEXT NOT NULL,
    mismatches         INTEGER NOT NULL DEFAULT 0, -- wrong logins that were presented with the token
    created            INTEGER NOT NULL,
    expires            INTEGER NOT NULL
) STRICT;
CREATE INDEX personal_mail_tokens_account ON personal_mail_tokens (account_id);
CREATE INDEX personal_mail_tokens_expires ON personal_mail_tokens (expires);
CREATE INDEX personal_mail_tokens_created ON personal_mail_tokens (created);

CREATE TABLE personal_sent_mails ( -- mails that count towards a limit
    digest  BLOB NOT NULL, -- of the address, with a key of personal_keys
    kind    TEXT NOT NULL,
    mail_id TEXT NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (digest, kind, mail_id)
) STRICT;
CREATE INDEX personal_sent_mails_created ON personal_sent_mails (created);

CREATE TABLE personal_mail_refusals ( -- the last mail of an account that the relay refused permanently
    account_id INTEGER PRIMARY KEY REFERENCES personal_accounts ON DELETE CASCADE,
    email_key  TEXT NOT NULL, -- of the address that it was for
    kind       TEXT NOT NULL,
    reply      TEXT NOT NULL, -- the relay's words
    time       INTEGER NOT NULL
) STRICT;

CREATE TABLE personal_throttle (
    key BLOB PRIMARY KEY,
    tat INTEGER NOT NULL
) STRICT;
CREATE INDEX personal_throttle_tat ON personal_throttle (tat);

CREATE TABLE personal_keys (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL,
    secret_key TEXT NOT NULL DEFAULT '' -- the id of the secret key that encrypts the value; '': none
) STRICT;

CREATE TABLE personal_jobs (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    kind       TEXT NOT NULL,
    payload    BLOB NOT NULL,
    created    INTEGER NOT NULL,
    due        INTEGER NOT NULL, -- while it is leased: the end of the lease
    attempts   INTEGER NOT NULL,
    lease      INTEGER NOT NULL,
    runs_left  INTEGER, -- attempts that may follow; NULL: not limited
    account_id INTEGER -- NULL: of no account; no reference, as the end of an account is told too
) STRICT;
CREATE INDEX personal_jobs_created ON personal_jobs (created);
CREATE INDEX personal_jobs_account ON personal_jobs (account_id, kind, id);
CREATE INDEX personal_jobs_kind ON personal_jobs (kind, due, id);

CREATE TABLE personal_audit (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id   TEXT NOT NULL,
    type       TEXT NOT NULL,
    time       INTEGER NOT NULL,
    account_id INTEGER REFERENCES personal_accounts ON DELETE SET NULL,
    address    TEXT NOT NULL,
    request_id TEXT NOT NULL,
    actor      TEXT NOT NULL DEFAULT '', -- user, administrator or system
    actor_name TEXT NOT NULL DEFAULT '', -- the administrator's, as the host gave it
    actor_key  TEXT NOT NULL DEFAULT '', -- actor_name in the form that searches compare
    fields     TEXT NOT NULL DEFAULT '', -- the names of what was changed, separated by spaces; '': none
    method     TEXT NOT NULL DEFAULT '', -- of signed_in: how its user was authenticated; '': of other events
    removed    INTEGER NOT NULL DEFAULT 0 -- how many passkeys or identities were removed; 0: of other events
) STRICT;
CREATE INDEX personal_audit_time ON personal_audit (time);
CREATE INDEX personal_audit_account_type ON personal_audit (account_id, type, id);

CREATE TABLE personal_hash_classes ( -- which digests of a login without a password draw the work of which stored hashes
    start INTEGER PRIMARY KEY, -- the first of the digests
    class TEXT NOT NULL, -- a hash that no password matches, with the format and the costs
    width INTEGER NOT NULL, -- how many digests draw it
    laid  INTEGER NOT NULL -- how many of them have drawn it
) STRICT;

CREATE TABLE personal_fill ( -- the last job that fills in defaults of user fields: one row at most
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    revision TEXT NOT NULL,
    state    TEXT NOT NULL,
    after_id INTEGER NOT NULL, -- the accounts up to this id were checked
    checked  INTEGER NOT NULL,
    total    INTEGER NOT NULL,
    filled   INTEGER NOT NULL,
    started  INTEGER NOT NULL,
    ended    INTEGER NOT NULL
) STRICT;

CREATE TABLE personal_sweeps ( -- how far work has come that goes through a table in parts
    step     TEXT PRIMARY KEY,
    position INTEGER NOT NULL, -- the rows up to this id were visited
    began    INTEGER NOT NULL
) STRICT;
