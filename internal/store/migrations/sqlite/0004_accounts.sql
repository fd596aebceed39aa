ALTER TABLE personal_accounts ADD COLUMN locale TEXT NOT NULL DEFAULT ''; -- BCP 47, of mails that nobody's request causes; '': unknown
ALTER TABLE personal_accounts ADD COLUMN verified_key TEXT; -- the address that was confirmed: email_key, or a former one; NULL: none
ALTER TABLE personal_accounts ADD COLUMN unverified_email TEXT NOT NULL DEFAULT '';
ALTER TABLE personal_accounts ADD COLUMN unverified_key TEXT; -- the address to confirm before the first sign-in, not unique; NULL: none
ALTER TABLE personal_accounts ADD COLUMN erase_at INTEGER NOT NULL DEFAULT 0; -- its user has deleted it; 0: not
ALTER TABLE personal_accounts ADD COLUMN erase_version INTEGER NOT NULL DEFAULT 0; -- the credential version of the deletion

CREATE TABLE personal_keys (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT;

CREATE TABLE personal_sent_mails ( -- mails that count towards a limit
    digest  BLOB    NOT NULL, -- of the address, with a key of personal_keys
    kind    TEXT    NOT NULL,
    mail_id TEXT    NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (digest, kind, mail_id)
) STRICT;
CREATE INDEX personal_sent_mails_created ON personal_sent_mails (created);
