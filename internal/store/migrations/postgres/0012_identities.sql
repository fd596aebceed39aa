ALTER TABLE personal_accounts ADD COLUMN had_session BOOLEAN; -- a session was opened for it without a password; NULL: none
ALTER TABLE personal_audit ADD COLUMN method TEXT; -- of signed_in: how its user was authenticated; NULL: of other events

CREATE TABLE personal_identities ( -- of users at providers
    issuer             BYTEA   NOT NULL,
    subject            BYTEA   NOT NULL,
    account_id         BIGINT NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    credential_version BIGINT NOT NULL, -- the account's; with another one it is void
    with_code          BOOLEAN NOT NULL, -- it was linked with a code of the present second factor
    linked             BIGINT NOT NULL,
    PRIMARY KEY (issuer, subject)
);
CREATE INDEX personal_identities_account ON personal_identities (account_id);
