-- A proof that the user of a session has given. Without a default a session without one takes no more space.
ALTER TABLE personal_sessions ADD COLUMN proof BYTEA; -- its digest; NULL: none
ALTER TABLE personal_sessions ADD COLUMN proof_until BIGINT;
ALTER TABLE personal_sessions ADD COLUMN proof_version BIGINT; -- the account's credential version then: with another the proof is void
ALTER TABLE personal_sessions ADD COLUMN proof_email_key TEXT; -- the account's e-mail then, likewise; '': none
ALTER TABLE personal_sessions ADD COLUMN proof_with_code BOOLEAN; -- a code of the second factor was judged
