ALTER TABLE personal_jobs ADD COLUMN account_id INTEGER; -- NULL: nobody's; no reference, as the end of an account is told too

CREATE TABLE personal_audit (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id   TEXT    NOT NULL,
    type       TEXT    NOT NULL,
    time       INTEGER NOT NULL,
    account_id INTEGER REFERENCES personal_accounts ON DELETE SET NULL,
    address    TEXT    NOT NULL,
    request_id TEXT    NOT NULL
) STRICT;
CREATE INDEX personal_audit_time ON personal_audit (time);
CREATE INDEX personal_audit_account ON personal_audit (account_id);
CREATE INDEX personal_audit_account_type ON personal_audit (account_id, type, id);

CREATE TABLE personal_places (
    account_id INTEGER NOT NULL REFERENCES personal_accounts ON DELETE CASCADE,
    place      TEXT    NOT NULL, -- an address, or the network that one customer has of IPv6
    seen       INTEGER NOT NULL,
    PRIMARY KEY (account_id, place)
) STRICT;
CREATE INDEX personal_places_seen ON personal_places (seen);
