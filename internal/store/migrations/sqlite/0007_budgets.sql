ALTER TABLE personal_places ADD COLUMN since INTEGER; -- when the address became known; NULL: by a release that did not store it
ALTER TABLE personal_places ADD COLUMN credential_version INTEGER; -- the account's at the last sign-in there; NULL: none that counts
ALTER TABLE personal_places ADD COLUMN email_key TEXT NOT NULL DEFAULT ''; -- likewise; '': no e-mail
ALTER TABLE personal_places ADD COLUMN codes_only INTEGER NOT NULL DEFAULT FALSE; -- the address was kept by a recovery, and counts for codes alone

ALTER TABLE personal_mail_tokens ADD COLUMN mismatches INTEGER NOT NULL DEFAULT 0; -- wrong logins that were presented with the token

CREATE TABLE personal_refused_codes ( -- of second factors, away from fully known addresses
    account_id INTEGER NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    refused    INTEGER NOT NULL,
    blocks     INTEGER NOT NULL, -- since then, only recovery codes are accepted there
    noticed    INTEGER NOT NULL  -- a notice was stored
) STRICT;
CREATE INDEX personal_refused_codes_account ON personal_refused_codes (account_id, refused);
CREATE INDEX personal_refused_codes_refused ON personal_refused_codes (refused);
