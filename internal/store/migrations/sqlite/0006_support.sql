CREATE TABLE personal_mail_refusals ( -- the last mail of an account that the relay refused permanently
    account_id INTEGER PRIMARY KEY REFERENCES personal_accounts ON DELETE CASCADE,
    email_key  TEXT NOT NULL, -- of the address that it was for
    kind       TEXT NOT NULL,
    reply      TEXT NOT NULL, -- the relay's words
    time       INTEGER NOT NULL
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
