-- When an identity was last used. Versions on schema 17 and below link identities without it.
ALTER TABLE personal_identities ADD COLUMN last_used INTEGER NOT NULL DEFAULT 0; -- 0: never since then
