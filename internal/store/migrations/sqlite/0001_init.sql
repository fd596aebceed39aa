-- Times are microseconds since 1970 in UTC; 0 stands for "never".

CREATE TABLE personal_schema (
    version        INTEGER PRIMARY KEY,
    min_compatible INTEGER NOT NULL, -- the least target of a program that can work on this version
    applied_at     INTEGER NOT NULL
) STRICT;

CREATE TABLE personal_accounts (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    login              TEXT    NOT NULL,
    login_key          TEXT    NOT NULL UNIQUE,
    name               TEXT,
    email              TEXT    NOT NULL,
    email_key          TEXT    UNIQUE, -- NULL: an imported account without an address
    password_hash      TEXT    NOT NULL,
    credential_version INTEGER NOT NULL,
    fields             TEXT    NOT NULL,
    disabled           INTEGER NOT NULL,
    created            INTEGER NOT NULL,
    updated            INTEGER NOT NULL
) STRICT;

CREATE TABLE personal_sessions (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    account_id INTEGER NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    selector   BLOB    NOT NULL UNIQUE,
    chain_key  BLOB    NOT NULL,
    newest     BLOB    NOT NULL,
    created    INTEGER NOT NULL,
    rotated    INTEGER NOT NULL,
    used       INTEGER NOT NULL,
    last_seen  INTEGER NOT NULL,
    address    TEXT    NOT NULL,
    agent      TEXT    NOT NULL
) STRICT;
CREATE INDEX personal_sessions_account ON personal_sessions (account_id);
CREATE INDEX personal_sessions_created ON personal_sessions (created);
CREATE INDEX personal_sessions_last_seen ON personal_sessions (last_seen);

CREATE TABLE personal_mails (
    account_id INTEGER NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    purpose    TEXT    NOT NULL,
    mail_id    TEXT    NOT NULL,
    created    INTEGER NOT NULL,
    PRIMARY KEY (account_id, purpose, mail_id)
) STRICT;
CREATE INDEX personal_mails_created ON personal_mails (created);

CREATE TABLE personal_mail_tokens (
    digest             BLOB    PRIMARY KEY,
    account_id         INTEGER NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    purpose            TEXT    NOT NULL,
    credential_version INTEGER NOT NULL,
    email              TEXT    NOT NULL,
    email_key          TEXT    NOT NULL,
    expires            INTEGER NOT NULL
) STRICT;
CREATE INDEX personal_mail_tokens_account ON personal_mail_tokens (account_id);
CREATE INDEX personal_mail_tokens_expires ON personal_mail_tokens (expires);

CREATE TABLE personal_throttle (
    key BLOB    PRIMARY KEY,
    tat INTEGER NOT NULL
) STRICT;
CREATE INDEX personal_throttle_tat ON personal_throttle (tat);

CREATE TABLE personal_jobs (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    kind     TEXT    NOT NULL,
    payload  BLOB    NOT NULL,
    created  INTEGER NOT NULL,
    due      INTEGER NOT NULL, -- while it is leased: the end of the lease
    attempts INTEGER NOT NULL,
    lease    INTEGER NOT NULL
) STRICT;
CREATE INDEX personal_jobs_due ON personal_jobs (due);
