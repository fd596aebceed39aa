-- Operations write accounts before jobs. In another order they and this migration could wait for each other.
LOCK TABLE personal_accounts IN SHARE ROW EXCLUSIVE MODE;

ALTER TABLE personal_jobs ADD COLUMN account_id BIGINT; -- NULL: nobody's; no reference, as the end of an account is told too

CREATE TABLE personal_audit (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id   TEXT   NOT NULL,
    type       TEXT   NOT NULL,
    time       BIGINT NOT NULL,
    account_id BIGINT REFERENCES personal_accounts ON DELETE SET NULL,
    address    TEXT   NOT NULL,
    request_id TEXT   NOT NULL
);
CREATE INDEX personal_audit_time ON personal_audit (time);
CREATE INDEX personal_audit_account ON personal_audit (account_id);
CREATE INDEX personal_audit_account_type ON personal_audit (account_id, type, id);

CREATE TABLE personal_places (
    account_id BIGINT NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    place      TEXT   NOT NULL, -- an address, or the network that one customer has of IPv6
    seen       BIGINT NOT NULL,
    PRIMARY KEY (account_id, place)
);
CREATE INDEX personal_places_seen ON personal_places (seen);
