-- Times are microseconds since 1970 in UTC; 0 stands for "never".

CREATE TABLE personal_schema (
    version        INTEGER PRIMARY KEY,
    min_compatible INTEGER NOT NULL, -- the least target of a program that can work on this version
    applied_at     BIGINT  NOT NULL
);

CREATE TABLE personal_accounts (
    id                 BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    login              TEXT    NOT NULL,
    login_key          TEXT    NOT NULL UNIQUE,
    name               TEXT,
    email              TEXT    NOT NULL,
    email_key          TEXT    UNIQUE, -- NULL: an imported account without an address
    password_hash      TEXT    NOT NULL,
    credential_version BIGINT  NOT NULL,
    fields             JSONB   NOT NULL,
    disabled           BOOLEAN NOT NULL,
    created            BIGINT  NOT NULL,
    updated            BIGINT  NOT NULL
);

CREATE TABLE personal_sessions (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id BIGINT NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    selector   BYTEA  NOT NULL UNIQUE,
    chain_key  BYTEA  NOT NULL,
    newest     BYTEA  NOT NULL,
    created    BIGINT NOT NULL,
    rotated    BIGINT NOT NULL,
    used       BIGINT NOT NULL,
    last_seen  BIGINT NOT NULL,
    address    TEXT   NOT NULL,
    agent      TEXT   NOT NULL
);
CREATE INDEX personal_sessions_account ON personal_sessions (account_id);
CREATE INDEX personal_sessions_created ON personal_sessions (created);
CREATE INDEX personal_sessions_last_seen ON personal_sessions (last_seen);

CREATE TABLE personal_mails (
    account_id BIGINT NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    purpose    TEXT   NOT NULL,
    mail_id    TEXT   NOT NULL,
    created    BIGINT NOT NULL,
    PRIMARY KEY (account_id, purpose, mail_id)
);
CREATE INDEX personal_mails_created ON personal_mails (created);

CREATE TABLE personal_mail_tokens (
    digest             BYTEA  PRIMARY KEY,
    account_id         BIGINT NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    purpose            TEXT   NOT NULL,
    credential_version BIGINT NOT NULL,
    email              TEXT   NOT NULL,
    email_key          TEXT   NOT NULL,
    expires            BIGINT NOT NULL
);
CREATE INDEX personal_mail_tokens_account ON personal_mail_tokens (account_id);
CREATE INDEX personal_mail_tokens_expires ON personal_mail_tokens (expires);

CREATE TABLE personal_throttle (
    key BYTEA  PRIMARY KEY,
    tat BIGINT NOT NULL
);
CREATE INDEX personal_throttle_tat ON personal_throttle (tat);

CREATE TABLE personal_jobs (
    id       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind     TEXT   NOT NULL,
    payload  BYTEA  NOT NULL,
    created  BIGINT NOT NULL,
    due      BIGINT NOT NULL, -- while it is leased: the end of the lease
    attempts BIGINT NOT NULL,
    lease    BIGINT NOT NULL
);
CREATE INDEX personal_jobs_due ON personal_jobs (due);
