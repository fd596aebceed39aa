ALTER TABLE personal_places ADD COLUMN since BIGINT; -- when the address became known; NULL: by a release that did not store it
ALTER TABLE personal_places ADD COLUMN credential_version BIGINT; -- the account's at the last sign-in there; NULL: none that counts
ALTER TABLE personal_places ADD COLUMN email_key TEXT NOT NULL DEFAULT ''; -- likewise; '': no e-mail
ALTER TABLE personal_places ADD COLUMN codes_only BOOLEAN NOT NULL DEFAULT FALSE; -- the address was kept by a recovery, and counts for codes alone

ALTER TABLE personal_mail_tokens ADD COLUMN mismatches BIGINT NOT NULL DEFAULT 0; -- wrong logins that were presented with the token

CREATE TABLE personal_refused_codes ( -- of second factors, away from fully known addresses
    account_id BIGINT NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    refused    BIGINT NOT NULL,
    blocks     BOOLEAN NOT NULL, -- since then, only recovery codes are accepted there
    noticed    BOOLEAN NOT NULL  -- a notice was stored
);
CREATE INDEX personal_refused_codes_account ON personal_refused_codes (account_id, refused);
CREATE INDEX personal_refused_codes_refused ON personal_refused_codes (refused);
